package changes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/sandbox"
)

// discardVariable makes TestDiscardAll discard all changes of a session.
const discardVariable = "GOLEM_TEST_DISCARD"

// TestDiscardAll is the golem that TestKilledDiscard kills.
func TestDiscardAll(t *testing.T) {
	dir := os.Getenv(discardVariable)
	if dir == "" {
		return
	}
	k, err := Look(sandbox.Host(dir+"/session"), []Directory{{sandbox.Host(dir + "/real"), "/"}})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.Discard(sandbox.Host(dir+"/records"), []string{"/"}, func([]Change) error { return nil }, []string{"git"}); err != nil {
		t.Fatal(err)
	}
}

// TestKilledDiscard kills a golem and its helper in the middle of a discard. The next golem
// discards the rest.
func TestKilledDiscard(t *testing.T) {
	const files = 2000
	for range 20 {
		dir := t.TempDir()
		records := sandbox.Host(dir + "/records")
		over := changedSession(t, dir, files)
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestDiscardAll$")
		cmd.Env = append(os.Environ(), discardVariable+"="+dir)
		startWithHelpers(t, cmd)
		upper := filepath.Join(dir, "session", "0", "upper")
		for len(list(t, upper)) == files && !isOver(cmd.Process.Pid) {
		}
		stop(t, cmd)
		killWithHelpers(t)
		if n := len(list(t, upper)); n == 0 || n == files {
			continue // it was too fast
		}
		if !IsInterrupted(records) {
			t.Fatal("no discard to complete")
		}
		if done, err := Recover(records); err != nil || done.Discarded != 1 {
			t.Fatalf("got %+v, %v, want a discard", done, err)
		}
		k, err := Look(sandbox.Host(dir+"/session"), []Directory{over})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		if left, _, err := k.Changes(); err != nil || len(left) > 0 {
			t.Errorf("got %d changes, %v, want none", len(left), err)
		}
		if left := list(t, string(records)); IsInterrupted(records) || len(left) > 0 {
			t.Errorf("got records %q, want none", left)
		}
		if _, err := os.Lstat(filepath.Join(dir, "session", "git")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the commits: got %v, want that they do not exist", err)
		}
		return
	}
	t.Error("golem was never killed in the middle of a discard")
}

