package state

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"sync"
	"sync/atomic"
)

// Bounds of a log. The last two also bound what a damaged folder may make a
// reader hold in memory.
const (
	defaultSegment = 64 << 20
	maxRecord      = 16 << 20
	maxBatch       = 64 << 20
)

// A fileLog is a log in the files of a folder, here for the name journal:
//
//	journal.jsonl               the current segment: a record a line
//	journal-000000000001.jsonl  an older segment, by the number of its first record
//	journal.head                the head, written after the records
//	journal.lock                locked by whoever appends
//
// Nobody changes the records that a head counts, so reading needs no lock.
// Nothing is made before the first Append.
type fileLog struct {
	folder  *Folder
	name    string
	segment int64
	read    atomic.Pointer[place] // where the last Read ended

	mu     sync.Mutex
	closed bool
	lock   *held
	head   *held // both or none of head and cur are open
	cur    *held
	buf    []byte
}

// Log returns the log of a name of a-z, 0-9, - and _. A segment that has grown
// over so many bytes is followed by a new one; 0 stands for 64 MiB. Records are
// not empty and without a newline, and marks are of at most 256 bytes.
func (f *Folder) Log(name string, segment int64) (Log, error) {
	if !plainName(name) || oldSegment.MatchString(name+".jsonl") {
		return nil, fmt.Errorf("log %q: no name for one; use a-z, 0-9, - and _", name)
	}
	if segment <= 0 {
		segment = defaultSegment
	}
	return &fileLog{folder: f, name: name, segment: segment}, nil
}

// oldSegment matches the names of segments that are no longer written to.
var oldSegment = regexp.MustCompile(`^([a-z0-9_-]+)-([0-9]{12,19})\.jsonl$`)

func (l *fileLog) current() string { return l.name + ".jsonl" }

func (l *fileLog) segmentName(first uint64) string {
	return fmt.Sprintf("%s-%012d.jsonl", l.name, first)
}

// Append implements Log.
func (l *fileLog) Append(sync bool, next func(Tail) ([][]byte, []byte, error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return trouble(l.name, fs.ErrClosed)
	}
	if err := l.takeLock(); err != nil {
		return err
	}
	defer l.folder.locks.free(l.lock.File)
	e, known := l.known()
	if !known {
		l.letGo()
		v, err := l.view()
		if err != nil {
			return err
		}
		e, err = v.ending()
		v.close()
		if err != nil {
			return err
		}
	}
	records, mark, err := next(e.Tail)
	if err != nil {
		return err
	}
	if err := l.join(records, mark); err != nil {
		return err
	}
	if e.clean && e.size > l.segment {
		if e, err = l.rotate(e); err != nil {
			return err
		}
	}
	if err := l.ready(e); err != nil {
		return err
	}
	h := head{count: e.Count + uint64(len(records)), first: e.first, size: e.size + int64(len(l.buf)), mark: mark}
	if err := l.write(e, h, sync); err != nil {
		// Nobody is told of what this has written, so it goes again. Should even
		// that be impossible, it is beyond the mark or torn, as after a kill.
		l.cur.Truncate(e.size)
		l.letGo()
		return err
	}
	return nil
}

// takeLock waits for the lock of the log. The file is kept open; one that
// somebody has deleted meanwhile excludes nobody, so it is taken anew.
func (l *fileLog) takeLock() (err error) {
	name := l.name + ".lock"
	if l.lock != nil {
		if _, err := l.folder.locks.take(l.lock.File, true); err != nil {
			return trouble(name, err)
		}
		if _, ok := l.folder.at(name, l.lock); ok {
			return nil
		}
		l.folder.unlock(l.lock)
	}
	l.lock, err = l.folder.lock(name, true)
	return err
}

// known returns how the log ends if the head knows it all, as it does unless
// somebody crashed or took another segment.
func (l *fileLog) known() (ending, bool) {
	if l.cur == nil {
		return ending{}, false
	}
	if _, ok := l.folder.at(l.name+".head", l.head); !ok {
		return ending{}, false
	}
	var slot [slotSize]byte
	if _, err := l.head.ReadAt(slot[:], 0); err != nil {
		return ending{}, false
	}
	h, err := parseHead(slot[:])
	if err != nil {
		return ending{}, false
	}
	size, ok := l.folder.at(l.current(), l.cur)
	return h.ending(), ok && size == h.size
}

