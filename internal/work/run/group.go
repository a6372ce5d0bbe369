package run

import (
	"context"
	"sync"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/sandbox"
)

// atOnce is how many calls of a run are made at once. A call that waits for the calls of
// the worker that it started does not count.
const atOnce = 8

// A group is consecutive calls of one answer that are made at once, because none of them
// may write what another one reads or writes. Questions, and the effects of workers that
// the calls start, still come in the order of the answer.
type group struct {
	begun, ended []chan struct{} // closed when a call has begun, and when it has ended

	mu  sync.Mutex
	cut int // the first call that was not finished; the number of calls if there is none
}

func newGroup(n int) *group {
	g := &group{cut: n}
	for range n {
		g.begun, g.ended = append(g.begun, make(chan struct{})), append(g.ended, make(chan struct{}))
	}
	return g
}

// isCutBefore reports whether a call before one was not finished.
func (g *group) isCutBefore(number int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cut < number
}

// end notes that a call has ended, and whether it was finished.
func (g *group) end(number int, finished bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !finished {
		g.cut = min(g.cut, number)
	}
	closeOnce(g.begun[number])
	closeOnce(g.ended[number])
}

// begin notes that a call has begun.
func (g *group) begin(number int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	closeOnce(g.begun[number])
}

// closeOnce closes a channel, unless it is closed.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// A turn is the place of a call among the calls of its answer. Above is the turn of the
// call that started the worker, nil for none.
type turn struct {
	group  *group // nil for a call that is made by itself
	number int    // in the group
	above  *turn
}

// wait waits until the calls before have begun, or with alone until they have ended. It
// returns an error if one of them was not finished: then the call is not made.
func (u *turn) wait(ctx context.Context, alone bool) error {
	if u == nil {
		return nil
	}
	if err := u.above.wait(ctx, true); err != nil {
		return err
	}
	if u.group == nil {
		return nil
	}
	which := u.group.begun
	if alone {
		which = u.group.ended
	}
	for _, before := range which[:u.number] {
		select {
		case <-before:
		case <-ctx.Done():
			return errEarlier
		}
	}
	if u.group.isCutBefore(u.number) {
		return errEarlier
	}
	return nil
}

// errEarlier is the error of a call that was not made because of an earlier one. A resumed
// run makes it.
var errEarlier = &sandbox.Error{Op: "call", Code: errStopped, Hint: "it was not made, because an earlier call of the same answer is not finished"}

// begin notes that the call has begun.
func (u *turn) begin() {
	if u != nil && u.group != nil {
		u.group.begin(u.number)
	}
}

// countTogether returns how many calls, from the given one on, can be made at once.
func (t *conversation) countTogether(ctx context.Context, calls []model.Call, from int) int {
	if from+1 == len(calls) || t.Checkpoint != nil { // a checkpoint must not see a call half done
		return 1
	}
	var reaches []tool.Reach
	for i := from; i < len(calls) && i < maxCalls; i++ {
		reach, ok := t.reachOf(ctx, calls[i])
		for _, other := range reaches {
			ok = ok && !reach.Meets(other)
		}
		if !ok {
			break
		}
		reaches = append(reaches, reach)
	}
	return max(len(reaches), 1)
}

// reachOf returns which files a call reads and writes. It reports false for a call that
// must be made by itself.
func (t *conversation) reachOf(ctx context.Context, c model.Call) (tool.Reach, bool) {
	if t.past != nil && t.past.has(c.ID) {
		return tool.Reach{}, true // it is not made again
	}
	if t.floods[c.ID] > 0 || t.past != nil && t.past.hasBegun(c.ID) {
		return tool.Reach{}, false
	}
	return t.gate.Reach(ctx, policy.Model, tool.Call{Tool: c.Tool, Args: []byte(argsOf(c))})
}

// makeCalls makes calls that can be made at once, from the given one on, and puts their
// results into done. It reports results in the order of the answer. If a call is not
// finished, makeCalls does not begin those that still wait for a place.
func (t *conversation) makeCalls(ctx context.Context, calls []model.Call, from int, done []callResult) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, errs := newGroup(len(done)), make([]error, len(done))
	results := make(chan int, len(done)) // the calls that have ended, in any order
	running, told, ended := 0, 0, make([]bool, len(done))
	await := func(i int) {
		running--
		ended[i] = true
		for ; told < len(done) && ended[told]; told++ {
			t.tellResult(done[told])
		}
	}
	for i := range done {
		place := false
		for running > 0 && !place { // a call needs no place if no other one is running, so no worker waits for its caller
			select {
			case t.places <- struct{}{}:
				place = true
			case other := <-results:
				await(other)
			}
		}
		leave := func(err error) {
			if errs[i] = err; err != nil {
				cancel()
			}
			g.end(i, err == nil && done[i].cut == nil)
			if place {
				<-t.places
			}
			results <- i
		}
		running++
		u := &turn{group: g, number: i, above: t.turn}
		if len(done) == 1 {
			u.group = nil
		}
		if g.isCutBefore(i) {
			leave(nil)
			continue
		}
		r, ready := t.beginCall(ctx, from+i, calls[from+i])
		if !ready {
			done[i] = r
			leave(nil)
			continue
		}
		go func() {
			var err error
			done[i], err = t.call(ctx, from+i, calls[from+i], u, r.counted)
			leave(err)
		}()
	}
	for running > 0 {
		await(<-results)
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// tellResult reports the result of a call.
func (t *conversation) tellResult(r callResult) {
	if r.event.Type != "" {
		t.teller.say(r.event)
	}
}
