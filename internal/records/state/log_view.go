package state

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"time"
)

// A view is a consistent snapshot of a log's files.
type view struct {
	log    *fileLog
	old    []uint64 // first numbers of the older segments, in order
	odd    []string // files that are named like segments but are none
	cur    *os.File // nil if there is none
	size   int64    // of cur
	head   head
	headed bool // the head exists and is complete
}

func (v *view) close() {
	if v.cur != nil {
		v.cur.Close()
	}
}

// view opens the files of the log and creates none.
func (l *fileLog) view() (*view, error) {
	for range 1000 { // until no other process starts a new segment meanwhile
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
	return nil, fmt.Errorf("%s: it is replaced all the time; find out by whom", l.curName)
}

// open fills the view, and reports whether the current segment is still the same.
func (v *view) open() (same bool, err error) {
	root := v.log.folder.root
	v.cur, err = open(root, v.log.curName, toRead)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if v.head, v.headed, err = v.log.readHead(); err != nil {
		return false, err
	}
	var is fs.FileInfo
	if v.cur != nil { // after the head, so that it has at least what the head counts
		if is, err = v.cur.Stat(); err != nil {
			return false, trouble(v.log.curName, err)
		}
		v.size = is.Size()
	}
	if err = v.list(); err != nil {
		return false, err
	}
	there, err := root.Lstat(v.log.curName)
	if v.cur == nil {
		return errors.Is(err, fs.ErrNotExist), nil
	}
	return err == nil && os.SameFile(is, there), nil
}

// readHead reads the head, and reports whether it exists and is complete. A head that is
// being written can look damaged, but not twice in the same way.
func (l *fileLog) readHead() (head, bool, error) {
	name := l.headName
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

// list finds the older segments.
func (v *view) list() error {
	dir, err := v.log.folder.root.Open(".")
	if err != nil {
		return trouble(v.log.name, err)
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return trouble(v.log.name, err)
	}
	for _, entry := range entries {
		log, number, old := oldSegment(entry.Name())
		if !old || log != v.log.name {
			continue
		}
		first, err := strconv.ParseUint(number, 10, 64)
		if err != nil || first == 0 || first > maxCount || v.log.segmentName(first) != entry.Name() || !entry.Type().IsRegular() {
			v.odd = append(v.odd, entry.Name())
			continue
		}
		v.old = append(v.old, first)
	}
	slices.Sort(v.old)
	slices.Sort(v.odd)
	return nil
}

// openOld opens the older segment that starts with number first.
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

// look returns a view and the ending of the log in it. While another process has written
// records but not yet their head, the ending is the head's, and settled is false: more
// may become visible without a change of any file.
func (l *fileLog) look() (v *view, e ending, settled bool, err error) {
	if v, err = l.view(); err != nil {
		return nil, ending{}, false, err
	}
	e, ok := v.stable()
	if ok && v.size == e.size {
		return v, e, true, nil
	}
	v.close()
	for try := 0; ; try++ {
		v, e, settled, err = l.lookLocked()
		if err != nil || settled || v.headed || try == 11 {
			return v, e, settled, err
		}
		// A writer holds the lock and may have been interrupted in the middle of the head. On
		// a virtual machine its processor may stand still for a second.
		v.close()
		time.Sleep(time.Millisecond << try)
	}
}

// lookLocked is look with the locks of the log, if they are free.
func (l *fileLog) lookLocked() (v *view, e ending, settled bool, err error) {
	free, quiet, n, err := l.tryLock()
	if err != nil {
		return nil, ending{}, false, err
	}
	defer free()
	if v, err = l.view(); err != nil {
		return nil, ending{}, false, err
	}
	quiet = quiet && (n > 0 || v.cur == nil && !v.headed) // otherwise the first writer came meanwhile
	e, ok := v.stable()
	if !ok || quiet {
		// Without the lock, this serves only for a useless head: next may look too.
		e, err = v.ending()
	}
	if err != nil {
		v.close()
		return nil, ending{}, false, err
	}
	return v, e, quiet, nil
}

// tryLock takes the locks of the log if they are free, and returns their number. If nobody
// has ever appended, or this user may not, there are no locks to take.
func (l *fileLog) tryLock() (free func(), got bool, n int, err error) {
	var files []*os.File
	free = func() {
		for _, file := range files {
			l.folder.locks.free(file)
			file.Close()
		}
	}
	for _, name := range []string{l.headName, l.curName} {
		file, err := open(l.folder.root, name, toRead)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue
		}
		if err == nil {
			if got, err = l.folder.locks.take(file); !got {
				file.Close()
			}
		}
		if err != nil {
			free()
			return nil, false, 0, trouble(name, err)
		}
		if !got {
			return free, false, 0, nil
		}
		files = append(files, file)
	}
	return free, true, len(files), nil
}
