//go:build !linux

package cli

// withoutOpenat2 says why openat2 cannot be used: only Linux has it.
func withoutOpenat2() string { return "this system has no openat2" }
