package mcp

import (
	"runtime/debug"
	"sync/atomic"
	"time"
)

const (
	// quiet is how long nobody calls before the memory that calls have left is given back.
	quiet = 500 * time.Millisecond
	// many is how many calls under way make a busy server, and lazily how much garbage
	// there may be then beside what is in use, in percent: calls leave much behind, and
	// little is in use. As long as calls come one by one the little that the collector
	// leaves by itself stays in the processor's caches.
	many   = 8
	lazily = 400
)

// A garbage sees to what calls leave behind.
type garbage struct {
	calls atomic.Int32 // under way
	busy  atomic.Bool
	usual int // how much there may be where nobody is busy
	tidy  *time.Timer
}

// begin notes that a call begins.
func (g *garbage) begin() {
	if g.calls.Add(1) >= many && g.busy.CompareAndSwap(false, true) {
		g.usual = debug.SetGCPercent(lazily)
	}
}

// end notes that a call has ended.
func (g *garbage) end() {
	g.calls.Add(-1)
	g.tidy.Reset(quiet)
}

// giveBack gives memory back that nobody needs.
func (g *garbage) giveBack() {
	if g.calls.Load() == 0 && g.busy.CompareAndSwap(true, false) {
		debug.SetGCPercent(g.usual)
	}
	debug.FreeOSMemory()
}
