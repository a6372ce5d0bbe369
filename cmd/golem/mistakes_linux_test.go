package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// TestInterruptAtEachPrompt presses Ctrl-C at each kind of question. golem then ends,
// changes nothing, and keeps what waits.
func TestInterruptAtEachPrompt(t *testing.T) {
	t.Parallel()
	files := map[string]string{"a.txt": "a\n", "more.sh": "echo more >> a.txt\n", "main.worker": "---\nsandbox: inherit\ntoolsets: [filesystem]\n---\nWork.\n",
		"golem-forge.config.yaml": "sandbox: {root: ., mode: overlay, mounts: [{source: ./out, target: /out}]}\n",
		"model.yaml":              "- calls: [{tool: write_file, args: {path: /out/b.txt, content: x}}]\n- {text: Done}\n"}
	p := newTrustedPickTest(t, files)
	for _, test := range []struct {
		line string
		wait string // a text of the question
		code int
	}{
		{"apply", "You are about to", 3},
		{"discard", "You are about to", 3},
		{"tool write_file --path /out/b.txt --content x", "You are about to create", 3},
		{"exec --apply ask sh more.sh", "You are about to", 3},
		{"discard --session last", "from session ", 3}, // there are two sessions now
		{"sessions prune --older 1ns", "You are about to", 3},
		{"sessions rm last", "discard the changes to a.txt", 3},
		{"apply -p", "[q]uit", 3},
		{"run . go --model scripted:model.yaml", "wants to create /out/b.txt", 130},
		{"trust", "You are about to trust", 3}, // after a change, which comes last
	} {
		t.Run(strings.Fields(test.line)[0], func(t *testing.T) {
			p := p.forTest(t)
			if test.line == "trust" {
				p.write("main.worker", "---\nsandbox: inherit\ntoolsets: [filesystem, shell]\n---\nWork.\n")
			}
			p.startAt(80, strings.Fields(test.line)...)
			p.answer(test.wait, "\x03")
			code, seen := p.waitForEnd()
			if code != test.code {
				t.Errorf("got code %d, want %d\n%s", code, test.code, seen)
			}
			if code == 130 && (!strings.Contains(seen, "stopped at the question: nothing was done") || !strings.Contains(seen, "next: golem run . --resume last") || strings.Contains(seen, "do not repeat")) {
				t.Errorf("the run does not say how it continues:\n%s", seen)
			}
			if p.read("a.txt") != "a\n" || p.read("out/b.txt") != "" {
				t.Errorf("a file changed: %q, %q", p.read("a.txt"), p.read("out/b.txt"))
			}
		})
	}
	if out, _ := p.golem("approvals"); !strings.Contains(out, "nothing waits for approval") {
		t.Errorf("a declined call waits:\n%s", out)
	}
	if out, _ := p.golem("status"); !strings.Contains(out, "new.txt") && !strings.Contains(out, "with changes") {
		t.Errorf("the changes are gone:\n%s", out)
	}
}

// TestDeclinedUndo checks that golem says what to type after a no to an undo.
func TestDeclinedUndo(t *testing.T) {
	t.Parallel()
	p := newPickTest(t, map[string]string{"a.txt": "a\n"}, "echo b > a.txt")
	if out, code := p.golem("apply", "--yes"); code != 0 {
		t.Fatalf("apply: code %d\n%s", code, out)
	}
	for _, answer := range []string{"n\r", "\x03", "\r"} {
		p.startAt(120, "undo")
		p.answer("You are about to", answer)
		if code, seen := p.waitForEnd(); code != 3 || !strings.Contains(seen, "your files stay as they are; golem undo --list lists what can be undone") || p.read("a.txt") != "b\n" {
			t.Errorf("%q: code %d\n%s", answer, code, seen)
		}
	}
}

