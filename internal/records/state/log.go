package state

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
)

// Limits of a log. The last two also limit how much memory a damaged directory can make a
// reader use.
const (
	defaultSegment = 64 << 20
	maxRecord      = 16 << 20
	maxBatch       = 64 << 20
)

// weight is what a record counts against maxBatch: its size on disk and its overhead in
// memory.
func weight(record []byte) int { return len(record) + 1 + 64 }

// A fileLog is a log in files of a directory, here for the name journal:
//
//	journal.jsonl               the current segment: one record per line
//	journal-000000000001.jsonl  an older segment, by the number of its first record
//	journal.head                the head, written after the records
//
// A writer holds the locks of the head and of the current segment. If one file is deleted
// meanwhile, the other lock still excludes other writers. Nobody changes the records that
// a head counts, so readers need no lock. The first Append creates the files.
type fileLog struct {
	folder   *Dir
	name     string
	headName string
	curName  string // of the current segment
	segment  int64
	read     atomic.Pointer[place] // where the last Read ended

	mu     sync.Mutex
	closed bool
	head   *held // open from the first Append on, like cur
	cur    *held
	sure   bool // the last Append succeeded with these open files
	buf    []byte
	slots  [slotSize]byte // buffer for reading a head
}

// Log returns the log of a name made of a-z, 0-9, - and _. A segment that has grown
// beyond segment bytes is followed by a new one; 0 means 64 MiB. Records must not be
// empty or contain a newline. Marks have at most 256 bytes.
func (f *Dir) Log(name string, segment int64) (Log, error) {
	if _, _, old := oldSegment(name + ".jsonl"); old || !plainName(name) {
		return nil, fmt.Errorf("log %q: no name for one; use a-z, 0-9, - and _", name)
	}
	if segment <= 0 {
		segment = defaultSegment
	}
	return &fileLog{folder: f, name: name, headName: name + ".head", curName: name + ".jsonl", segment: segment}, nil
}

// oldSegment parses the name of an older segment: its log and the number of its first
// record.
func oldSegment(file string) (log, first string, ok bool) {
	base, ok := strings.CutSuffix(file, ".jsonl")
	at := strings.LastIndexByte(base, '-')
	if !ok || at < 0 {
		return "", "", false
	}
	log, first = base[:at], base[at+1:]
	return log, first, len(first) >= 12 && len(first) <= 19 && strings.Trim(first, "0123456789") == ""
}

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
	if err := l.take(); err != nil {
		return err
	}
	defer l.give()
	e, known := l.known()
	l.sure = false
	if !known {
		v, err := l.view()
		if err != nil {
			return err
		}
		e, err = v.ending()
		v.close()
		if err != nil {
			return err
		}
		e.start = 0 // it is looked at anew
	}
	records, mark, err := next(e.Tail)
	if err != nil {
		return err
	}
	if err := l.join(e, records, mark); err != nil {
		return err
	}
	if !known {
		if err := l.begin(e); err != nil {
			return err
		}
	}
	if e.clean && e.size > l.segment {
		if e, err = l.rotate(e); err != nil {
			return err
		}
	}
	h := head{count: e.Count + uint64(len(records)), first: e.first, size: e.size + int64(len(l.buf)), mark: mark}
	if err := l.write(e, h, sync); err != nil {
		// No caller knows of these records yet, so remove them. If that fails too, they
		// are beyond the mark or torn, as after a kill.
		l.cur.Truncate(e.size)
		return err
	}
	l.sure = true
	return nil
}

// take locks the head and the current segment, in this order, and creates missing files.
// Both stay open.
func (l *fileLog) take() (err error) {
	head, cur := l.head, l.cur
	if l.head, err = l.folder.lock(l.headName, head, true); err != nil {
		return err
	}
	if l.cur, err = l.folder.lock(l.curName, cur, true); err != nil {
		l.folder.locks.free(l.head.File)
		return err
	}
	l.sure = l.sure && l.head == head && l.cur == cur
	return nil
}

// give releases both locks.
func (l *fileLog) give() {
	l.folder.locks.free(l.cur.File)
	l.folder.locks.free(l.head.File)
}

