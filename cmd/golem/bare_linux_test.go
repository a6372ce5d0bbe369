package main

import (
	"errors"
	"os/exec"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
)

// runBare runs a command that cannot create user namespaces. It gets no overlays, and its
// level is landlock. It must end with an exit code: bare CODE PROGRAM ARG…
func runBare(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: bare CODE PROGRAM ARG…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = withoutNamespaces(func() error { return ts.Exec(args[1], args[2:]...) })
	got := 0
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		got = ended.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code: got %d, want %d", got, want)
	}
}