// TestConfigEdit checks what golem says if the editor saves nothing, or fails.
func TestConfigEdit(t *testing.T) {
	t.Parallel()
	p := newPickTest(t, nil, "true")
	p.env = append(p.env, "HOME="+p.dir, "XDG_CONFIG_HOME="+p.dir+"/.config", "VISUAL=", "GOLEM_EDITOR=")
	file := p.dir + "/.config/golem/config.yaml"
	for _, test := range []struct {
		editor, want string
		code         int
	}{
		{"true", "nothing was saved, and golem made no file: " + file, 0},
		{"false", "the editor false failed (exit status 1); " + file + " is as it was; choose another editor with EDITOR=…, or change the file yourself and run golem lint", 1},
		{"echo 'notify: bell' >", "no problems: " + file, 0},
		{"true", "unchanged, no problems: " + file, 0},
		{"echo 'notify: loud' >", "notify: loud; it is auto, desktop, bell or off, or a map", 2},
		{"echo 'notify: {command: [tell]}' >", "notify.command: no whole path of a program; write it with its arguments", 2},
		{"echo 'notify: {webhook: http://example.org/secret}' >", "notify.webhook: no address that golem uses; write https://HOST/…, or http:// for this machine", 2},
		{"echo 'notify: {mail: a b}' >", "notify.mail: a b is no address", 2},
		{"echo 'notify: {form: ntfy}' >", "notify.form without webhook", 2},
	} {
		one := p.forTest(t)
		one.env = append(slices.Clone(p.env), "EDITOR="+test.editor)
		one.startAt(500, "config", "edit", "--user")
		code, seen := one.waitForEnd()
		if plain := strings.Join(strings.Fields(seen), " "); code != test.code || !strings.Contains(plain, test.want) {
			t.Errorf("EDITOR=%s: code %d, want %d with %q\n%s", test.editor, code, test.code, test.want, seen)
		}
	}
}

// TestApplyWaits applies the changes of a session at one terminal while a command works
// in it at another. golem says for what it waits, and Ctrl-C ends the wait.
func TestApplyWaits(t *testing.T) {
	t.Parallel()
	p := newPickTest(t, map[string]string{"a.txt": "a\n"}, "echo b > a.txt")
	agent := p.forTest(t)
	agent.startAt(80, "exec", "--session", "last", "sh", "-c", "echo begun; exec sleep 100")
	agent.screen.Until("begun")
	for _, command := range []string{"apply", "discard"} {
		p.startAt(200, command)
		p.screen.Until("golem: waiting: sh (process ")
		p.screen.Until("Ctrl-C stops waiting")
		if _, err := p.person.WriteString("\x03"); err != nil {
			t.Fatal(err)
		}
		if code, seen := p.waitForEnd(); code != 130 || !strings.Contains(seen, "stopped waiting; nothing was") {
			t.Errorf("%s: code %d\n%s", command, code, seen)
		}
	}
	if out, _ := p.golem("status"); !strings.Contains(out, "  sh       running  ") {
		t.Errorf("status:\n%s", out)
	}
	if out, _ := p.golem("sessions"); !strings.Contains(out, "  running: sh (process ") {
		t.Errorf("sessions:\n%s", out)
	}
	p.startAt(200, "apply")
	p.screen.Until("golem: waiting: ")
	if _, err := agent.person.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	agent.waitForEnd()
	p.answer("You are about to update a.txt", "y\r")
	if code, seen := p.waitForEnd(); code != 0 || p.read("a.txt") != "b\n" {
		t.Errorf("after the wait: code %d, a.txt %q\n%s", code, p.read("a.txt"), seen)
	}
	if out, _ := p.golem("status"); strings.Contains(out, "running") {
		t.Errorf("status after the end:\n%s", out)
	}
}

