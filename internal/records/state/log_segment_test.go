package state_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/records/state"
)

// newSegmentedLog makes a log of six records in segments of two.
func newSegmentedLog(t *testing.T) (dir string, f *state.Dir) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "state")
	f = openDir(t, dir)
	l := openLog(t, f, 4)
	for _, r := range []string{"r1", "r2", "r3", "r4", "r5", "r6"} {
		if err := appendRecords(l, false, r); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"journal-000000000001.jsonl", "journal-000000000003.jsonl", "journal.head", "journal.jsonl"}
	if got := listNames(t, dir); !slices.Equal(got, want) {
		t.Fatalf("files %q, want %q", got, want)
	}
	return dir, f
}

const six = "r1 r2 r3 r4 r5 r6"

func TestSegments(t *testing.T) {
	_, f := newSegmentedLog(t)
	l := openLog(t, f, 4)
	if got, err := readRecords(l); got != six || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	for from := range uint64(9) {
		want, got := max(from, 1), uint64(0)
		err := l.Read(from, func(number uint64, record []byte) error {
			if number != want || string(record) != fmt.Sprintf("r%d", want) {
				t.Errorf("from %d: record %d is %q, want %d", from, number, record, want)
			}
			want, got = want+1, got+1
			return nil
		})
		if got != max(7-max(from, 1), 0)%7 && from < 7 || err != nil {
			t.Errorf("from %d: %d records, %v", from, got, err)
		}
	}
	if tail, err := l.Tail(); tail.Count != 6 || string(tail.Mark) != "r6" || err != nil {
		t.Errorf("tail %+v, %v", tail, err)
	}
	appendTwice(t, l, state.Tail{Count: 6, Mark: []byte("r6")}, six)
}

// TestSegmentKills checks a kill between any two steps to a new segment.
func TestSegmentKills(t *testing.T) {
	move := func(dir string) error {
		return os.Rename(filepath.Join(dir, "journal.jsonl"), filepath.Join(dir, "journal-000000000005.jsonl"))
	}
	start := func(text string) func(string) error {
		return func(dir string) error {
			return errors.Join(move(dir), os.WriteFile(filepath.Join(dir, "journal.jsonl"), []byte(text), 0o600))
		}
	}
	unheaded := func(dir string) error { return os.Remove(filepath.Join(dir, "journal.head")) }
	mark := []byte("r6")
	for name, c := range map[string]struct {
		do    func(dir string) error
		tail  state.Tail
		reads string
	}{
		"renamed":                     {move, state.Tail{Count: 6, Mark: mark}, six},
		"renamed, made anew":          {start(""), state.Tail{Count: 6, Mark: mark}, six},
		"renamed, made anew, torn":    {start("r"), state.Tail{Count: 6, Mark: mark, Torn: 1}, six},
		"renamed, made anew, beyond":  {start("r7\n"), state.Tail{Count: 7, Mark: mark, Beyond: [][]byte{[]byte("r7")}}, six + " r7"},
		"no head":                     {unheaded, state.Tail{Count: 6}, six},
		"renamed, no head":            {func(dir string) error { return errors.Join(move(dir), unheaded(dir)) }, state.Tail{Count: 6}, six},
		"renamed, made anew, no head": {func(dir string) error { return errors.Join(start("r7\n")(dir), unheaded(dir)) }, state.Tail{Count: 7}, six + " r7"},
		"the current segment is gone": {func(dir string) error { return os.Remove(filepath.Join(dir, "journal.jsonl")) }, state.Tail{Count: 4, Mark: mark, Lost: 2}, "r1 r2 r3 r4"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, f := newSegmentedLog(t)
			old := openLog(t, f, 100)
			if err := appendRecords(old, false); err != nil { // it keeps its files open
				t.Fatal(err)
			}
			if err := old.Append(false, func(state.Tail) ([][]byte, []byte, error) { return nil, mark, nil }); err != nil {
				t.Fatal(err)
			}
			if err := c.do(dir); err != nil {
				t.Fatal(err)
			}
			for _, l := range []state.Log{old, openLog(t, f, 100)} {
				if got, err := l.Tail(); !reflect.DeepEqual(got, c.tail) || err != nil {
					t.Errorf("tail %+v, %v, want %+v", got, err, c.tail)
				}
				if got, err := readRecords(l); got != c.reads || err != nil {
					t.Errorf("read %q, %v, want %q", got, err, c.reads)
				}
			}
			appendTwice(t, old, c.tail, c.reads)
		})
	}
}

