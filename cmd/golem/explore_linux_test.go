package main

import (
	"os/exec"
	"strings"
	"testing"
)

// typeKeys waits for a text on the screen, and then types keys.
func (p *pickTest) typeKeys(text, keys string) {
	p.t.Helper()
	p.screen.Until(text)
	if _, err := p.person.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

// TestExplore chooses hunks with golem diff -i at a terminal. Exactly these are applied,
// and the journal says where the user answered.
func TestExplore(t *testing.T) {
	t.Parallel()
	p := newPickTest(t, map[string]string{"a.txt": numberLines(nil)},
		`sed -i 's/^line 3$/three/;s/^line 30$/thirty/' a.txt; echo new > new.txt`)
	p.startAt(100, "diff", "-i")
	p.typeKeys("hunk 1 of 2", "y")
	p.typeKeys("[yes]", "nA")
	p.typeKeys("[y]es", "y")
	p.typeKeys("golem undo restores what was there", "q") // the renderer prints only the cells that changed
	code, seen := p.waitForEnd()
	if want := numberLines(map[int]string{3: "three"}); code != 0 || p.read("a.txt") != want || p.read("new.txt") != "" {
		t.Errorf("code %d, a.txt is %q\n%q", code, p.read("a.txt"), seen)
	}
	if out, _ := p.golem("audit", "show", "a.txt"); !strings.Contains(out, "golem diff -i, at a terminal") {
		t.Errorf("the journal does not say where the user answered:\n%s", out)
	}
}

// TestExplorePlain: without a terminal that can show a full screen, golem diff -i asks line
// by line.
func TestExplorePlain(t *testing.T) {
	t.Parallel()
	p := newPickTest(t, map[string]string{"a.txt": "a\n"}, `echo b > a.txt`)
	for _, c := range []struct {
		columns uint16
		term    string
		args    []string
		want    string
		code    int
	}{
		{50, "xterm", []string{"diff", "-i"}, "less than 60 columns", 3},
		{100, "dumb", []string{"diff", "-i"}, "cannot move the cursor (TERM)", 3},
		{100, "xterm", []string{"diff", "-i", "--plain"}, "", 3},
		{50, "xterm", []string{"status", "-i"}, "less than 60 columns", 0},
	} {
		p := p.forTest(t)
		p.env = append(p.env, "TERM="+c.term)
		p.startAt(c.columns, c.args...)
		p.screen.Until(c.want)
		if c.args[0] == "status" {
			p.answer("1 of 1 item: changes, low risk", "y\r")
		}
		p.answer("1 of 1: a.txt", "n\r")
		if code, seen := p.waitForEnd(); code != c.code || strings.Contains(seen, "\x1b[?1049h") {
			t.Errorf("%v: code %d\n%q", c.args, code, seen)
		}
	}
}

// TestExplorePlainStops: Ctrl-C at a question of the list ends it, and says what waits.
func TestExplorePlainStops(t *testing.T) {
	t.Parallel()
	p := newPickTest(t, map[string]string{"a.txt": "a\n"}, `echo b > a.txt`)
	p.env = append(p.env, "TERM=dumb")
	p.startAt(100, "status", "-i")
	p.answer("1 of 1 item: changes, low risk", "\x03")
	if code, seen := p.waitForEnd(); code != 3 || !strings.Contains(seen, "golem: stopped; 1 item without an answer; golem status --all lists what waits") {
		t.Errorf("code %d\n%s", code, seen)
	}
}

// TestExploreInbox approves a call that waits and applies the changes of a session, both
// with golem status -i. The journal says where the user answered.
func TestExploreInbox(t *testing.T) {
	t.Parallel()
	p := newPickTest(t, map[string]string{"a.txt": "a\n"}, `echo b > a.txt`)
	if out, code := p.golem("init", "notes"); code != 0 {
		t.Fatal(out)
	}
	if out, code := p.golem("tool", "-C", "notes", "write_file", "--path", "/out/x.md", "--content", "one\ntwo\n"); code != 3 {
		t.Fatalf("code %d\n%s", code, out)
	}
	p.startAt(100, "status", "-i")
	p.typeKeys("waiting for you: 2 items", "/write_file\r\r")
	p.typeKeys("[y]es", "y")
	p.typeKeys("approved: write_file", "\r")
	p.typeKeys("hunk 1 of 1", "A")
	p.typeKeys("[y]es", "y")
	p.typeKeys("golem undo restores what was there", "q")
	p.typeKeys("nothing waits for you", "q")
	if code, seen := p.waitForEnd(); code != 0 || p.read("a.txt") != "b\n" {
		t.Errorf("code %d, a.txt is %q\n%q", code, p.read("a.txt"), seen)
	}
	for _, args := range [][]string{{"audit", "show", "-C", "notes", "--json"}, {"audit", "show", "a.txt"}} {
		if out, _ := p.golem(args...); !strings.Contains(out, "golem status -i, at a terminal") {
			t.Errorf("%v: the journal does not say where the user answered:\n%s", args, out)
		}
	}
	if out, code := p.golem("tool", "-C", "notes", "write_file", "--path", "/out/x.md", "--content", "one\ntwo\n"); code != 0 {
		t.Errorf("the approval does not count: code %d\n%s", code, out)
	}
}

// TestExploreCommit pushes a staged commit with golem review -i. A file that a scanner holds
// back needs a reason.
func TestExploreCommit(t *testing.T) {
	t.Parallel()
	p := newPickTest(t, nil, "true")
	p.write("golem-forge.config.yaml", "sandbox: {root: ., mode: overlay}\nclearance:\n  targets:\n    origin: {type: local, path: .}\n")
	p.write("main.worker", "---\nsandbox: inherit\ntoolsets: {filesystem: , git: }\n---\nWork.\n")
	for _, args := range [][]string{{"init", "-qb", "main", "."}, {"-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-qm", "first", "--allow-empty"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = p.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	key := "AKIA" + "Q3EGRIXZ7T5LJ2MW"
	for _, args := range [][]string{{"trust", "--yes"}, {"tool", "write_file", "--path", "/key.txt", "--content", "id " + key + "\n"},
		{"tool", "git_stage", "--files", "/key.txt", "--message", "Add a key"}} {
		if out, code := p.golem(args...); code != 0 {
			t.Fatalf("%v: code %d\n%s", args, code, out)
		}
	}
	p.startAt(100, "review", "-i")
	p.typeKeys("a scanner holds back", "v")
	p.typeKeys("new", "P")
	p.typeKeys("the reason to push it: ", "a test\r")
	p.typeKeys("[y]es", "y")
	p.typeKeys("pushed", "q")
	if code, seen := p.waitForEnd(); code != 0 {
		t.Errorf("code %d\n%q", code, seen)
	}
	cmd := exec.Command("git", "log", "--format=%s")
	cmd.Dir = p.dir
	if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "Add a key\n") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, _ := p.golem("audit", "show", "--json"); !strings.Contains(out, "golem review -i, at a terminal") || !strings.Contains(out, "a test") {
		t.Errorf("the journal lacks the reason, or where the user answered:\n%s", out)
	}
}
