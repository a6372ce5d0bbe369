package jail_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// TestDirectoriesAreFresh checks that every command sees the directories as they are when it starts,
// whatever the command before it has read.
func TestDirectoriesAreFresh(t *testing.T) {
	inModes(t, everyMode, func(t *testing.T, m mode) {
		dir, work := t.TempDir(), t.TempDir()
		s, err := jail.Start(jail.Policy{Mounts: []jail.Mount{{Source: sandbox.Host(dir), Target: "/in"}, {Source: sandbox.Host(work), Target: jail.Work, Write: true}}}, time.Now)
		check(t, err)
		defer s.Close()
		p := testSession{s, t, work, m}
		in := "/in"
		if m.refused {
			in = dir // the path of the directory at that level
		}
		put := func(name, text string) {
			t.Helper()
			check(t, os.WriteFile(filepath.Join(dir, ".new"), []byte(text), 0o644))
			check(t, os.Rename(filepath.Join(dir, ".new"), filepath.Join(dir, name)))
		}
		for _, step := range []struct {
			do   func()
			want string
		}{
			{func() { put("a", "one") }, "a one"},
			{func() { put("a", "two") }, "a two"},
			{func() { put("b", "new") }, "a two b new"},
			{func() { check(t, os.Remove(filepath.Join(dir, "a"))) }, "b new"},
			{func() {
				check(t, os.Remove(filepath.Join(dir, "b")))
				check(t, os.Mkdir(filepath.Join(dir, "b"), 0o755))
				put("b/c", "deep")
			}, "b/c deep"},
		} {
			step.do()
			if got := p.says("cd " + in + "; for f in * */*; do [ -f $f ] && echo -n \"$f $(cat $f) \"; done; true"); got != step.want {
				t.Errorf("got %q, want %q", got, step.want)
			}
		}
	})
}
