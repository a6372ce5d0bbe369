//go:build !linux

package state

import "os"

// syncData syncs the content of a file.
func syncData(file *os.File) error { return file.Sync() }
