package mcp

import (
	"runtime/debug"
	"time"
)

const (
	// quiet is how long nobody calls before the memory that calls have left is given back.
	quiet = 500 * time.Millisecond
	// lazily is how much garbage there may be until then beside what is in use, in
	// percent: calls leave much behind, and little is in use. To look for it more often
	// would take an eighth of the time of a small read.
	lazily = 400
)

// collectLazily lets garbage lie until nobody calls. What it returns is reset after each
// call, and stopped when the last has ended.
func collectLazily() *time.Timer {
	debug.SetGCPercent(lazily)
	return time.AfterFunc(quiet, debug.FreeOSMemory)
}