// join puts records into one piece, to be written at once.
func (l *fileLog) join(records [][]byte, mark []byte) error {
	if len(mark) > maxMark {
		return fmt.Errorf("%s: a mark of %d bytes; at most %d are kept", l.name, len(mark), maxMark)
	}
	total := 0
	for _, r := range records {
		total += len(r) + 1
		switch {
		case len(r) == 0 || bytes.IndexByte(r, '\n') >= 0:
			return fmt.Errorf("%s: a record is one line, and not an empty one", l.name)
		case len(r) > maxRecord:
			return fmt.Errorf("%s: a record of %d bytes; at most %d are kept", l.name, len(r), maxRecord)
		case total > maxBatch:
			return fmt.Errorf("%s: records of more than %d bytes at once; append fewer", l.name, maxBatch)
		}
	}
	if cap(l.buf) < total || cap(l.buf) > 1<<20 {
		l.buf = make([]byte, 0, total)
	}
	l.buf = l.buf[:0]
	for _, r := range records {
		l.buf = append(append(l.buf, r...), '\n')
	}
	return nil
}

// rotate puts the current segment away, for good and on the disk, and returns
// the end of the log as it is then. One that cannot be renamed now, because
// another process of another system reads it, is put away later.
func (l *fileLog) rotate(e ending) (ending, error) {
	if err := l.ready(e); err != nil {
		return e, err
	}
	if err := l.cur.Sync(); err != nil {
		return e, trouble(l.current(), err)
	}
	h, ok, err := l.readHead() // its mark is still that of the last Append, whatever next did to its own
	if err != nil || !ok {
		return e, err
	}
	old := l.segmentName(e.first)
	if _, err := l.folder.root.Lstat(old); !errors.Is(err, fs.ErrNotExist) {
		return e, fmt.Errorf("%s: it is in the way of the next segment; move it away", old)
	}
	l.letGo()
	if l.folder.root.Rename(l.current(), old) != nil {
		return e, nil
	}
	e.first, e.size = e.Count+1, 0
	if err := l.ready(e); err != nil {
		return e, err
	}
	return e, l.putHead(head{count: e.Count, first: e.first, mark: h.mark})
}

// ready opens the files to write to, and makes them where they are missing. A
// new log has a head before it has records, so that one without is damaged.
func (l *fileLog) ready(e ending) error {
	if l.cur != nil {
		return nil
	}
	var err error
	if l.head, err = l.folder.held(l.name+".head", toMake); err != nil {
		return err
	}
	if e.Count == 0 && e.Lost == 0 {
		if err := l.putHead(head{first: 1, mark: e.Mark}); err != nil {
			l.letGo()
			return err
		}
	}
	if l.cur, err = l.folder.held(l.current(), toMake); err == nil && l.cur.is.Size() == 0 {
		err = trouble(l.name, l.folder.sync())
	}
	if err != nil {
		l.letGo()
	}
	return err
}

// write puts what was joined behind the whole records, and then the head.
func (l *fileLog) write(e ending, h head, sync bool) error {
	if e.Torn > 0 {
		if err := l.cur.Truncate(e.size); err != nil {
			return trouble(l.current(), err)
		}
	}
	if len(l.buf) > 0 {
		if _, err := l.cur.WriteAt(l.buf, e.size); err != nil {
			return trouble(l.current(), err)
		}
	}
	if sync {
		if err := syncData(l.cur.File); err != nil {
			return trouble(l.current(), err)
		}
	}
	return l.putHead(h)
}

func (l *fileLog) putHead(h head) error {
	_, err := l.head.WriteAt(h.slot(), 0)
	return trouble(l.name+".head", err)
}

// letGo closes what is written to.
func (l *fileLog) letGo() {
	for _, file := range []*held{l.head, l.cur} {
		if file != nil {
			file.Close()
		}
	}
	l.head, l.cur = nil, nil
}

// Close implements Log.
func (l *fileLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.letGo()
	if l.lock != nil {
		l.lock.Close()
		l.lock = nil
	}
	return nil
}
