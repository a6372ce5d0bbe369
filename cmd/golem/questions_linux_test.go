package main

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// questionFiles are the files of a program whose commands ask.
var questionFiles = map[string]string{"a.txt": "a\n", "more.sh": "echo more >> a.txt\n", "main.worker": "---\nsandbox: inherit\ntoolsets: [filesystem]\n---\nWork.\n",
	"golem-forge.config.yaml": "sandbox: {root: ., mode: overlay, mounts: [{source: ./out, target: /out}]}\n",
	"model.yaml":              "- calls: [{tool: write_file, args: {path: /out/b.txt, content: x}}]\n- {text: Done}\n"}

// TestKilledAtEachQuestion kills golem with SIGKILL at each kind of question. Nothing has
// changed then, nothing is locked, and the same command asks again.
func TestKilledAtEachQuestion(t *testing.T) {
	t.Parallel()
	p := newTrustedPickTest(t, questionFiles)
	for _, test := range []struct{ line, wait string }{
		{"apply", "You are about to"},
		{"apply -p", "[q]uit"},
		{"discard", "You are about to"},
		{"tool write_file --path /out/b.txt --content x", "You are about to create"},
		{"exec --session last --apply ask sh more.sh", "You are about to"},
		{"sessions rm last", "You are about to delete"},
		{"sessions prune --older 1ns", "You are about to"},
		{"run . go --model scripted:model.yaml", "wants to create /out/b.txt"},
		{"run --resume last", "wants to create /out/b.txt"},
	} {
		for _, answer := range []string{"kill", "n\r"} {
			p.startAt(80, strings.Fields(test.line)...)
			p.screen.Until(test.wait)
			p.screen.Until("┃ > ")
			if answer == "kill" {
				p.cmd.Process.Kill()
			} else if _, err := p.person.WriteString(answer); err != nil {
				t.Fatal(err)
			}
			if _, seen := p.waitForEnd(); answer != "kill" && strings.Contains(seen, "another golem") {
				t.Errorf("%s: something is locked:\n%s", test.line, seen)
			}
			if p.read("a.txt") != "a\n" || p.read("out/b.txt") != "" || p.read("new.txt") != "" {
				t.Fatalf("%s: a file changed: %q, %q, %q", test.line, p.read("a.txt"), p.read("out/b.txt"), p.read("new.txt"))
			}
			if test.line == "run . go --model scripted:model.yaml" {
				break // the next row continues the run
			}
		}
		if out, code := p.golem("status"); code != 0 || !strings.Contains(out, "with changes") || strings.Contains(out, "running") {
			t.Errorf("%s: the changes are gone, or something runs: code %d\n%s", test.line, code, out)
		}
	}
	p.startAt(80, "run", ".", "go", "--model", "scripted:model.yaml")
	p.answer("wants to create /out/b.txt", "y\r")
	if code, seen := p.waitForEnd(); code != 0 || p.read("out/b.txt") != "x" {
		t.Errorf("a run after the kills: code %d, b.txt %q\n%s", code, p.read("out/b.txt"), seen)
	}
	if out, code := p.golem("audit", "verify"); code != 0 {
		t.Errorf("the journal is damaged: code %d\n%s", code, out)
	}
}

// TestRemovedAtQuestion removes the session at another terminal while golem asks about its
// changes. golem then does exactly what the user approved, or nothing, and says why.
func TestRemovedAtQuestion(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		line, wait string
		code       int
		want       string // a text on the screen
		text       string // the file afterwards
	}{
		{"apply", "You are about to", 0, "applied: changed a.txt", "b\n"}, // golem holds the content that it shows
		{"apply -p", "[q]uit", 1, "not_found; there are no sessions here", "a\n"},
		{"discard", "You are about to", 1, "no longer has these changes: they were applied or discarded elsewhere while golem asked; this command changed nothing", "a\n"},
		{"sessions rm last", "You are about to delete", 0, "is gone already: another golem removed it", "a\n"},
		{"sessions prune --older 1ns", "You are about to delete", 0, "is gone already: another golem removed it", "a\n"},
	} {
		p := newPickTest(t, map[string]string{"a.txt": "a\n"}, "echo b > a.txt")
		p.startAt(250, strings.Fields(test.line)...)
		p.screen.Until(test.wait)
		p.screen.Until("┃ > ")
		if out, code := p.golem("sessions", "rm", "last", "--yes"); code != 0 || out != "removed 1 session\n" {
			t.Errorf("%s: the session is not removed: code %d\n%s", test.line, code, out)
		}
		if _, err := p.person.WriteString("y\r"); err != nil {
			t.Fatal(err)
		}
		if code, seen := p.waitForEnd(); code != test.code || !strings.Contains(seen, test.want) || p.read("a.txt") != test.text {
			t.Errorf("%s: code %d, a.txt %q, want %d, %q and %q\n%s", test.line, code, p.read("a.txt"), test.code, test.text, test.want, seen)
		}
		if out, code := p.golem("status"); code != 0 || !strings.Contains(out, "nothing waits for you here") {
			t.Errorf("%s: status afterwards: code %d\n%s", test.line, code, out)
		}
	}
}

// TestEmptySession checks that an empty variable in place of a session chooses none.
func TestEmptySession(t *testing.T) {
	t.Parallel()
	p := newPickTest(t, map[string]string{"a.txt": "a\n"}, "echo b > a.txt")
	for _, args := range [][]string{
		{"discard", "--session", "", "--yes"}, {"apply", "--session=", "--yes"}, {"diff", "--session", ""}, {"sessions", "rm", "", "--yes"},
		{"sessions", "show", ""}, {"exec", "--session", "", "true"}, {"run", ".", "--resume", ""}, {"tool", "list_files", "--session", ""},
	} {
		if out, code := p.golem(args...); code != 2 || !strings.Contains(out, "golem sessions lists them") {
			t.Errorf("%q: code %d\n%s", args, code, out)
		}
	}
	if out, _ := p.golem("status"); !strings.Contains(out, "1 session with changes") || p.read("a.txt") != "a\n" {
		t.Errorf("a.txt %q\n%s", p.read("a.txt"), out)
	}
}

// TestInterruptedSecret checks that Ctrl-C while golem reads a secret ends golem, stores
// nothing, and leaves a terminal that shows what the user types.
func TestInterruptedSecret(t *testing.T) {
	t.Parallel()
	p := newPickTest(t, map[string]string{"a.txt": "a\n"}, "true")
	p.startAt(80, "secret", "set", "github")
	p.screen.Until("golem does not show it")
	for { // golem asks before the terminal hides what the user types
		if modes, err := unix.IoctlGetTermios(int(p.person.Fd()), unix.TCGETS); err != nil || modes.Lflag&unix.ECHO == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if _, err := p.person.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	code, seen := p.waitForEnd()
	if code != 3 || !strings.Contains(seen, "golem: stored nothing for github") {
		t.Errorf("code %d\n%s", code, seen)
	}
	modes, err := unix.IoctlGetTermios(int(p.person.Fd()), unix.TCGETS)
	if err != nil || modes.Lflag&unix.ECHO == 0 {
		t.Errorf("the terminal does not show what the user types: %v", err)
	}
	if out, code := p.golem("secret", "ls"); code != 0 || !strings.Contains(out, "no secrets") {
		t.Errorf("code %d\n%s", code, out)
	}
}
