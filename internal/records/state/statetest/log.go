package statetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/golem-forge/golem/internal/records/state"
)

// hash returns the mark that the suite uses: a hash of the last record.
func hash(record []byte) string {
	sum := sha256.Sum256(record)
	return fmt.Sprintf("%x", sum[:8])
}

// chain returns a next function that adds n records of a writer, starting with its i-th.
// Each record has its number, its writer, the writer's count, and the hash of the
// previous record, which next takes from the tail.
func chain(writer string, i, n, padding int) func(state.Tail) ([][]byte, []byte, error) {
	return func(tail state.Tail) (records [][]byte, mark []byte, err error) {
		before := string(tail.Mark)
		if b := len(tail.Beyond); b > 0 {
			before = hash(tail.Beyond[b-1])
		}
		if tail.Lost > 0 {
			return nil, nil, fmt.Errorf("%d records are lost", tail.Lost)
		}
		for k := range n {
			number := tail.Count + uint64(k) + 1
			r := fmt.Appendf(nil, "%d %s %d %s %s", number, writer, i+k, before, strings.Repeat("x", padding))
			records, before = append(records, r), hash(r)
		}
		return records, []byte(before), nil
	}
}

// A checker reads a chain record by record.
type checker struct {
	number uint64
	before string
	counts map[string]int // number of records by writer
}

func (c *checker) yield(number uint64, record []byte) error {
	part := strings.Split(string(record), " ")
	if len(part) != 5 || number != c.number+1 || part[0] != strconv.FormatUint(number, 10) {
		return fmt.Errorf("record %d after %d: %.60q", number, c.number, record)
	}
	if part[3] != c.before {
		return fmt.Errorf("record %d does not build on the one before: %.60q, want %s", number, record, c.before)
	}
	if part[2] != strconv.Itoa(c.counts[part[1]]) {
		return fmt.Errorf("record %d: %.60q, want count %d", number, record, c.counts[part[1]])
	}
	c.number, c.before = number, hash(record)
	c.counts[part[1]]++
	return nil
}

// check reads the new records of a log, and compares the tail with them.
func (c *checker) check(t testing.TB, l state.Log) {
	t.Helper()
	must(t, l.Read(c.number+1, c.yield))
	tail, err := l.Tail()
	if err != nil || tail.Count != c.number || tail.Lost != 0 {
		t.Fatalf("tail %d, lost %d, %v, want %d", tail.Count, tail.Lost, err, c.number)
	}
	if len(tail.Beyond) == 0 && string(tail.Mark) != c.before {
		t.Fatalf("mark %q, want that of record %d, %q", tail.Mark, c.number, c.before)
	}
}

func newChecker() *checker { return &checker{counts: map[string]int{}} }

// texts returns the records of a log, starting at a number.
func texts(t testing.TB, l state.Log, from uint64) (out []string) {
	t.Helper()
	err := l.Read(from, func(number uint64, record []byte) error {
		out = append(out, fmt.Sprintf("%d %s", number, record))
		return nil
	})
	must(t, err)
	return out
}

// add returns a next function that adds texts and a mark.
func add(mark string, records ...string) func(state.Tail) ([][]byte, []byte, error) {
	return func(state.Tail) (out [][]byte, _ []byte, _ error) {
		for _, r := range records {
			out = append(out, []byte(r))
		}
		return out, []byte(mark), nil
	}
}

func (s Suite) logOrder(t *testing.T) {
	l := s.log(t, newDir(t))
	if tail, err := l.Tail(); !reflect.DeepEqual(tail, state.Tail{}) || err != nil {
		t.Errorf("a new log ends with %+v, %v", tail, err)
	}
	if got := texts(t, l, 1); got != nil {
		t.Errorf("a new log has %q", got)
	}
	for _, batch := range [][]string{{"one"}, {"two", "\x00\xff\r three"}, {"four"}} {
		must(t, l.Append(false, add("", batch...)))
	}
	want := []string{"1 one", "2 two", "3 \x00\xff\r three", "4 four"}
	for from, w := range [][]string{want, want, want[1:], want[2:], want[3:], nil, nil} {
		if got := texts(t, l, uint64(from)); !reflect.DeepEqual(got, append([]string(nil), w...)) {
			t.Errorf("from %d: %q, want %q", from, got, w)
		}
	}
	enough, calls := errors.New("enough"), 0
	err := l.Read(2, func(uint64, []byte) error { calls++; return enough })
	if err != enough || calls != 1 {
		t.Errorf("a yield that has enough: %v after %d calls", err, calls)
	}
}

