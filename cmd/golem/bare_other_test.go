//go:build !linux

package main

import "github.com/rogpeppe/go-internal/testscript"

func runBare(ts *testscript.TestScript, _ bool, _ []string) { ts.Fatalf("no namespaces here") }
