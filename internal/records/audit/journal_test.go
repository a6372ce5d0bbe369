package audit_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/sandbox"
)

// clock is the time of every record here.
func clock() time.Time { return time.Date(2026, 11, 15, 10, 42, 0, 123456789, time.UTC) }

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openState(t testing.TB, dir string) *state.Dir {
	t.Helper()
	f, err := state.Open(dir)
	ok(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// openJournal opens the journal of a directory with options.
func openJournal(t testing.TB, dir string, o audit.Options) *audit.Journal {
	t.Helper()
	if o.Now == nil {
		o.Now = clock
	}
	j, err := audit.Open(openState(t, dir), o)
	ok(t, err)
	t.Cleanup(func() { j.Close() })
	return j
}

func newIntent(call string) audit.Record {
	return audit.Record{
		Kind: audit.Intent, Call: call, Origin: "model", Workers: []string{"main", "writer"}, Tool: "write_file",
		Args: map[string]any{"path": "/out/a.md", "bytes": 12}, Effects: []string{"write /out/a.md"}, Decision: "yes", By: "the user",
	}
}

func newOutcome(call string) audit.Record { return audit.Record{Kind: audit.Outcome, Call: call} }

// fill writes n calls, an intent and an outcome each, and closes the journal.
func fill(t testing.TB, dir string, n int, o audit.Options) {
	t.Helper()
	j := openJournal(t, dir, o)
	for i := range n {
		call := fmt.Sprint("call", i)
		ok(t, j.Write(newIntent(call), audit.Durable))
		ok(t, j.Write(newOutcome(call), audit.Written))
	}
	ok(t, j.Close())
}

func verify(t testing.TB, dir string) audit.Report {
	t.Helper()
	f, err := state.Open(dir)
	ok(t, err)
	defer f.Close()
	r, err := audit.Verify(context.Background(), f, nil)
	ok(t, err)
	return r
}

// checkWhole fails the test unless the journal has n records and is unchanged.
func checkWhole(t testing.TB, dir string, n uint64) audit.Report {
	t.Helper()
	r := verify(t, dir)
	if r.Bad != nil || r.Records != n {
		t.Fatalf("got %d records, bad: %v, want %d whole ones", r.Records, r.Bad, n)
	}
	return r
}

// readRecords returns the records and lines that a filter selects.
func readRecords(t testing.TB, dir string, f audit.Filter) (rs []audit.Record, lines []string) {
	t.Helper()
	ok(t, audit.Read(openState(t, dir), f, func(r audit.Record, line []byte) error {
		rs, lines = append(rs, r), append(lines, string(line))
		return nil
	}))
	return rs, lines
}

// TestLayout checks that a line has the documented layout, and that the chain of an
// export can be checked without the key.
func TestLayout(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir, audit.Options{Session: "s1"})
	ok(t, j.Write(newIntent("c1"), audit.Durable))
	ok(t, j.Write(audit.Record{Kind: audit.Outcome, Call: "c1", Note: `a "quoted" <&> note` + "\nwith\xff\x00 bytes"}, audit.Written))
	ok(t, j.Close())
	_, lines := readRecords(t, dir, audit.Filter{})
	want := `{"n":1,"time":"2026-11-15T10:42:00.123456789Z","kind":"intent","call":"c1","session":"s1","origin":"model",` +
		`"workers":["main","writer"],"tool":"write_file","args":{"bytes":12,"path":"/out/a.md"},"effects":["write /out/a.md"],` +
		`"decision":"yes","by":"the user","prev":"` + strings.Repeat("0", 64) + `","seal":"`
	if len(lines) != 2 || !strings.HasPrefix(lines[0], want) {
		t.Fatalf("got %s, want %s…", lines, want)
	}
	file, err := os.ReadFile(filepath.Join(dir, "journal.jsonl"))
	ok(t, err)
	if got := string(file); got != strings.Join(lines, "\n")+"\n" {
		t.Errorf("the file is not the lines: %s", got)
	}
	ending := regexp.MustCompile(`,"prev":"[0-9a-f]{64}","seal":"[0-9a-f]{64}"}$`)
	for i, line := range lines {
		var r audit.Record
		ok(t, json.Unmarshal([]byte(line), &r))
		if !ending.MatchString(line) || r.Number != uint64(i+1) {
			t.Errorf("line %d: %s", i+1, line)
		}
		if i > 0 && r.Prev != fmt.Sprintf("%x", sha256.Sum256([]byte(lines[i-1]))) {
			t.Errorf("line %d is not chained to the one before", i+1)
		}
	}
	if r := checkWhole(t, dir, 2); !r.Head.Equal(clock()) || r.Open != nil || r.Repairs != nil {
		t.Errorf("got %+v", r)
	}
}

// TestNoJournal checks that reading creates no journal.
func TestNoJournal(t *testing.T) {
	dir := t.TempDir()
	if r := checkWhole(t, dir, 0); r.Bad != nil || r.Records != 0 {
		t.Errorf("got %+v", r)
	}
	if rs, _ := readRecords(t, dir, audit.Filter{}); rs != nil {
		t.Errorf("got %v", rs)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("reading created %v", left)
	}
	openJournal(t, dir, audit.Options{})
	checkWhole(t, dir, 0)
	err := filepath.Walk(dir, func(name string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %s", name, info.Mode())
		}
		return err
	})
	ok(t, err)
}

