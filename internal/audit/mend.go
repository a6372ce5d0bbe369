package audit

import (
	"fmt"

	"github.com/golem-forge/golem/internal/state"
)

// The codes of Mend records.
const (
	Torn   = "torn"   // a line was not whole: its writer was killed, or the disk full
	Broken = "broken" // what no crash explains; Verify names the place for ever
)

// follow returns how a journal really ends, and what must be told before it
// goes on: a record for each mend. The last line is asked for where the head
// does not know it.
func (s *sealer) follow(t state.Tail, last func() ([]byte, error)) (head, []Record, error) {
	h, ok := s.head(t.Mark)
	what := ""
	switch whole := t.Count - uint64(len(t.Beyond)); {
	case !ok:
		l, err := s.lastLink(t, last)
		if err != nil {
			return head{}, nil, err
		}
		h.link = l
		what = fmt.Sprintf("the head is missing or damaged; any records after %d may be gone", l.number)
	case h.count > t.Count:
		what = fmt.Sprintf("%d records up to %d are gone; the last had the hash %x", h.count-t.Count, h.number, h.hash)
	case h.count < whole:
		what = fmt.Sprintf("there are %d lines where the head counts %d", whole, h.count)
	default:
		beyond := t.Beyond[h.count-whole:]
		for i, line := range beyond {
			p := s.place(line)
			if !p.follows(h.link) {
				what = fmt.Sprintf("%d lines after record %d are not of this journal", len(beyond)-i, h.number)
				break
			}
			h.link = p.link
		}
	}
	h.count = t.Count
	var mends []Record
	if what != "" {
		mends = append(mends, Record{Kind: Mend, Code: Broken, Note: what})
	}
	if t.Torn > 0 {
		mends = append(mends, Record{Kind: Mend, Code: Torn, Note: fmt.Sprintf("%d bytes of a line that was not whole were dropped", t.Torn)})
	}
	return h, mends, nil
}

// lastLink returns the last line as a link. A line that is not of this journal
// is numbered by its position.
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
