package jail_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// newOverlaySession returns a session whose commands write to overlays.
func newOverlaySession(t *testing.T) (s *jail.Jail, work, layers string) {
	t.Helper()
	work, layers = t.TempDir(), t.TempDir()
	check(t, os.WriteFile(work+"/file", []byte("old\n"), 0o644))
	s, err := jail.Start(jail.Policy{Mounts: []jail.Mount{{Source: sandbox.Host(work), Target: jail.Work, Write: true}}, Recorder: changes.Recorder{Dir: sandbox.Host(layers)}, Least: jail.Namespaces}, time.Now)
	check(t, err)
	t.Cleanup(func() { s.Close() })
	return s, work, layers
}

func formatChanges(r changes.Result) string {
	if r.Changed == nil {
		return ""
	}
	var list []string
	for _, c := range r.Changed.Changes {
		list = append(list, fmt.Sprintf("%s %s", c.Op, c.Name()))
	}
	return strings.Join(list, ", ")
}

// TestTransaction checks that the changes of a command are in no directory before they
// are applied and are there afterwards, and that the next command sees them.
func TestTransaction(t *testing.T) {
	inModes(t, namespaceModes, func(t *testing.T, m mode) {
		s, work, layers := newOverlaySession(t)
		run := func(line string) changes.Result {
			t.Helper()
			r, err := changes.Finish(s.Run(context.Background(), jail.Shell(line)))
			check(t, err)
			return r
		}
		if r := run("cat /proc/self/mountinfo /proc/self/mounts"); len(r.Stdout.Head) != 0 || r.Code != 0 {
			t.Errorf("the mount table is not empty (code %d):\n%s", r.Code, r.Stdout.Head)
		}
		if r := run("cat file; ls"); r.Changed != nil || string(r.Stdout.Head) != "old\nfile\n" {
			t.Errorf("changed %q, printed %q", formatChanges(r), r.Stdout.Head)
		}
		r := run("echo new > file; mkdir -p d/e; echo x > d/e/f; chmod 000 d; cat file")
		if got, want := formatChanges(r), "create /d, create /d/e, create /d/e/f, change /file"; got != want || string(r.Stdout.Head) != "new\n" {
			t.Errorf("got %q, want %q; printed %q", got, want, r.Stdout.Head)
		}
		if data, _ := os.ReadFile(work + "/file"); string(data) != "old\n" {
			t.Errorf("the directory has %q", data)
		}
		if other := run("cat file; ls"); string(other.Stdout.Head) != "old\nfile\n" {
			t.Errorf("the next command sees %q", other.Stdout.Head)
		}
		clash, err := r.Changed.Apply(nil)
		if err != nil || clash != nil {
			t.Fatal(clash, err)
		}
		if other := run("chmod 700 d; cat file d/e/f"); string(other.Stdout.Head) != "new\nx\n" {
			t.Errorf("after the apply the next command sees %q, %s", other.Stdout.Head, other.Stderr.Head)
		} else {
			check(t, other.Changed.Discard())
		}
		if r := run("echo other > file"); formatChanges(r) != "change /file" {
			t.Errorf("got %q", formatChanges(r))
		} else {
			check(t, os.WriteFile(work+"/file", []byte("mine\n"), 0o644))
			if clash, err := r.Changed.Apply(nil); err != nil || len(clash) != 1 || clash[0] != "/file" {
				t.Errorf("a file that was changed meanwhile: %v, %v", clash, err)
			}
			check(t, r.Changed.Discard())
		}
		check(t, s.Close())
		left, err := os.ReadDir(layers)
		check(t, err)
		if len(left) != 2 { // the last record, and the file with its name
			t.Errorf("got files %v, want two", left)
		}
		os.Chmod(work+"/d", 0o700)
	})
}