// TestOldHead checks a head that a crash of the machine has set back by several segments.
func TestOldHead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	l := openLog(t, openDir(t, dir), 4)
	var heads [][]byte
	for i := range 6 {
		if err := appendRecords(l, true, fmt.Sprintf("r%d", i+1)); err != nil {
			t.Fatal(err)
		}
		head, err := os.ReadFile(filepath.Join(dir, "journal.head"))
		if err != nil {
			t.Fatal(err)
		}
		heads = append(heads, head)
	}
	for i, head := range heads[:5] {
		editFile(t, filepath.Join(dir, "journal.head"), func([]byte) []byte { return head })
		var beyond [][]byte
		for k := i + 2; k <= 6; k++ {
			beyond = append(beyond, fmt.Appendf(nil, "r%d", k))
		}
		want := state.Tail{Count: 6, Mark: fmt.Appendf(nil, "r%d", i+1), Beyond: beyond}
		if got, err := l.Tail(); !reflect.DeepEqual(got, want) || err != nil {
			t.Errorf("head of %d: %+v, %v, want %+v", i+1, got, err, want)
		}
		if got, err := readRecords(l); got != six || err != nil {
			t.Errorf("head of %d: read %q, %v", i+1, got, err)
		}
	}
	appendTwice(t, l, state.Tail{Count: 6, Mark: []byte("r5"), Beyond: [][]byte{[]byte("r6")}}, six)
}

// TestSegmentWaitsForMark checks that a kill at a new segment with records after the mark
// loses no record.
func TestSegmentWaitsForMark(t *testing.T) {
	dir, f := newSegmentedLog(t)
	editFile(t, filepath.Join(dir, "journal.jsonl"), func(d []byte) []byte { return append(d, "r7\n"...) })
	l := openLog(t, f, 4)
	if err := appendRecords(l, false, "r8"); err != nil {
		t.Fatal(err)
	}
	if got := listNames(t, dir); slices.Contains(got, "journal-000000000005.jsonl") {
		t.Errorf("a segment was closed before the mark covered it: %q", got)
	}
	if err := appendRecords(l, false, "r9"); err != nil {
		t.Fatal(err)
	}
	if got := listNames(t, dir); !slices.Contains(got, "journal-000000000005.jsonl") {
		t.Errorf("a segment was not closed: %q", got)
	}
	if got, err := readRecords(l); got != six+" r7 r8 r9" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
}

// TestMissingSegments checks that with missing files all existing records are read. An
// error names the file that does not fit, and the log continues.
func TestMissingSegments(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(dir string) error
		error []string
		reads string
	}{
		"the first is gone": {func(dir string) error { return os.Remove(filepath.Join(dir, "journal-000000000001.jsonl")) },
			[]string{"journal-000000000003.jsonl: begins with record 3", "record 1 is missing"}, "r3 r4 r5 r6"},
		"one is gone": {func(dir string) error { return os.Remove(filepath.Join(dir, "journal-000000000003.jsonl")) },
			[]string{"journal.jsonl: begins with record 5", "journal-000000000001.jsonl ends with 2"}, "r1 r2 r5 r6"},
		"one has a record less": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "journal-000000000001.jsonl"), []byte("r1\n"), 0o600)
		}, []string{"journal-000000000003.jsonl: begins with record 3", "journal-000000000001.jsonl ends with 1"}, "r1 r3 r4 r5 r6"},
		"one has a record more": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "journal-000000000001.jsonl"), []byte("r1\nr2\nr3\n"), 0o600)
		}, []string{"journal-000000000003.jsonl: begins with record 3", "journal-000000000001.jsonl has it too"}, "r1 r2 r3 r3 r4 r5 r6"},
		"one has lost its last line end": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "journal-000000000003.jsonl"), []byte("r3\nr4"), 0o600)
		}, nil, six},
		"the last has other lines": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "journal.jsonl"), []byte("r5_r6\n"), 0o600)
		}, nil, "r1 r2 r3 r4 r5_r6"}, // the tail reports that one is lost
		"a number that is none": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "journal-0000000000000.jsonl"), nil, 0o600)
		}, []string{"journal-0000000000000.jsonl"}, six},
	} {
		dir, f := newSegmentedLog(t)
		if err := c.do(dir); err != nil {
			t.Fatal(err)
		}
		l := openLog(t, f, 0)
		got, err := readAll(l)
		if got != c.reads || (err == nil) != (c.error == nil) {
			t.Errorf("%s: read %q, %v, want %q", name, got, err, c.reads)
		}
		for _, part := range c.error {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %q", name, err, part)
			}
		}
		if err := appendRecords(l, false, "x"); err != nil {
			t.Errorf("%s: append: %v", name, err)
		}
	}
}

