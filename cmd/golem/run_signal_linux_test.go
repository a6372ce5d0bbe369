package main

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestRunSignals stops a run with signals. After one Ctrl-C golem finishes the current
// call. After a second one, or SIGTERM, it does not. The run can be resumed in each case.
func TestRunSignals(t *testing.T) {
	for _, c := range []struct {
		name    string
		signals []os.Signal
		code    int
		done    bool // golem finishes the current call
	}{
		{"once", []os.Signal{os.Interrupt}, 130, true},
		{"twice", []os.Signal{os.Interrupt, os.Interrupt}, 130, false},
		{"terminate", []os.Signal{syscall.SIGTERM}, 143, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir, _, golem := newTrustedProgram(t, map[string]string{
				"golem-forge.config.yaml": "sandbox:\n  mounts:\n    - {source: ./out, target: /out, approval: {write: preApproved}}\n",
				"main.worker":             "---\nsandbox: inherit\ntoolsets:\n  filesystem:\n  shell: {default: {approval: preApproved}}\n---\nWork.\n",
				"demo.yaml":               "- text: I begin.\n  calls: [{tool: shell, args: {command: \"sleep 2; echo end > /out/end\"}}, {tool: write_file, args: {path: /out/next, content: x}}]\n- text: all done\n",
			})
			cmd := golem("run", ".", "go", "--model", "scripted:demo.yaml", "--json")
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			errs, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			for lines.Scan() && !strings.Contains(lines.Text(), `"tool_call"`) {
			}
			told := bufio.NewScanner(errs)
			for i, s := range c.signals {
				if i > 0 { // sends the next signal only after golem reported the first
					for told.Scan() && !strings.Contains(told.Text(), "Ctrl-C again") {
					}
				}
				if err := cmd.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
			}
			for lines.Scan() {
			}
			cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != c.code {
				t.Errorf("exit code %d, want %d", got, c.code)
			}
			_, err = os.Stat(filepath.Join(dir, "out", "end"))
			if (err == nil) != c.done {
				t.Errorf("the call was finished: %v, want %v", err == nil, c.done)
			}
			if _, err := os.Stat(filepath.Join(dir, "out", "next")); err == nil {
				t.Error("the next call was made")
			}
			if out, err := golem("run", ".", "--resume", "last", "--model", "scripted:demo.yaml").CombinedOutput(); err != nil || !strings.Contains(string(out), "all done") {
				t.Errorf("%v\n%s", err, out)
			}
			if _, err := os.Stat(filepath.Join(dir, "out", "next")); err != nil {
				t.Error("the next call was not made when the run continued")
			}
		})
	}
}

// TestChatSignals checks that signals end a chat that waits for input.
func TestChatSignals(t *testing.T) {
	for s, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
		_, _, golem := newTrustedProgram(t, map[string]string{"main.worker": "---\nmode: chat\n---\nTalk.\n", "demo.yaml": "- text: hello\n"})
		cmd := golem("run", ".", "hi", "--model", "scripted:demo.yaml")
		stdin, err := cmd.StdinPipe() // stays open
		if err != nil {
			t.Fatal(err)
		}
		defer stdin.Close()
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		told := bufio.NewReader(out)
		if _, err := told.ReadString('\n'); err != nil { // golem has answered and waits for input
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, told)
		cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%v: exit code %d, want %d", s, got, want)
		}
	}
}
