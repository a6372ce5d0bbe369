//go:build !linux

package jail

// A Helper is a process that works for a session. This system has none.
type Helper struct{}