// known returns the ending if the head describes everything. That is so unless a writer
// crashed or another process started a segment.
func (l *fileLog) known() (ending, bool) {
	if !l.sure {
		return ending{}, false
	}
	h, err := l.slot()
	return h.ending(), err == nil && l.cur.size == h.size
}

// slot reads the open head.
func (l *fileLog) slot() (head, error) {
	if _, err := l.head.ReadAt(l.slots[:], 0); err != nil {
		return head{}, err
	}
	return parseHead(l.slots[:])
}

// join joins records into one buffer, to be written in one call after the ending.
func (l *fileLog) join(e ending, records [][]byte, mark []byte) error {
	if len(mark) > maxMark {
		return fmt.Errorf("%s: a mark of %d bytes; at most %d are kept", l.name, len(mark), maxMark)
	}
	total := 1
	for _, r := range records {
		total += weight(r)
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
	if e.cut {
		l.buf = append(l.buf, '\n')
	}
	for _, r := range records {
		l.buf = append(append(l.buf, r...), '\n')
	}
	return nil
}

// begin prepares files that this log has not used before. A new log gets its head before
// its first record, so that a log without a head counts as damaged.
func (l *fileLog) begin(e ending) error {
	if e.Count == 0 && e.Lost == 0 {
		if err := l.putHead(head{first: 1, mark: e.Mark}); err != nil {
			return err
		}
	}
	if e.size > 0 {
		return nil
	}
	return trouble(l.name, l.folder.sync())
}

// rotate renames the current segment to an older one, syncs that, and returns the new
// ending. If the new name exists, or another process on another system has the file open,
// the segment stays and grows.
func (l *fileLog) rotate(e ending) (ending, error) {
	old := l.segmentName(e.first)
	if _, err := l.folder.root.Lstat(old); !errors.Is(err, fs.ErrNotExist) {
		return e, nil
	}
	if err := l.cur.Sync(); err != nil {
		return e, trouble(l.curName, err)
	}
	h, err := l.slot() // its mark is still that of the last Append, whatever next did with its copy
	if err != nil {
		return e, trouble(l.headName, err)
	}
	if l.folder.root.Rename(l.curName, old) != nil {
		return e, nil
	}
	cur, err := l.folder.lock(l.curName, nil, true)
	if err != nil {
		return e, err
	}
	l.folder.unlock(l.cur)
	l.cur = cur
	e.first, e.size = e.Count+1, 0
	if err := l.folder.sync(); err != nil {
		return e, trouble(l.name, err)
	}
	return e, l.putHead(head{count: e.Count, first: e.first, mark: h.mark})
}

// write writes the joined records after the complete ones, and then the head.
func (l *fileLog) write(e ending, h head, sync bool) error {
	if e.Torn > 0 {
		if err := l.cur.Truncate(e.size); err != nil {
			return trouble(l.curName, err)
		}
	}
	if len(l.buf) > 0 {
		if _, err := l.cur.WriteAt(l.buf, e.size); err != nil {
			return trouble(l.curName, err)
		}
	}
	if sync {
		if err := syncData(l.cur.File); err != nil {
			return trouble(l.curName, err)
		}
	}
	// If somebody deletes the file under its writer, the writer must not report its
	// record as kept, and no other writer may lose one.
	if _, ok := l.folder.at(l.curName, l.cur); !ok {
		return trouble(l.curName, errTaken)
	}
	if h.start = e.start; h.start == 0 || e.size < minStart {
		h.start = startOf(l.cur, h.size)
	}
	if err := l.putHead(h); err != nil {
		return err
	}
	if _, ok := l.folder.at(l.headName, l.head); !ok {
		return trouble(l.headName, errTaken)
	}
	return nil
}

func (l *fileLog) putHead(h head) error {
	_, err := l.head.WriteAt(h.slot(), 0)
	return trouble(l.headName, err)
}

// Close implements Log.
func (l *fileLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed, l.sure = true, false
	for _, file := range []*held{l.head, l.cur} {
		if file != nil {
			file.Close()
		}
	}
	l.head, l.cur = nil, nil
	return nil
}
