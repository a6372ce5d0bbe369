//go:build !unix

package durable

import "os"

// syncFile does nothing: the system syncs only what is open for writing.
func syncFile(*os.File) error { return nil }

// syncDir does nothing: the system has no way to sync a directory.
func syncDir(*os.File) error { return nil }
