//go:build !unix

package durable

import "os"

// syncFile does nothing: this system syncs only files that are open for writing.
func syncFile(*os.File) error { return nil }

// syncDir does nothing: this system cannot sync a directory.
func syncDir(*os.File) error { return nil }
