package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestExploreRunning ends a run with golem status -i, and continues it there.
func TestExploreRunning(t *testing.T) {
	t.Parallel()
	p := newPickTest(t, nil, "true")
	p.write("golem-forge.config.yaml", "sandbox: {root: ., mode: overlay}\nmodel: scripted:model.yaml\n")
	p.write("main.worker", "---\nsandbox: inherit\ntoolsets: [filesystem, shell]\nshell_default: {approval: preApproved}\n---\nWork.\n")
	p.write("model.yaml", "main:\n  - calls: [{tool: shell, args: {command: \"while :; do echo tick; sleep 0.2; done\"}}]\n  - text: done\n")
	if out, code := p.golem("trust", "--yes"); code != 0 {
		t.Fatal(out)
	}
	cmd := exec.Command("golem", "run", ".", "Watch it")
	cmd.Dir, cmd.Env = p.dir, p.env
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() { cmd.Process.Kill() })
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) { // until the run has its session
		if out, _ := p.golem("sessions"); strings.Contains(out, "running") {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the run does not begin")
		}
	}
	p.startAt(100, "status", "-i")
	p.screen.Until("1 session running")
	p.screen.Until("main calls shell")
	p.typeKeys(": tick", "E") // the last line of its output
	p.typeKeys("end it now?", "y\r")
	p.screen.Until("ends what runs in session")
	<-ended
	if got := cmd.ProcessState.ExitCode(); got != 143 {
		t.Errorf("the run ended with exit code %d", got)
	}
	p.write("model.yaml", "main:\n  - calls: [{tool: list_files, args: {path: /}}]\n  - text: done\n")
	p.typeKeys("continue the run", "R")
	p.screen.Until("continues the run in session") // the renderer prints only cells that changed
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if out, _ := p.golem("sessions", "show"); strings.Contains(out, "done") || strings.Contains(out, "finished") {
			break
		}
		if time.Now().After(end) {
			out, _ := p.golem("sessions", "show")
			t.Fatalf("the run does not continue:\n%s", out)
		}
	}
	p.typeKeys("", "q")
	p.waitForEnd()
}
