//go:build !linux

package jail

// A Helper is a process that works for a jail. This system has none.
type Helper struct{}
