package state

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"
)

// A place is the position of a record in the segment whose first record is first.
type place struct {
	first, number uint64
	offset        int64
}

// Tail implements Log.
func (l *fileLog) Tail() (Tail, error) {
	v, e, _, err := l.look()
	if err != nil {
		return Tail{}, err
	}
	v.close()
	return e.Tail, nil
}

// Read implements Log. It stops at the end that the log had when Read began.
func (l *fileLog) Read(from uint64, yield func(uint64, []byte) error) error {
	v, e, _, err := l.look()
	if err != nil {
		return err
	}
	defer v.close()
	hint := place{first: e.first, number: e.first}
	// A reader that follows the log continues where the last Read ended.
	if last := l.read.Load(); last != nil && last.first == e.first && last.number <= e.Count+1 && endsLine(v.cur, last.offset) {
		hint = *last
	}
	wrong, err := v.records(e, from, hint, yield)
	if err != nil {
		return err
	}
	l.read.Store(&place{e.first, e.Count + 1, e.size})
	if from <= 1 {
		odd, err := v.misplaced(e, yield)
		return cmp.Or(err, wrong, odd)
	}
	return wrong
}

// records calls yield for the records from a number up to the ending. The hint is a place
// in the current segment to start from, if it fits. It reports errors of the files after
// it has read all that is there.
func (v *view) records(e ending, from uint64, hint place, yield func(uint64, []byte) error) (wrong, err error) {
	from = max(from, 1)
	if from > e.Count {
		return nil, nil
	}
	number, before := from, ""
	fits := func(name string, first uint64) {
		if wrong == nil && number != first {
			wrong = misfit(before, number, name, first)
		}
		number, before = first, name
	}
	if from < e.first {
		end, _ := slices.BinarySearch(v.old, e.first)
		i, found := slices.BinarySearch(v.old[:end], from)
		if !found && i > 0 {
			i--
			number = v.old[i]
		}
		for _, first := range v.old[i:end] {
			fits(v.log.segmentName(first), first)
			if number, err = v.readOld(first, first, from, yield); err != nil {
				return nil, err
			}
		}
		fits(v.log.curName, e.first)
	}
	if v.cur == nil {
		return wrong, nil
	}
	s := segment{name: v.log.curName, file: v.cur, number: e.first, end: e.size}
	if hint.first == e.first && hint.number <= from {
		s.number, s.at = hint.number, hint.offset
	}
	if from == e.Count && e.clean {
		s.skipToLast(e.Count)
	}
	if err := s.lines(from, yield); err != nil {
		return nil, err
	}
	if wrong == nil && s.number != e.Count+1 {
		wrong = fmt.Errorf("%s: ends with record %d, and by its head with %d; one of the two was changed", s.name, s.number-1, e.Count)
	}
	return wrong, nil
}

// misfit is the error for a segment that does not continue the one before it with the
// record of a number.
func misfit(before string, number uint64, name string, first uint64) error {
	switch {
	case first < number:
		return fmt.Errorf("%s: begins with record %d, and %s has it too; one of the two was changed", name, first, before)
	case before == "":
		return fmt.Errorf("%s: begins with record %d, and record %d is missing", name, first, number)
	}
	return fmt.Errorf("%s: begins with record %d, and %s ends with %d; what comes between is missing, or the head was changed", name, first, before, number-1)
}

// readOld reads one older segment and returns the number after it.
func (v *view) readOld(first, number, from uint64, yield func(uint64, []byte) error) (uint64, error) {
	file, size, err := v.openOld(first)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	s := segment{name: v.log.segmentName(first), file: file, number: number, end: size}
	err = s.lines(from, yield)
	return s.number, err
}

// misplaced calls yield for the lines of files that have names of segments but do not fit
// before the current one. It returns which files these are. They may be junk, or records
// that a changed head hides.
func (v *view) misplaced(e ending, yield func(uint64, []byte) error) (wrong, err error) {
	odd, number := v.odd, e.Count+1
	i, _ := slices.BinarySearch(v.old, e.first)
	for _, first := range v.old[i:] {
		odd = append(odd, v.log.segmentName(first))
		if number, err = v.readOld(first, number, number, yield); err != nil {
			return nil, err
		}
	}
	if len(odd) == 0 {
		return nil, nil
	}
	return fmt.Errorf("%s: no segment of this log has this name; move it away", odd[0]), nil
}

// A segment is read from a record at an offset to an end.
type segment struct {
	name    string
	file    *os.File
	number  uint64
	at, end int64
}

// skipToLast moves to the last record, which has this number, if its beginning is near
// the end. A segment may have many megabytes before it.
func (s *segment) skipToLast(number uint64) {
	tail := make([]byte, min(s.end-s.at, 64<<10))
	if _, err := s.file.ReadAt(tail, s.end-int64(len(tail))); err != nil || !bytes.HasSuffix(tail, []byte("\n")) {
		return
	}
	if i := bytes.LastIndexByte(tail[:len(tail)-1], '\n'); i >= 0 {
		s.number, s.at = number, s.end-int64(len(tail)-i-1)
	}
}

// lines calls yield for the records from a number on.
func (s *segment) lines(from uint64, yield func(uint64, []byte) error) error {
	if s.at >= s.end {
		return nil
	}
	in := io.NewSectionReader(s.file, s.at, s.end-s.at)
	buf := make([]byte, min(s.end-s.at, 256<<10))
	for have := 0; ; {
		n, err := io.ReadFull(in, buf[have:])
		ended := err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !ended {
			return trouble(s.name, err)
		}
		rest := buf[:have+n]
		for {
			i := bytes.IndexByte(rest, '\n')
			if i < 0 || i > maxRecord {
				break
			}
			if s.number >= from {
				if err := yield(s.number, rest[:i:i]); err != nil {
					return err
				}
			}
			s.number++
			rest = rest[i+1:]
		}
		switch {
		case len(rest) > maxRecord:
			return fmt.Errorf("%s: record %d is larger than %d bytes; it was changed", s.name, s.number, maxRecord)
		case ended && len(rest) > 0: // a record without its line end
			s.number++
			if s.number > from {
				return yield(s.number-1, rest)
			}
			return nil
		case ended:
			return nil
		case len(rest) == len(buf):
			buf = append(buf, make([]byte, len(buf))...)
		}
		have = copy(buf, rest)
	}
}

// interval is how often Watch checks the log.
const interval = 50 * time.Millisecond

// Watch implements Log.
func (l *fileLog) Watch(ctx context.Context, number uint64) error {
	tick := time.NewTimer(0)
	defer tick.Stop()
	seen := ""
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: record %d is not there: %w", l.name, number, context.Cause(ctx))
		case <-tick.C:
		}
		now := l.signature()
		if now != seen || now == "" {
			v, e, settled, err := l.look()
			if err != nil {
				return err
			}
			if v.close(); e.Count >= number {
				return nil
			}
			if seen = now; !settled {
				seen = ""
			}
		}
		tick.Reset(interval)
	}
}

// signature changes whenever the log does. It is empty if the log cannot be identified.
func (l *fileLog) signature() string {
	h, headed, err := l.readHead()
	if err != nil {
		return ""
	}
	is, err := l.folder.root.Lstat(l.curName)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprint(headed, h.count, h.first)
	}
	if err != nil {
		return ""
	}
	return fmt.Sprint(headed, h.count, h.first, is.Size(), is.ModTime().UnixNano())
}
