//go:build !linux

package cli

// withoutOpenat2 returns why golem cannot use openat2: only Linux has it.
func withoutOpenat2() string { return "this system has no openat2" }
