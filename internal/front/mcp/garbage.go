package mcp

import (
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
)

// collectLazily makes garbage collection rare. The returned timer frees memory when it
// fires. The server resets it after each call and stops it at the end.
func collectLazily() *time.Timer {
	debug.SetGCPercent(lazily)
	return time.AfterFunc(quiet, debug.FreeOSMemory)
}
