package audit

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/state"
	"github.com/golem-forge/golem/sandbox"
)

// maxQueue is how many bytes may wait for somebody who writes them.
const maxQueue = 1 << 20

// Options are what a journal needs to know.
type Options struct {
	Now     func() time.Time
	Session string   // for records that name none
	Secrets []string // exact values that must never be written
	Segment int64    // bytes after which a new file is begun; 0 for a fitting size
}

// A Journal writes records. It is safe for many goroutines, and other processes
// may write into the same one. Callers who wait at the same time are written
// with one write and one sync: one of them leads, the others wait for it.
type Journal struct {
	log      state.Log
	now      func() time.Time
	session  string
	redactor *redactor
	seal     *sealer       // used by whoever leads
	buf      []byte        // for lines; likewise
	crowd    int           // for how many batches others are expected to join; likewise
	lead     chan struct{} // holds one value while somebody leads

	mu     sync.Mutex
	next   *batch // what the next leader writes
	used   bool   // something was written, or tried to
	closed bool
}

// A batch is written at once. Its error is there to read when done is closed.
type batch struct {
	entries []entry
	size    int
	sync    bool
	done    chan struct{}
	err     error
}

// An entry is a record, encoded except its place.
type entry struct {
	middle []byte
	queued bool // nobody waits for it
}

func newBatch() *batch { return &batch{done: make(chan struct{})} }

func (b *batch) add(e entry) {
	b.entries = append(b.entries, e)
	b.size += len(e.middle)
}

// Open opens the journal of a directory, and makes it where there is none.
func Open(folder *state.Folder, o Options) (*Journal, error) {
	log, err := folder.Log(logName, o.Segment)
	if err != nil {
		return nil, err
	}
	k, err := makeKey(folder, log)
	if err != nil {
		log.Close()
		return nil, err
	}
	return &Journal{
		log: log, now: o.Now, session: o.Session, redactor: newRedactor(o.Secrets),
		seal: k.sealer(), lead: make(chan struct{}, 1), next: newBatch(),
	}, nil
}

// Write adds a record, without secrets and within bounds. After an error whoever
// needs the record in the journal must not act: it is not there, unless the disk
// refused even to take back what it had taken. Later writes work again when what
// was wrong no longer is.
func (j *Journal) Write(r Record, wait Wait) error {
	switch r.Kind {
	case Intent, Outcome, Refusal, Answer:
	default:
		return fmt.Errorf("journal: %w; %q is not a kind of record to write", sandbox.ErrInvalid, r.Kind)
	}
	m, err := j.middle(r)
	if err != nil {
		return err
	}
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return errClosed()
	}
	b := j.next
	j.used = true
	queued := wait == Queued && b.size+len(m) <= maxQueue
	b.add(entry{m, queued})
	b.sync = b.sync || wait == Durable
	j.mu.Unlock()
	if queued {
		return nil
	}
	return j.flush(b)
}

func errClosed() error { return fmt.Errorf("journal: %w; it is closed", sandbox.ErrInternal) }

// middle encodes a record as it may be kept.
func (j *Journal) middle(r Record) ([]byte, error) {
	if r.Session == "" {
		r.Session = j.session
	}
	r.Time = j.now().UTC()
	return middle(j.redactor.record(r))
}

// flush returns when a batch is written, by this caller or another.
func (j *Journal) flush(b *batch) error {
	select {
	case <-b.done:
		return b.err
	case j.lead <- struct{}{}:
	}
	defer func() { <-j.lead }()
	select {
	case <-b.done: // by the one who led before
		return b.err
	default:
	}
	if j.crowd > 0 {
		runtime.Gosched() // those whom the last leader woke have something to write too
	}
	j.mu.Lock()
	j.next = newBatch()
	j.mu.Unlock()
	j.crowd = max(len(b.entries)-2, j.crowd-1) // a call that is alone writes two at most
	b.err = j.append(b)
	if b.err != nil {
		j.keep(b)
	}
	close(b.done)
	return b.err
}

// keep puts what was queued in a batch that could not be written in front of
// the next. Who waited for its record knows that it is not there.
func (j *Journal) keep(b *batch) {
	j.mu.Lock()
	defer j.mu.Unlock()
	later := j.next.entries
	j.next.entries, j.next.size = nil, 0
	for _, e := range b.entries {
		if e.queued {
			j.next.add(e)
		}
	}
	for _, e := range later {
		j.next.add(e)
	}
}

// append writes a batch, after what must be told of how the journal ended.
func (j *Journal) append(b *batch) error {
	return j.log.Append(b.sync, func(t state.Tail) ([][]byte, []byte, error) {
		h, mends, err := j.seal.follow(t, func() ([]byte, error) { return lineAt(j.log, t.Count) })
		if err != nil {
			return nil, nil, err
		}
		entries := b.entries
		if len(mends) > 0 {
			entries = nil
			for _, r := range mends {
				m, err := j.middle(r)
				if err != nil {
					return nil, nil, err
				}
				entries = append(entries, entry{middle: m})
			}
			entries = append(entries, b.entries...)
		}
		lines := make([][]byte, len(entries))
		if need := b.size + len(entries)*256; cap(j.buf) < need || cap(j.buf) > maxQueue {
			j.buf = make([]byte, 0, need)
		}
		buf := j.buf
		for i, e := range entries {
			start := len(buf)
			buf, h.link = j.seal.appendLine(buf, e.middle, h.link)
			lines[i] = buf[start:]
		}
		h.count += uint64(len(lines))
		return lines, j.seal.mark(h), nil
	})
}

// lineAt returns the line at a position of a log.
func lineAt(log state.Log, position uint64) (line []byte, err error) {
	stop := errors.New("stop")
	err = log.Read(position, func(_ uint64, record []byte) error {
		line = append([]byte(nil), record...)
		return stop
	})
	if err == stop {
		err = nil
	}
	return line, err
}

// Close writes what is queued and puts everything on the disk. With an error
// the records that were queued last are not in the journal. One that nobody has
// written to leaves the files as they are.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil
	}
	j.closed = true
	b := j.next
	b.sync = true
	used := j.used
	j.mu.Unlock()
	if !used {
		return j.log.Close()
	}
	err := j.flush(b)
	if err != nil {
		j.mu.Lock()
		if lost := len(j.next.entries); lost > 0 {
			err = fmt.Errorf("%w; not written to the journal: %s", err, counted(uint64(lost), "record"))
		}
		j.mu.Unlock()
	}
	return errors.Join(err, j.log.Close())
}
