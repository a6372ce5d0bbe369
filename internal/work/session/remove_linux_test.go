package session

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/sandbox"
)

// removeVariable makes TestRemoveSession remove the session in a directory.
const removeVariable = "GOLEM_TEST_REMOVE_SESSION"

// TestRemoveSession is the golem that TestKilledRemoval kills.
func TestRemoveSession(t *testing.T) {
	dir := os.Getenv(removeVariable)
	if dir == "" {
		return
	}
	overlays, err := changes.Look(sandbox.Host(dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := overlays.Remove(func() error { return nil }); err != nil {
		t.Fatal(err)
	}
}

// TestKilledRemoval kills a golem in the middle of the removal of a session. The session is
// not listed afterwards, and the next golem removes the rest of it. Another session is as it
// was.
func TestKilledRemoval(t *testing.T) {
	s := newStore(t)
	s.Project = &project.Project{Mounts: []project.Mount{{Target: "/", Source: sandbox.Host(t.TempDir()), Mode: project.Overlay}}}
	other := s.startChanged(t, 1)
	for interrupted := false; !interrupted; {
		one := s.startChanged(t, 2000)
		first := filepath.Join(one.dir, "0", "upper", "f0")
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestRemoveSession$")
		cmd.Env = append(os.Environ(), removeVariable+"="+one.dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(time.Minute); exists(first); {
			if time.Now().After(deadline) {
				t.Fatal("golem removes nothing")
			}
		}
		cmd.Process.Kill()
		cmd.Wait()
		if left, err := os.ReadDir(s.dir()); err != nil || len(left) == 1 {
			continue // it was too fast
		}
		interrupted = true
		list, err := s.List()
		if err != nil || len(list) != 1 || list[0].ID != other.ID {
			t.Fatalf("got %v, %v, want session %s", list, err, other.ID)
		}
		if left, err := os.ReadDir(s.dir()); err != nil || len(left) != 1 {
			t.Fatalf("got %v, %v, want the directory of session %s", left, err, other.ID)
		}
		if has, err := s.HasChanges(other); err != nil || !has {
			t.Errorf("the other session: got %v, %v, want changes", has, err)
		}
	}
}

// startChanged starts a session with new files.
func (s *Sessions) startChanged(t *testing.T, files int) *Session {
	t.Helper()
	one := s.start(t, Options{})
	overlays, err := changes.Open(sandbox.Host(one.dir), s.OverlayMounts(), false)
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		if err := os.WriteFile(filepath.Join(one.dir, "0", "upper", fmt.Sprintf("f%d", i)), []byte("new\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := overlays.Close(); err != nil {
		t.Fatal(err)
	}
	return one
}
