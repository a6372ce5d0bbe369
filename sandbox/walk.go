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

// A Budget limits a walk. A field that is zero has the default that its comment names.
type Budget struct {
	Entries int           // entries visited: 1,000,000
	Bytes   int64         // content read by a search: 1 GiB
	Results int           // names or matches returned, the first ones: 10,000
	Time    time.Duration // 30 seconds
	// After skips the names up to this one, to continue after an earlier walk. In a
	// search it skips the files before this one.
	After string
}

func (b Budget) withDefaults() Budget {
	b.Entries = cmp.Or(b.Entries, 1_000_000)
	b.Bytes = cmp.Or(b.Bytes, 1<<30)
	b.Results = cmp.Or(b.Results, 10_000)
	b.Time = cmp.Or(b.Time, 30*time.Second)
	return b
}

// A Cut says why a walk ended early, "" if it visited everything.
type Cut string

// The reasons why a walk ends early.
const (
	CutEntries   Cut = "entries"
	CutBytes     Cut = "bytes"
	CutResults   Cut = "results"
	CutTime      Cut = "time"
	CutCancelled Cut = "cancelled"
)

// A Listing is the result of a walk, ordered by path. If Cut is not empty, there may be
// more names. With CutResults they come after the last name, otherwise they may be
// anywhere.
type Listing struct {
	Found  []Found
	Cut    Cut
	Unread int // directories that could not be read, and names that no caller could use
}

// Found is a name that a walk found, with its type bits.
type Found struct {
	Path string
	Type fs.FileMode
}

// A Pick decides which entries of a directory to keep, and which directories to enter.
// Several goroutines call it at once.
type Pick func(dir string, e Entry) (keep, enter bool)

// Walk visits everything below a directory and keeps the entries that pick selects, all
// if pick is nil. It reads directories in parallel and does not follow symlinks. If the
// budget is used up or ctx ends, Walk returns what it has found and sets Cut. This is not
// an error.
func (s *Sandbox) Walk(ctx context.Context, name string, pick Pick, b Budget) (Listing, error) {
	w := s.newWalker(ctx, b)
	if pick == nil {
		pick = func(string, Entry) (bool, bool) { return true, true }
	}
	return w.collect("walk", name, pick)
}

// Find returns the files below a directory whose names match a pattern, and symlinks to
// files if their own names match. A pattern without a slash applies to the last part of a
// name, at any depth: "*.md". A pattern with a slash applies to the path from the
// directory: "src/**/*.go".
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

// collect walks and keeps the entries that pick selects.
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

// hasNamesAfter reports whether names below a directory can come after the name at which
// the walk starts.
func (w *walker) hasNamesAfter(dir string) bool {
	below := dir + "/"
	return below > w.after || strings.HasPrefix(w.after, below)
}

// isFile reports whether an entry is a regular file or a symlink to one.
func (s *Sandbox) isFile(dir string, e Entry) bool {
	if e.Type&fs.ModeSymlink == 0 {
		return e.Type.IsRegular()
	}
	info, err := s.stat(request{op: "find", access: ReadOnly, noSuggestions: true}, join(dir, e.Name))
	return err == nil && info.Mode().IsRegular()
}

// Sweep removes the unfinished files of writes that were killed. No other operation shows
// these files. It keeps files that changed at or after the given time, because a write
// may still use them. It returns the number of removed files.
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

// A walker reads the directories of a tree in parallel. A worker gives directories that
// it finds to workers that wait, and keeps the others until one waits.
type walker struct {
	s     *Sandbox
	ctx   context.Context
	stop  context.CancelCauseFunc
	visit func(id int, p location, e Entry) (enter bool)
	temps bool   // also visit unfinished files
	top   string // name of the directory of the walk, after following symlinks

	jobs    chan job
	pending sync.WaitGroup

	entries, bytes atomic.Int64 // the rest of the budget
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

// Error makes Cut an error, so that it can be the cause of a cancelled context.
func (c Cut) Error() string { return string(c) }

// spend takes n from the rest of a budget. If too little is left, it ends the walk and
// returns false.
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

// walk visits everything below the directory name. It returns when the last worker is
// done, with the reason if the walk ended early.
func (w *walker) walk(op, name string) (cut Cut, err error) {
	timer := time.AfterFunc(w.time, func() { w.stop(CutTime) })
	defer timer.Stop()
	defer w.stop(nil) // the caller's context may live longer
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
			runtime.Gosched() // let other goroutines run during a long walk
		}
	}
}

// doJob visits the entries of a directory. It returns own with the directories that no
// other worker took.
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

// share gives the oldest jobs of own to workers that wait, because these have the most
// below them. It keeps the last job.
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

// offer gives a job to a worker that waits, or adds it to own.
func (w *walker) offer(j job, own []job) []job {
	w.pending.Add(1)
	select {
	case w.jobs <- j:
		return own
	default:
		return append(own, j)
	}
}

// list returns the entries of a directory that the walk visits, never nil.
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
