package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/state"
)

// A Report is the result of Verify.
type Report struct {
	Records uint64         // number of lines in the journal
	Head    time.Time      // time of the last record
	Bad     *Bad           // the first error; nil if the journal is intact
	Repairs []RepairRecord // repairs that the journal reports
	// Behind is the number of records that the sealed head does not count now. A crash
	// leaves them. So does an older head that was restored; then records after these may
	// be gone. The next write reports it in the journal.
	Behind uint64
	// Open are the calls that have an intent and no outcome: they run now, or their
	// process ended. It is empty if Bad is set, because an outcome may be among the
	// changed or removed records.
	Open []Unfinished
}

// Bad is a place where the journal differs from what was written.
type Bad struct {
	Number uint64 // number of the record that is changed, gone or misplaced
	What   string // in words
	// Before reports whether the records before it are intact, according to seals and
	// chain. If two copies of the journal were mixed, these only show that two records do
	// not fit together, and not which of them belongs here.
	Before bool
}

func (b *Bad) String() string { return fmt.Sprintf("record %d: %s", b.Number, b.What) }

// A RepairRecord is a repair that the journal reports.
type RepairRecord struct {
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

// Verify checks the number, chain and seal of each record, and that the last one is the
// one that the sealed head names. It works while others write, and changes nothing.
// Errors of the journal are in the report. The returned error says why Verify could not
// check. Verify calls progress, if it is not nil, from time to time.
func Verify(ctx context.Context, folder *state.Dir, progress func(records uint64)) (Report, error) {
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

// look returns the key of a journal and how the journal ends. The key is nil if there is
// no journal.
func look(folder *state.Dir, log state.Log) (*key, state.Tail, error) {
	for again := false; ; again = true {
		// The key first: an empty journal gets its head before its key.
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
		case again: // it was not created just now
			return nil, tail, errNoKey()
		}
	}
}

// A verifier checks the lines in order.
type verifier struct {
	head   head
	headed bool
	last   link   // the last line
	known  link   // the last line that the head counts
	newest []byte // the last sealed line
	open   map[string]opened
	report Report
}

// opened is the position of an intent.
type opened struct{ number, position uint64 }

// A chunk is a group of lines. One goroutine reads it, another hashes it, and a third
// checks its place in the chain.
type chunk struct {
	text   []byte
	ends   []int
	places []place
	done   chan struct{}
}

const chunkSize = 256 << 10

var errStop = errors.New("stop")

// read checks the lines of the log. The log may have grown since the head was read, but
// never shrunk.
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
	if failed != nil { // the error names the file
		v.bad(v.last.number+1, "")
		v.report.Bad.What = strings.TrimPrefix(v.report.Bad.What+"; "+failed.Error(), "; ")
	}
	return nil
}

// damage reports whether an error of a log comes from changed files, not from the system.
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

// line checks the next line.
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

// sealed evaluates a valid line of this journal.
func (v *verifier) sealed(number uint64, line []byte) {
	v.newest = append(v.newest[:0], line...)
	switch kind, call := kindOf(line); kind {
	case Intent:
		if call == nil {
			return // its outcome could not be found
		}
		v.open[string(call)] = opened{number, v.report.Records}
	case Outcome:
		delete(v.open, string(call))
	case Repair:
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			v.bad(number, err.Error())
			return
		}
		if r.Code == Broken {
			v.bad(number, "when it was written, something was missing: "+r.Note)
		}
		v.report.Repairs = append(v.report.Repairs, RepairRecord{number, r.Time, r.Code, r.Note})
	}
}

// bad records an error, if it is the first.
func (v *verifier) bad(number uint64, what string) {
	if v.report.Bad == nil {
		v.report.Bad = &Bad{Number: number, What: what, Before: true}
	}
}

// mixed is bad for records that do not fit together.
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
		v.bad(next, fmt.Sprintf("gone from the end: %s, removed or lost with the power", visible.Count(v.head.count-count, "record")))
	case v.known != v.head.link:
		v.mixed(next, fmt.Sprintf("the sealed head names another record %d as the last: one of the two is from another copy of this journal", v.head.number))
	}
}

// finish reads the records that the report refers to.
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
	// sort.Slice keeps the program for browsers small: slices.SortFunc is compiled for each type.
	sort.Slice(v.report.Open, func(i, j int) bool { return v.report.Open[i].Number < v.report.Open[j].Number })
	if err == errStop || err != nil && damage(err) {
		err = nil
	}
	return err
}
