package mcp

import (
	"bytes"
	"sync/atomic"
	"time"
)

const (
	// quickly is the limit for a quick call. golem expects the next call of that tool to
	// be quick again.
	quickly = 500 * time.Microsecond
	// glimpse is the interval at which lookAfter checks the leader. maxVain is how many
	// checks without a new call end the checks. Starting them again costs a wakeup.
	glimpse = 5 * time.Millisecond
	maxVain = 20
)

// A lead decides which of the goroutines that make direct calls reads the input. Only one
// reads at a time. The reader that finds a call makes it itself, so no other goroutine
// has to wake up. Before that, it passes the lead to another goroutine. If the call is
// expected to be quick and no input is buffered, it keeps the lead. Then lookAfter takes
// the lead away if the call is slow after all.
type lead struct {
	free      chan struct{} // holds one value while nobody leads
	followers atomic.Int32  // how many goroutines wait for the lead

	calls  atomic.Int64 // how many quick calls the leaders have started
	making atomic.Int64 // the number of the call that the leader makes; 0 for none

	watching atomic.Bool
	watch    *time.Timer // runs lookAfter; only lookAfter uses the fields below
	seen     int64       // the value of making at the last check
	counted  int64       // the value of calls at the last check
	vain     int         // how many checks in a row found no new call
}

// follow reads lines and makes calls until the input ends.
func (c *conn) follow() {
	var answer bytes.Buffer // reused for every answer
	for {
		c.lead.followers.Add(1)
		<-c.lead.free
		c.lead.followers.Add(-1)
		if !c.leadCalls(&answer) {
			return
		}
	}
}

// leadCalls reads and makes calls until another goroutine has the lead. It reports whether
// there may be more lines.
func (c *conn) leadCalls(answer *bytes.Buffer) bool {
	for {
		s, more := c.readDirect()
		if !more {
			c.lead.free <- struct{}{} // so that the other goroutines end, too
			return false
		}
		if c.input.Buffered() > 0 || !c.isQuick(s.name) {
			c.pass()
			c.runCall(s, answer)
			return true
		}
		n := c.lead.begin()
		c.runCall(s, answer)
		if !c.lead.making.CompareAndSwap(n, 0) {
			return true // lookAfter took the lead meanwhile
		}
	}
}

// isQuick reports whether the last call of a tool was quick.
func (c *conn) isQuick(tool string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.quick[tool]
}

// setQuick records whether the last call of a tool was quick. Clients choose the names,
// so the number of entries is limited.
func (c *conn) setQuick(tool string, quick bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.quick[tool]; known || len(c.quick) < maxCalls {
		c.quick[tool] = quick
	}
}

// pass gives the lead to another goroutine.
func (c *conn) pass() {
	if c.lead.followers.Load() == 0 {
		go c.follow()
	}
	c.lead.free <- struct{}{}
}

// begin records that a quick call starts, and returns its number.
func (l *lead) begin() int64 {
	n := l.calls.Add(1)
	l.making.Store(n)
	l.startChecks()
	return n
}

// startChecks starts the checks of the leader, unless they run already.
func (l *lead) startChecks() {
	if l.watching.CompareAndSwap(false, true) {
		l.watch.Reset(glimpse)
	}
}

// checkLeader takes the lead from a goroutine that makes the same call as at the last
// check. It runs again for as long as there are new calls.
func (c *conn) checkLeader() {
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
	if l.making.Load() != 0 { // a call has just started
		l.startChecks()
	}
}
