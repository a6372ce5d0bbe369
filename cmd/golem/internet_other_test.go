//go:build !linux

package main

import "github.com/rogpeppe/go-internal/testscript"

// internet is used only where commands run.
func internet(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Fatalf("commands run only on Linux")
}