// readAll returns all records, whatever their numbers.
func readAll(l state.Log) (string, error) {
	var out []string
	err := l.Read(1, func(_ uint64, record []byte) error { out = append(out, string(record)); return nil })
	return strings.Join(out, " "), err
}

// TestStraySegments checks files that have the name of a segment but are none. They stop
// nothing and are read last, and an error names them.
func TestStraySegments(t *testing.T) {
	for name, c := range map[string]struct {
		file  string
		text  func(current []byte) string
		reads string
	}{
		"empty":                    {segmentName(500), func([]byte) string { return "" }, six},
		"rubbish":                  {segmentName(500), func([]byte) string { return "rub\nbish" }, six + " rub bish"},
		"in the way":               {segmentName(5), func([]byte) string { return "rubbish\n" }, six + " rubbish"},
		"in the way, short":        {segmentName(5), func([]byte) string { return "x\n" }, six + " x"},
		"in the way, empty":        {segmentName(5), func([]byte) string { return "" }, six},
		"a copy, in the way":       {segmentName(5), func(d []byte) string { return string(d) }, six + " r5 r6"},
		"in the way, alike":        {segmentName(5), func([]byte) string { return "x5\nx6\nx7\nx8\nx9\n" }, six + " x5 x6 x7 x8 x9"},
		"the next number":          {segmentName(7), func([]byte) string { return "rubbish\n" }, six + " rubbish"},
		"a number beyond all":      {"journal-9999999999999999999.jsonl", func([]byte) string { return "x\n" }, six},
		"a number written at ease": {"journal-0000000000005.jsonl", func([]byte) string { return "x\n" }, six},
	} {
		t.Run(name, func(t *testing.T) {
			dir, f := newSegmentedLog(t)
			l, current := openLog(t, f, 4), filepath.Join(dir, "journal.jsonl")
			data, err := os.ReadFile(current)
			if err := errors.Join(err, os.WriteFile(filepath.Join(dir, c.file), []byte(c.text(data)), 0o600)); err != nil {
				t.Fatal(err)
			}
			if tail, err := l.Tail(); !reflect.DeepEqual(tail, state.Tail{Count: 6, Mark: []byte("r6")}) || err != nil {
				t.Errorf("tail %+v, %v", tail, err)
			}
			if got, err := readAll(l); got != c.reads || err == nil || !strings.HasPrefix(err.Error(), c.file+": ") {
				t.Errorf("read %q, %v, want %q and an error about %s", got, err, c.reads, c.file)
			}
			for _, record := range []string{"r7", "r8", "r9"} {
				if err := appendRecords(l, true, record); err != nil {
					t.Errorf("append: %v", err)
				}
			}
			if got, _ := readAll(l); !strings.HasPrefix(got, six+" r7 r8 r9") {
				t.Errorf("read %q after three more", got)
			}
			if err := os.Remove(filepath.Join(dir, c.file)); err != nil {
				t.Fatal(err)
			}
			if got, err := readRecords(openLog(t, f, 4)); got != six+" r7 r8 r9" || err != nil {
				t.Errorf("read %q, %v after the stray file is gone", got, err)
			}
		})
	}
}

// TestForgedHead checks that a forged head with a valid checksum hides no existing
// record.
func TestForgedHead(t *testing.T) {
	for name, h := range map[string]struct {
		count, first uint64
		size         int64
	}{
		"first too high":   {1_000_005, 1_000_000, 6},
		"first too low":    {2, 1, 6},
		"first in between": {3, 2, 6},
		"first of another": {4, 3, 6},
		"count too low":    {5, 5, 6},
		"count too high":   {10, 5, 6},
		"all denied":       {0, 1, 0},
		"size too large":   {6, 5, 1 << 40},
		"size too small":   {6, 5, 3},
		"no end of a line": {6, 5, 2},
	} {
		dir, f := newSegmentedLog(t)
		editFile(t, filepath.Join(dir, "journal.head"), func([]byte) []byte { return state.Slot(h.count, h.first, h.size) })
		l := openLog(t, f, 0)
		got, err := readAll(l)
		for _, record := range strings.Fields(six) {
			if !strings.Contains(got, record) {
				t.Errorf("%s: %s is hidden: read %q, %v", name, record, got, err)
			}
		}
		if err := appendRecords(l, true, "x"); err != nil {
			t.Errorf("%s: append: %v", name, err)
		}
		if got, _ := readAll(l); !strings.Contains(got, "r5 r6 x") {
			t.Errorf("%s: read %q after one more", name, got)
		}
	}
}

func segmentName(first uint64) string { return fmt.Sprintf("journal-%012d.jsonl", first) }
