package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSignals: a signal that ends golem also ends the command and its children. golem
// prints the output of the command so far and writes the outcome to the journal. Its exit
// code is that of a program that the signal ended. golem ignores SIGHUP if it was started
// so, for example by nohup.
func TestSignals(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		signal syscall.Signal
		code   int
		nohup  bool
	}{
		"interrupt": {syscall.SIGINT, 130, false},
		"terminate": {syscall.SIGTERM, 143, false},
		"hang up":   {syscall.SIGHUP, 129, false},
		"quit":      {syscall.SIGQUIT, 131, false},
		"nohup":     {syscall.SIGTERM, 143, true},
	} {
		t.Run(name, func(t *testing.T) {
			if signal.Ignored(test.signal) {
				t.Skip("the signal is ignored here")
			}
			dir := t.TempDir()
			golem := func(args ...string) *exec.Cmd {
				cmd := exec.Command("golem", args...)
				cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOLEM_STATE="+filepath.Join(dir, "..", "state"), "GOLEM_APPROVAL=approve_all")
				return cmd
			}
			for name, text := range map[string]string{"golem-forge.config.yaml": "sandbox: {root: .}\n", "main.worker": "---\nsandbox: inherit\ntoolsets: [shell]\n---\n"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if out, err := golem("trust", "--yes").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			cmd := golem("tool", "shell", "--command", "echo begun; touch ready; sleep 98765", "--json")
			if test.nohup {
				sh, err := exec.LookPath("sh")
				if err != nil {
					t.Fatal(err)
				}
				cmd.Path, cmd.Args = sh, append([]string{"sh", "-c", `trap "" HUP; exec "$@"`}, cmd.Args...)
				cmd.Args = slices.Insert(cmd.Args, 3, "sh")
			}
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			late := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
			defer late.Stop()
			for range 3000 {
				// The command writes to its overlay.
				if begun, _ := filepath.Glob(filepath.Join(dir, "..", "state", "*", "layers", "*", "*", "upper", "ready")); len(begun) > 0 {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			if test.nohup {
				cmd.Process.Signal(syscall.SIGHUP)
			}
			if err := cmd.Process.Signal(test.signal); err != nil {
				t.Fatal(err)
			}
			cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != test.code {
				t.Errorf("exit code %d, want %d\n%s%s", got, test.code, &out, &errs)
			}
			var said struct {
				OK     bool
				Result struct {
					Stopped bool
					Stdout  string
				}
				Error struct{ Code string }
			}
			if err := json.Unmarshal(out.Bytes(), &said); err != nil || said.OK || !said.Result.Stopped || said.Result.Stdout != "begun\n" || said.Error.Code != "stopped" {
				t.Errorf("got %+v, %v\n%s%s", said, err, &out, &errs)
			}
			journal, err := golem("audit", "show", "--json").CombinedOutput()
			if err != nil || !strings.Contains(string(journal), `"code": "stopped"`) || !strings.Contains(string(journal), "stopped after") {
				t.Errorf("the journal: %v\n%s", err, journal)
			}
		})
	}
}
