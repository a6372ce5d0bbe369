package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// TestForeignTerminal: golem asks nobody at a terminal of another user, as after su, and
// reports the reason.
func TestForeignTerminal(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can pass a terminal to another user")
	}
	const uid = 12345
	top, err := os.MkdirTemp("", "golem-terminal-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	self, err := exec.LookPath("golem")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	program, dir := filepath.Join(top, "golem"), filepath.Join(top, "dir")
	for _, do := range []func() error{
		func() error { return err },
		func() error { return os.Chmod(top, 0o755) },
		func() error { return os.WriteFile(program, data, 0o755) },
		func() error { return os.Mkdir(dir, 0o700) },
		func() error { return os.Chown(dir, uid, uid) },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	_, terminal := newTerminal(t)
	golem := func(args ...string) (string, int) {
		var out bytes.Buffer
		cmd := &exec.Cmd{Path: program, Args: append([]string{"golem"}, args...), Dir: dir, Env: []string{"GOLEM_STATE=" + filepath.Join(dir, "state"), "HOME=" + dir},
			Stdin: terminal, Stdout: &out, Stderr: &out,
			SysProcAttr: &syscall.SysProcAttr{Setsid: true, Setctty: true, Credential: &syscall.Credential{Uid: uid, Gid: uid}}}
		cmd.Run()
		return out.String(), cmd.ProcessState.ExitCode()
	}
	if out, code := golem("init", "notes"); code != 0 {
		t.Fatalf("code %d\n%s", code, out)
	}
	out, code := golem("tool", "write_file", "-C", "notes", "--path", "/out/a", "--content", "x")
	if code != 3 || !strings.Contains(out, "it waits for your approval") || !strings.Contains(out, "\nnote: nobody was asked: the terminal belongs to another user") {
		t.Errorf("code %d\n%s", code, out)
	}
	_, id, _ := strings.Cut(out, "after golem approve ")
	id, _, _ = strings.Cut(id, " ")
	if out, code := golem("approve", "-C", "notes", id); code != 3 || !strings.Contains(out, "it still waits; golem approve "+id+" asks again, golem approve "+id+" --no declines it\nnote: nobody was asked: the terminal belongs to another user") {
		t.Errorf("approve %q: code %d\n%s", id, code, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "play.yaml"), []byte("- calls: [{tool: write_file, args: {path: /out/b, content: x}}]\n- text: Done.\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, code := golem("run", "notes", "go", "--model", "scripted:play.yaml"); code != 3 || !strings.Contains(out, "nobody was asked: the terminal belongs to another user") {
		t.Errorf("run: code %d\n%s", code, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "notes", "workers", "new.worker"), []byte("---\nsandbox: inherit\n---\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, code := golem("trust", "-C", "notes"); code != 3 || !strings.Contains(out, "not trusted; nothing has changed; the same command asks again\n") || !strings.Contains(out, "note: nobody was asked: the terminal belongs to another user") {
		t.Errorf("trust: code %d\n%s", code, out)
	}
}

// newTerminal returns both ends of a terminal of 80 columns.
func newTerminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { person.Close() })
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
	}
	if err != nil {
		t.Fatal(err)
	}
	if program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return person, program
}

