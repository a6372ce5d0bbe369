//go:build !linux

package undo

import "os"

// startSync does nothing on systems that cannot write a file to the disk without waiting.
func startSync(*os.File) {}

// syncData waits until a file is on the disk.
func syncData(f *os.File) error { return f.Sync() }
