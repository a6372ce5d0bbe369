//go:build !linux

package jail

// ReadUsage returns nothing: golem reads it only on Linux.
func ReadUsage([]int) map[int]Usage { return nil }
