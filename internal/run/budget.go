package run

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/model"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/tool"
)

// A Budget is what a whole tree of workers may use. What a question to a model may come
// to is taken before it is asked, so that workers beside each other cannot use up more
// than there is.
type Budget struct {
	limits policy.Limits // zero is no limit
	price  func(modelName string, u model.Usage) (dollars float64, known bool)
	ends   time.Time // zero is never

	mu    sync.Mutex
	taken spending // by questions that are not answered yet
	used  spending
	begun int64 // workers that others have started
	sum   Sum
}

type spending struct {
	turns, tokens int64
	cost          float64
}

// maxTurns is how many answers a run has that sets no limit: one that needs more does
// not come to an end.
const maxTurns = 500

// maxWorkers limits the workers that a run starts if the project sets no limit. Each of
// them has a sandbox, tools and a conversation of its own.
const maxWorkers = 200

// NewBudget returns a budget that begins now. Without a price everything is free.
func NewBudget(l policy.Limits, price func(string, model.Usage) (float64, bool), now time.Time) *Budget {
	if l.Turns == 0 {
		l.Turns = maxTurns
	}
	if l.Workers == 0 {
		l.Workers = maxWorkers
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

// A spent is the error of a budget that does not cover what is wanted; key is what would
// give more.
type spent struct{ what, key string }

func (s spent) Error() string {
	if s.key == "" {
		return s.what
	}
	return s.what + "; budget." + s.key + " in the project file, or --set budget." + s.key + "=…, gives more; --resume goes on"
}

// canStart reports why no other worker can be started, nil if one can. A worker that could
// not ask its model once is not started either.
func (b *Budget) canStart() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch l := b.limits; {
	case b.used.turns+b.taken.turns >= l.Turns:
		return b.noTurns()
	case b.begun >= l.Workers:
		return spent{fmt.Sprintf("%d workers were started", l.Workers), "workers"}
	}
	return nil
}

// start counts a worker, or returns why it cannot be started.
func (b *Budget) start() error {
	if err := b.canStart(); err != nil {
		return err
	}
	b.startedBefore(1)
	return nil
}

// startedBefore counts workers that are started already.
func (b *Budget) startedBefore(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begun += n
}

// reserve takes what one question may come to. The answer may have no more tokens than
// are left, which is returned.
func (b *Budget) reserve(modelName string, input, output int64, now time.Time) (room int64, settle func(worker string, a model.Answer, answered bool), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.limits
	if !b.ends.IsZero() && !now.Before(b.ends) {
		return 0, nil, b.late()
	}
	if b.used.turns+b.taken.turns >= l.Turns {
		return 0, nil, b.noTurns()
	}
	take := spending{turns: 1, tokens: input + output}
	if l.Tokens > 0 {
		left := l.Tokens - b.used.tokens - b.taken.tokens
		if left < input+leastAnswer {
			return 0, nil, spent{fmt.Sprintf("%d of %d tokens are used, and the next question has about %d", b.used.tokens, l.Tokens, input), "tokens"}
		}
		output = min(output, left-input)
		take.tokens = input + output
	}
	if l.Cost > 0 {
		cost, known := b.price(modelName, model.Usage{Input: input, Output: output})
		if !known {
			return 0, nil, spent{"the price of " + modelName + " is not known, so budget.cost cannot be kept; leave it out and use budget.tokens, or choose a model with a price", ""}
		}
		if b.used.cost+b.taken.cost+cost > l.Cost {
			return 0, nil, spent{fmt.Sprintf("$%.4f of $%.4f are used, and the next question may cost $%.4f", b.used.cost, l.Cost, cost), "cost"}
		}
		take.cost = cost
	}
	b.taken = b.taken.plus(take, 1)
	return output, func(worker string, a model.Answer, answered bool) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.taken = b.taken.plus(take, -1)
		if answered {
			b.count(worker, modelName, a.Usage, model.Usage{Input: input, Output: estimate([]model.Message{{Parts: a.Parts}})})
		}
	}, nil
}

// within returns a context that ends when the time does.
func (b *Budget) within(ctx context.Context, now time.Time) (context.Context, context.CancelFunc) {
	if b.ends.IsZero() {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, b.ends.Sub(now), b.late())
}

func (b *Budget) noTurns() spent {
	return spent{fmt.Sprintf("%d answers of models were made", b.limits.Turns), "turns"}
}

func (b *Budget) late() spent { return spent{"the time is over: " + b.limits.Budget.String(), "time"} }

// leastAnswer is the least that an answer needs.
const leastAnswer = 256

func (s spending) plus(t spending, times int64) spending {
	return spending{s.turns + times*t.turns, s.tokens + times*t.tokens, s.cost + float64(times)*t.cost}
}

// count adds an answer to what was used. Against the limits, what a server does not say
// counts as about what it was.
func (b *Budget) count(worker, modelName string, said, about model.Usage) {
	u := believed(said)
	counts := u
	if u.Input+u.CacheRead+u.CacheWrite == 0 {
		counts.Input = about.Input
	}
	if u.Output == 0 {
		counts.Output = about.Output
	}
	most, _ := b.price(modelName, counts)
	b.used = b.used.plus(spending{1, counts.Input + counts.Output + counts.CacheRead + counts.CacheWrite, most}, 1)
	cost, known := b.price(modelName, u)
	b.sum.Unpriced = b.sum.Unpriced || !known
	share := b.sum.By[worker]
	share.Turns++
	share.Tokens, share.Cost = share.Tokens.Add(u), share.Cost+cost
	b.sum.By[worker] = share
	b.sum.Turns++
	b.sum.Tokens, b.sum.Cost = b.sum.Tokens.Add(u), b.sum.Cost+cost
}

// believed returns tokens as they can be: nobody gives some back, or makes more of them
// than can be counted.
func believed(u model.Usage) model.Usage {
	const most = 1 << 40
	for _, n := range []*int64{&u.Input, &u.Output, &u.CacheRead, &u.CacheWrite} {
		*n = min(max(*n, 0), most)
	}
	return u
}

// A counting approver counts the questions that reach somebody, or should have.
type counting struct {
	tool.Approver
	budget *Budget
}

// Approve implements tool.Approver.
func (c counting) Approve(ctx context.Context, r tool.Request) tool.Answer {
	if c.Approver == nil {
		return tool.Answer{By: "nobody", Note: "there is nobody to ask", Unattended: true}
	}
	a := c.Approver.Approve(ctx, r)
	if a.By == "user" || a.Unattended {
		c.budget.note(func(s *Sum) { s.Asked++ })
	}
	return a
}

// note changes what is counted.
func (b *Budget) note(change func(*Sum)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.sum)
}

// Sum returns what was used so far.
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
