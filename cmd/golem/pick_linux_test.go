package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/checks/testutil"
)

// A pickTest is a golem apply -p at a terminal, over a session with changes.
type pickTest struct {
	t      *testing.T
	dir    string
	env    []string
	rows   uint16 // of the terminal, 24 by default
	person *os.File
	screen *testutil.Screen
	cmd    *exec.Cmd
}

// newPickTest writes files into a directory, and runs a script on them in a session.
func newPickTest(t *testing.T, files map[string]string, script string, env ...string) *pickTest {
	t.Helper()
	p := &pickTest{t: t, dir: t.TempDir()}
	p.env = append(os.Environ(), append([]string{"GOLEM_STATE=" + t.TempDir(), "NO_COLOR=1", "TERM=xterm"}, env...)...)
	for name, text := range files {
		p.write(name, text)
	}
	if out, code := p.golem("exec", "sh", "-c", script); code != 0 {
		t.Fatalf("exec: code %d\n%s", code, out)
	}
	return p
}

func (p *pickTest) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pickTest) mkdir(name string) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Join(p.dir, name), 0o755); err != nil {
		p.t.Fatal(err)
	}
}

// forTest returns the same directory for another test or terminal.
func (p *pickTest) forTest(t *testing.T) *pickTest {
	return &pickTest{t: t, dir: p.dir, env: p.env, rows: p.rows}
}

// read returns the content of a file, "" if there is none.
func (p *pickTest) read(name string) string {
	data, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.t.Fatal(err)
	}
	return string(data)
}

// golem runs a command without a terminal.
func (p *pickTest) golem(args ...string) (out string, code int) {
	cmd := exec.Command("golem", args...)
	cmd.Dir, cmd.Env = p.dir, p.env
	data, _ := cmd.CombinedOutput()
	return string(data), cmd.ProcessState.ExitCode()
}

// start runs golem apply -p at a terminal.
func (p *pickTest) start(args ...string) { p.startAt(80, append([]string{"apply", "-p"}, args...)...) }

// startAt runs golem at a terminal with a number of columns.
func (p *pickTest) startAt(columns uint16, args ...string) {
	p.t.Helper()
	p.startProgram(columns, "golem", args...)
}

// startProgram runs a program at a terminal with a number of columns.
func (p *pickTest) startProgram(columns uint16, program string, args ...string) {
	p.t.Helper()
	person, terminal := newTerminal(p.t)
	if err := unix.IoctlSetWinsize(int(person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: cmp.Or(p.rows, 24), Col: columns}); err != nil {
		p.t.Fatal(err)
	}
	p.person, p.screen = person, testutil.NewScreen(p.t)
	go p.screen.Watch(person)
	p.cmd = exec.Command(program, args...)
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = p.dir, p.env, terminal, terminal, terminal
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	terminal.Close()
}

// answer waits for a text and a prompt, and then types an answer.
func (p *pickTest) answer(text, answer string) {
	p.t.Helper()
	p.screen.Until(text)
	p.screen.Until("┃ > ")
	if _, err := p.person.WriteString(answer); err != nil {
		p.t.Fatal(err)
	}
}

// waitForEnd waits for the end of golem, and returns its exit code and the screen.
func (p *pickTest) waitForEnd() (code int, seen string) {
	p.cmd.Wait()
	<-p.screen.Over()
	seen, _ = p.screen.Seen()
	return p.cmd.ProcessState.ExitCode(), seen
}

