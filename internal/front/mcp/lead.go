package mcp

import (
	"bytes"
	"sync/atomic"
	"time"
)

const (
	// quickly is how long a call takes at most that is expected to take no longer when it
	// is made again.
	quickly = 500 * time.Microsecond
	// glimpse is after how long the leader is looked after, and maxVain how often in vain
	// before that ends: to begin it wakes somebody.
	glimpse = 5 * time.Millisecond
	maxVain = 20
)

// A lead is who reads, of the goroutines that make direct calls: one at a time. The one
// that finds a call makes it itself, so that nobody has to be woken for it. Before that
// it lets another read; but where the call is a quick one and no other waits, only if it
// takes long after all.
type lead struct {
	free      chan struct{} // holds one, while nobody has it
	followers atomic.Int32  // how many wait for it

	calls  atomic.Int64 // how many quick ones were made
	making atomic.Int64 // which of these is made by the one who has it; 0 for none

	watching atomic.Bool
	watch    *time.Timer // looks after it; only that uses what follows
	seen     int64       // what was made when it looked last
	counted  int64       // how many calls there were
	vain     int         // how often there were no more than before
}

// follow reads lines and makes calls until there are no more.
func (c *conn) follow() {
	var answer bytes.Buffer // the room for one
	for {
		c.lead.followers.Add(1)
		<-c.lead.free
		c.lead.followers.Add(-1)
		if !c.leads(&answer) {
			return
		}
	}
}

// leads reads and makes calls until another has the lead. It reports whether there may be
// more.
func (c *conn) leads(answer *bytes.Buffer) bool {
	for {
		s, more := c.readDirect()
		if !more {
			c.lead.free <- struct{}{} // for the others to end, too
			return false
		}
		if c.input.Buffered() > 0 || !c.isQuick(s.name) {
			c.pass()
			c.make(s, answer)
			return true
		}
		n := c.lead.begin()
		c.make(s, answer)
		if !c.lead.making.CompareAndSwap(n, 0) {
			return true // it was taken meanwhile
		}
	}
}

// isQuick reports whether the last call of a tool was.
func (c *conn) isQuick(tool string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.quick[tool]
}

// setQuick notes whether the last call of a tool was quick. The names are a client's, so
// there are only so many.
func (c *conn) setQuick(tool string, quick bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.quick[tool]; known || len(c.quick) < maxCalls {
		c.quick[tool] = quick
	}
}

// pass gives the lead to another.
func (c *conn) pass() {
	if c.lead.followers.Load() == 0 {
		go c.follow()
	}
	c.lead.free <- struct{}{}
}

// begin notes that a quick call is made, and returns its number.
func (l *lead) begin() int64 {
	n := l.calls.Add(1)
	l.making.Store(n)
	l.look()
	return n
}

// look has the leader looked after, if that is not done already.
func (l *lead) look() {
	if l.watching.CompareAndSwap(false, true) {
		l.watch.Reset(glimpse)
	}
}

// lookAfter takes the lead from one who makes the same call as a glimpse ago. It looks
// again as long as calls are made.
func (c *conn) lookAfter() {
	l := &c.lead
	n := l.making.Load()
	if n != 0 && n == l.seen && l.making.CompareAndSwap(n, 0) {
		c.pass()
	}
	l.seen = n
	l.vain++
	if calls := l.calls.Load(); calls != l.counted {
		l.counted, l.vain = calls, 0
	}
	if l.vain < maxVain {
		l.watch.Reset(glimpse)
		return
	}
	l.vain = 0
	l.watching.Store(false)
	if l.making.Load() != 0 { // begun just now
		l.look()
	}
}
