package jail_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// TestReplacedFiles checks that a command sees other content in a replaced file, cannot change
// it, and gets no file if there was none.
func TestReplacedFiles(t *testing.T) {
	inModes(t, namespaceModes, func(t *testing.T, m mode) {
		project, layers := t.TempDir(), t.TempDir()
		check(t, os.WriteFile(project+"/file", []byte("host\n"), 0o600))
		check(t, os.MkdirAll(project+"/dir/file", 0o755))
		check(t, os.Symlink("/etc", project+"/link"))
		replaced := []jail.File{}
		for _, name := range []string{"/file", "/dir/file", "/link/passwd", "/gone", "/gone/file"} {
			replaced = append(replaced, jail.File{Name: jail.Work + name, Data: []byte("other\n")})
		}
		for _, p := range []jail.Policy{
			{Mounts: []jail.Mount{{Source: sandbox.Host(project), Target: jail.Work}}},
			{Mounts: []jail.Mount{{Source: sandbox.Host(project), Target: jail.Work, Write: true}}},
			{Mounts: []jail.Mount{{Source: sandbox.Host(project), Target: jail.Work, Write: true}}, Recorder: changes.Recorder{Dir: sandbox.Host(layers)}},
		} {
			p.Replaced, p.Least = replaced, jail.Namespaces
			s, err := jail.Start(p, time.Now)
			check(t, err)
			for range 2 { // the mounts of the second command are made while the first runs
				r, err := changes.Finish(s.Run(context.Background(), jail.Shell(`cat file; (echo x >file) || echo refused; rm -f file; mv file a; cat file; ls dir/file; ls gone; grep -c other /etc/passwd`)))
				check(t, err)
				want := "other\nrefused\nother\n0\n"
				if got := string(r.Stdout.Head); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
				if r.Changed != nil {
					check(t, r.Changed.Discard())
				}
			}
			check(t, s.Close())
		}
		if data, err := os.ReadFile(project + "/file"); err != nil || string(data) != "host\n" {
			t.Errorf("the file on the host: %q, %v", data, err)
		}
	})
}