// TestReadOnlyPlace checks that golem says what to type after a command could not write to a
// place, and that typing it works.
func TestReadOnlyPlace(t *testing.T) {
	t.Parallel()
	p := newPickTest(t, map[string]string{"a.txt": "a\n"}, "true")
	p.mkdir("out")
	for _, test := range []struct{ flags, command, want string }{
		{"", "mkdir /usr/x", "golem exec --root .:overlay --mount DIR:/DST:overlay adds a directory"},
		{"--root .:ro", "mkdir made", "to let it change .: golem exec --root .:overlay -- mkdir made"},
		{"--root .:overlay --mount=out:/out:ro", "mkdir /out/made", "to let it change out:/out: golem exec --root .:overlay --mount out:/out:overlay -- mkdir /out/made"},
	} {
		p := p.forTest(t)
		p.startAt(400, append(strings.Fields("exec "+test.flags), strings.Fields(test.command)...)...)
		code, seen := p.waitForEnd()
		if code != 1 || !strings.Contains(seen, "golem: that place is read-only; ") || !strings.Contains(seen, test.want) {
			t.Errorf("%s: code %d\n%s", test.flags, code, seen)
		}
		if _, line, ok := strings.Cut(test.want, ": golem "); ok {
			if out, code := p.golem(strings.Fields(line)...); code != 0 || !strings.Contains(out, "made/") {
				t.Errorf("golem %s: code %d\n%s", line, code, out)
			}
		}
	}
	p.startAt(400, "exec", "sh", "-c", "mkdir /usr/x; true")
	if code, seen := p.waitForEnd(); code != 0 || strings.Contains(seen, "that place is") {
		t.Errorf("after a success: code %d\n%s", code, seen)
	}
}

// newTrustedPickTest writes a program, trusts it, and makes a session with a change.
func newTrustedPickTest(t *testing.T, files map[string]string) *pickTest {
	t.Helper()
	p := newPickTest(t, nil, "true")
	p.mkdir("out")
	for name, text := range files {
		p.write(name, text)
	}
	for _, args := range [][]string{{"trust", "--yes"}, {"tool", "write_file", "--path", "/new.txt", "--content", "new"}} {
		if out, code := p.golem(args...); code != 0 {
			t.Fatalf("%v: code %d\n%s", args, code, out)
		}
	}
	return p
}

// erasedLines matches status lines, which golem draws on a slow machine and erases.
var erasedLines = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`golem: [^\r\n]*\r\x1b\[K`) })

// TestPlainPrompts checks a question on terminals that support little: no colours, no
// escape sequences, and lines that fit.
func TestPlainPrompts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		env     string
		columns uint16
	}{
		"dumb": {"TERM=dumb", 80}, "no colour": {"NO_COLOR=1", 80}, "narrow": {"NO_COLOR=1", 40}, "wide": {"NO_COLOR=1", 200},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPickTest(t, map[string]string{"a.txt": "a\n"}, `mkdir -p .github/workflows; echo "on: push" > .github/workflows/build-and-publish.yml; echo "a long line with many words, so that it has to be wrapped" >> a.txt`)
			p.env = append(p.env, "NO_COLOR=", test.env)
			p.startAt(test.columns, "apply")
			p.answer("You are about to apply 2", "?\r")
			p.answer("Ctrl-C", "y\r")
			code, seen := p.waitForEnd()
			if code != 0 || !strings.Contains(seen, "! .github/workflows/build-and") {
				t.Errorf("code %d\n%s", code, seen)
			}
			if test.env != "TERM=dumb" {
				seen = erasedLines().ReplaceAllString(seen, "")
			}
			if strings.Contains(seen, "\x1b") {
				t.Errorf("there are escape sequences:\n%q", seen)
			}
			for line := range strings.Lines(seen) {
				if n := utf8.RuneCountInString(strings.TrimRight(line, "\r\n")); n > int(test.columns) {
					t.Errorf("a line of %d columns: %q", n, line)
				}
			}
		})
	}
}

// TestNarrowOutput checks that golem itself breaks its lines on a terminal of 40 columns,
// between words. The terminal would break them anywhere.
func TestNarrowOutput(t *testing.T) {
	t.Parallel()
	p := newTrustedPickTest(t, questionFiles)
	p.env = append(p.env, "GOLEM_PAGER=cat", "TERM=xterm")
	if out, code := p.golem("exec", "--session", "new", "sh", "-c", "echo b > a.txt; echo all: > Makefile"); code != 0 {
		t.Fatalf("exec: code %d\n%s", code, out)
	}
	p.golem("run", ".", "go", "--model", "scripted:model.yaml") // its call waits
	for _, line := range []string{"status", "diff --session last", "diff --session last --stat", "sessions", "approvals", "audit show", "audit show a.txt", "workers", "trust", "doctor",
		"undo --list", "lint", "apply nosuch.txt --session last", "diff nosuch.txt --session last", "sessions show last", "explain /out/x --op write", "tools", "run", "approve nosuch",
		"run . go --model scripted:model.yaml --approval auto_deny"} {
		one := p.forTest(t)
		one.startAt(40, strings.Fields(line)...)
		_, seen := one.waitForEnd()
		for text := range strings.Lines(erasedLines().ReplaceAllString(seen, "")) {
			text = strings.TrimRight(text, "\r\n")
			if n := utf8.RuneCountInString(text); n > 40 && strings.Contains(strings.TrimSpace(text), " ") {
				t.Errorf("golem %s: a line of %d columns: %q", line, n, text)
			}
		}
	}
}

