//go:build !linux

package jail

import "github.com/golem-forge/golem/sandbox"

// Foreign returns nothing.
func Foreign(sandbox.Host) []string { return nil }
