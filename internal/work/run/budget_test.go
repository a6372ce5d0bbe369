package run_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
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
