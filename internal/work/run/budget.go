package run

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/work/model"
)

// A Budget limits what all workers of a run may use together. The run reserves the
// possible cost of a question before it asks the model. So workers that run at the same
// time cannot exceed the limits.
type Budget struct {
	limits policy.Limits // zero means no limit
	price  func(modelName string, u model.Usage) (dollars float64, known bool)
	ends   time.Time // zero means never
	file   string    // the worker file that sets the limits; "" for those of the run

	mu      sync.Mutex
	taken   spending // reserved by questions without an answer yet
	used    spending
	settled chan struct{} // closed when a question has its answer; nil if nobody waits
	begun   int64         // number of workers that other workers started
	resumed bool          // what was used before is counted
	sum     Sum
}

type spending struct {
	turns, tokens int64
	cost          float64
}

// NewBudget returns a budget that starts now. Without price, every model is free.
func NewBudget(l policy.Limits, price func(string, model.Usage) (float64, bool), now time.Time) *Budget {
	if l.Turns == 0 {
		l.Turns = policy.DefaultTurns
	}
	if l.Workers == 0 {
		l.Workers = policy.DefaultWorkers
	}
	if price == nil {
		price = func(string, model.Usage) (float64, bool) { return 0, true }
	}
	b := &Budget{limits: l, price: price, sum: Sum{By: make(map[string]Share)}}
	if l.Budget > 0 {
		b.ends = now.Add(l.Budget)
	}
	return b
}

// An overBudget error reports that the budget does not cover the next step. key is the
// configuration key that would raise the limit.
// file is the worker file with the key; "" for the budget of the run.
type overBudget struct{ what, key, file string }

func (s overBudget) Error() string {
	switch {
	case s.key == "":
		return s.what
	case s.file != "":
		return s.what + "; raise budget." + s.key + " in " + s.file
	}
	return s.what + "; raise budget." + s.key + " in the project file or with --set budget." + s.key + "=…, then continue with --resume"
}

// start counts a worker, or returns why it cannot be started. A worker that could not ask
// its model once is not started.
func (b *Budget) start() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch l := b.limits; {
	case b.used.turns+b.taken.turns >= l.Turns:
		return b.outOfTurns()
	case b.begun >= l.Workers:
		return overBudget{fmt.Sprintf("%d workers were started", l.Workers), "workers", b.file}
	}
	b.begun++
	return nil
}

// notStarted takes back that a worker was counted.
func (b *Budget) notStarted() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begun--
}

// usedBefore counts once what a run had used before it continued: answers, workers and time.
func (b *Budget) usedBefore(answers []pastAnswer, workers int64, ran time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.resumed {
		return
	}
	b.resumed = true
	for _, a := range answers {
		_, spent := b.spendingOf(a.model, a.said, a.about)
		b.used = b.used.plus(spent, 1)
	}
	b.begun += workers
	if !b.ends.IsZero() {
		b.ends = b.ends.Add(-ran)
	}
}

// NewWorkerBudget returns a budget that a worker file sets for its worker and the workers
// that it calls. It limits only the answers of models and what they cost.
func NewWorkerBudget(l policy.Limits, file string, price func(string, model.Usage) (float64, bool), now time.Time) *Budget {
	if l.Turns == 0 {
		l.Turns = math.MaxInt64 // the budget of the run has a limit
	}
	b := NewBudget(policy.Limits{Turns: l.Turns, Tokens: l.Tokens, Cost: l.Cost}, price, now)
	b.file = file
	return b
}

// reserve reserves the possible cost of one question in the budgets of the worker, of its
// callers and of the run, in this order. So workers that wait for each other never hold
// what the other needs.
func (t *conversation) reserve(ctx context.Context, modelName string, input, output int64) (int64, settlement, error) {
	var all []settlement
	settle := func(worker string, a model.Answer, answered bool) {
		for _, one := range all {
			one(worker, a, answered)
		}
	}
	for _, b := range append(slices.Clone(t.w.Budgets), t.Budget) {
		room, one, err := b.reserve(ctx, modelName, input, output, t.Now())
		if err != nil {
			settle("", model.Answer{}, false)
			return 0, nil, err
		}
		output, all = room, append(all, one)
	}
	return output, settle, nil
}

// A settlement ends the reservation of a question, and counts the answer if there is one.
type settlement func(worker string, a model.Answer, answered bool)

// reserve reserves the possible cost of one question. It returns how many tokens the
// answer may have. If questions without an answer yet have reserved what this one needs,
// it waits for them.
func (b *Budget) reserve(ctx context.Context, modelName string, input, output int64, now time.Time) (int64, settlement, error) {
	for {
		room, settle, wait, err := b.tryReserve(modelName, input, output, now)
		if wait == nil {
			return room, settle, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return 0, nil, context.Cause(ctx)
		}
	}
}