// TestMissingKey checks that a journal without its key is reported, and gets no new key.
func TestMissingKey(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, 2, audit.Options{})
	keyFile := filepath.Join(dir, "journal.key")
	old, err := os.ReadFile(keyFile)
	ok(t, err)
	for name, change := range map[string]func() error{
		"removed": func() error { return os.Remove(keyFile) },
		"emptied": func() error { return os.WriteFile(keyFile, nil, 0o600) },
		"damaged": func() error { return os.WriteFile(keyFile, append([]byte("x"), old[1:]...), 0o600) },
	} {
		ok(t, change())
		f := openState(t, dir)
		if _, err := audit.Open(f, audit.Options{Now: clock}); err == nil || !strings.Contains(err.Error(), "journal.key: ") {
			t.Errorf("%s: Open: got %v, want an error about the key", name, err)
		}
		if _, err := audit.Verify(context.Background(), f, nil); err == nil || !strings.Contains(err.Error(), "journal.key: ") {
			t.Errorf("%s: Verify: got %v, want an error about the key", name, err)
		}
		ok(t, os.WriteFile(keyFile, old, 0o600))
		checkWhole(t, dir, 4)
	}
	ok(t, os.WriteFile(keyFile, []byte(strings.Repeat("ab", 32)+"\n"), 0o600))
	if r := verify(t, dir); r.Bad == nil || r.Bad.Number != 1 {
		t.Errorf("another key: got %v, want a bad record 1", r.Bad)
	}
}

// TestQueuedRecords checks that queued records are written in order, before any record that a
// caller waits for, and when the journal is closed.
func TestQueuedRecords(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir, audit.Options{})
	for i := range 3 {
		ok(t, j.Write(newOutcome(fmt.Sprint("q", i)), audit.Queued))
	}
	checkWhole(t, dir, 0)
	ok(t, j.Write(newOutcome("w"), audit.Written))
	ok(t, j.Write(newOutcome("last"), audit.Queued))
	checkWhole(t, dir, 4)
	ok(t, j.Close())
	checkWhole(t, dir, 5)
	rs, _ := readRecords(t, dir, audit.Filter{})
	var got []string
	for _, r := range rs {
		got = append(got, r.Call)
	}
	if want := []string{"q0", "q1", "q2", "w", "last"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if err := j.Write(newOutcome("x"), audit.Queued); err == nil {
		t.Error("a closed journal accepts records")
	}
	ok(t, j.Close())
}

// TestQueueIsLimited checks that the caller who would exceed the limit of the queue
// writes it.
func TestQueueIsLimited(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir, audit.Options{})
	note := strings.Repeat("note ", 200)
	const n = 1500
	for range n {
		ok(t, j.Write(audit.Record{Kind: audit.Refusal, Note: note}, audit.Queued))
	}
	if got := verify(t, dir).Records; got == 0 || got >= n {
		t.Errorf("%d of %d records that nobody waits for are written, want some and not all", got, n)
	}
	ok(t, j.Close())
	checkWhole(t, dir, n)
}

