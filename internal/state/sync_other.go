//go:build !linux

package state

import "os"

// syncData puts the content of a file on the disk.
func syncData(file *os.File) error { return file.Sync() }
