package run_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/run"
)

// startManyWorkers returns an answer that starts a worker n times.
func startManyWorkers(n int, name string) model.Answer {
	var words []string
	for i := range n {
		words = append(words, name, fmt.Sprintf(`{"input":"%d"}`, i))
	}
	return newCallsAnswer(words...)
}

// A tree is a worker that starts 60 workers in each answer. Each of them does the same,
// down to the last depth.
type tree struct {
	h                     *testRun
	built, open, mostOpen atomic.Int64
}

func (tr *tree) worker(chain ...string) *run.Worker {
	w := tr.h.worker(player(func(model.Request) (model.Answer, error) {
		if len(chain) == 6 {
			return newTextAnswer("ok"), nil
		}
		return startManyWorkers(60, fmt.Sprint("w", len(chain))), nil
	}), chain...)
	w.Callees = []run.Callee{{Name: fmt.Sprint("w", len(chain))}}
	w.Child = func(name string, _ run.Narrow) (*run.Worker, error) {
		tr.built.Add(1)
		if n := tr.open.Add(1); n > tr.mostOpen.Load() {
			tr.mostOpen.Store(n)
		}
		child := tr.worker(append(slices.Clone(chain), name)...)
		child.Close = func() error { tr.open.Add(-1); return nil }
		return child, nil
	}
	return w
}

// TestWorkersAreLimited runs a tree of workers that never ends by itself. The run stops
// at the limit, says which it was, and no worker is built that could not ask its model.
func TestWorkersAreLimited(t *testing.T) {
	for _, test := range []struct {
		limits policy.Limits
		built  int64
		why    string
	}{
		{policy.Limits{Turns: 50}, 49, "the models have answered 50 times; raise budget.turns"},
		{policy.Limits{Turns: 1}, 0, "the models have answered 1 times; raise budget.turns"},
		{policy.Limits{}, 200, "200 workers were started; raise budget.workers"},
		{policy.Limits{Workers: 7}, 7, "7 workers were started; raise budget.workers in the project file or with --set budget.workers=…, then continue with --resume"},
		{policy.Limits{Workers: 1}, 1, "1 workers were started; raise budget.workers"},
		{policy.Limits{Workers: 400, Turns: 1000}, 400, "400 workers were started; raise budget.workers"},
	} {
		tr := &tree{h: newTestRun(t)}
		r := tr.h.run(test.limits)
		r.Tell = nil
		before := heap()
		o, err := r.Do(context.Background(), tr.worker("main"), run.Input{Text: "go"})
		must(t, err)
		if o.End != run.Spent || !strings.Contains(o.Why, test.why) || tr.built.Load() != test.built {
			t.Errorf("%+v: %+v, %d workers were built, want %d", test.limits, o, tr.built.Load(), test.built)
		}
		if tr.open.Load() != 0 || tr.mostOpen.Load() > 5 {
			t.Errorf("%+v: %d workers are still open, and up to %d were at once", test.limits, tr.open.Load(), tr.mostOpen.Load())
		}
		tr.h.journal.records = nil
		if grown := heap() - before; grown > 8<<20 {
			t.Errorf("%+v: %d bytes are left", test.limits, grown)
		}
	}
}

// TestResumeCountsWorkers resumes a run that has used up its workers. It starts no other
// without a higher limit, and continues the worker it has begun.
func TestResumeCountsWorkers(t *testing.T) {
	h, dir := newTestRun(t), t.TempDir()
	var started []string
	var answered atomic.Int64
	do := func(resume bool, limits policy.Limits, childAnswers bool) run.Outcome {
		folder, err := state.Open(dir)
		must(t, err)
		defer folder.Close()
		log, err := run.OpenLog(folder, resume, time.Now)
		must(t, err)
		defer log.Close()
		w := h.worker(player(func(r model.Request) (model.Answer, error) {
			if len(r.Messages) > 1 {
				return newTextAnswer("done"), nil
			}
			return startManyWorkers(4, "child"), nil
		}), "main")
		w.Callees = []run.Callee{{Name: "child"}}
		w.Child = func(string, run.Narrow) (*run.Worker, error) {
			return h.worker(player(func(r model.Request) (model.Answer, error) {
				if !childAnswers && answered.Load() == 1 {
					return model.Answer{}, context.Canceled
				}
				answered.Add(1)
				started = append(started, r.Messages[0].Parts[0].Text)
				return newTextAnswer("ok"), nil
			}), "main", "child"), nil
		}
		r := h.run(limits)
		r.Log = log
		in := run.Input{Text: "go"}
		if resume {
			in = run.Input{}
		}
		o, err := r.Do(context.Background(), w, in)
		must(t, err)
		return o
	}
	if o := do(false, policy.Limits{Workers: 2}, true); o.End != run.Spent || len(started) != 2 {
		t.Fatalf("%+v %v", o, started)
	}
	if o := do(true, policy.Limits{Workers: 2}, true); o.End != run.Spent || len(started) != 2 {
		t.Errorf("the same limit: %+v %v", o, started)
	}
	if o := do(true, policy.Limits{Workers: 3}, true); o.End != run.Spent || len(started) != 3 {
		t.Errorf("one more: %+v %v", o, started)
	}
	if o := do(true, policy.Limits{Workers: 4}, true); !o.OK() || strings.Join(started, "") != "0123" {
		t.Errorf("enough: %+v %v", o, started)
	}
}

// TestContinuedWorkerIsNotCountedTwice resumes a run whose one worker was cut off.
func TestContinuedWorkerIsNotCountedTwice(t *testing.T) {
	h, dir := newTestRun(t), t.TempDir()
	do := func(resume bool, turns int64) run.Outcome {
		folder, err := state.Open(dir)
		must(t, err)
		defer folder.Close()
		log, err := run.OpenLog(folder, resume, time.Now)
		must(t, err)
		defer log.Close()
		w := h.worker(player(func(r model.Request) (model.Answer, error) {
			if len(r.Messages) > 1 {
				return newTextAnswer("done"), nil
			}
			return startManyWorkers(1, "child"), nil
		}), "main")
		w.Callees = []run.Callee{{Name: "child"}}
		w.Child = func(string, run.Narrow) (*run.Worker, error) {
			return h.worker(player(func(r model.Request) (model.Answer, error) {
				if len(r.Messages) > 1 {
					return newTextAnswer("ok"), nil
				}
				return newCallsAnswer("read_file", `{"path":"/in/a.txt"}`), nil
			}), "main", "child"), nil
		}
		r := h.run(policy.Limits{Workers: 1, Turns: turns})
		r.Log = log
		in := run.Input{Text: "go"}
		if resume {
			in = run.Input{}
		}
		o, err := r.Do(context.Background(), w, in)
		must(t, err)
		return o
	}
	if o := do(false, 2); o.End != run.Spent {
		t.Fatalf("%+v", o)
	}
	if o := do(true, 9); o.Text != "done" {
		t.Errorf("%+v", o)
	}
}
