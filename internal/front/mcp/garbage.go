package mcp

import (
	"math"
	"runtime/debug"
	"time"
)

const (
	// quiet is how long no call must run before golem returns free memory to the system.
	quiet = 500 * time.Millisecond
	// lazily is the garbage collection percentage. Calls leave much garbage, and little
	// memory is in use. More frequent collection would take an eighth of the time of a
	// small read.
	lazily = 400
	// enough is the memory at which collection becomes frequent nevertheless, because large
	// messages would leave several times their size. It limits nothing else.
	enough = 160 << 20
)

// collectLazily makes garbage collection rare. The returned timer frees memory when it
// fires. The server resets it after each call and stops it at the end.
func collectLazily() *time.Timer {
	debug.SetGCPercent(lazily)
	if debug.SetMemoryLimit(-1) == math.MaxInt64 { // the user has not set GOMEMLIMIT
		debug.SetMemoryLimit(enough)
	}
	return time.AfterFunc(quiet, debug.FreeOSMemory)
}
