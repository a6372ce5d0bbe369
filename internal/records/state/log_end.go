package state

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
)

// An ending is a tail with its position in the current segment.
type ending struct {
	Tail
	first uint64 // number of the first record of the current segment
	size  int64  // size of the records in the current segment
	start uint32 // startOf the current segment; 0 if it is too short
	clean bool   // the head describes everything
	cut   bool   // the last record lacks its line end
}

// ending returns the ending of a log that has nothing after its head.
func (h head) ending() ending {
	return ending{Tail: Tail{Count: h.count, Mark: h.mark}, first: h.first, size: h.size, start: h.start, clean: true}
}

// stable returns the ending that the head describes, if the files match it.
func (v *view) stable() (ending, bool) {
	e := v.head.ending()
	if !v.headed {
		return e, false
	}
	if size, ok := v.putAway(); ok {
		if _, more := slices.BinarySearch(v.old, e.Count+1); more || size != e.size {
			return e, false
		}
		e.first, e.size = e.Count+1, 0 // the writer of the new segment is about to write its head
		return e, true
	}
	return e, v.bears(v.cur, v.size)
}

// putAway reports whether the head's segment is now an older one, and its size. Another
// file with that name does not count.
func (v *view) putAway() (size int64, ok bool) {
	_, found := slices.BinarySearch(v.old, v.head.first)
	if !found || v.head.size > 0 && v.bears(v.cur, v.size) {
		return 0, false
	}
	file, size, err := v.openOld(v.head.first)
	if err != nil {
		return 0, false
	}
	defer file.Close()
	return size, v.bears(file, size)
}

// bears reports whether a segment matches the head.
func (v *view) bears(file *os.File, size int64) bool {
	h := v.head
	return size >= h.size && endsLine(file, h.size) && (h.size == 0 || h.start == 0 || startOf(file, h.size) == h.start)
}

// endsLine reports whether a line of a file ends at an offset.
func endsLine(file *os.File, at int64) bool {
	if at == 0 {
		return true
	}
	var b [1]byte
	if file == nil {
		return false
	}
	_, err := file.ReadAt(b[:], at-1)
	return err == nil && b[0] == '\n'
}

// ending finds how the log ends, whatever has happened to it.
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
	if ok && v.size-e.size > maxBatch {
		return e, v.tooMuch()
	}
	if v.cur != nil {
		n, end, err := countLines(v.cur, e.size, v.size)
		if err != nil {
			return e, trouble(v.log.curName, err)
		}
		e.Count, e.size, e.Torn = e.Count+n, end, v.size-end
		if !ok && e.Torn > 0 {
			// The head does not prove that nobody knows of this line. It may be a record
			// that lost its line end, so it stays.
			e.Count, e.size, e.Torn, e.cut = e.Count+1, v.size, 0, true
		}
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

// first returns the number of the first record of the current segment if the head does
// not say.
func (v *view) first() (uint64, error) {
	at := v.head.first
	if !v.headed {
		if len(v.old) == 0 {
			return 1, nil
		}
		at = v.old[len(v.old)-1]
	} else if _, ok := v.putAway(); !ok {
		return at, nil
	}
	for {
		n, err := v.oldCount(at)
		at += n
		if _, more := slices.BinarySearch(v.old, at); err != nil || n == 0 || !more {
			return at, err
		}
	}
}

// oldCount counts the records of the older segment that starts with number first.
func (v *view) oldCount(first uint64) (uint64, error) {
	file, size, err := v.openOld(first)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	n, end, err := countLines(file, 0, size)
	if end < size {
		n++
	}
	return n, trouble(v.log.segmentName(first), err)
}

// beyond returns the records that the head does not count.
func (v *view) beyond(e ending, from place) (records [][]byte, err error) {
	total := 0
	_, err = v.records(e, v.head.count+1, from, func(_ uint64, record []byte) error {
		if total += weight(record); total > maxBatch {
			return v.tooMuch()
		}
		records = append(records, bytes.Clone(record))
		return nil
	})
	return records, err
}

// tooMuch is the error for more data after the head than any Append writes.
func (v *view) tooMuch() error {
	return fmt.Errorf("%s: more behind what %s.head counts than a crash leaves; "+
		"if the log is as it should be, move the head away, or else cut what is too much", v.log.curName, v.log.name)
}

// countLines counts the lines in a part of a file, and returns the end of the last one.
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
		if at += int64(len(part)); at-end > maxRecord {
			return 0, 0, fmt.Errorf("more than %d bytes without a line end; cut them off, or move the file away", maxRecord)
		}
	}
	return n, end, nil
}
