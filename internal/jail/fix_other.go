//go:build !linux

package jail

import (
	"errors"

	"github.com/golem-forge/golem/sandbox"
)

// Fixes returns nothing: golem confines commands on Linux only.
func Fixes(sandbox.Host) []Fix { return nil }

// Apply fails.
func (f Fix) Apply() error { return errors.ErrUnsupported }