// TestKinds checks that Write refuses unknown kinds and those that only the journal writes.
func TestKinds(t *testing.T) {
	j := openJournal(t, t.TempDir(), audit.Options{})
	for _, kind := range []audit.Kind{"", "other", audit.Repair} {
		if err := j.Write(audit.Record{Kind: kind}, audit.Written); !errors.Is(err, sandbox.ErrInvalid) {
			t.Errorf("kind %q: got %v, want %s", kind, err, sandbox.ErrInvalid)
		}
	}
}

// TestManyCallers checks that goroutines can share a journal: each record exists once,
// and is there when Write has returned.
func TestManyCallers(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir, audit.Options{})
	const callers, each = 32, 50
	var group sync.WaitGroup
	for c := range callers {
		group.Go(func() {
			for i := range each {
				call := fmt.Sprintf("%d-%d", c, i)
				if err := j.Write(newIntent(call), audit.Wait(i%3)); err != nil {
					t.Error(err)
				}
				if i == 22 || i == 23 { // one is Written, one Durable
					if rs, _ := readRecords(t, dir, audit.Filter{Call: call}); len(rs) != 1 {
						t.Errorf("caller %d: a written record is there %d times", c, len(rs))
					}
				}
			}
		})
	}
	group.Wait()
	ok(t, j.Close())
	r := checkWhole(t, dir, callers*each)
	if len(r.Open) != callers*each {
		t.Errorf("got %d calls without outcome, want %d", len(r.Open), callers*each)
	}
	seen := map[string]bool{}
	rs, _ := readRecords(t, dir, audit.Filter{})
	for _, r := range rs {
		seen[r.Call] = true
	}
	if len(seen) != callers*each {
		t.Errorf("got %d calls, want %d", len(seen), callers*each)
	}
}

// TestGroupCommit checks that callers who wait during a write are written together, and
// synced if one of them needs it.
func TestGroupCommit(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir, audit.Options{})
	var syncs []bool
	entered, leave := make(chan struct{}), make(chan struct{})
	j.BeforeAppend(func(sync bool) {
		if syncs = append(syncs, sync); len(syncs) == 1 {
			close(entered)
			<-leave
		}
	})
	var group sync.WaitGroup
	write := func(call string, wait audit.Wait) {
		if err := j.Write(newOutcome(call), wait); err != nil {
			t.Error(err)
		}
	}
	group.Go(func() { write("first", audit.Written) })
	<-entered
	for i := range 20 {
		wait := audit.Written
		if i == 7 {
			wait = audit.Durable
		}
		group.Go(func() { write(fmt.Sprint(i), wait) })
	}
	for j.Waiting() < 20 {
		runtime.Gosched()
	}
	close(leave)
	group.Wait()
	write("queued", audit.Queued)
	write("last", audit.Written)
	ok(t, j.Close())
	if want := []bool{false, true, false, true}; !slices.Equal(syncs, want) {
		t.Errorf("appended with sync %v, want %v: the first, the waiting ones, the last, the end", syncs, want)
	}
	checkWhole(t, dir, 23)
}

