//go:build !linux

package clearance_test

func peakMemory() int64 { return 0 } // other systems count in other units, or not at all
