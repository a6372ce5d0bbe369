package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/golem-forge/golem/internal/state"
)

// A Report is what Verify has found.
type Report struct {
	Records uint64    // lines in the journal
	Head    time.Time // of the last record
	Bad     *Bad      // the first thing that is wrong; nil if the journal is whole
	Mended  []Mended  // what crashes have left, and what was told of it
	// Behind are the records that the sealed head does not count at this moment:
	// a crash leaves them, and so does an older head that was put back, with which
	// records after these may be gone. The next write tells of it in the journal.
	Behind uint64
	// Open are the calls that have an intent and no outcome: they run now, or the
	// process ended while they did. Where something is bad there are none: an
	// outcome may be among what is changed or gone.
	Open []Unfinished
}

// Bad is a place where a journal is not what was written.
type Bad struct {
	Number uint64 // of the record that is changed, gone or in the wrong place
	What   string // in words
	// Before is whether what comes before it is as it was written, as far as seals
	// and chain tell. Where two copies of the journal were mixed they tell that two
	// records do not belong together, and not which of them belongs here.
	Before bool
}

func (b *Bad) String() string { return fmt.Sprintf("record %d: %s", b.Number, b.What) }

// Mended is a fix that the journal tells of.
type Mended struct {
	Number uint64
	Time   time.Time
	Code   string // Torn, Behind, Broken
	Note   string
}

// Unfinished is an intent without an outcome.
type Unfinished struct {
	Number uint64
	Time   time.Time
	Call   string
	Tool   string
}

// Verify checks each record's number, chain and seal, and that the last is the
// one that the sealed head names. It is right whoever writes meanwhile, and
// changes nothing. What is wrong with the journal
// is in the report; an error is what kept Verify from looking. The progress, if
// not nil, is told now and then.
func Verify(ctx context.Context, folder *state.Folder, progress func(records uint64)) (Report, error) {
	log, err := folder.Log(logName, 0)
	if err != nil {
		return Report{}, err
	}
	defer log.Close()
	k, tail, err := look(folder, log)
	if err != nil {
		return Report{}, err
	}
	lost, err := missing(folder)
	if err != nil {
		return Report{}, err
	}
	if lost != "" {
		return Report{Bad: &Bad{Number: 1, What: lost}}, nil
	}
	if k == nil {
		return Report{}, nil
	}
	v := &verifier{open: map[string]opened{}}
	if v.head, v.headed = k.sealer().head(tail.Mark); v.headed && tail.Count > v.head.count {
		v.report.Behind = tail.Count - v.head.count
	}
	if progress == nil {
		progress = func(uint64) {}
	}
	if err := v.read(ctx, log, *k, progress); err != nil {
		return Report{}, err
	}
	v.end()
	return v.report, v.finish(log)
}

// look returns the key of a journal, and how the journal ends; no key if there
// is no journal.
func look(folder *state.Folder, log state.Log) (*key, state.Tail, error) {
	for again := false; ; again = true {
		// The key first: an empty journal has its head before it has its key.
		k, ok, err := readKey(folder)
		if err != nil {
			return nil, state.Tail{}, err
		}
		tail, err := log.Tail()
		switch {
		case err != nil || ok:
			return &k, tail, err
		case tail.Count == 0 && tail.Lost == 0:
			return nil, tail, nil
		case again: // it was not made just now
			return nil, tail, errNoKey()
		}
	}
}

// A verifier goes through the lines in their order.
type verifier struct {
	head   head
	headed bool
	last   link   // the last line
	known  link   // the last line of those that the head counts
	newest []byte // the last line that is sealed
	open   map[string]opened
	report Report
}

// opened is where an intent is.
type opened struct{ number, position uint64 }

// A chunk is some lines, read by one goroutine, hashed by another, and put in
// their place by a third.
type chunk struct {
	text   []byte
	ends   []int
	places []place
	done   chan struct{}
}

const chunkSize = 256 << 10

var errStop = errors.New("stop")

// read goes through the lines of the log. There may be more by now than when the
// head was read, and never fewer.
func (v *verifier) read(ctx context.Context, log state.Log, k key, progress func(uint64)) error {
	workers := runtime.GOMAXPROCS(0)
	work, order := make(chan *chunk, workers), make(chan *chunk, 2*workers)
	var group sync.WaitGroup
	defer group.Wait()
	for range workers {
		group.Go(func() {
			seal := k.sealer()
			for c := range work {
				c.hash(seal)
			}
		})
	}
	var failed error
	group.Go(func() {
		failed = split(ctx, log, func(c *chunk) { order <- c; work <- c })
		close(work)
		close(order)
	})
	for c := range order {
		<-c.done
		for i, p := range c.places {
			v.line(p, c.line(i))
		}
		progress(v.report.Records)
	}
	if failed != nil && !damage(failed) {
		return failed
	}
	if failed != nil { // it names the file
		v.bad(v.last.number+1, "")
		v.report.Bad.What = strings.TrimPrefix(v.report.Bad.What+"; "+failed.Error(), "; ")
	}
	return nil
}

