package audit

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/sandbox"
)

// maxQueue is how many bytes may wait to be written.
const maxQueue = 1 << 20

// Options configure a journal.
type Options struct {
	Now     func() time.Time
	Session string   // session of records that name none
	Secrets []string // exact values that must never be written
	Segment int64    // size in bytes after which a new file starts; 0 for the default
}

// A Journal writes records. Many goroutines may use it, and other processes may write to
// the same files. Records of callers that wait at the same time go into one write and one
// sync: one caller leads, and the others wait for it.
type Journal struct {
	log      state.Log
	now      func() time.Time
	session  string
	redactor *redactor
	seal     *sealer       // used by the leader
	buf      []byte        // buffer for lines, used by the leader
	crowd    int           // number of batches that other callers are expected to join, used by the leader
	lead     chan struct{} // holds one value while a caller leads

	mu       sync.Mutex
	next     *batch // the batch that the next leader writes
	unsynced bool   // something was written, or a write was tried, and no sync has followed
	closed   bool
}

// A batch is written at once. Its error is valid when done is closed.
type batch struct {
	entries []entry
	size    int
	sync    bool
	done    chan struct{}
	err     error
}

// An entry is a record, encoded except for its number and hashes.
type entry struct {
	middle []byte
	queued bool // no caller waits for it
}

func newBatch() *batch { return &batch{done: make(chan struct{})} }

func (b *batch) add(e entry) {
	b.entries = append(b.entries, e)
	b.size += len(e.middle)
}

// Open opens the journal of a directory and creates it if there is none.
func Open(folder *state.Dir, o Options) (*Journal, error) {
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

// Write adds a record, without secrets and within limits. After an error, a caller that
// needs the record must not act: the record is not in the journal, unless the disk
// refused even to remove it again. Later writes work again when the cause is gone.
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

// middle encodes a record without secrets and within limits.
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
	case <-b.done: // the leader before wrote it
		return b.err
	default:
	}
	if j.crowd > 0 {
		runtime.Gosched() // callers that the last leader woke have records to write too
	}
	j.mu.Lock()
	j.next, j.unsynced = newBatch(), true
	j.mu.Unlock()
	j.crowd = max(len(b.entries)-2, j.crowd-1) // a single call writes two records at most
	b.err = j.append(b)
	if b.err != nil {
		j.keep(b)
	} else if b.sync {
		j.mu.Lock()
		j.unsynced = false
		j.mu.Unlock()
	}
	close(b.done)
	return b.err
}

// keep moves the queued entries of a failed batch to the front of the next one. Callers
// that waited for their records got the error.
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

// append writes a batch, after reports about how the journal ended before.
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

// Flush writes queued records, so that other processes see them.
func (j *Journal) Flush() error {
	j.mu.Lock()
	b := j.next
	done := j.closed || len(b.entries) == 0
	j.mu.Unlock()
	if done {
		return nil
	}
	return j.flush(b)
}

// Close writes queued records and syncs everything. After an error, the records that were
// queued last are not in the journal. If nothing was written since the last sync, Close
// does not touch the files.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil
	}
	j.closed = true
	b := j.next
	b.sync = true
	done := !j.unsynced && len(b.entries) == 0
	j.mu.Unlock()
	if done {
		return j.log.Close()
	}
	err := j.flush(b)
	if err != nil {
		j.mu.Lock()
		if lost := len(j.next.entries); lost > 0 {
			err = fmt.Errorf("%w; not written to the journal: %s", err, visible.Count(uint64(lost), "record"))
		}
		j.mu.Unlock()
	}
	return errors.Join(err, j.log.Close())
}
