package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestInterruptedCopy: golem does not use an unfinished copy. If a signal stops golem during
// the copy, golem removes the copy and reports that. If golem is killed, the next call
// copies again.
func TestInterruptedCopy(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"golem-forge.config.yaml": "sandbox: {root: ., mode: overlay}\n", "main.worker": "---\nsandbox: inherit\ntoolsets: [filesystem]\n---\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const files = 3000
	for i := range files {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golem := func(args ...string) *exec.Cmd {
		cmd := exec.Command("golem", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOLEM_STATE="+state)
		return cmd
	}
	if out, err := golem("trust", "--yes").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	found := func(pattern string) []string {
		t.Helper()
		list, err := filepath.Glob(filepath.Join(state, "*", "sessions", pattern))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	// ended starts a copy and sends a signal in the middle of it.
	ended := func(s syscall.Signal) (string, *os.ProcessState) {
		t.Helper()
		var out strings.Builder
		cmd := golem("tool", "read_file", "--path", "/1", "--copy")
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for len(found("*/0/copy.new/1")) == 0 {
			time.Sleep(time.Millisecond)
		}
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		return out.String(), cmd.ProcessState
	}
	out, how := ended(syscall.SIGINT)
	if how.ExitCode() != 130 || out != "golem: stopped before the copy was complete; nothing was done, and the copy was removed\n" {
		t.Errorf("interrupted: %v\n%s", how, out)
	}
	if left := found("*"); len(left) > 0 {
		t.Errorf("after the interrupt: got %q", left)
	}
	ended(syscall.SIGKILL)
	if whole := found("*/0/copy"); len(whole) > 0 {
		t.Fatalf("the copy was complete before the kill: %q", whole)
	}
	if out, err := golem("tool", "read_file", "--path", "/2").CombinedOutput(); err != nil || !strings.Contains(string(out), "1\tx") {
		t.Errorf("after the kill: %v\n%s", err, out)
	}
	if copied := found(fmt.Sprintf("*/0/copy/%d", files-1)); len(copied) != 1 || len(found("*/0/copy.new")) > 0 {
		t.Errorf("after the kill: got %q", found("*/0/*"))
	}
	if out, err := golem("changes").CombinedOutput(); err != nil || !strings.Contains(string(out), "nothing is changed") {
		t.Errorf("changes: %v\n%s", err, out)
	}
}
