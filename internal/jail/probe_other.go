//go:build !linux

package jail

import (
	"runtime"
	"time"

	"github.com/golem-forge/golem/sandbox"
)

// Probe says what this machine can do: run no command, in this version.
func Probe(sandbox.Host, func() time.Time) Report {
	return diagnose(facts{System: runtime.GOOS}, nil)
}
