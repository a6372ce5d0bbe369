package state_test

import (
	"bytes"
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

func openLog(t testing.TB, f *state.Dir, segment int64) state.Log {
	t.Helper()
	l, err := f.Log("journal", segment)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// appendRecords appends records, with the last one as the mark, cut to the length of a mark.
func appendRecords(l state.Log, sync bool, records ...string) error {
	return l.Append(sync, func(state.Tail) (out [][]byte, mark []byte, _ error) {
		for _, r := range records {
			mark = []byte(r)[:min(len(r), 256)]
			out = append(out, []byte(r))
		}
		return out, mark, nil
	})
}

// readRecords returns the records of a log, separated by spaces.
func readRecords(l state.Log) (string, error) {
	var out []string
	next := uint64(1)
	err := l.Read(1, func(number uint64, record []byte) error {
		if number != next {
			return fmt.Errorf("number %d, want %d", number, next)
		}
		next++
		out = append(out, string(record))
		return nil
	})
	return strings.Join(out, " "), err
}

// editFile changes a file.
func editFile(t testing.TB, name string, change func(data []byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, change(data), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func listNames(t testing.TB, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// TestReadingCreatesNothing checks that reading an empty state creates no files.
func TestReadingCreatesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	f := openDir(t, dir)
	l := openLog(t, f, 0)
	once, _ := f.Once("answers")
	blobs, _ := f.Blobs("staged")
	if got, err := readRecords(l); got != "" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if tail, err := l.Tail(); tail.Count != 0 || err != nil {
		t.Errorf("tail %+v, %v", tail, err)
	}
	no := errors.New("no")
	if _, ok, err := once.Look("k"); ok || err != nil {
		t.Errorf("look: %t, %v", ok, err)
	}
	if err := once.Forget("k"); err != nil {
		t.Error(err)
	}
	if _, err := blobs.Get(strings.Repeat("0", 64), 1); err == nil {
		t.Error("got content that was not stored")
	}
	if got := listNames(t, dir); got != nil {
		t.Errorf("reading created %q", got)
	}
	if err := l.Append(true, func(state.Tail) ([][]byte, []byte, error) { return nil, nil, no }); err != no {
		t.Error(err)
	}
	if got := listNames(t, dir); !slices.Equal(got, []string{"journal.head", "journal.jsonl"}) {
		t.Errorf("an Append of nothing has left %q", got)
	}
}

// TestRecordsAreLines checks which records a log accepts.
func TestRecordsAreLines(t *testing.T) {
	l := openLog(t, openDir(t, filepath.Join(t.TempDir(), "state")), 0)
	big := strings.Repeat("x", 16<<20)
	if err := appendRecords(l, false, "a"); err != nil {
		t.Fatal(err)
	}
	for name, records := range map[string][]string{
		"empty": {"b", ""}, "two lines": {"b", "c\nd"}, "too large": {"b", big + "x"}, "too many": {big, big, big, big},
	} {
		if err := appendRecords(l, false, records...); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	long := make([]byte, 257)
	if err := l.Append(false, func(state.Tail) ([][]byte, []byte, error) { return [][]byte{{'b'}}, long, nil }); err == nil {
		t.Error("a mark of 257 bytes: no error")
	}
	if got, err := readRecords(l); got != "a" || err != nil {
		t.Errorf("read %.30q, %v", got, err)
	}
	err := l.Append(false, func(state.Tail) ([][]byte, []byte, error) { return [][]byte{[]byte(big)}, nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readRecords(l); got != "a "+big || err != nil {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
}

// TestTails checks the files that crashes and accidents leave: the tail that the log
// reports, the records that can be read, and the result after two more records.
func TestTails(t *testing.T) {
	cut := func(n int) func([]byte) []byte { return func(d []byte) []byte { return d[:len(d)-n] } }
	put := func(text string) func([]byte) []byte { return func(d []byte) []byte { return append(d, text...) } }
	flip := func(at int) func([]byte) []byte { return func(d []byte) []byte { d[at] ^= 1; return d } }
	set := func(text string) func([]byte) []byte { return func([]byte) []byte { return []byte(text) } }
	const three = "one two three"
	for _, c := range []struct {
		name, file string
		change     func([]byte) []byte
		want       state.Tail // the mark is three unless the log is damaged
		reads      string
		damaged    bool
		more       string // appended to the records
	}{
		{name: "nothing", file: "jsonl", change: put(""), want: state.Tail{Count: 3}, reads: three},
		{name: "torn", file: "jsonl", change: put("fo"), want: state.Tail{Count: 3, Torn: 2}, reads: three},
		{name: "beyond", file: "jsonl", change: put("four\n"),
			want: state.Tail{Count: 4, Beyond: [][]byte{[]byte("four")}}, reads: three + " four"},
		{name: "beyond and torn", file: "jsonl", change: put("four\nfive\n\x00\x00\x00"),
			want: state.Tail{Count: 5, Beyond: [][]byte{[]byte("four"), []byte("five")}, Torn: 3}, reads: three + " four five"},
		{name: "a lost end", file: "jsonl", change: cut(2), want: state.Tail{Count: 3}, reads: "one two thre"},
		{name: "without its last line end", file: "jsonl", change: cut(1), want: state.Tail{Count: 3}, reads: three},
		{name: "a lost end, and more before", file: "jsonl", change: set("one\nand some more\ntwo\nthr"),
			want: state.Tail{Count: 4, Beyond: [][]byte{[]byte("thr")}}, reads: "one and some more two thr"},
		{name: "two lost ends", file: "jsonl", change: cut(len("\nthree\n")), want: state.Tail{Count: 2, Lost: 1}, reads: "one two"},
		{name: "lost", file: "jsonl", change: cut(len("two\nthree\n")), want: state.Tail{Count: 1, Lost: 2}, reads: "one"},
		{name: "all lost", file: "jsonl", change: set(""), want: state.Tail{Lost: 3}},
		{name: "zeros", file: "jsonl", change: set(strings.Repeat("\x00", 14)), want: state.Tail{Count: 1, Lost: 2}, reads: strings.Repeat("\x00", 14)},
		{name: "a line in between", file: "jsonl", change: set("one\n1\ntwo\nthree\n"),
			want: state.Tail{Count: 4, Beyond: [][]byte{[]byte("three")}}, reads: "one 1 two three"},
		{name: "no head to say what is torn", file: "head", change: set(""), more: "fo", want: state.Tail{Count: 4}, reads: three + " fo", damaged: true},
		{name: "a short head", file: "head", change: cut(1), want: state.Tail{Count: 3}, reads: three, damaged: true},
		{name: "an empty head", file: "head", change: set(""), want: state.Tail{Count: 3}, reads: three, damaged: true},
		{name: "a changed count", file: "head", change: flip(12), want: state.Tail{Count: 3}, reads: three, damaged: true},
		{name: "a changed mark", file: "head", change: flip(40), want: state.Tail{Count: 3}, reads: three, damaged: true},
		{name: "another head", file: "head", change: set(strings.Repeat("x", 9999)), want: state.Tail{Count: 3}, reads: three, damaged: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			f := openDir(t, dir)
			l := openLog(t, f, 0)
			if err := errors.Join(appendRecords(l, true, "one"), appendRecords(l, false, "two", "three")); err != nil {
				t.Fatal(err)
			}
			editFile(t, filepath.Join(dir, "journal."+c.file), c.change)
			editFile(t, filepath.Join(dir, "journal.jsonl"), put(c.more))
			if !c.damaged {
				c.want.Mark = []byte("three")
			}
			before, err := os.ReadFile(filepath.Join(dir, "journal.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range []state.Log{l, openLog(t, f, 0)} {
				if got, err := l.Tail(); !reflect.DeepEqual(got, c.want) || err != nil {
					t.Errorf("tail %+v, %v, want %+v", got, err, c.want)
				}
				if got, err := readRecords(l); got != c.reads || err != nil {
					t.Errorf("read %q, %v, want %q", got, err, c.reads)
				}
			}
			if after, _ := os.ReadFile(filepath.Join(dir, "journal.jsonl")); !bytes.Equal(after, before) {
				t.Errorf("after a read the file is %q, before %q", after, before)
			}
			if c.name == "zeros" { // a crash of the machine leaves this, not a killed process
				l = openLog(t, f, 0)
			}
			appendTwice(t, l, c.want, c.reads)
		})
	}
}

// appendTwice appends twice to a log with a tail.
func appendTwice(t *testing.T, l state.Log, tail state.Tail, reads string) {
	t.Helper()
	for i, record := range []string{"x", "y"} {
		err := l.Append(i == 0, func(got state.Tail) ([][]byte, []byte, error) {
			if !reflect.DeepEqual(got, tail) {
				t.Errorf("the callback got %+v, want %+v", got, tail)
			}
			return [][]byte{[]byte(record)}, []byte("mark " + record), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		tail = state.Tail{Count: tail.Count + 1, Mark: []byte("mark " + record)}
		reads = strings.TrimSpace(reads + " " + record)
	}
	if got, err := l.Tail(); !reflect.DeepEqual(got, tail) || err != nil {
		t.Errorf("after the repair the tail is %+v, %v, want %+v", got, err, tail)
	}
	if got, err := readRecords(l); got != reads || err != nil {
		t.Errorf("repaired, read %q, %v, want %q", got, err, reads)
	}
}

// TestDeletedFiles checks a log in use whose files are deleted.
func TestDeletedFiles(t *testing.T) {
	for _, name := range []string{"head", "jsonl"} {
		dir := filepath.Join(t.TempDir(), "state")
		f := openDir(t, dir)
		l, other := openLog(t, f, 0), openLog(t, f, 0)
		if err := errors.Join(appendRecords(l, false, "a"), appendRecords(other, false, "b")); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, "journal."+name)); err != nil {
			t.Fatal(err)
		}
		want := "a b c d e"
		if name == "jsonl" {
			want = "c d e"
		}
		if err := errors.Join(appendRecords(l, false, "c"), appendRecords(other, false, "d"), appendRecords(openLog(t, f, 0), false, "e")); err != nil {
			t.Fatal(err)
		}
		for _, l := range []state.Log{l, other} {
			if got, err := readRecords(l); got != want || err != nil {
				t.Errorf("%s: read %q, %v, want %q", name, got, err, want)
			}
		}
	}
}

// TestHugeRecords checks the limits for the size of records.
func TestHugeRecords(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	l := openLog(t, openDir(t, dir), 0)
	if err := appendRecords(l, false, "one"); err != nil {
		t.Fatal(err)
	}
	current := filepath.Join(dir, "journal.jsonl")
	editFile(t, current, func(d []byte) []byte { return append(append(d, make([]byte, 17<<20)...), '\n') })
	if _, err := readRecords(l); err == nil || !strings.Contains(err.Error(), "without a line end") {
		t.Errorf("a record of 17 MiB: %v", err)
	}
	// More bytes after the mark than the log ever reads into memory.
	editFile(t, current, func([]byte) []byte {
		return bytes.Repeat(append(bytes.Repeat([]byte("x"), 1<<20), '\n'), 66)
	})
	head := filepath.Join(dir, "journal.head")
	for range 2 {
		_, err := l.Tail()
		if err == nil || !strings.Contains(err.Error(), "move the head away") {
			t.Errorf("66 MiB after the mark: %v", err)
		}
		if err := appendRecords(l, false, "two"); err == nil {
			t.Error("66 MiB after the mark: got no error")
		}
	}
	if err := os.Remove(head); err != nil {
		t.Fatal(err)
	}
	if err := appendRecords(l, false, "two"); err != nil {
		t.Error(err)
	}
	if tail, err := l.Tail(); tail.Count != 67 || err != nil {
		t.Errorf("%d records, %v, want 67", tail.Count, err)
	}
}

// TestSparseFiles checks that a file larger than any log, without data, is reported at
// once.
func TestSparseFiles(t *testing.T) {
	const tera = 1 << 40
	for name, c := range map[string]struct {
		file   string
		unhead bool
		error  string
	}{
		"behind the head": {"journal.jsonl", false, "journal.jsonl: more behind what journal.head counts"},
		"without a head":  {"journal.jsonl", true, "journal.jsonl: more than 16777216 bytes without a line end"},
		"an old segment":  {"journal-000000000003.jsonl", true, "journal-000000000003.jsonl: more than 16777216 bytes without a line end"},
	} {
		dir, f := newSegmentedLog(t)
		if err := os.Truncate(filepath.Join(dir, c.file), tera); err != nil {
			t.Fatal(err)
		}
		if c.unhead {
			os.Remove(filepath.Join(dir, "journal.head"))
		}
		l := openLog(t, f, 0)
		_, tail := l.Tail()
		_, all := readRecords(l)
		for what, err := range map[string]error{"tail": tail, "read": all, "append": appendRecords(l, false, "x")} {
			if err == nil || !strings.HasPrefix(err.Error(), c.error) || !strings.Contains(err.Error(), "away") {
				t.Errorf("%s: %s: %v, want %q", name, what, err, c.error)
			}
		}
	}
}

// TestManyShortRecords checks that the memory limit counts the overhead of short records.
func TestManyShortRecords(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	l := openLog(t, openDir(t, dir), 0)
	if err := appendRecords(l, false, "one"); err != nil {
		t.Fatal(err)
	}
	const many = 2_000_000
	records := make([][]byte, many)
	for i := range records {
		records[i] = []byte("x")
	}
	if err := l.Append(false, func(state.Tail) ([][]byte, []byte, error) { return records, nil, nil }); err == nil {
		t.Error("more records at once than could be held after a crash")
	}
	editFile(t, filepath.Join(dir, "journal.jsonl"), func(d []byte) []byte { return append(d, strings.Repeat("x\n", many)...) })
	if tail, err := l.Tail(); err == nil || !strings.Contains(err.Error(), "move the head away") {
		t.Errorf("%d records after the mark: %v", len(tail.Beyond), err)
	}
}