// TestOpenIntents checks that a call without an outcome is reported with its session.
func TestOpenIntents(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir, audit.Options{Session: "one"})
	for _, r := range []audit.Record{
		newIntent("a"), newIntent(`b"\`), newOutcome("a"),
		{Kind: audit.Intent, Call: "a", Session: "two", Tool: "shell"},
		{Kind: audit.Refusal, Call: `b"\`}, {Kind: audit.Intent, Note: "no call"},
	} {
		ok(t, j.Write(r, audit.Written))
	}
	got := checkWhole(t, dir, 6).Open
	want := []audit.Unfinished{{Number: 2, Time: clock(), Call: `b"\`, Tool: "write_file"}, {Number: 4, Time: clock(), Call: "a", Tool: "shell"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestSegments checks that a journal in many small files is one journal.
func TestSegments(t *testing.T) {
	dir := t.TempDir()
	for range 3 {
		fill(t, dir, 20, audit.Options{Segment: 2000})
	}
	files, err := filepath.Glob(filepath.Join(dir, "journal-*.jsonl"))
	ok(t, err)
	if len(files) < 10 {
		t.Fatalf("got %d files, want more", len(files))
	}
	checkWhole(t, dir, 120)
	if rs, _ := readRecords(t, dir, audit.Filter{}); len(rs) != 120 {
		t.Errorf("read %d records, want 120", len(rs))
	}
	ok(t, os.Rename(files[3], filepath.Join(t.TempDir(), "gone")))
	var first uint64
	fmt.Sscanf(filepath.Base(files[3]), "journal-%d.jsonl", &first)
	if r := verify(t, dir); r.Bad == nil || r.Bad.Number != first {
		t.Errorf("a file is gone: got %v, want record %d to be bad", r.Bad, first)
	}
}

// TestKeyBeforeFirstRecord checks that a crash before the key and any record were written
// does not count as a missing key.
func TestKeyBeforeFirstRecord(t *testing.T) {
	dir := t.TempDir()
	ok(t, openJournal(t, dir, audit.Options{}).Close())
	ok(t, os.Remove(filepath.Join(dir, "journal.key")))
	checkWhole(t, dir, 0)
	fill(t, dir, 1, audit.Options{})
	checkWhole(t, dir, 2)
}

// TestFilter checks which records a filter selects.
func TestFilter(t *testing.T) {
	dir := t.TempDir()
	now := clock()
	j := openJournal(t, dir, audit.Options{Session: "s", Now: func() time.Time { now = now.Add(time.Minute); return now }})
	effect := func(e string) audit.Record {
		return audit.Record{Kind: audit.Intent, Call: e, Workers: []string{"main"}, Effects: []string{"read /x", e}}
	}
	for _, r := range []audit.Record{
		newIntent("1"), {Kind: audit.Refusal, Call: "2", Tool: "shell", Decision: "blocked", Note: "/out main s1"},
		effect("write /out"), effect("delete /out/sub/b"), effect("write /output"), effect("connect /out"), effect(`write /o"t/a`),
		{Kind: audit.Answer, Call: "8", Session: "s2", Request: "r1", Origin: "user"},
	} {
		ok(t, j.Write(r, audit.Written))
	}
	for _, c := range []struct {
		name string
		f    audit.Filter
		want string
	}{
		{"all", audit.Filter{}, "1 2 3 4 5 6 7 8"},
		{"since", audit.Filter{Since: clock().Add(7 * time.Minute)}, "7 8"},
		{"until", audit.Filter{Until: clock().Add(3 * time.Minute)}, "1 2"},
		{"worker", audit.Filter{Worker: "main"}, "1 3 4 5 6 7"},
		{"worker below", audit.Filter{Worker: "writer"}, "1"},
		{"tool", audit.Filter{Tool: "shell"}, "2"},
		{"path", audit.Filter{Path: "/out"}, "1 3 4"},
		{"path with slash", audit.Filter{Path: "/out/"}, "1 3 4"},
		{"path below", audit.Filter{Path: "/out/sub"}, "4"},
		{"path of all", audit.Filter{Path: "/"}, "1 3 4 5 6 7"},
		{"path with a quote", audit.Filter{Path: `/o"t`}, "7"},
		{"decision", audit.Filter{Decision: "blocked"}, "2"},
		{"session", audit.Filter{Session: "s2"}, "8"},
		{"kind", audit.Filter{Kind: "refusal"}, "2"},
		{"request", audit.Filter{Request: "r1"}, "8"},
		{"origin", audit.Filter{Origin: "user"}, "8"},
		{"call", audit.Filter{Call: "2"}, "2"},
		{"two", audit.Filter{Worker: "main", Path: "/output"}, "5"},
		{"none", audit.Filter{Tool: "write"}, ""},
	} {
		var got []string
		rs, _ := readRecords(t, dir, c.f)
		for _, r := range rs {
			got = append(got, fmt.Sprint(r.Number))
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
		for n := range 10 {
			last := readLast(t, dir, c.f, n)
			if want := got[max(0, len(got)-n):]; !slices.Equal(last, want) {
				t.Errorf("%s, the last %d: got %q, want %q", c.name, n, last, want)
			}
		}
	}
	stop := errors.New("stop")
	err := audit.Read(openState(t, dir), audit.Filter{}, func(audit.Record, []byte) error { return stop })
	if err != stop {
		t.Errorf("yield's error: got %v", err)
	}
}

// readLast returns the numbers of the last records that a filter selects.
func readLast(t testing.TB, dir string, f audit.Filter, n int) (numbers []string) {
	t.Helper()
	ok(t, audit.Last(openState(t, dir), f, n, func(r audit.Record, line []byte) error {
		if !bytes.HasPrefix(line, fmt.Appendf(nil, `{"n":%d,`, r.Number)) {
			t.Errorf("record %d has the line %s", r.Number, line)
		}
		numbers = append(numbers, fmt.Sprint(r.Number))
		return nil
	}))
	return numbers
}

// TestLast checks that the last records are found at any distance from the end, in any
// file.
func TestLast(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir, audit.Options{Segment: 200_000})
	const n = 12_000 // more than two of the parts that Last reads at once
	for i := range n {
		r := newOutcome("common")
		if i%2_500 == 0 {
			r.Call = "rare"
		}
		ok(t, j.Write(r, audit.Queued))
	}
	ok(t, j.Close())
	for _, c := range []struct {
		f    audit.Filter
		n    int
		want string
	}{
		{audit.Filter{}, 3, "11998 11999 12000"},
		{audit.Filter{Call: "rare"}, 3, "5001 7501 10001"},
		{audit.Filter{Call: "rare"}, 100, "1 2501 5001 7501 10001"},
		{audit.Filter{Call: "never"}, 3, ""},
		{audit.Filter{Since: clock().Add(time.Hour)}, 3, ""},
		{audit.Filter{}, 0, ""},
		{audit.Filter{}, -1, ""},
	} {
		if got := strings.Join(readLast(t, dir, c.f, c.n), " "); got != c.want {
			t.Errorf("%+v, %d: got %q, want %q", c.f, c.n, got, c.want)
		}
	}
	if got := readLast(t, dir, audit.Filter{}, 5000); len(got) != 5000 || got[0] != "7001" {
		t.Errorf("got %d records from %s on", len(got), got[0])
	}
	stop := errors.New("stop")
	if err := audit.Last(openState(t, dir), audit.Filter{}, 3, func(audit.Record, []byte) error { return stop }); err != stop {
		t.Errorf("yield's error: got %v", err)
	}
	if got := readLast(t, t.TempDir(), audit.Filter{}, 3); got != nil {
		t.Errorf("of no journal: got %v", got)
	}
}

// TestReadHidesNothing checks that an export has every line, even one that is not a
// record. A filter skips such a line.
func TestReadHidesNothing(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, 2, audit.Options{})
	file := filepath.Join(dir, "journal.jsonl")
	data, err := os.ReadFile(file)
	ok(t, err)
	ok(t, os.WriteFile(file, bytes.Replace(data, []byte(`{"n":2`), []byte(`["n":2`), 1), 0o600))
	rs, lines := readRecords(t, dir, audit.Filter{})
	if len(rs) != 4 || rs[1].Kind != "" || !strings.HasPrefix(lines[1], `["n":2`) {
		t.Errorf("got %v", lines)
	}
	if rs, _ := readRecords(t, dir, audit.Filter{Kind: "outcome"}); len(rs) != 1 || rs[0].Number != 4 {
		t.Errorf("got %v", rs)
	}
}

// TestVerifyCanBeStopped checks that Verify stops when its context ends.
func TestVerifyCanBeStopped(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, 2, audit.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := audit.Verify(ctx, openState(t, dir), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	var last uint64
	_, err := audit.Verify(context.Background(), openState(t, dir), func(n uint64) { last = n })
	if ok(t, err); last != 4 {
		t.Errorf("the progress ended with %d, want 4", last)
	}
}
