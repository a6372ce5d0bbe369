package storage

import (
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/model/prices"
	"github.com/golem-forge/golem/internal/work/run"
	"github.com/golem-forge/golem/internal/work/session"
)

// A RunSummary is what the log of a session's runs says in total.
type RunSummary struct {
	HasRun bool      // a worker was run in the session
	Begin  run.Entry // the first entry of the last run
	End    run.End   // how the last run ended: "" if it works now or was killed
	Input  string    // the first line of the first input
	Uses   []RunUse

	using map[string]int // indexes in Uses, by worker and model
	now   map[string]int // the same, by conversation
}

// A RunUse is what a worker has used with a model.
type RunUse struct {
	Worker, Model string
	Turns         int
	Tokens        model.Usage
	Cost          float64
	Unpriced      bool // some usage has no known price
}

// add adds an entry of the log.
func (r *RunSummary) add(e run.Entry) {
	if r.HasRun = true; r.using == nil {
		r.using, r.now = make(map[string]int), make(map[string]int)
	}
	if r.Input == "" {
		r.Input = inputOf(e)
	}
	switch {
	case e.Kind == "end" && e.Outcome != nil && run.IsEntry(e.In):
		r.End = e.Outcome.End
	case e.Kind != "end":
		r.End = ""
	}
	if e.Kind == "begin" {
		if run.IsEntry(e.In) {
			r.Begin = e
		}
		key := e.Worker + "\x00" + e.Model
		if _, ok := r.using[key]; !ok {
			r.using[key] = len(r.Uses)
			r.Uses = append(r.Uses, RunUse{Worker: e.Worker, Model: e.Model})
		}
		r.now[e.In] = r.using[key]
	}
	if i, ok := r.now[e.In]; ok && e.Usage != nil {
		u := &r.Uses[i]
		u.Turns, u.Tokens = u.Turns+1, u.Tokens.Add(*e.Usage)
		cost, known := prices.Cost(u.Model, *e.Usage)
		u.Cost, u.Unpriced = u.Cost+cost, u.Unpriced || !known
	}
}

// Summary returns what the log of a session's runs says.
func (r Runs) Summary(s *session.Session) (RunSummary, error) {
	if h := r.storage.Histories; h != nil {
		return h.read(r, s)
	}
	var sum RunSummary
	err := r.Read(s, func(e run.Entry) error {
		sum.add(e)
		return nil
	})
	return sum, err
}

// Histories follow the logs of runs for a process that reads them again and again. Each time
// they read only what was appended since.
type Histories struct {
	mu  sync.Mutex
	all map[string]*history // by directory of the session
}

// maxHistories is how many logs Histories keep open.
const maxHistories = 200

// A history is the log of a session's runs, as far as it was read.
type history struct {
	mu   sync.Mutex
	dir  *state.Dir
	is   fs.FileInfo // of the directory
	log  *run.Log
	next uint64 // number of the next entry to read
	sum  RunSummary
}

// read returns the summary of a session.
func (h *Histories) read(r Runs, s *session.Session) (sum RunSummary, err error) {
	err = h.use(r, s, func(one *history) error {
		sum, err = one.read()
		return err
	})
	return sum, err
}

// use calls do with the history of a session, whose log is open.
func (h *Histories) use(r Runs, s *session.Session, do func(one *history) error) error {
	at := s.Dir()
	is, err := os.Stat(at)
	if err != nil {
		h.forget(at)
		return err
	}
	h.mu.Lock()
	one := h.all[at]
	if one == nil && len(h.all) >= maxHistories {
		for other := range h.all { // any of them
			h.drop(other)
			break
		}
	}
	if one == nil {
		one = &history{}
		if h.all == nil {
			h.all = make(map[string]*history)
		}
		h.all[at] = one
	}
	h.mu.Unlock()
	one.mu.Lock()
	defer one.mu.Unlock()
	if err := one.open(r, s, is); err != nil {
		return err
	}
	return do(one)
}

// Entries calls yield with the log entries of the session's runs from a number on. The
// first has the number 1. It returns how many there are. If the process has Histories, it
// reads only what was appended since the last time.
func (r Runs) Entries(s *session.Session, from uint64, yield func(number uint64, e run.Entry) error) (n uint64, err error) {
	read := func(log *run.Log) error {
		if n, err = log.Len(); err != nil || n < from {
			return err
		}
		return log.ReadFrom(from, yield)
	}
	if h := r.storage.Histories; h != nil {
		err = h.use(r, s, func(one *history) error { return read(one.log) })
		return n, err
	}
	dir, err := s.OpenState()
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	log, err := run.OpenLog(dir, false, r.storage.Sessions.Now)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	err = read(log)
	return n, err
}

// forget closes the log of a session that is gone.
func (h *Histories) forget(at string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(at)
}

func (h *Histories) drop(at string) {
	if one := h.all[at]; one != nil {
		delete(h.all, at)
		one.mu.Lock() // somebody may read it
		defer one.mu.Unlock()
		one.close()
	}
}

func (one *history) close() {
	if one.log != nil {
		one.log.Close()
		one.dir.Close()
	}
	one.dir, one.log, one.next, one.sum = nil, nil, 1, RunSummary{}
}

// open opens the log, if it is not open. is describes the directory of the session now.
func (one *history) open(r Runs, s *session.Session, is fs.FileInfo) error {
	if one.log != nil {
		if n, err := one.log.Len(); err != nil || n+1 < one.next || !os.SameFile(is, one.is) {
			one.close() // another log is there
		}
	}
	if one.log != nil {
		return nil
	}
	dir, err := s.OpenState()
	if err != nil {
		return err
	}
	log, err := run.OpenLog(dir, false, r.storage.Sessions.Now)
	if err != nil {
		dir.Close()
		return err
	}
	one.dir, one.log, one.is, one.next = dir, log, is, 1
	return nil
}

// read reads what was appended.
func (one *history) read() (RunSummary, error) {
	err := one.log.ReadFrom(one.next, func(number uint64, e run.Entry) error {
		one.sum.add(e)
		one.next = number + 1
		return nil
	})
	sum := one.sum
	sum.Uses, sum.using, sum.now = slices.Clone(sum.Uses), nil, nil
	if err != nil { // the next call reads everything again, and reports it again
		one.close()
	}
	return sum, err
}
