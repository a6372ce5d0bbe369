package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestKilledTransactions kills golem while a command runs and while golem applies its
// changes. After the next golem, the directory has either none or all of the changes.
func TestKilledTransactions(t *testing.T) {
	t.Parallel()
	dir, state := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("golem-forge.config.yaml", "sandbox:\n  root: ./tree\n  approval: {write: preApproved, delete: preApproved}\n")
	write("main.worker", "---\ndescription: Works\nsandbox: inherit\ntoolsets:\n  filesystem:\n  shell:\ntool_rules: {shell: {allowed: true, approval_required: false}}\n---\nWork.\n")
	const files = 200
	for i := range files {
		write(fmt.Sprintf("tree/%d", i), "0")
	}
	golem := func(args ...string) *exec.Cmd {
		cmd := exec.Command("golem", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOLEM_STATE="+state)
		return cmd
	}
	if out, err := golem("trust", "--yes").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// look checks that all files have the same content, and returns it.
	look := func() string {
		t.Helper()
		if out, err := golem("tool", "list_files").CombinedOutput(); err != nil { // completes an interrupted apply
			t.Fatalf("%v\n%s", err, out)
		}
		entries, err := os.ReadDir(filepath.Join(dir, "tree"))
		if err != nil {
			t.Fatal(err)
		}
		said := make(map[string]int)
		for _, e := range entries {
			data, err := os.ReadFile(filepath.Join(dir, "tree", e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			said[string(data)]++
		}
		if len(said) != 1 || len(entries) != files {
			t.Fatalf("the directory has contents of several commands: %v, %d files", said, len(entries))
		}
		for text := range said {
			return text
		}
		return ""
	}
	changed := 0
	for i := range 40 {
		was := look()
		cmd := golem("tool", "shell", "--command", fmt.Sprintf("for f in *; do printf %d > $f; done", i+1))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(rand.N(300*time.Millisecond), func() { cmd.Process.Kill() })
		cmd.Wait()
		timer.Stop()
		switch is := look(); {
		case is == fmt.Sprint(i+1):
			changed++
		case is != was:
			t.Fatalf("the directory is %q, was %q", is, was)
		}
	}
	t.Logf("%d of 40 changes were applied", changed)
	if out, err := golem("audit", "verify").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	left, err := filepath.Glob(filepath.Join(state, "*", "layers", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range left {
		if base := filepath.Base(name); !strings.HasPrefix(base, "applied-") && base != "last" && !strings.HasPrefix(base, "work-") {
			t.Errorf("unexpected file %s", base)
		}
	}
}

// TestKilledApply kills golem while it applies a session, or undoes that. After the next
// golem, either the directory or the session has all of the changes, to the byte.
func TestKilledApply(t *testing.T) {
	t.Parallel()
	dir, state := t.TempDir(), t.TempDir()
	golem := func(args ...string) *exec.Cmd {
		cmd := exec.Command("golem", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOLEM_STATE="+state)
		return cmd
	}
	run := func(args ...string) string {
		t.Helper()
		out, err := golem(args...).CombinedOutput()
		if err != nil {
			t.Fatalf("golem %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	const dirs = 200
	run("exec", "--root", ".:overlay", "--", "sh", "-c", fmt.Sprintf("for i in $(seq %d); do mkdir -p d$i/in; echo $i > d$i/in/f; done", dirs))
	// count returns how many of the files the directory has, after golem has recovered.
	count := func() (n int) {
		t.Helper()
		run("tool", "list_files")
		for i := range dirs {
			data, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("d%d/in/f", i+1)))
			if err == nil && string(data) != fmt.Sprintln(i+1) {
				t.Fatalf("d%d has %q", i+1, data)
			}
			if err == nil {
				n++
			}
		}
		return n
	}
	pending := func() int { return strings.Count(run("changes"), "A  /d") }
	if n, of := pending(), count(); n != dirs || of != 0 {
		t.Fatalf("%d are in the session and %d in the directory", n, of)
	}
	applied, undone, took := 0, 0, time.Second
	for i := range 20 {
		args := []string{"tool", "apply_changes", "--approval", "approve_all"}
		was := count()
		if was > 0 {
			args = []string{"tool", "undo", "--approval", "approve_all"}
		}
		cmd := golem(args...)
		began := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if i > 1 { // the first two show how long it takes
			timer := time.AfterFunc(took/4+rand.N(took), func() { cmd.Process.Kill() })
			defer timer.Stop()
		}
		cmd.Wait()
		if i <= 1 {
			took = time.Since(began)
		}
		is := count()
		switch left := pending(); {
		case is != 0 && is != dirs || left != dirs-is:
			t.Fatalf("%v: %d of %d are in the directory and %d in the session", args, is, dirs, left)
		case is > was:
			applied++
		case is < was:
			undone++
		}
	}
	if applied == 0 || undone == 0 {
		t.Errorf("applied %d times, undone %d times: the test checks nothing", applied, undone)
	}
	run("audit", "verify")
}

// TestKilledThenRead kills golem and its helpers while golem applies a session, or undoes
// that. Each command that reads first completes or reverts what was cut off: afterwards
// either the directory or the session has all changes, and the command says what it did.
func TestKilledThenRead(t *testing.T) {
	t.Parallel()
	const files = 400
	readers := [][]string{{"status"}, {"status", "--all"}, {"status", "--json"}, {"diff", "--stat"}, {"changes"}, {"undo", "--list"}, {"sessions"}, {"sessions", "show", "last"}, {"sessions", "prune", "--clean", "--yes"},
		{"sessions", "rm", "last"}, {"audit", "show"}, {"explain", "f1"}, {"approvals"}, {"review"}, {"tools"}, {"tool", "list_files"}, {"exec", "true"}}
	halves := 0
	for _, reader := range readers {
		undo := rand.N(2) == 0
		dir, state := t.TempDir(), t.TempDir()
		golem := func(args ...string) *exec.Cmd {
			cmd := exec.Command("golem", args...)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOLEM_STATE="+state)
			return cmd
		}
		run := func(args ...string) string {
			t.Helper()
			out, err := golem(args...).CombinedOutput()
			if err != nil {
				t.Fatalf("golem %v: %v\n%s", args, err, out)
			}
			return string(out)
		}
		run("exec", "--", "sh", "-c", fmt.Sprintf("for i in $(seq %d); do echo $i > f$i; done", files))
		args, marker := []string{"apply", "--yes"}, "golem-session-*/decided"
		if undo {
			run("apply", "--yes")
			args, marker = []string{"undo", "--yes"}, "applied-*/undoing"
		}
		// counts returns how many of the files the directory and the session have.
		counts := func() (inDir, inSession int) {
			t.Helper()
			for i := range files {
				if _, err := os.Lstat(filepath.Join(dir, fmt.Sprintf("f%d", i+1))); err == nil {
					inDir++
				}
			}
			uppers, err := filepath.Glob(filepath.Join(state, "*", "sessions", "*", "*", "upper", "f*"))
			if err != nil {
				t.Fatal(err)
			}
			return inDir, len(uppers)
		}
		cmd := golem(args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		least := rand.N(files)
		for over := false; !over; {
			select {
			case <-ended:
				over = true
			default:
				inDir, _ := counts()
				found, err := filepath.Glob(filepath.Join(state, "*", "layers", marker))
				if err != nil {
					t.Fatal(err)
				}
				done := inDir
				if undo {
					done = files - inDir
				}
				if len(found) > 0 && done >= least {
					syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
					<-ended
					over = true
				}
			}
		}
		inDir, inSession := counts()
		half := inDir%files != 0 || inSession%files != 0 || inDir == inSession
		out, err := golem(reader...).CombinedOutput()
		if half {
			halves++
		}
		if half && !strings.Contains(string(out), "golem was killed") {
			t.Errorf("golem %v says nothing: %v\n%s", reader, err, out)
		}
		if nowDir, nowSession := counts(); nowDir%files != 0 || nowDir+nowSession != files {
			t.Errorf("golem %v left %d of %d files in the directory and %d in the session, before it %d and %d: %v\n%s", reader, nowDir, files, nowSession, inDir, inSession, err, out)
		}
	}
	t.Logf("%d of %d were cut off in the middle", halves, len(readers))
	if halves == 0 {
		t.Error("golem was never cut off in the middle: the test checks nothing")
	}
}

// TestUndoAfterKilledUndo cuts off an undo. The next golem undo completes it, and undoes
// nothing else.
func TestUndoAfterKilledUndo(t *testing.T) {
	t.Parallel()
	dir, state := t.TempDir(), t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("golem", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOLEM_STATE="+state)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("golem %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	for _, name := range []string{"first", "second"} {
		run("exec", "--", "touch", name)
		run("apply", "--yes")
	}
	last, err := filepath.Glob(filepath.Join(state, "*", "layers", "last"))
	if err != nil || len(last) != 1 {
		t.Fatal(last, err)
	}
	name, err := os.ReadFile(last[0])
	if err != nil {
		t.Fatal(err)
	}
	// golem writes this file before it moves the first file
	if err := os.WriteFile(filepath.Join(filepath.Dir(last[0]), string(name), "undoing"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out := run("undo", "--yes"); !strings.Contains(out, "completed the undo that was cut off") {
		t.Errorf("golem undo says %s", out)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 || entries[0].Name() != "first" {
		t.Errorf("the directory has %v, want the file of the first apply: %v", entries, err)
	}
	run("undo", "--yes")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("the directory has %v after a second undo: %v", entries, err)
	}
}

// TestEditedAfterKilledUndo cuts off an undo, with an overlay and with a copy, and edits
// files before the next golem completes it. golem names them, leaves them, keeps the old
// files, and undoes them when they are again as they were applied.
func TestEditedAfterKilledUndo(t *testing.T) {
	t.Parallel()
	for _, env := range []string{"GOLEM_COPY=", "GOLEM_COPY=1"} {
		dir, state := t.TempDir(), t.TempDir()
		run := func(args ...string) string {
			t.Helper()
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOLEM_STATE="+state, env)
			out, _ := cmd.CombinedOutput()
			return string(out)
		}
		expect := func(what string, args ...string) {
			t.Helper()
			if out := run(args...); !strings.Contains(out, what) {
				t.Errorf("%s, %v: got %q, want %q", env, args, out, what)
			}
		}
		run("sh", "-c", "echo old > changed; echo old > deleted; echo old > other")
		run("golem", "exec", "--", "sh", "-c", "echo new > changed; rm deleted; echo new > other; echo new > made")
		run("golem", "apply", "--yes")
		// golem writes this file before it moves the first file
		run("sh", "-c", "(cd $GOLEM_STATE/*/layers/applied-* && touch undoing); echo mine > changed; echo mine > deleted")
		expect("undone the rest, except for 2 files that changed since: ", "golem", "status")
		expect("mine\nmine\nold\n", "cat", "changed", "deleted", "other")
		expect("2 changes", "golem", "undo", "--list")
		expect("conflict", "golem", "undo", "--yes")
		if out := run("golem", "diff"); strings.Contains(out, "mine") || strings.Contains(out, "changed since") {
			t.Errorf("%s: the session has changes that are still applied:\n%s", env, out)
		}
		expect("applied", "golem", "apply", "--yes")
		expect("mine\nmine\nnew\nnew\n", "cat", "changed", "deleted", "other", "made")
		run("golem", "undo", "--yes")
		run("sh", "-c", "echo new > changed; rm deleted")
		expect("undone", "golem", "undo", "--yes")
		expect("old\nold\nold\n", "cat", "changed", "deleted", "other")
	}
}
