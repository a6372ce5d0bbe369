package audit

import (
	"fmt"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/state"
)

// The codes of Repair records.
const (
	Torn   = "torn"   // a line was incomplete: its writer was killed, or the disk was full
	Behind = "behind" // the head did not count the last records: after a crash, or because an old head was restored
	Broken = "broken" // damage that no crash explains; Verify names the place forever
)

// follow returns how a journal really ends, and a record to write for each repair. It
// calls last for the last line if the head does not know it.
func (s *sealer) follow(t state.Tail, last func() ([]byte, error)) (head, []Record, error) {
	h, ok := s.head(t.Mark)
	what, behind := "", ""
	switch whole := t.Count - uint64(len(t.Beyond)); {
	case !ok:
		l, err := s.lastLink(t, last)
		if err != nil {
			return head{}, nil, err
		}
		h.link = l
		what = fmt.Sprintf("the head is missing or damaged; any records after %d may be gone", l.number)
	case h.count > t.Count:
		what = fmt.Sprintf("gone: %s up to %d; the last had the hash %x", visible.Count(h.count-t.Count, "record"), h.number, h.hash)
	case h.count < whole:
		what = fmt.Sprintf("the head counts %s, and there are %d", visible.Count(h.count, "line"), whole)
	default:
		beyond, known := t.Beyond[h.count-whole:], h.number
		for i, line := range beyond {
			p := s.place(line)
			if !p.follows(h.link) {
				what = fmt.Sprintf("not of this journal: %s after record %d", visible.Count(uint64(len(beyond)-i), "line"), h.number)
				break
			}
			h.link = p.link
		}
		if n := h.number - known; n > 0 {
			behind = fmt.Sprintf("%s that the head did not count, %d to %d; if there were more after them, they are gone", visible.Count(n, "record"), known+1, h.number)
		}
	}
	h.count = t.Count
	var mends []Record
	if behind != "" {
		mends = append(mends, Record{Kind: Repair, Code: Behind, Note: behind})
	}
	if what != "" {
		mends = append(mends, Record{Kind: Repair, Code: Broken, Note: what})
	}
	if t.Torn > 0 {
		mends = append(mends, Record{Kind: Repair, Code: Torn, Note: fmt.Sprintf("dropped %s of a line that was not whole", visible.Count(uint64(t.Torn), "byte"))})
	}
	return h, mends, nil
}

// lastLink returns the last line as a link. A foreign line is numbered by its position.
func (s *sealer) lastLink(t state.Tail, last func() ([]byte, error)) (link, error) {
	if t.Count == 0 {
		return link{}, nil
	}
	line, err := last()
	if err != nil {
		return link{}, err
	}
	p := s.place(line)
	if !p.sealed {
		p.number = t.Count
	}
	return p.link, nil
}
