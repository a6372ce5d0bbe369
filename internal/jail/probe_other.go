//go:build !linux

package jail

import (
	"runtime"
	"time"

	"github.com/golem-forge/golem/sandbox"
)

// Probe reports that golem cannot run commands on this system.
func Probe(sandbox.Host, func() time.Time) Report {
	return diagnose(facts{System: runtime.GOOS}, nil)
}
