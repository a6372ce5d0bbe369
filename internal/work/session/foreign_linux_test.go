package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/work/project"
)

// foreignVariable makes TestForeignState list what is in a state directory.
const foreignVariable = "GOLEM_TEST_FOREIGN"

// TestForeignState checks that golem does not take a session, a list of applied changes or a
// state directory for empty if they belong to another user. The errors name the owner.
func TestForeignState(t *testing.T) {
	const me = 54321
	if dir := os.Getenv(foreignVariable); dir != "" {
		s := &Sessions{State: dir, Root: "/", Project: &project.Project{}, Now: time.Now}
		list, err := s.List()
		fmt.Printf("sessions: %d, %v, %v\n", len(list), err, errors.Is(err, fs.ErrPermission))
		steps, err := s.UndoSteps()
		fmt.Printf("steps: %d, %v, %v\n", len(steps), err, errors.Is(err, fs.ErrPermission))
		_, err = s.UndoMounts()
		fmt.Printf("mounts: %v, %v\n", err, errors.Is(err, fs.ErrPermission))
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	for _, foreign := range []string{"", ".", "sessions", "sessions/other", "layers", "layers/last"} {
		base, err := os.MkdirTemp("", "golem-foreign-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(base)
		dir := filepath.Join(base, "state")
		write := func(name, text string) {
			name = filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		write("sessions/mine/session.json", `{"id":"mine"}`)
		write("sessions/other/session.json", `{"id":"other"}`)
		write("layers/last", "")
		err = filepath.WalkDir(base, func(name string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Chown(name, me, me))
		})
		if err == nil && foreign != "" {
			err = os.Chown(filepath.Join(dir, foreign), 0, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestForeignState$")
		cmd.Env, cmd.Dir = append(os.Environ(), foreignVariable+"="+dir), "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: me, Gid: me}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		at := filepath.Join(dir, foreign)
		owner := fmt.Sprintf("%s belongs to root, and golem runs as user %d; sudo chown -R %d %s makes it yours, true", at, me, me, at)
		sessions, steps, mounts := "sessions: 2, <nil>, false", "steps: 0, <nil>, false", "mounts: undo: file does not exist"
		switch foreign {
		case ".":
			sessions, steps, mounts = "sessions: 0, the sessions: "+owner, "steps: 0, undo: "+owner, "mounts: undo: "+owner
		case "sessions":
			sessions = "sessions: 0, the sessions: " + owner
		case "sessions/other":
			sessions = "sessions: 1, session other: " + owner
		case "layers", "layers/last":
			steps, mounts = "steps: 0, undo: "+owner, "mounts: undo: "+owner
		}
		for _, want := range []string{sessions, steps, mounts} {
			if !strings.Contains(string(out), want) {
				t.Errorf("%q belongs to root: got\n%s\nwant %s", foreign, out, want)
			}
		}
	}
}
