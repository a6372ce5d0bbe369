package run_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/run"
)

// claimingModel is a model that never ends and reports a given usage.
type claimingModel model.Usage

func (c claimingModel) Answer(_ context.Context, r model.Request, _ func(model.Piece)) (model.Answer, error) {
	a := newCallsAnswer("read_file", fmt.Sprintf(`{"path":"/in/%d"}`, len(r.Messages)))
	a.Usage = model.Usage(c)
	return a, nil
}

// TestBudgetClaims: a server that reports no tokens, or impossible numbers, does not
// extend the budget.
func TestBudgetClaims(t *testing.T) {
	for _, c := range []claimingModel{{}, {Input: -1 << 40, Output: -1}, {Input: math.MaxInt64, Output: math.MaxInt64}, {Output: 5}, {CacheRead: -1 << 50, Input: 2000}} {
		h := newTestRun(t)
		price := func(_ string, u model.Usage) (float64, bool) { return float64(u.Input+u.Output) / 1000, true }
		for _, l := range []policy.Limits{{Tokens: 100_000, Turns: 400}, {Cost: 100, Turns: 400}} {
			r := h.run(l)
			r.Budget = run.NewBudget(l, price, time.Time{})
			o, err := r.Do(context.Background(), h.worker(c, "main"), run.Input{Text: strings.Repeat("much ", 500)})
			must(t, err)
			if o.End != run.Spent || strings.Contains(o.Why, "turns") {
				t.Errorf("%+v: %+v", c, o)
			}
			if sum := r.Budget.Sum(); sum.Tokens.Input < 0 || sum.Tokens.Output < 0 || sum.Cost < 0 {
				t.Errorf("%+v: %+v", c, sum)
			}
		}
	}
}

// hangingModel is a model that answers only after its context has ended.
type hangingModel struct{}

func (hangingModel) Answer(ctx context.Context, _ model.Request, _ func(model.Piece)) (model.Answer, error) {
	<-ctx.Done()
	return model.Answer{}, ctx.Err()
}

// TestBudgetTime: the time limit also ends a run that waits for its model.
func TestBudgetTime(t *testing.T) {
	h := newTestRun(t)
	w := h.worker(playAnswers(newCallsAnswer("child", `{"input":"x"}`)), "main")
	w.Callees = []run.Callee{{Name: "child"}}
	w.Child = func(string, run.Narrow) (*run.Worker, error) { return h.worker(hangingModel{}, "main", "child"), nil }
	r := h.run(policy.Limits{Budget: 50 * time.Millisecond})
	o, err := r.Do(context.Background(), w, run.Input{Text: "go"})
	must(t, err)
	if o.End != run.Spent || !strings.Contains(o.Why, "the time is over: 50ms; raise budget.time") {
		t.Errorf("%+v", o)
	}
}

// TestWorkerBudget: the budget of a worker file ends only that worker, also if it is used up
// by a worker that it calls. The budget of the run ends the run.
func TestWorkerBudget(t *testing.T) {
	for _, test := range []struct {
		run, child policy.Limits
		want       run.End
		answers    int64
	}{
		{policy.Limits{}, policy.Limits{Turns: 3}, run.Finished, 5},
		{policy.Limits{}, policy.Limits{Cost: 30}, run.Finished, 5},
		{policy.Limits{Turns: 3}, policy.Limits{Turns: 300}, run.Spent, 3},
	} {
		h := newTestRun(t)
		price := func(string, model.Usage) (float64, bool) { return 10, true }
		own := run.NewWorkerBudget(test.child, "workers/child.worker", price, time.Time{})
		caller := h.worker(playAnswers(newCallsAnswer("child", `{"input":"x"}`), newTextAnswer("done without it")), "main")
		caller.Callees = []run.Callee{{Name: "child"}}
		caller.Child = func(string, run.Narrow) (*run.Worker, error) {
			child := h.worker(playAnswers(newCallsAnswer("grandchild", `{"input":"x"}`), newTextAnswer("never")), "main", "child")
			child.Budgets, child.Callees = []*run.Budget{own}, []run.Callee{{Name: "grandchild"}}
			child.Child = func(string, run.Narrow) (*run.Worker, error) {
				below := h.worker(claimingModel{}, "main", "child", "grandchild")
				below.Budgets = child.Budgets
				return below, nil
			}
			return child, nil
		}
		r := h.run(test.run)
		r.Budget = run.NewBudget(test.run, price, time.Time{})
		o, err := r.Do(context.Background(), caller, run.Input{Text: "go"})
		must(t, err)
		if got := r.Budget.Sum().Turns; o.End != test.want || got != test.answers {
			t.Errorf("%+v: got %s after %d answers: %s, want %s after %d", test.child, o.End, got, o.Why, test.want, test.answers)
		}
	}
}

// countingModel calls count before each answer.
type countingModel struct {
	claimingModel
	count func()
}

func (c countingModel) Answer(ctx context.Context, r model.Request, tell func(model.Piece)) (model.Answer, error) {
	c.count()
	return c.claimingModel.Answer(ctx, r, tell)
}

// TestResumedBudget: a run that continues has the rest of its budget, however often it
// continues, and a raised limit gives it the difference.
func TestResumedBudget(t *testing.T) {
	for name, test := range map[string]struct {
		limit, raised policy.Limits
		answers       [2]int // with the limit, and more after it was raised
	}{
		"turns":  {policy.Limits{Turns: 3}, policy.Limits{Turns: 5}, [2]int{3, 2}},
		"tokens": {policy.Limits{Tokens: 40_000}, policy.Limits{Tokens: 60_000}, [2]int{4, 2}},
		"cost":   {policy.Limits{Cost: 40}, policy.Limits{Cost: 60}, [2]int{3, 2}},
		"time":   {policy.Limits{Budget: 3 * time.Minute}, policy.Limits{Budget: 5 * time.Minute}, [2]int{3, 2}},
	} {
		d := newDiary(t)
		now := time.Unix(1_700_000_000, 0)
		asked := 0
		w := d.worker(countingModel{claimingModel{Input: 9000, Output: 1000}, func() {
			asked++
			now = now.Add(time.Minute)
		}}, "main")
		price := func(_ string, u model.Usage) (float64, bool) { return float64(u.Input+u.Output) / 1000, true }
		forget := false
		do := func(resume bool, l policy.Limits) int {
			before := asked
			folder, err := state.Open(d.dir)
			must(t, err)
			defer folder.Close()
			log, err := run.OpenLog(folder, resume, func() time.Time { return now })
			must(t, err)
			defer log.Close()
			r := d.run(l)
			r.Log, r.Now, r.Budget = log, func() time.Time { return now }, run.NewBudget(l, price, now)
			if forget {
				r.Forget()
			}
			o, err := r.Do(context.Background(), w, run.Input{Text: "go"})
			must(t, err)
			if o.End != run.Spent {
				t.Errorf("%s: got %+v, want the end of the budget", name, o)
			}
			now = now.Add(time.Hour) // nobody works
			return asked - before
		}
		got := [4]int{do(false, test.limit), do(true, test.limit), do(true, test.raised), do(true, test.raised)}
		if want := [4]int{test.answers[0], 0, test.answers[1], 0}; got != want {
			t.Errorf("%s: got %d answers, want %d", name, got, want)
		}
		forget = true
		if got := do(true, test.raised) + do(true, test.raised); got != 0 {
			t.Errorf("%s: a new conversation of the same run got %d answers, want 0", name, got)
		}
		forget = false
		if got := do(false, test.limit); got != test.answers[0] {
			t.Errorf("%s: a new run got %d answers, want %d", name, got, test.answers[0])
		}
	}
}
