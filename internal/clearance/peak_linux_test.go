package clearance_test

import "syscall"

// peakMemory returns the peak memory, in bytes, of the largest child process that has ended.
func peakMemory() int64 {
	var children syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &children) != nil {
		return 0
	}
	return children.Maxrss << 10
}