// TestRecoverDiscard completes a discard of some paths, of which one is discarded already,
// and keeps the others.
func TestRecoverDiscard(t *testing.T) {
	dir := t.TempDir()
	over := changedSession(t, dir, 4)
	k, err := Look(sandbox.Host(dir+"/session"), []Directory{over})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	st := &store{dir + "/records", &helper{}}
	if err := os.Mkdir(st.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w, err := st.newRecord(nil, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	w.discards, w.removes = []discarded{{k.layers[0], []string{"f0", "f1", "f2"}}}, []string{"git", "git.json"}
	if err := w.describe(); err != nil {
		t.Fatal(err)
	}
	if err := k.layers[0].Discard([]string{"f1"}); err != nil {
		t.Fatal(err)
	}
	if IsInterrupted(sandbox.Host(st.dir)) {
		t.Error("golem still discards")
	}
	w.held.Close()
	if err := os.Rename(w.dir, filepath.Join(st.dir, "golem-session-1-0-1")); err != nil { // of a golem that has ended
		t.Fatal(err)
	}
	if done, err := Recover(sandbox.Host(st.dir)); err != nil || done.Discarded != 1 {
		t.Fatalf("got %+v, %v, want a discard", done, err)
	}
	left, _, err := k.Changes()
	if err != nil || len(left) != 1 || left[0].Path != "f3" {
		t.Errorf("got %v, %v, want f3", left, err)
	}
	if _, err := os.Lstat(dir + "/session/git"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the commits: got %v, want that they do not exist", err)
	}
}

// TestDiscardAfterHelper discards changes whose helper died when a part of them was discarded.
func TestDiscardAfterHelper(t *testing.T) {
	dir := t.TempDir()
	over := changedSession(t, dir, 4)
	k, err := Look(sandbox.Host(dir+"/session"), []Directory{over})
	must(t, err)
	defer k.Close()
	if k.helpers.any().process == nil {
		t.Fatal("the session has no helper process")
	}
	err = k.Discard(sandbox.Host(dir+"/records"), []string{"/f0", "/f1", "/f2"}, func([]Change) error {
		return errors.Join(k.layers[0].Discard([]string{"f1"}), k.helpers.any().close())
	}, nil)
	if left := list(t, dir+"/session/0/upper"); err != nil || len(left) != 1 {
		t.Errorf("got %v and %q, want f3", err, left)
	}
	if left := list(t, dir+"/records"); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}

// TestDiscardWithoutRecord checks that a discard that cannot be recorded changes nothing.
func TestDiscardWithoutRecord(t *testing.T) {
	dir := t.TempDir()
	over := changedSession(t, dir, 2)
	k, err := Look(sandbox.Host(dir+"/session"), []Directory{over})
	must(t, err)
	defer k.Close()
	err = k.Discard(sandbox.Host(dir+"/records"), []string{"/"}, func([]Change) error {
		return os.WriteFile(dir+"/records", nil, 0o600) // golem cannot make a record in a file
	}, []string{"git"})
	if _, err := os.Lstat(dir + "/session/git"); err != nil {
		t.Errorf("the commits: %v", err)
	}
	if left := list(t, dir+"/session/0/upper"); err == nil || len(left) != 2 {
		t.Errorf("got %v and %q, want an error and all files", err, left)
	}
}

// changedSession makes a session with new files f0, f1 and so on, and a directory for commits.
func changedSession(t *testing.T, dir string, files int) Directory {
	t.Helper()
	over := Directory{sandbox.Host(dir + "/real"), "/"}
	if err := os.Mkdir(string(over.Host), 0o755); err != nil {
		t.Fatal(err)
	}
	k, err := Open(sandbox.Host(dir+"/session"), []Directory{over}, false)
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		if err := os.WriteFile(filepath.Join(k.layers[0].UpperDir(), fmt.Sprintf("f%d", i)), []byte("new\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	must(t, os.MkdirAll(dir+"/session/git/a", 0o755))
	must(t, os.WriteFile(dir+"/session/git/a/HEAD", []byte("x\n"), 0o644))
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	return over
}

// isOver reports whether a child process has ended.
func isOver(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

// startWithHelpers starts a golem whose helpers become child processes of the test, so that
// killWithHelpers finds them and can wait for them.
func startWithHelpers(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	must(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	t.Cleanup(func() { unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) })
	must(t, cmd.Start())
}

// stop stops a golem, and waits until it has stopped. It returns false if it ended before.
func stop(t *testing.T, cmd *exec.Cmd) bool {
	t.Helper()
	cmd.Process.Signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != syscall.EINTR {
			must(t, err)
			return status.Stopped()
		}
	}
}

// killWithHelpers kills a golem, which is stopped so that it does not notice the end of a
// helper, and the helpers. It waits until all have ended: a killed process first ends the
// last system call of each thread, such as a removal.
func killWithHelpers(t *testing.T) {
	t.Helper()
	for children := childrenOf(t, os.Getpid()); len(children) > 0; children = childrenOf(t, os.Getpid()) {
		for _, pid := range children {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		for _, pid := range children { // each comes after its parent
			syscall.Wait4(pid, nil, 0, nil)
		}
	}
}

// childrenOf returns the child processes of a process, and theirs.
func childrenOf(t *testing.T, pid int) (children []int) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	must(t, err)
	for _, name := range threads {
		data, _ := os.ReadFile(name)
		for field := range strings.FieldsSeq(string(data)) {
			child, err := strconv.Atoi(field)
			must(t, err)
			children = append(append(children, child), childrenOf(t, child)...)
		}
	}
	return children
}

// TestActive checks that golem finds another golem that is in the middle of a discard, with
// its process.
func TestActive(t *testing.T) {
	for range 20 {
		dir := t.TempDir()
		records := sandbox.Host(dir + "/records")
		changedSession(t, dir, 2000)
		if command, process := Active(records); command != "" {
			t.Fatalf("got %s by %d, want nothing", command, process)
		}
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestDiscardAll$")
		cmd.Env = append(os.Environ(), discardVariable+"="+dir)
		startWithHelpers(t, cmd)
		for len(list(t, filepath.Join(dir, "session", "0", "upper"))) == 2000 && !isOver(cmd.Process.Pid) {
		}
		stopped := stop(t, cmd)
		command, process := Active(records)
		killWithHelpers(t)
		if !stopped || command == "" {
			continue // it was too fast
		}
		if command != "golem discard" || process != cmd.Process.Pid {
			t.Errorf("got %s by %d, want golem discard by %d", command, process, cmd.Process.Pid)
		}
		return
	}
	t.Error("golem was never in the middle of a discard")
}
