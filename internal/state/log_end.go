package state

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
)

// An ending is a tail, and where in the current segment it is.
type ending struct {
	Tail
	first uint64 // number of the first record of the current segment
	size  int64  // of the whole records of the current segment
	clean bool   // the head says it all
}

// ending is how a log ends that has nothing behind its head.
func (h head) ending() ending {
	return ending{Tail: Tail{Count: h.count, Mark: h.mark}, first: h.first, size: h.size, clean: true}
}

// A view is the files of a log as they were together at one moment.
type view struct {
	log    *fileLog
	old    []uint64 // first numbers of the older segments, in order
	cur    *os.File // nil if there is none
	size   int64    // of cur
	head   head
	headed bool // the head is there and whole
}

func (v *view) close() {
	if v.cur != nil {
		v.cur.Close()
	}
}

// view opens the files of the log, and makes none.
func (l *fileLog) view() (*view, error) {
	for range 1000 { // until no other process takes a new segment meanwhile
		v := &view{log: l}
		same, err := v.open()
		if err == nil && same {
			return v, nil
		}
		v.close()
		if err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s: it is replaced all the time; find out by whom", l.current())
}

// open fills the view, and reports whether the current segment is still the one
// that it was before.
func (v *view) open() (same bool, err error) {
	root := v.log.folder.root
	v.cur, err = open(root, v.log.current(), toRead)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if v.head, v.headed, err = v.log.readHead(); err != nil {
		return false, err
	}
	var is fs.FileInfo
	if v.cur != nil { // after the head, so that it has at least what the head counts
		if is, err = v.cur.Stat(); err != nil {
			return false, trouble(v.log.current(), err)
		}
		v.size = is.Size()
	}
	if v.old, err = v.log.oldSegments(); err != nil {
		return false, err
	}
	there, err := root.Lstat(v.log.current())
	if v.cur == nil {
		return errors.Is(err, fs.ErrNotExist), nil
	}
	return err == nil && os.SameFile(is, there), nil
}

// readHead reads the head, and reports whether it is there and whole. One that
// is being written can look damaged, but not twice in the same way.
func (l *fileLog) readHead() (head, bool, error) {
	name := l.name + ".head"
	file, err := open(l.folder.root, name, toRead)
	if errors.Is(err, fs.ErrNotExist) {
		return head{}, false, nil
	}
	if err != nil {
		return head{}, false, err
	}
	defer file.Close()
	var last, slot [slotSize]byte
	for try := 0; ; try++ {
		n, err := file.ReadAt(slot[:], 0)
		if err != nil && err != io.EOF {
			return head{}, false, trouble(name, err)
		}
		h, err := parseHead(slot[:n])
		switch {
		case err == nil:
			return h, true, nil
		case err != errDamaged:
			return head{}, false, fmt.Errorf("%s: %w", name, err)
		case try > 0 && slot == last || try > 100:
			return head{}, false, nil
		}
		last = slot
	}
}

// oldSegments returns the first numbers of the segments that are no longer
// written to, in order.
func (l *fileLog) oldSegments() ([]uint64, error) {
	dir, err := l.folder.root.Open(".")
	if err != nil {
		return nil, trouble(l.name, err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, trouble(l.name, err)
	}
	var old []uint64
	for _, name := range names {
		part := oldSegment.FindStringSubmatch(name)
		if part == nil || part[1] != l.name {
			continue
		}
		first, err := strconv.ParseUint(part[2], 10, 64)
		if err != nil || first == 0 || first > maxCount || l.segmentName(first) != name {
			return nil, fmt.Errorf("%s: no segment has this number; move it away", name)
		}
		old = append(old, first)
	}
	slices.Sort(old)
	return old, nil
}

// look returns a view and how the log ends in it. While another process is
// between its records and their head, that is where the head says it does, and
// settled is false: there may be more to see without any file having changed.
func (l *fileLog) look() (v *view, e ending, settled bool, err error) {
	if v, err = l.view(); err != nil {
		return nil, ending{}, false, err
	}
	e, ok := v.stable()
	if ok && v.size == e.size {
		return v, e, true, nil
	}
	v.close()
	free, quiet, err := l.tryLock()
	if err != nil {
		return nil, ending{}, false, err
	}
	defer free()
	if v, err = l.view(); err != nil {
		return nil, ending{}, false, err
	}
	if e, ok = v.stable(); !ok || quiet {
		// Without the lock this is for a head that is no use: next may look too.
		e, err = v.ending()
	}
	if err != nil {
		v.close()
		return nil, ending{}, false, err
	}
	return v, e, quiet, nil
}

// tryLock takes the lock of the log, if nobody has it. Where nobody has ever
// appended, or this user may not, there is none to take.
func (l *fileLog) tryLock() (free func(), got bool, err error) {
	file, err := open(l.folder.root, l.name+".lock", toRead)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return func() {}, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	got, err = l.folder.locks.take(file, false)
	if err != nil {
		file.Close()
		return nil, false, trouble(l.name+".lock", err)
	}
	return func() {
		if got {
			l.folder.locks.free(file)
		}
		file.Close()
	}, got, nil
}

// stable returns the end that the head tells of, if the files bear it out.
func (v *view) stable() (ending, bool) {
	e := v.head.ending()
	if !v.headed {
		return e, false
	}
	if v.moved() { // by one who is about to say so in the head
		e.first, e.size = e.Count+1, 0
		return e, true
	}
	if len(v.old) > 0 && v.old[len(v.old)-1] >= e.first {
		return e, false
	}
	return e, v.size >= e.size && v.endsLine(e.size)
}

// moved reports whether the segment that the head speaks of has been put away.
func (v *view) moved() bool {
	if len(v.old) == 0 || v.old[len(v.old)-1] != v.head.first {
		return false
	}
	is, err := v.log.folder.root.Lstat(v.log.segmentName(v.head.first))
	return err == nil && is.Size() == v.head.size
}

// endsLine reports whether a line of the current segment ends at an offset.
func (v *view) endsLine(at int64) bool {
	if at == 0 {
		return true
	}
	var b [1]byte
	if v.cur == nil {
		return false
	}
	_, err := v.cur.ReadAt(b[:], at-1)
	return err == nil && b[0] == '\n'
}

// ending finds out how the log ends, whatever has happened to it.
func (v *view) ending() (ending, error) {
	e, ok := v.stable()
	from := place{e.first, e.Count + 1, e.size}
	if !ok {
		first, err := v.first()
		if err != nil {
			return e, err
		}
		e = ending{Tail: Tail{Count: first - 1, Mark: v.head.mark}, first: first}
		from = place{first, first, 0}
	}
	if v.cur != nil {
		n, end, err := countLines(v.cur, e.size, v.size)
		if err != nil {
			return e, trouble(v.log.current(), err)
		}
		e.Count, e.size, e.Torn = e.Count+n, end, v.size-end
		e.clean = e.clean && n == 0 && e.Torn == 0
	}
	switch {
	case !v.headed:
	case e.Count < v.head.count:
		e.Lost = v.head.count - e.Count
	case e.Count > v.head.count:
		var err error
		e.Beyond, err = v.beyond(e, from)
		return e, err
	}
	return e, nil
}

// first returns the number of the first record of the current segment, where
// the head does not tell.
func (v *view) first() (uint64, error) {
	last := uint64(0)
	if len(v.old) > 0 {
		last = v.old[len(v.old)-1]
	}
	switch {
	case v.headed && v.head.first > last:
		return v.head.first, nil
	case last == 0:
		return 1, nil
	}
	file, size, err := v.openOld(last)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	n, _, err := countLines(file, 0, size)
	if err == nil && n == 0 { // then two segments would begin with the same number
		err = errors.New("without a whole record; move it away")
	}
	return last + n, trouble(v.log.segmentName(last), err)
}

// openOld opens the older segment of a first number.
func (v *view) openOld(first uint64) (*os.File, int64, error) {
	name := v.log.segmentName(first)
	file, err := open(v.log.folder.root, name, toRead)
	if err != nil {
		return nil, 0, err
	}
	is, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, 0, trouble(name, err)
	}
	return file, is.Size(), nil
}

// beyond returns the records that the head does not count.
func (v *view) beyond(e ending, from place) (records [][]byte, err error) {
	total := 0
	err = v.records(e, v.head.count+1, from, func(_ uint64, record []byte) error {
		if total += len(record) + 1; total > maxBatch {
			return fmt.Errorf("%s: more than %d bytes that %s.head does not count; "+
				"if the log is as it should be, move the head away", v.log.current(), maxBatch, v.log.name)
		}
		records = append(records, bytes.Clone(record))
		return nil
	})
	return records, err
}

// countLines counts the lines of a part of a file, and returns where the last
// of them ends.
func countLines(file *os.File, from, to int64) (n uint64, end int64, err error) {
	end = from
	buf := make([]byte, min(to-from, 1<<20))
	for at := from; at < to; {
		part := buf[:min(int64(len(buf)), to-at)]
		if _, err := io.ReadFull(io.NewSectionReader(file, at, to-at), part); err != nil {
			return 0, 0, err
		}
		n += uint64(bytes.Count(part, []byte{'\n'}))
		if last := bytes.LastIndexByte(part, '\n'); last >= 0 {
			end = at + int64(last) + 1
		}
		at += int64(len(part))
	}
	return n, end, nil
}
