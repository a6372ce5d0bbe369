package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// newTrustedProgram writes the files of a program and trusts it. It returns a function that makes
// golem commands in the program's directory.
func newTrustedProgram(t *testing.T, files map[string]string) (dir, state string, golem func(args ...string) *exec.Cmd) {
	t.Helper()
	dir, state = t.TempDir(), t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golem = func(args ...string) *exec.Cmd {
		cmd := exec.Command("golem", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOLEM_STATE="+state)
		return cmd
	}
	if out, err := golem("trust", "--yes").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir, state, golem
}
