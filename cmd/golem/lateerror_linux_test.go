package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestLateErrorSaysWhatWasDone breaks a file of the state directory while a call runs.
// The caller learns that the call was done. The user at the terminal reads it in the
// error. The model of a run and the client of golem mcp read it in the result of the
// call.
func TestLateErrorSaysWhatWasDone(t *testing.T) {
	const wait = "echo new > new.txt; sleep 31.%d; true"
	fronts := []struct {
		name string
		args func(command string) []string
		tool string // how the error names the call
	}{
		{"tool", func(c string) []string { return []string{"tool", "shell", "--command", c} }, "shell (run echo new > new.txt; "},
		{"exec", func(c string) []string { return []string{"exec", "--", "sh", "-c", c} }, "exec was"},
		{"run", func(string) []string { return []string{"run", ".", "x", "--json", "--model", "scripted:model.yaml"} }, "shell (run echo new > new.txt; "},
		{"mcp", func(string) []string { return []string{"mcp"} }, "shell (run echo new > new.txt; "},
	}
	for i, front := range fronts {
		for j, broken := range []string{"journal.head", "doors.json", "sessions/*/run.head"} {
			if j == 2 && front.name != "run" {
				continue
			}
			t.Run(front.name+" "+filepath.Base(broken), func(t *testing.T) {
				t.Parallel()
				command := fmt.Sprintf(wait, 1000*os.Getpid()+10*i+j)
				program := map[string]string{
					"golem-forge.config.yaml": "sandbox:\n  mounts:\n    - {source: ./tree, target: /, mode: overlay}\n",
					"main.worker":             "---\nsandbox: inherit\ntoolsets:\n  shell: {default: {approval: preApproved}}\n---\nWork.\n",
					"model.yaml":              fmt.Sprintf("- calls: [{tool: shell, args: {command: %q}}]\n- text: the answer\n", command),
					"tree/a":                  "0",
				}
				_, state, golem := newTrustedProgram(t, program)
				cmd := golem(front.args(command)...)
				end := breakDuring(t, state, broken, strings.TrimSuffix(strings.Fields(command)[5], ";"))
				var out, errs string
				if front.name == "mcp" {
					a := newPeer(t, cmd, nil)
					out = a.use(t, "shell", map[string]any{"command": command})
					a.in.Close()
					a.waitForEnd(t)
					errs = a.said.String()
				} else {
					var o, e bytes.Buffer
					cmd.Stdout, cmd.Stderr = &o, &e
					cmd.Run()
					out, errs = o.String(), e.String()
				}
				end()
				if code := cmd.ProcessState.ExitCode(); code != 1 {
					t.Errorf("exit code %d, want 1", code)
				}
				if j == 2 { // the run cannot continue
					if !strings.Contains(errs, "golem: shell was done, but its result could not be kept: run.head: ") {
						t.Errorf("the user's output is:\n%s", errs)
					}
					return
				}
				if !strings.Contains(errs, "golem: "+front.tool) || !strings.Contains(errs, " was done, but golem could not finish its records: "+broken+": ") {
					t.Errorf("the user's output is:\n%s", errs)
				}
				result := out
				if front.name == "exec" {
					result = errs
				}
				const note = "the call was done, but golem could not write its outcome to the journal"
				if strings.Contains(result, note) != (broken == "journal.head") {
					t.Errorf("the caller's output is:\n%s", result)
				}
				if front.name == "run" && !strings.Contains(out, "the answer") {
					t.Errorf("there is no answer:\n%s", out)
				}
			})
		}
	}
}

// breakDuring waits for a sleep process with an argument. It then replaces a state file
// with a directory and ends that process. The function that it returns waits until this
// is done.
func breakDuring(t *testing.T, state, name, argument string) (wait func()) {
	done := make(chan error, 1)
	go func() {
		done <- func() error {
			pid := 0
			for end := time.Now().Add(30 * time.Second); pid == 0; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(end) {
					return fmt.Errorf("no process has the argument %s", argument)
				}
				lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
				if err != nil {
					return err
				}
				for _, line := range lines {
					if data, err := os.ReadFile(line); err == nil && string(data) == "sleep\x00"+argument+"\x00" {
						fmt.Sscanf(line, "/proc/%d/", &pid)
					}
				}
			}
			files, err := filepath.Glob(filepath.Join(state, "*", name))
			if err != nil || len(files) != 1 {
				return fmt.Errorf("%s: found %q, %v", name, files, err)
			}
			if err := os.Rename(files[0], files[0]+".old"); err != nil {
				return err
			}
			if err := os.Mkdir(files[0], 0o700); err != nil {
				return err
			}
			return syscall.Kill(pid, syscall.SIGTERM)
		}()
	}()
	return func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