// damage reports whether an error of a log is about what somebody did to its
// files, and not about what the system does now.
func damage(err error) bool {
	var errno syscall.Errno
	return errors.Is(err, fs.ErrNotExist) ||
		!errors.As(err, &errno) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// split reads the lines of a log into chunks.
func split(ctx context.Context, log state.Log, emit func(*chunk)) error {
	c := &chunk{done: make(chan struct{})}
	err := log.Read(1, func(_ uint64, line []byte) error {
		if len(c.text) >= chunkSize {
			emit(c)
			c = &chunk{text: make([]byte, 0, chunkSize+4096), done: make(chan struct{})}
		}
		c.text = append(c.text, line...)
		c.ends = append(c.ends, len(c.text))
		return ctx.Err()
	})
	emit(c)
	return cmp.Or(err, ctx.Err())
}

func (c *chunk) line(i int) []byte {
	start := 0
	if i > 0 {
		start = c.ends[i-1]
	}
	return c.text[start:c.ends[i]]
}

func (c *chunk) hash(seal *sealer) {
	defer close(c.done)
	c.places = make([]place, len(c.ends))
	for i := range c.ends {
		c.places[i] = seal.place(c.line(i))
	}
}

// line takes the next line.
func (v *verifier) line(p place, line []byte) {
	v.report.Records++
	want := v.last.number + 1
	switch {
	case !p.sealed:
		v.bad(want, "changed, or not written by golem: it is not sealed by this journal's key")
		p.number = want
	case p.number > want:
		v.bad(want, fmt.Sprintf("gone, or out of order: %d follows %d", p.number, v.last.number))
	case p.number < want:
		v.bad(p.number, fmt.Sprintf("out of order: %d follows %d", p.number, v.last.number))
	case p.prev != v.last.hash:
		v.mixed(p.number, fmt.Sprintf("it does not follow from %d: one of the two is from another copy of this journal", v.last.number))
	}
	v.last = p.link
	if v.report.Records == v.head.count {
		v.known = p.link
	}
	if p.sealed {
		v.sealed(p.number, line)
	}
}

// sealed looks at what a line of this journal tells.
func (v *verifier) sealed(number uint64, line []byte) {
	v.newest = append(v.newest[:0], line...)
	switch kind, call := kindOf(line); kind {
	case Intent:
		if call == nil {
			return // nothing would tell its outcome
		}
		v.open[string(call)] = opened{number, v.report.Records}
	case Outcome:
		delete(v.open, string(call))
	case Mend:
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			v.bad(number, err.Error())
			return
		}
		if r.Code == Broken {
			v.bad(number, "when it was written, something was missing: "+r.Note)
		}
		v.report.Mended = append(v.report.Mended, Mended{number, r.Time, r.Code, r.Note})
	}
}

// bad notes what is wrong, if nothing was before.
func (v *verifier) bad(number uint64, what string) {
	if v.report.Bad == nil {
		v.report.Bad = &Bad{Number: number, What: what, Before: true}
	}
}

// mixed is bad for records that do not belong together.
func (v *verifier) mixed(number uint64, what string) {
	if v.report.Bad == nil {
		v.report.Bad = &Bad{Number: number, What: what}
	}
}

// end compares the last line with the head.
func (v *verifier) end() {
	next := v.last.number + 1
	switch count := v.report.Records; {
	case !v.headed:
		v.bad(next, "the sealed head is missing or damaged: any records from here on may be gone")
	case v.head.count > count:
		v.bad(next, fmt.Sprintf("gone from the end: %s, removed or lost with the power", counted(v.head.count-count, "record")))
	case v.known != v.head.link:
		v.mixed(next, fmt.Sprintf("the sealed head names another record %d as the last: one of the two is from another copy of this journal", v.head.number))
	}
}

// finish reads what the report tells of records that are known by number only.
func (v *verifier) finish(log state.Log) error {
	var r Record
	if v.newest != nil && json.Unmarshal(v.newest, &r) == nil {
		v.report.Head = r.Time
	}
	if len(v.open) == 0 || v.report.Bad != nil {
		return nil
	}
	left := make(map[uint64]bool, len(v.open))
	first := uint64(0)
	for _, o := range v.open {
		left[o.position] = true
		if first == 0 || o.position < first {
			first = o.position
		}
	}
	err := log.Read(first, func(position uint64, line []byte) error {
		var r Record
		if left[position] && json.Unmarshal(line, &r) == nil {
			v.report.Open = append(v.report.Open, Unfinished{r.Number, r.Time, r.Call, r.Tool})
		}
		if delete(left, position); len(left) == 0 {
			return errStop
		}
		return nil
	})
	slices.SortFunc(v.report.Open, func(a, b Unfinished) int { return cmp.Compare(a.Number, b.Number) })
	if err == errStop || err != nil && damage(err) {
		err = nil
	}
	return err
}