// numberLines returns the lines 1 to 40, with some of them replaced.
func numberLines(replaced map[int]string) string {
	var b strings.Builder
	for i := 1; i <= 40; i++ {
		line := fmt.Sprintf("line %d", i)
		if r, ok := replaced[i]; ok {
			line = r
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// TestPickHunks chooses hunks, splits one, edits one, and takes only the permission bits
// of a file. Exactly that is applied, and the rest stays in the session.
func TestPickHunks(t *testing.T) {
	t.Parallel()
	p := newPickTest(t, map[string]string{"a.txt": numberLines(nil), "gone.txt": "old\n", "run": "echo hi\n"},
		`sed -i 's/^line 3$/three/;s/^line 5$/five/;s/^line 30$/thirty/' a.txt; rm gone.txt; chmod +x run; sed -i s/hi/ho/ run; printf 'esc \033[31mred\n' > new.txt`,
		"VISUAL=sed -i s/thirty/THIRTY/")
	p.start()
	p.answer("1 of 6: new new.txt (+1)", "y\r")
	p.answer("2 of 6: run, permission bits 0644 → 0755", "y\r")
	p.answer("3 of 6: run (+1 -1)", "n\r")
	p.answer("4 of 6: a.txt (+2 -2)", "s\r")
	p.answer("4 of 7: a.txt (+1 -1)", "y\r")
	p.answer("5 of 7: a.txt (+1 -1)", "x\r")
	p.answer("please answer y, n, a, d, e, q or ? (help)", "?\r")
	p.answer("stop, and apply nothing", "\r")
	p.answer("6 of 7: a.txt (+1 -1)", "e\r")
	p.answer("6 of 7: a.txt (+1 -1), as you edited it", "y\r")
	p.answer("7 of 7: delete gone.txt (-1)", "q\r")
	p.answer("You are about to apply 3 changes", "y\r")
	code, seen := p.waitForEnd()
	if code != 0 {
		t.Fatalf("code %d\n%s", code, seen)
	}
	if strings.Contains(seen, "\x1b[31m") || !strings.Contains(seen, `esc \x1b[31mred`) {
		t.Errorf("the escape sequence of a file is not shown as text: %q", seen)
	}
	if got, want := p.read("a.txt"), numberLines(map[int]string{3: "three", 30: "THIRTY"}); got != want {
		t.Errorf("a.txt: got\n%s", got)
	}
	if got := p.read("run"); got != "echo hi\n" {
		t.Errorf("run: got %q", got)
	}
	if info, err := os.Stat(filepath.Join(p.dir, "run")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("run: got %v, %v", info, err)
	}
	if p.read("gone.txt") != "old\n" || p.read("new.txt") != "esc \x1b[31mred\n" {
		t.Errorf("got %q and %q", p.read("gone.txt"), p.read("new.txt"))
	}
	if out, _ := p.golem("diff"); !strings.Contains(out, "+five\n") || !strings.Contains(out, "-THIRTY\n+thirty\n") || !strings.Contains(out, "+echo ho\n") || !strings.Contains(out, "-old\n") || strings.Contains(out, "three\n+") {
		t.Errorf("the session has\n%s", out)
	}
	if out, _ := p.golem("audit", "show", "--json"); !strings.Contains(out, "all 6 items") || strings.Contains(out, "THIRTY") {
		t.Errorf("the journal has\n%s", out)
	}
	if out, code := p.golem("undo", "--yes"); code != 0 || p.read("a.txt") != numberLines(nil) {
		t.Errorf("undo: code %d\n%s", code, out)
	}
}

// TestPickMoved checks that golem shows the content of a file that a session has moved with its
// directory, before a plain yes counts for it.
func TestPickMoved(t *testing.T) {
	t.Parallel()
	p := newPickTest(t, map[string]string{"x": "x\n"}, "true")
	move := func(content, then string) {
		t.Helper()
		p.mkdir("old")
		p.write("old/a.txt", content)
		p.write("old/b.txt", "b\n")
		if out, code := p.golem("exec", "sh", "-c", "mv old new"+then); code != 0 {
			t.Fatalf("exec: code %d\n%s", code, out)
		}
		p.start()
		p.screen.Until("new/a.txt")
	}
	move("line one\nline two\n", "")
	p.screen.Until("only moved from old/a.txt")
	p.answer("line two", "y\r")
	p.answer("only moved from old/b.txt", "y\r")
	p.answer("delete old/", "y\r")
	p.answer("You are about to apply", "y\r")
	if code, seen := p.waitForEnd(); code != 0 || p.read("new/a.txt") != "line one\nline two\n" || p.read("old/a.txt") != "" {
		t.Fatalf("code %d, %q\n%s", code, p.read("new/a.txt"), seen)
	}
	if out, code := p.golem("undo", "--yes"); code != 0 {
		t.Fatalf("undo: code %d\n%s", code, out)
	}
	p.golem("discard", "--yes")

	// All of an edited file is shown, and not only the edit.
	move(numberLines(nil), " && sed -i 's/^line 30$/thirty/' new/a.txt")
	p.screen.Until("moved from old/a.txt and edited")
	p.answer("line 1\r\n", "y\r")
	p.answer("this is not shown completely", "q\r")
	p.waitForEnd()
	if got := p.read("new/a.txt"); got != "" {
		t.Errorf("applied %q", got)
	}
}

// TestPickLong checks that a plain yes counts only for what was on screen: a long hunk
// has pages, and golem shows hunks that a took unseen before it applies them.
func TestPickLong(t *testing.T) {
	t.Parallel()
	p := newPickTest(t, map[string]string{"a.txt": "x\n", "b.txt": numberLines(nil)},
		`seq 1 60 | sed 's/^/number /' > a.txt; sed -i 's/^line 3$/three/;s/^line 30$/thirty/' b.txt`)
	p.start()
	p.answer("[Enter] next page", "y\r")
	p.answer("this is not shown completely; Enter shows the next page", "\r")
	p.answer("number 30", "\r")
	p.answer("[Enter] next page", "\r")
	p.answer("number 60", "y\r")
	p.answer("2 of 3: b.txt", "a\r")
	p.screen.Until("You are about to apply 2 changes")
	p.answer("+ thirty", "y\r")
	code, seen := p.waitForEnd()
	_, final, _ := strings.Cut(seen, "You are about to")
	if code != 0 || strings.Contains(final, "number 7") {
		t.Errorf("code %d\n%s", code, seen)
	}
	if got := p.read("b.txt"); got != numberLines(map[int]string{3: "three", 30: "thirty"}) {
		t.Errorf("b.txt: got\n%s", got)
	}
	if !strings.HasSuffix(p.read("a.txt"), "number 60\n") {
		t.Errorf("a.txt: got %q", p.read("a.txt"))
	}
}

// TestPickRepeats checks that the last question shows the chosen hunk again if it is no
// longer on screen, and offers to show it if it does not fit.
func TestPickRepeats(t *testing.T) {
	p := newPickTest(t, map[string]string{"a.txt": "x\n", "b.txt": numberLines(nil)},
		`sed -i 's/^line 3$/three/;s/^line 20$/twenty/;s/^line 35$/thirty-five/' b.txt; seq 1 30 | sed 's/^/number /' > a.txt`)
	p.start("b.txt")
	p.answer("1 of 3: b.txt", "y\r")
	p.answer("2 of 3: b.txt", "n\r")
	p.answer("3 of 3: b.txt", "n\r")
	p.screen.Until("You are about to update b.txt (hunk 1 of 3")
	p.answer("+ three", "\r")
	if code, seen := p.waitForEnd(); code != 3 || strings.Contains(seen, "[v]iew") {
		t.Errorf("code %d\n%s", code, seen)
	}
	p.start("a.txt", "b.txt")
	p.answer("[Enter] next page", "\r")
	p.answer("number 30", "y\r")
	p.answer("2 of 4: b.txt", "q\r")
	p.answer("[y]es  [n]o  [v]iew it again  [?]", "v\r")
	p.answer("number 3", "\r")
	p.answer("number 30", "y\r")
	code, seen := p.waitForEnd()
	if code != 0 || !strings.HasSuffix(p.read("a.txt"), "number 30\n") || p.read("b.txt") != numberLines(nil) {
		t.Errorf("code %d, a.txt %q\n%s", code, p.read("a.txt"), seen)
	}
}

// TestPickNothing checks the ways to stop: nothing is applied.
func TestPickNothing(t *testing.T) {
	t.Parallel()
	p := newPickTest(t, map[string]string{"a.txt": numberLines(nil)}, `sed -i 's/^line 3$/three/;s/^line 30$/thirty/' a.txt`, "EDITOR=false", "VISUAL=")
	for _, test := range []struct {
		say  func()
		code int
		want string
	}{
		{func() { p.answer("1 of 2", "y\r"); p.answer("2 of 2", "\x03") }, 3, "stopped; nothing was applied"},
		{func() { p.answer("1 of 2", "y\r"); p.answer("2 of 2", "\x04") }, 3, "nothing was applied"},
		{func() { p.answer("1 of 2", "y\r"); p.answer("2 of 2", "q\r"); p.answer("You are about to", "n\r") }, 3, "nothing was applied"},
		{func() { p.answer("1 of 2", "d\r") }, 3, "you chose nothing"},
		{func() { p.answer("1 of 2", "y\r"); p.answer("2 of 2", "\r"); p.answer("You are about to", "\x03") }, 3, "nothing was applied"},
		{func() { // an editor that fails, and a hunk that is too small to split
			p.answer("1 of 2", "e\r")
			p.answer("the editor false failed (exit status 1); the hunk is as it was", "s\r")
			p.answer("this cannot be split further", "q\r")
		}, 3, "you chose nothing"},
		{func() { // the window becomes smaller
			p.answer("1 of 2", "y\r")
			p.screen.Until("2 of 2")
			if err := unix.IoctlSetWinsize(int(p.person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 20, Col: 40}); err != nil {
				t.Fatal(err)
			}
			p.cmd.Process.Signal(syscall.SIGWINCH)
			p.answer("2 of 2", "n\r")
			p.answer("You are about to", "n\r")
		}, 3, "nothing was applied"},
		{func() { // somebody changes the file meanwhile
			p.answer("1 of 2", "y\r")
			p.screen.Until("2 of 2")
			p.write("a.txt", "other\n"+numberLines(nil))
			p.answer("┃ [y]es", "q\r")
		}, 1, "changed in your directory since the session first changed it: a.txt; nothing was applied"},
	} {
		p.write("a.txt", numberLines(nil))
		p.start()
		test.say()
		code, seen := p.waitForEnd()
		if plain := strings.Join(strings.Fields(seen), " "); code != test.code || !strings.Contains(plain, test.want) {
			t.Errorf("code %d, want %d with %q\n%s", code, test.code, test.want, seen)
		}
		if got := strings.TrimPrefix(p.read("a.txt"), "other\n"); got != numberLines(nil) {
			t.Errorf("%q: applied:\n%s", test.want, got)
		}
	}
	if out, code := p.golem("apply", "-p"); code != 2 || !strings.Contains(out, "needs no terminal") && !strings.Contains(out, "asks at a terminal") {
		t.Errorf("without a terminal: code %d\n%s", code, out)
	}
	if out, code := p.golem("apply", "-p", "--yes"); code != 2 {
		t.Errorf("with --yes: code %d\n%s", code, out)
	}
}

// TestUndoOneHunk applies one hunk at a terminal and undoes it. The session has both
// hunks again, without a conflict. The journal says who approved which hunk.
func TestUndoOneHunk(t *testing.T) {
	t.Parallel()
	p := newPickTest(t, map[string]string{"list.txt": numberLines(nil)}, `sed -i 's/^line 3$/three/; s/^line 35$/thirtyfive/' list.txt`)
	p.start()
	p.answer("1 of 2: list.txt (+1 -1)", "y\r")
	p.answer("2 of 2: list.txt (+1 -1)", "q\r")
	p.answer("You are about to update list.txt (hunk 1 of 2; +1 -1", "y\r")
	code, seen := p.waitForEnd()
	if want := "applied: changed list.txt (hunk 1 of 2)"; code != 0 || !strings.Contains(seen, want) || !strings.Contains(seen, "the rest stays in session") {
		t.Fatalf("apply: code %d, want 0 and %q\n%s", code, want, seen)
	}
	out, _ := p.golem("audit", "show", "list.txt")
	for _, want := range []string{"• update /list.txt, hunk 1 of 2", "• the diff of /list.txt, version ", "(hunk 1 of 2, +1 -1) = the file as it is now", " on ", ", with a terminal", "the journal keeps\nno contents"} {
		if !strings.Contains(out, want) {
			t.Errorf("audit show: no %q in\n%s", want, out)
		}
	}
	p.startAt(100, "undo")
	p.answer("You are about to", "y\r")
	if code, seen := p.waitForEnd(); code != 0 || p.read("list.txt") != numberLines(nil) || !strings.Contains(seen, "undone: 1 change: restored list.txt") {
		t.Fatalf("undo: code %d, list.txt %q\n%s", code, p.read("list.txt"), seen)
	}
	sessions, _ := p.golem("sessions")
	id := strings.Fields(strings.TrimPrefix(sessions, strings.SplitAfter(sessions, "\n")[0]))[0]
	if out, _ := p.golem("audit", "show", "--tool", "undo", "--session", id); strings.Count(out, "  undo  ") != 2 {
		t.Errorf("the journal does not have the undo in session %s:\n%s", id, out)
	}
	if out, code := p.golem("undo"); code != 1 || !strings.Contains(out, "there is nothing to undo here; golem status") {
		t.Errorf("nothing to undo: code %d\n%s", code, out)
	}
	if out, _ := p.golem("audit", "show", "list.txt"); !strings.Contains(out, "(the file differs now)") {
		t.Errorf("audit show after the undo: no difference in\n%s", out)
	}
	if out, code := p.golem("diff", "--stat"); code != 0 || strings.Contains(out, "changed in your directory") || !strings.Contains(out, "(+2 -2)") {
		t.Errorf("diff --stat: code %d\n%s", code, out)
	}
	p.start()
	p.answer("1 of 2: list.txt (+1 -1)", "a\r")
	p.answer("You are about to", "y\r")
	if code, seen := p.waitForEnd(); code != 0 || p.read("list.txt") != numberLines(map[int]string{3: "three", 35: "thirtyfive"}) {
		t.Errorf("apply again: code %d, list.txt %q\n%s", code, p.read("list.txt"), seen)
	}
}

// TestDiscardCommits discards a session with commits at a terminal. golem does not list
// git's own files, and a plain y is enough.
func TestDiscardCommits(t *testing.T) {
	t.Parallel()
	p := newPickTest(t, map[string]string{"a.txt": "one\n"}, "true")
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=Me", "-c", "user.email=me@example.com", "commit", "-qm", "first"}} {
		cmd := exec.Command("git", args...)
		if cmd.Dir = p.dir; cmd.Run() != nil {
			t.Fatal(args)
		}
	}
	script := "echo two >> a.txt; mkdir new; echo b > new/b.txt; git add .; git -c user.name=A -c user.email=a@example.com commit -qm second"
	if out, code := p.golem("exec", "sh", "-c", script); code != 0 {
		t.Fatalf("exec: code %d\n%s", code, out)
	}
	p.startAt(100, "discard")
	p.answer("You are about to discard 2 changes and", "y\r")
	code, seen := p.waitForEnd()
	if code != 0 || !strings.Contains(seen, "discarded: 2 changes and ") || p.read("a.txt") != "one\n" {
		t.Errorf("code %d\n%s", code, seen)
	}
	for _, bad := range []string{"becomes code", "a terminal would obey", ".git/index", ".git/objects", "unseen"} {
		if strings.Contains(seen, bad) {
			t.Errorf("%q in\n%s", bad, seen)
		}
	}
}

// TestPickChanged changes a file in the session after the user has chosen it. The last
// question names it, and only it.
func TestPickChanged(t *testing.T) {
	t.Parallel()
	p := newPickTest(t, map[string]string{"a.txt": "old\n", "b.txt": "old\n", "c.txt": "old\n"}, "for f in a b c; do echo new > $f.txt; done")
	p.start()
	p.answer("1 of 3: a.txt (+1 -1)", "y\r")
	p.answer("2 of 3: b.txt (+1 -1)", "y\r")
	p.screen.Until("3 of 3: c.txt (+1 -1)")
	if out, code := p.golem("exec", "--session", "last", "sh", "-c", "echo other > b.txt"); code != 0 {
		t.Fatalf("exec: code %d\n%s", code, out)
	}
	p.answer("", "y\r")
	p.answer("changed since you looked at it: b.txt; the new content is below", "y\r")
	code, seen := p.waitForEnd()
	if code != 0 || p.read("b.txt") != "other\n" || strings.Count(seen, "changed since you looked") != 1 || !strings.Contains(seen, "+ other") {
		t.Errorf("code %d, %q:\n%s", code, p.read("b.txt"), seen)
	}
}
