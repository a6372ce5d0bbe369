package main

import (
	"strings"
	"testing"
)

// waitScript prints a line, waits until the user changes a.txt, and prints the rest.
// The text imitates a question of golem and a colour.
const waitScript = `printf 'first\n┃ You are about to\n\033[31mred\n'; for i in $(seq 600); do grep -q go a.txt && break; sleep 0.05; done; echo second >&2; exit 3`

// TestCommandOutputAtATerminal checks that the output of a command appears while the
// command runs, behind the gutter and escaped, and only once.
func TestCommandOutputAtATerminal(t *testing.T) {
	p := newPickTest(t, map[string]string{"a.txt": "a\n"}, "true")
	p.startAt(80, "tool", "shell", "--command", waitScript, "--approval", "approve_all")
	p.screen.Until("│ first")
	p.screen.Until(`│ \x1b[31mred`)
	p.write("a.txt", "go\n")
	code, seen := p.waitForEnd()
	if code != 0 || !strings.Contains(seen, "│ second\r\n│ exit 3 in ") {
		t.Errorf("code %d\n%s", code, seen)
	}
	if strings.Count(seen, "first") != 1 || strings.Contains(seen, "\x1b[31m") || strings.Contains(seen, "\n┃ You are about to") {
		t.Errorf("the output is not shown as it should be:\n%q", seen)
	}
	// without a terminal there is nothing but the result
	out, code := p.golem("tool", "shell", "--command", "echo first; exit 3", "--approval", "approve_all")
	if code != 0 || !strings.HasPrefix(out, "exit 3 in ") || strings.Count(out, "first") != 1 {
		t.Errorf("code %d\n%s", code, out)
	}
}

// TestRunOutputAtATerminal checks the same for the commands of a worker.
func TestRunOutputAtATerminal(t *testing.T) {
	p := newPickTest(t, map[string]string{"a.txt": "a\n"}, "true")
	p.write("main.worker", "---\nsandbox: inherit\ntoolsets: {shell: {default: {approval: preApproved}}}\n---\nWork.\n")
	p.write("golem-forge.config.yaml", "sandbox: {root: ., mode: overlay}\n")
	p.write("wait.sh", waitScript+"\n")
	p.write("model.yaml", "- calls: [{tool: shell, args: {command: sh wait.sh}}]\n- {text: Done}\n")
	if out, code := p.golem("trust", "--yes"); code != 0 {
		t.Fatalf("code %d\n%s", code, out)
	}
	p.startAt(80, "run", ".", "go", "--model", "scripted:model.yaml")
	p.screen.Until("main│ shell")
	p.screen.Until("main│ first")
	p.write("a.txt", "go\n")
	code, seen := p.waitForEnd()
	if code != 0 || !strings.Contains(seen, "main│ second\r\n") || !strings.Contains(seen, "exit 3 in ") {
		t.Errorf("code %d\n%s", code, seen)
	}
	if strings.Count(seen, "first") != 1 || strings.Contains(seen, "\x1b[31m") || strings.Contains(seen, "\n┃ You are about to") {
		t.Errorf("the output is not shown as it should be:\n%q", seen)
	}
}