// TestPagerEndsEarly checks that a pager that shows only the beginning is no error.
func TestPagerEndsEarly(t *testing.T) {
	p := newPickTest(t, map[string]string{"a.txt": "a\n"}, "seq 100000 > big.txt")
	p.env = append(p.env, "GOLEM_PAGER=head -n 1")
	p.startAt(80, "diff")
	if code, seen := p.waitForEnd(); code != 0 || !strings.Contains(seen, "1 file changed") {
		t.Errorf("code %d\n%s", code, seen)
	}
}

// TestPagerOfWorker checks that golem does not start a pager that a worker wrote, also if the user's
// PATH names the directory, as an active .venv does.
func TestPagerOfWorker(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "ran")
	p := newPickTest(t, map[string]string{"a.txt": "a\n"}, "seq 100 > big.txt")
	bin := filepath.Join(p.dir, ".venv/bin")
	if err := errors.Join(os.MkdirAll(bin, 0o755), os.WriteFile(filepath.Join(bin, "less"), []byte("#!/bin/sh\necho ran > "+mark+"\ncat\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	p.env = append(p.env, "TERM=xterm", "GOLEM_PAGER=less", "PATH="+bin+":"+t.TempDir())
	for _, line := range []string{"diff", "audit show"} {
		one := p.forTest(t)
		one.rows = 6
		one.startAt(80, strings.Fields(line)...)
		if code, seen := one.waitForEnd(); code != 0 || !strings.Contains(seen, "big") {
			t.Errorf("golem %s: code %d\n%s", line, code, seen)
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("golem started the pager of the worker")
	}
}

// TestPagerShowsNothing checks that golem prints the text itself if the pager does not.
func TestPagerShowsNothing(t *testing.T) {
	p := newPickTest(t, map[string]string{"a.txt": "a\n"}, "seq 100 > big.txt")
	for _, env := range []string{"GOLEM_PAGER=true", "GOLEM_PAGER=false", "TERM=dumb"} {
		one := p.forTest(t)
		one.env = append(slices.Clone(p.env), env)
		one.startAt(80, "diff")
		if code, seen := one.waitForEnd(); code != 0 || !strings.Contains(seen, "+ 100") || !strings.Contains(seen, "next: golem apply") {
			t.Errorf("%s: code %d\n%s", env, code, seen)
		}
	}
}

// TestSecondTerminal applies the changes of a session while an agent works in it.
func TestSecondTerminal(t *testing.T) {
	t.Parallel()
	p := newPickTest(t, map[string]string{"a.txt": "a\n"}, "echo b > b.txt")
	list, _ := p.golem("sessions")
	id := strings.Fields(strings.Split(list, "\n")[1])[0]
	first := p.forTest(t)
	first.startAt(80, "exec", "--session", id, "sh", "-c", "echo ready; read line")
	first.screen.Until("ready")
	out, code := p.golem("apply", "--yes")
	if code != 1 || !strings.Contains(out, "golem") || !strings.Contains(out, "session") {
		t.Errorf("code %d\n%s", code, out)
	}
	if _, err := first.person.WriteString("\r"); err != nil {
		t.Fatal(err)
	}
	if code, seen := first.waitForEnd(); code != 0 {
		t.Errorf("code %d\n%s", code, seen)
	}
	if out, code := p.golem("apply", "--yes"); code != 0 {
		t.Errorf("code %d\n%s", code, out)
	}
}
