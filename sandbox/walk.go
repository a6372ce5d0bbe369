package sandbox

import (
	"cmp"
	"context"
	"io/fs"
	"math"
	"path"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Budget bounds a walk. A field that is zero has the value given with it.
type Budget struct {
	Entries int           // names looked at: 1,000,000
	Bytes   int64         // content read by a search: 1 GiB
	Results int           // names or matches returned, the first ones: 10,000
	Time    time.Duration // 30 seconds
	// After leaves out the names up to this one, to continue where an earlier walk
	// has ended. In a search it is the files before it.
	After string
}

func (b Budget) withDefaults() Budget {
	b.Entries = cmp.Or(b.Entries, 1_000_000)
	b.Bytes = cmp.Or(b.Bytes, 1<<30)
	b.Results = cmp.Or(b.Results, 10_000)
	b.Time = cmp.Or(b.Time, 30*time.Second)
	return b
}

// A Cut says what ended a walk early: "" if it saw everything.
type Cut string

// The reasons for which a walk ends early.
const (
	CutEntries   Cut = "entries"
	CutBytes     Cut = "bytes"
	CutResults   Cut = "results"
	CutTime      Cut = "time"
	CutCancelled Cut = "cancelled"
)

// A Listing is what a walk found, ordered by path. Where Cut is not empty there
// may be more: with CutResults behind the last name, otherwise anywhere.
type Listing struct {
	Found  []Found
	Cut    Cut
	Unread int // directories that could not be read, and names that nobody could give back
}

// Found is a name that a walk came upon.
type Found struct {
	Path string
	Type fs.FileMode
}

// A Pick chooses among the entries of a directory: which to keep, and which
// directories to enter. It is called from several goroutines at once.
type Pick func(dir string, e Entry) (keep, enter bool)

// Walk looks at everything below a directory and keeps what pick chooses; all of
// it where pick is nil. Directories are read in parallel and links are not
// followed. When the budget is used up or ctx ends, Walk returns what it has,
// and says so: that is no error.
func (s *Sandbox) Walk(ctx context.Context, name string, pick Pick, b Budget) (Listing, error) {
	w := s.newWalker(ctx, b)
	if pick == nil {
		pick = func(string, Entry) (bool, bool) { return true, true }
	}
	return w.collect("walk", name, pick)
}

// Find returns the files below a directory whose names match a pattern, and links
// that lead to such files. A pattern without a slash is about the last part of
// a name, at any depth: "*.md". One with a slash is about the name as seen from
// the directory: "src/**/*.go".
func (s *Sandbox) Find(ctx context.Context, name, pattern string, b Budget) (Listing, error) {
	g, err := newGlob("find", name, pattern)
	if err != nil {
		return Listing{}, err
	}
	w := s.newWalker(ctx, b)
	return w.collect("find", name, func(dir string, e Entry) (bool, bool) {
		return !e.IsDir() && g.match(w.top, dir, e.Name) && s.isFile(dir, e), true
	})
}

// collect walks and keeps what pick chooses.
func (w *walker) collect(op, name string, pick Pick) (Listing, error) {
	found := make([]firstN[Found], walkers())
	for i := range found {
		found[i] = firstN[Found]{most: w.results, order: func(a, b Found) int { return strings.Compare(a.Path, b.Path) }}
	}
	w.visit = func(id int, p location, e Entry) bool {
		keep, enter := pick(p.name, e)
		if keep {
			if here := join(p.name, e.Name); here > w.after {
				found[id].add(Found{here, e.Type})
			}
		}
		if !enter || !e.IsDir() {
			return false
		}
		dir := w.s.childOf(p, e.Name).name
		return w.hasNamesAfter(dir) && found[id].accepts(Found{Path: dir})
	}
	cut, err := w.walk(op, name)
	if err != nil {
		return Listing{}, err
	}
	list, more := mergeFirst(found)
	if more && cut == "" {
		cut = CutResults
	}
	return Listing{list, cut, int(w.unread.Load())}, nil
}

// ahead reports whether anything below a directory comes after what is left out.
func (w *walker) hasNamesAfter(dir string) bool {
	below := dir + "/"
	return below > w.after || strings.HasPrefix(w.after, below)
}

// isFile reports whether an entry is a regular file or a link to one.
func (s *Sandbox) isFile(dir string, e Entry) bool {
	if e.Type&fs.ModeSymlink == 0 {
		return e.Type.IsRegular()
	}
	info, err := s.stat(request{op: "find", access: ReadOnly, noSuggestions: true}, join(dir, e.Name))
	return err == nil && info.Mode().IsRegular()
}

// Sweep removes what writes that were killed have left behind: their unfinished
// files, which no other operation shows. Those changed after the given time may
// still be in the making and stay. It returns how many are gone.
func (s *Sandbox) Sweep(ctx context.Context, before time.Time) (int, error) {
	var swept atomic.Int64
	w := s.newWalker(ctx, Budget{Entries: math.MaxInt, Time: math.MaxInt64})
	w.temps = true
	w.visit = func(_ int, p location, e Entry) bool {
		if !isTemp(e.Name) || !e.Type.IsRegular() || p.rule.access < ReadWrite || p.rule.noDelete {
			return e.IsDir() && !isTemp(e.Name)
		}
		b, rel := p.rule.mount.Backend, path.Join(p.rel, e.Name)
		attr, err := b.Lstat(rel)
		if err == nil && attr.ModTime.Before(before) && b.Remove(rel) == nil {
			swept.Add(1)
		}
		return false
	}
	_, err := w.walk("sweep", "/")
	return int(swept.Load()), err
}

func walkers() int { return min(runtime.GOMAXPROCS(0), 8) }

// A walker reads the directories of a tree in parallel. A worker that finds
// directories hands them to one that waits, and keeps what nobody waits for until
// somebody does.
type walker struct {
	s     *Sandbox
	ctx   context.Context
	stop  context.CancelCauseFunc
	visit func(id int, p location, e Entry) (enter bool)
	temps bool   // also visit unfinished files
	top   string // the directory that the walk is in, once all links to it are followed

	jobs    chan job
	pending sync.WaitGroup

	entries, bytes atomic.Int64 // what is left of the budget
	results        int
	after          string
	time           time.Duration
	unread         atomic.Int64
}

// A job is a directory to read, or a part of its entries to visit.
type job struct {
	p       location
	entries []Entry
}

func (s *Sandbox) newWalker(ctx context.Context, b Budget) *walker {
	b = b.withDefaults()
	w := &walker{s: s, jobs: make(chan job), time: b.Time, results: max(1, b.Results), after: b.After}
	w.ctx, w.stop = context.WithCancelCause(ctx)
	w.entries.Store(int64(b.Entries))
	w.bytes.Store(b.Bytes)
	return w
}

// Error makes a Cut the cause of a context's end.
func (c Cut) Error() string { return string(c) }

// take takes n of what is left of a budget. What it cannot give ends the walk.
func (w *walker) spend(left *atomic.Int64, n int64, c Cut) bool {
	if left.Add(-n) >= 0 {
		return true
	}
	w.stop(c)
	return false
}

func (w *walker) cut() Cut {
	switch cause := context.Cause(w.ctx).(type) {
	case nil:
		return ""
	case Cut:
		return cause
	}
	return CutCancelled
}

// walk visits everything below the directory name, returns when the last worker
// is done, and says what ended the walk early.
func (w *walker) walk(op, name string) (cut Cut, err error) {
	timer := time.AfterFunc(w.time, func() { w.stop(CutTime) })
	defer timer.Stop()
	defer w.stop(nil) // the caller's context may live long
	err = w.s.do(request{op: op, access: ReadOnly, dirs: true}, name, func(p location) error {
		entries, err := w.list(p)
		if err != nil {
			return err
		}
		w.top = p.name
		w.pending.Add(1)
		var workers sync.WaitGroup
		for id := range walkers() {
			workers.Go(func() { w.work(id) })
		}
		w.jobs <- job{p, entries}
		w.pending.Wait()
		close(w.jobs)
		workers.Wait()
		cut = w.cut()
		return nil
	})
	return cut, err
}

// work does jobs until there are no more.
func (w *walker) work(id int) {
	var own []job
	for next := range w.jobs {
		own = append(own, next)
		for len(own) > 0 {
			own = w.share(own)
			j := own[len(own)-1]
			own = w.doJob(id, j, own[:len(own)-1])
			w.pending.Done()
			runtime.Gosched() // a short call beside the walk need not wait for its end
		}
	}
}

// doJob visits the entries of a directory and returns own with the directories in it
// that no other worker took.
func (w *walker) doJob(id int, j job, own []job) []job {
	const part = 256
	if w.ctx.Err() != nil {
		return own
	}
	if j.entries == nil {
		var err error
		if j.entries, err = w.list(j.p); err != nil {
			w.unread.Add(1)
			return own
		}
	}
	if len(j.entries) > part {
		own = w.offer(job{j.p, j.entries[part:]}, own)
		j.entries = j.entries[:part]
	}
	for _, e := range j.entries {
		if w.ctx.Err() != nil || !w.spend(&w.entries, 1, CutEntries) {
			return own
		}
		if enter := w.visit(id, j.p, e); enter && e.IsDir() {
			own = w.offer(job{p: w.s.childOf(j.p, e.Name)}, own)
		}
	}
	return own
}

// share gives the oldest of own, which have the most below them, to workers
// that wait, and leaves the last.
func (w *walker) share(own []job) []job {
	for len(own) > 1 {
		select {
		case w.jobs <- own[0]:
			own = own[1:]
		default:
			return own
		}
	}
	return own
}

// offer gives a job to a worker that waits for one, or adds it to own.
func (w *walker) offer(j job, own []job) []job {
	w.pending.Add(1)
	select {
	case w.jobs <- j:
		return own
	default:
		return append(own, j)
	}
}

// list returns the entries of a directory that the walk may visit, never nil.
func (w *walker) list(p location) ([]Entry, error) {
	list, err := w.s.entriesAt(p, &w.unread)
	if err == nil && w.temps {
		disk, _ := w.s.readDir(p)
		for _, e := range disk {
			if isTemp(e.Name) {
				list = append(list, e)
			}
		}
	}
	if list == nil {
		list = []Entry{}
	}
	return list, err
}