func (s Suite) logReopen(t *testing.T) {
	dir, c := newDir(t), newChecker()
	for i := range 20 {
		l := s.log(t, dir)
		must(t, l.Append(i%2 == 0, chain("w", i, 1, 10_000)))
		must(t, l.Close())
		if err := l.Append(false, chain("late", 0, 1, 0)); err == nil {
			t.Fatal("a closed log was appended to")
		}
		c.check(t, s.log(t, dir))
	}
	if c.number != 20 {
		t.Errorf("%d records, want 20", c.number)
	}
}

func (s Suite) logError(t *testing.T) {
	dir := newDir(t)
	l := s.log(t, dir)
	no := errors.New("no")
	for range 2 {
		err := l.Append(true, func(state.Tail) ([][]byte, []byte, error) { return [][]byte{[]byte("x")}, []byte("x"), no })
		if !errors.Is(err, no) {
			t.Errorf("next's error: %v", err)
		}
		if got := texts(t, l, 1); len(got) > 1 {
			t.Errorf("next's error left %q", got)
		}
		must(t, l.Append(false, add("mark", "one")))
		if tail, _ := s.log(t, dir).Tail(); string(tail.Mark) != "mark" {
			t.Errorf("the mark is %q", tail.Mark)
		}
	}
	if got, want := texts(t, l, 1), []string{"1 one", "2 one"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func (s Suite) logMarks(t *testing.T) {
	dir := newDir(t)
	l, other := s.log(t, dir), s.log(t, dir)
	for _, mark := range []string{"a", "", strings.Repeat("\x00\n", 100), "b"} {
		must(t, l.Append(false, add(mark, "r")))
		tail, err := other.Tail()
		if string(tail.Mark) != mark || (mark == "") != (tail.Mark == nil) || err != nil {
			t.Errorf("mark %q, %v, want %q", tail.Mark, err, mark)
		}
	}
	// A call may set only a mark.
	must(t, other.Append(true, add("alone")))
	if tail, err := l.Tail(); string(tail.Mark) != "alone" || tail.Count != 4 || err != nil {
		t.Errorf("a mark alone: %+v, %v", tail, err)
	}
}

func (s Suite) logNames(t *testing.T) {
	store := s.at(t, newDir(t))
	for _, name := range []string{"a", "b"} {
		l, err := store.Log(name, 0)
		must(t, err)
		defer l.Close()
		must(t, l.Append(false, add("", name)))
		if got, want := texts(t, l, 1), []string{"1 " + name}; !reflect.DeepEqual(got, want) {
			t.Errorf("log %s: %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"", "..", "a/b", "../a", "a.b", "A", strings.Repeat("a", 1000)} {
		if _, err := store.Log(name, 0); err == nil {
			t.Errorf("a log of the name %q", name)
		}
	}
}

func (s Suite) logNextReads(t *testing.T) {
	dir := newDir(t)
	l, other := s.log(t, dir), s.log(t, dir)
	for i := range 3 {
		err := l.Append(false, func(tail state.Tail) ([][]byte, []byte, error) {
			for _, log := range []state.Log{l, other} {
				if got := texts(t, log, 1); len(got) != i {
					t.Errorf("next reads %q, want %d records", got, i)
				}
				if again, err := log.Tail(); !reflect.DeepEqual(again, tail) || err != nil {
					t.Errorf("next sees %+v, %v, and was given %+v", again, err, tail)
				}
			}
			return add("m", "r")(tail)
		})
		must(t, err)
	}
}

func (s Suite) logGoroutines(t *testing.T) {
	const writers, each = 8, 200
	dir := newDir(t)
	logs := []state.Log{s.log(t, dir), s.log(t, dir)}
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				if err := logs[w%2].Append(false, chain(strconv.Itoa(w), i, 1, 100)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for r := range 2 { // concurrent reads return whole records
		all.Go(func() {
			for c := newChecker(); c.number < writers*each && !t.Failed(); {
				if err := logs[r].Read(c.number+1, c.yield); err != nil {
					t.Error(err)
				}
				if tail, err := logs[r].Tail(); err != nil || tail.Lost > 0 || tail.Count < c.number {
					t.Errorf("after record %d the tail is %+v, %v", c.number, tail, err)
				}
			}
		})
	}
	all.Wait()
	c := newChecker()
	c.check(t, logs[0])
	if c.number != writers*each {
		t.Errorf("%d records, want %d", c.number, writers*each)
	}
}

func (s Suite) logWatch(t *testing.T) {
	dir := newDir(t)
	l, other := s.log(t, dir), s.log(t, dir)
	ctx, cancel := context.WithCancelCause(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		if err := l.Watch(ctx, 3); err != nil {
			t.Error(err)
		}
	})
	for range 3 {
		if err := other.Append(false, add("", "r")); err != nil {
			t.Error(err)
		}
	}
	all.Wait()
	if got := texts(t, l, 3); len(got) == 0 {
		t.Error("what was watched for is not there")
	}
	gone := errors.New("gone")
	all.Go(func() {
		if err := l.Watch(ctx, 4); !errors.Is(err, gone) {
			t.Errorf("watched for what never came: %v", err)
		}
	})
	cancel(gone)
	all.Wait()
}

func (s Suite) logWatchProcess(t *testing.T) {
	dir := newDir(t)
	l := s.log(t, dir)
	p := s.start(t, "append", dir, "w")
	for _, number := range []uint64{1, 10, perProcess} {
		must(t, l.Watch(t.Context(), number))
		if got := texts(t, l, number); len(got) == 0 {
			t.Errorf("record %d was watched for and is not there", number)
		}
	}
	p.end()
}

// perProcess is how many records each process appends.
const perProcess = 3000

func (s Suite) logProcesses(t *testing.T) {
	dir, c := newDir(t), newChecker()
	l := s.log(t, dir)
	parts := []*player{s.start(t, "append", dir, "a"), s.start(t, "append", dir, "b"), s.start(t, "append", dir, "c")}
	for c.number < perProcess { // read while the processes write
		must(t, l.Read(c.number+1, c.yield))
	}
	for _, p := range parts {
		p.end()
	}
	c.check(t, s.log(t, dir))
	if want := map[string]int{"a": perProcess, "b": perProcess, "c": perProcess}; !reflect.DeepEqual(c.counts, want) {
		t.Errorf("records by process: %v, want %v", c.counts, want)
	}
}

// kills is how many processes are killed, two at a time.
const kills = 200

func (s Suite) logKills(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	dir, c := newDir(t), newChecker()
	l := s.log(t, dir)
	beyond, torn := 0, 0
	for round := range kills / 2 {
		names := [2]string{fmt.Sprintf("a%d", round), fmt.Sprintf("b%d", round)}
		parts := [2]*player{s.start(t, "append until killed", dir, names[0]), s.start(t, "append until killed", dir, names[1])}
		var acknowledged [2]int
		for i, p := range parts {
			if lines := p.kill(random, random.IntN(20)); len(lines) > 0 {
				acknowledged[i], _ = strconv.Atoi(lines[len(lines)-1])
			}
		}
		s.settle(t, dir)
		c.check(t, l)
		for i, name := range names {
			if got := c.counts[name]; got < acknowledged[i] {
				t.Fatalf("round %d: %s was promised %d records, and %d are there", round, name, acknowledged[i], got)
			}
		}
		tail, _ := l.Tail()
		beyond, torn = beyond+min(len(tail.Beyond), 1), torn+int(min(tail.Torn, 1))
		if err := l.Append(false, chain("mender", round, 1, 0)); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		c.check(t, l)
		if tail, _ := l.Tail(); tail.Torn != 0 || tail.Beyond != nil {
			t.Fatalf("round %d: repaired to %d torn bytes and %d records beyond", round, tail.Torn, len(tail.Beyond))
		}
	}
	whole := newChecker()
	whole.check(t, s.log(t, dir))
	t.Logf("%d kills: %d records; %d left records beyond the mark, %d torn ones", kills, whole.number, beyond, torn)
}
