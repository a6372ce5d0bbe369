package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"
)

// A place is where a record begins in the segment whose first record is first.
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

// Read implements Log. It ends where the log did when it began.
func (l *fileLog) Read(from uint64, yield func(uint64, []byte) error) error {
	v, e, _, err := l.look()
	if err != nil {
		return err
	}
	defer v.close()
	hint := place{first: e.first, number: e.first}
	// Whoever follows a log goes on where the last Read ended.
	if last := l.read.Load(); last != nil && last.first == e.first && last.number <= e.Count+1 && v.endsLine(last.offset) {
		hint = *last
	}
	if err := v.records(e, from, hint, yield); err != nil {
		return err
	}
	l.read.Store(&place{e.first, e.Count + 1, e.size})
	return nil
}

// records calls yield for the records from a number on, up to the ending. The
// hint is a place in the current segment, to begin there where that is right.
func (v *view) records(e ending, from uint64, hint place, yield func(uint64, []byte) error) error {
	from = max(from, 1)
	if from > e.Count {
		return nil
	}
	number := from
	if from < e.first {
		var err error
		if number, err = v.oldRecords(e, from, yield); err != nil {
			return err
		}
		if number != e.first {
			return fmt.Errorf("%s: begins with record %d, and record %d is missing", v.log.current(), e.first, number)
		}
	}
	if v.cur == nil {
		return nil
	}
	s := segment{name: v.log.current(), file: v.cur, number: e.first, end: e.size}
	if hint.first == e.first && hint.number <= from {
		s.number, s.at = hint.number, hint.offset
	}
	if err := s.lines(from, yield); err != nil {
		return err
	}
	if s.number != e.Count+1 {
		return fmt.Errorf("%s: ends with record %d, and not %d as it should; it was changed", s.name, s.number-1, e.Count)
	}
	return nil
}

// oldRecords is records for the older segments. It returns the number of the
// record that comes after them.
func (v *view) oldRecords(e ending, from uint64, yield func(uint64, []byte) error) (uint64, error) {
	old := v.old
	for len(old) > 0 && old[len(old)-1] >= e.first { // not yet seen in the head
		old = old[:len(old)-1]
	}
	i, found := slices.BinarySearch(old, from)
	if !found {
		i--
	}
	if i < 0 {
		return 0, v.missing(from)
	}
	number := old[i]
	for _, first := range old[i:] {
		if number < first {
			return 0, v.missing(number)
		}
		if number > first {
			return 0, fmt.Errorf("%s: begins with record %d, and the segment before has it too; it was changed",
				v.log.segmentName(first), first)
		}
		file, size, err := v.openOld(first)
		if err != nil {
			return 0, err
		}
		s := segment{name: v.log.segmentName(first), file: file, number: first, end: size}
		err = s.lines(from, yield)
		file.Close()
		if err != nil {
			return 0, err
		}
		number = s.number
	}
	return number, nil
}

// missing is the error of a record that no segment has.
func (v *view) missing(number uint64) error {
	return fmt.Errorf("%s: missing, and record %d with it: %w", v.log.segmentName(number), number, fs.ErrNotExist)
}

// A segment is read from a record on, which begins at an offset, to an end.
type segment struct {
	name    string
	file    *os.File
	number  uint64
	at, end int64
}

// lines calls yield for the records from a number on, and counts over all.
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
		case ended && len(rest) > 0:
			return fmt.Errorf("%s: record %d is not whole; it was changed", s.name, s.number)
		case ended:
			return nil
		case len(rest) == len(buf):
			buf = append(buf, make([]byte, len(buf))...)
		}
		have = copy(buf, rest)
	}
}

// interval is how often Watch looks.
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
			count, settled, err := l.count()
			if err != nil {
				return err
			}
			if count >= number {
				return nil
			}
			if seen = now; !settled {
				seen = ""
			}
		}
		tick.Reset(interval)
	}
}

// count returns how many records there are, and whether that is all there is to
// see as long as no file changes.
func (l *fileLog) count() (uint64, bool, error) {
	v, e, settled, err := l.look()
	if err != nil {
		return 0, false, err
	}
	v.close()
	return e.Count, settled, nil
}

// signature changes whenever the log does. It is empty for one that cannot be
// told from another.
func (l *fileLog) signature() string {
	h, headed, err := l.readHead()
	if err != nil {
		return ""
	}
	is, err := l.folder.root.Lstat(l.current())
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprint(headed, h.count, h.first)
	}
	if err != nil {
		return ""
	}
	return fmt.Sprint(headed, h.count, h.first, is.Size(), is.ModTime().UnixNano())
}