// tryReserve reserves the possible cost of one question. If that is not possible, or the
// answer would have less room, only because others have reserved something, it reserves
// nothing and returns a channel that is closed when one of them has its answer.
func (b *Budget) tryReserve(modelName string, input, output int64, now time.Time) (room int64, settle settlement, wait <-chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.limits
	if !b.ends.IsZero() && !now.Before(b.ends) {
		return 0, nil, nil, b.outOfTime()
	}
	take := spending{turns: 1, tokens: input + output}
	var known bool
	if l.Cost > 0 {
		if take.cost, known = b.price(modelName, model.Usage{Input: input, Output: output}); !known {
			return 0, nil, nil, overBudget{"the price of " + modelName + " is not known, so budget.cost cannot be kept; leave it out and use budget.tokens, or choose a model with a price", "", b.file}
		}
	}
	if both := b.used.plus(b.taken, 1).plus(take, 1); b.taken.turns > 0 && (both.turns > l.Turns || l.Tokens > 0 && both.tokens > l.Tokens || l.Cost > 0 && both.cost > l.Cost) {
		if b.settled == nil {
			b.settled = make(chan struct{})
		}
		return 0, nil, b.settled, nil
	}
	if b.used.turns >= l.Turns {
		return 0, nil, nil, b.outOfTurns()
	}
	if l.Tokens > 0 {
		left := l.Tokens - b.used.tokens - b.taken.tokens
		if left < input+leastAnswer {
			return 0, nil, nil, overBudget{fmt.Sprintf("%d of %d tokens are used, and the next question has about %d", b.used.tokens, l.Tokens, input), "tokens", b.file}
		}
		output = min(output, left-input)
		take.tokens = input + output
	}
	if l.Cost > 0 {
		take.cost, _ = b.price(modelName, model.Usage{Input: input, Output: output})
		if b.used.cost+b.taken.cost+take.cost > l.Cost {
			return 0, nil, nil, overBudget{fmt.Sprintf("$%.4f of $%.4f are used, and the next question may cost $%.4f", b.used.cost, l.Cost, take.cost), "cost", b.file}
		}
	}
	b.taken = b.taken.plus(take, 1)
	return output, func(worker string, a model.Answer, answered bool) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.taken = b.taken.plus(take, -1)
		if b.settled != nil {
			close(b.settled)
			b.settled = nil
		}
		if answered {
			b.count(worker, modelName, a.Usage, model.Usage{Input: input, Output: estimate([]model.Message{{Parts: a.Parts}})})
		}
	}, nil, nil
}

// within returns a context that ends when the budget's time is over.
func (b *Budget) within(ctx context.Context, now time.Time) (context.Context, context.CancelFunc) {
	if b.ends.IsZero() {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, b.ends.Sub(now), b.outOfTime())
}

func (b *Budget) outOfTurns() overBudget {
	return overBudget{fmt.Sprintf("the models have answered %d times", b.limits.Turns), "turns", b.file}
}

func (b *Budget) outOfTime() overBudget {
	return overBudget{"the time is over: " + b.limits.Budget.String(), "time", b.file}
}

// leastAnswer is the smallest useful number of tokens for an answer.
const leastAnswer = 256

func (s spending) plus(t spending, times int64) spending {
	return spending{s.turns + times*t.turns, s.tokens + times*t.tokens, s.cost + float64(times)*t.cost}
}

// spendingOf returns the usage of an answer, and what counts for the limits. There an estimate
// replaces numbers that the server does not report.
func (b *Budget) spendingOf(modelName string, said, about model.Usage) (u model.Usage, counted spending) {
	u = said.Clamped()
	counts := u
	if u.Input+u.CacheRead+u.CacheWrite == 0 {
		counts.Input = about.Input
	}
	if u.Output == 0 {
		counts.Output = about.Output
	}
	most, _ := b.price(modelName, counts)
	return u, spending{1, counts.Input + counts.Output + counts.CacheRead + counts.CacheWrite, most}
}

// count adds the usage of an answer.
func (b *Budget) count(worker, modelName string, said, about model.Usage) {
	u, spent := b.spendingOf(modelName, said, about)
	b.used = b.used.plus(spent, 1)
	cost, known := b.price(modelName, u)
	b.sum.Unpriced = b.sum.Unpriced || !known
	share := b.sum.By[worker]
	share.Turns++
	share.Model = modelName
	share.Unpriced = share.Unpriced || !known
	share.Tokens, share.Cost = share.Tokens.Add(u), share.Cost+cost
	b.sum.By[worker] = share
	b.sum.Turns++
	b.sum.Tokens, b.sum.Cost = b.sum.Tokens.Add(u), b.sum.Cost+cost
}

// A countingApprover counts the approval questions.
type countingApprover struct {
	tool.Approver
	budget *Budget
}

// Approve implements tool.Approver.
func (c countingApprover) Approve(ctx context.Context, r tool.Request) tool.Answer {
	if c.Approver == nil {
		return tool.Answer{By: "nobody", Note: "golem cannot ask anyone here", Unattended: true}
	}
	a := c.Approver.Approve(ctx, r)
	if a.By == "user" {
		c.budget.note(func(s *Sum) { s.Asked++ })
		if call, ok := ctx.Value(callKey{}).(*inCall); ok && a.Verdict == tool.Approved {
			call.approve(r)
		}
	}
	return a
}

// note updates the counters.
func (b *Budget) note(change func(*Sum)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.sum)
}

// Sum returns the usage so far.
func (b *Budget) Sum() Sum {
	b.mu.Lock()
	defer b.mu.Unlock()
	sum := b.sum
	sum.By = make(map[string]Share, len(b.sum.By))
	for name, share := range b.sum.By {
		sum.By[name] = share
	}
	return sum
}