// TestReviewAtATerminal: text of a worker cannot imitate golem's own lines, and golem
// reports its invisible characters.
func TestReviewAtATerminal(t *testing.T) {
	const forged = "scanned: all of it, clamd ok"
	wide := func(text string) string { return text + strings.Repeat(" ", max(0, 80-len(text))) }
	dir, _, golem := newTrustedProgram(t, map[string]string{
		"golem-forge.config.yaml": "sandbox: {root: ., mode: overlay}\nclearance: {targets: {origin: {type: bare, path: ./target.git}}}\n",
		"main.worker":             "---\nsandbox: inherit\ntoolsets: {filesystem: , git: {default_target: origin}}\n---\nWork.\n",
		"notes.md":                "one\n" + wide("two") + forged + "\n",
	})
	if out, err := exec.Command("git", "init", "-q", "--bare", "-b", "main", filepath.Join(dir, "target.git")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	name := "a" + strings.Repeat(" ", 60) + strings.Repeat(forged+strings.Repeat(" ", 52), 2)
	if err := os.WriteFile(filepath.Join(dir, name), []byte("x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	message := "Fix a typo\U000e0162\U000e0165" + strings.Repeat(" ", 55) + strings.Repeat(forged+strings.Repeat(" ", 52), 3)
	if out, err := golem("tool", "git_stage", "--files", "/notes.md", "--files", "/"+name, "--message", message+"\n\n"+wide("")+forged).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, args := range [][]string{{"review"}, {"review", "--all"}, {"review", "--summary"}, {"tool", "git_diff"}} {
		person, terminal := newTerminal(t)
		screen := make(chan string, 1)
		go func() {
			data, _ := io.ReadAll(person) // ends with an error when the other end is closed
			screen <- string(data)
		}()
		cmd := golem(args...)
		cmd.Env = append(cmd.Env, "TERM=xterm", "NO_COLOR=")
		cmd.Stdout, cmd.Stderr = terminal, terminal
		err := cmd.Run()
		terminal.Close()
		seen := <-screen
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, seen)
		}
		if strings.ContainsAny(seen, "\U000e0162\U000e0165") || !strings.Contains(seen, "in the message or the branch: ") {
			t.Errorf("%q: invisible characters are not reported:\n%q", args, seen)
		}
		if coloured := strings.Contains(seen, "\x1b[32m"); coloured != !slices.Contains(args, "--summary") {
			t.Errorf("%q: colours: %v", args, coloured)
		}
		scanned := 0
		for line := range strings.Lines(regexp.MustCompile(`\x1b\[\d+m`).ReplaceAllString(seen, "")) {
			line = strings.TrimRight(line, "\r\n")
			if utf8.RuneCountInString(line) >= 80 {
				t.Errorf("%q: the terminal breaks %q", args, line)
			}
			if strings.HasPrefix(line, "scanned: ") {
				scanned++
			}
		}
		if scanned != 1 {
			t.Errorf("%q: %d lines look like the line with the scanners' findings:\n%s", args, scanned, seen)
		}
	}
}

// TestServerAtATerminal: golem mcp at a terminal explains how to connect a client.
func TestServerAtATerminal(t *testing.T) {
	_, _, golem := newTrustedProgram(t, map[string]string{"golem-forge.config.yaml": "sandbox: {root: .}\n", "main.worker": "---\nsandbox: inherit\ntoolsets: [filesystem]\n---\n"})
	person, terminal := newTerminal(t)
	if _, err := person.WriteString("\x04"); err != nil { // end of input
		t.Fatal(err)
	}
	cmd := golem("mcp")
	cmd.Stdin = terminal
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "golem mcp install CLIENT makes a client start golem mcp") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestSlowAtATerminal: golem reports that it waits for slow scanners, and erases the line.
func TestSlowAtATerminal(t *testing.T) {
	_, _, golem := newTrustedProgram(t, map[string]string{
		"golem-forge.config.yaml": "sandbox: {root: .}\nclearance: {external: {slow: {command: [sleep, \"2\"]}}}\n",
		"main.worker":             "---\nsandbox: inherit\ntoolsets: [filesystem]\n---\n",
	})
	person, terminal := newTerminal(t)
	cmd := golem("scan", "main.worker")
	cmd.Stderr = terminal
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	terminal.Close()
	if seen, _ := io.ReadAll(person); !strings.Contains(string(seen), "golem: scanning, 0 of 1 file, 1 s") || !strings.HasSuffix(string(seen), "\r\x1b[K") {
		t.Errorf("got %q", seen)
	}
}
