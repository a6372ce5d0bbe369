package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestManySessions has more sessions than a list shows. golem exec opens no file of any of
// them, and lists have the newest twenty.
func TestManySessions(t *testing.T) {
	t.Parallel()
	dir, state := t.TempDir(), t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("golem", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOLEM_STATE="+state)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("golem %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	run("exec", "--", "sh", "-c", "echo text > file")
	found, err := filepath.Glob(filepath.Join(state, "*", "sessions", "*"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	const count = 25
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watch)
	first := filepath.Base(found[0])
	var made struct{ Name string }
	if data, err := os.ReadFile(filepath.Join(found[0], "session.json")); err != nil || json.Unmarshal(data, &made) != nil || made.Name == "" {
		t.Fatalf("%v: the session has no name", err)
	}
	for i := range count - 1 {
		id := fmt.Sprintf("copy%02d", i)
		to := filepath.Join(filepath.Dir(found[0]), id)
		if out, err := exec.Command("cp", "-a", found[0], to).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, name := range []string{"session.json", "about.json"} {
			data, err := os.ReadFile(filepath.Join(to, name))
			if err == nil {
				err = os.WriteFile(filepath.Join(to, name), []byte(strings.NewReplacer(first, id, made.Name, id).Replace(string(data))), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		used := time.Now().Add(-time.Duration(i+1) * 2 * time.Hour)
		if err := os.Chtimes(filepath.Join(to, "session.json"), used, used); err != nil {
			t.Fatal(err)
		}
	}
	run("exec", "--", "true") // measures how much golem stores, once in ten minutes
	others, err := filepath.Glob(filepath.Join(filepath.Dir(found[0]), "copy*"))
	if err != nil || len(others) != count-1 {
		t.Fatal(others, err)
	}
	for _, other := range others {
		if _, err := unix.InotifyAddWatch(watch, other, unix.IN_OPEN); err != nil {
			t.Fatal(err)
		}
	}
	run("exec", "--", "true")
	var events [4096]byte
	if n, err := unix.Read(watch, events[:]); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("golem exec opened files of other sessions: %d bytes of events, %v", n, err)
	}
	if out := run("status", "--all"); strings.Count(out, "copy") != 19 || !strings.Contains(out, "not listed: 5 older sessions; golem status -C "+dir+" --last 0 lists all") {
		t.Errorf("golem status --all:\n%s", out)
	}
	if out := run("status", "--all", "--last", "0"); strings.Count(out, "copy") != count-1 {
		t.Errorf("golem status --all --last 0:\n%s", out)
	}
	for _, c := range []string{"status", "sessions"} {
		if out := run(c); strings.Count(out, "copy") != 19 || !strings.Contains(out, "not listed: 5 older sessions; golem "+c+" --last 0 lists all") {
			t.Errorf("golem %s:\n%s", c, out)
		}
		if out := run(c, "--last", "0"); strings.Count(out, "copy") != count-1 || strings.Contains(out, "not listed") {
			t.Errorf("golem %s --last 0:\n%s", c, out)
		}
		var doc struct{ Sessions []json.RawMessage }
		if err := json.Unmarshal([]byte(run(c, "--json")), &doc); err != nil || len(doc.Sessions) != count {
			t.Errorf("golem %s --json has %d sessions: %v", c, len(doc.Sessions), err)
		}
	}
}

// TestUnusedSessionsAreRemoved kills golem exec before its program has changed anything,
// and applies a session. The next golem exec removes the first, and a later one the second when
// nothing needs it any more.
func TestUnusedSessionsAreRemoved(t *testing.T) {
	t.Parallel()
	dir, state := t.TempDir(), t.TempDir()
	golem := func(args ...string) *exec.Cmd {
		cmd := exec.Command("golem", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOLEM_STATE="+state)
		return cmd
	}
	run := func(args ...string) {
		t.Helper()
		if out, err := golem(args...).CombinedOutput(); err != nil {
			t.Fatalf("golem %v: %v\n%s", args, err, out)
		}
	}
	sessions := func() []string {
		t.Helper()
		list, err := filepath.Glob(filepath.Join(state, "*", "sessions", "*", "session.json"))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	killed := golem("exec", "--", "sh", "-c", "echo ready; sleep 100")
	out, err := killed.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	killed.Process.Kill()
	killed.Wait()
	run("exec", "--", "touch", "applied")
	run("apply", "--yes")
	run("undo", "--forget", "--yes")
	if n := len(sessions()); n != 1 {
		t.Fatalf("%d sessions, want the applied one; that of the killed golem was removed", n)
	}
	long := time.Now().Add(-2 * time.Hour)
	for _, name := range sessions() {
		if err := os.Chtimes(name, long, long); err != nil {
			t.Fatal(err)
		}
	}
	run("exec", "--", "true")
	if left := sessions(); len(left) != 0 {
		t.Errorf("%d unused sessions are left", len(left))
	}
}
