package jail_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// TestSecondPath checks that a directory has the same content and access at its second path,
// with what is hidden or read-only inside it, for every command of a jail. No command can move a
// directory with such a mount by either name.
func TestSecondPath(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a/hidden", "fixed"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "file"), []byte("text\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const second = "/home/somebody/project"
	s, err := jail.Start(jail.Policy{Second: second, SecondOf: jail.Work, Mounts: []jail.Mount{
		{Source: sandbox.Host(dir), Target: jail.Work, Write: true},
		{Target: jail.Work + "/a/hidden"},
		{Source: sandbox.Host(filepath.Join(dir, "fixed")), Target: jail.Work + "/fixed"},
	}}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 3 { // the mounts are made anew for each command
		r, err := s.Run(context.Background(), jail.Shell(`cd `+second+` && echo here >made && cat /work/made && rm /work/made && ls
for top in /work `+second+`; do
	ls $top/a/hidden; mv $top/a $top/b; rmdir $top/a/hidden; echo x >$top/fixed/file; mv $top/fixed $top/other
done; cat fixed/file; ls `+filepath.Dir(second)+`; ls a`))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := string(r.Stdout.Head), "here\na\nfixed\ntext\nproject\nhidden\n"; got != want {
			t.Errorf("got %q, want %q\n%s", got, want, r.Stderr.Head)
		}
		if n := strings.Count(string(r.Stderr.Head), "Read-only file system"); n < 2 {
			t.Errorf("%d of 2 writes were refused:\n%s", n, r.Stderr.Head)
		}
	}
}

// TestSecondPathRefused checks which second paths golem refuses: those where commands have
// directories of their own.
func TestSecondPathRefused(t *testing.T) {
	for _, path := range []string{"/", "/usr", "/usr/src/app", "/work", "/work/main", "/etc/x", "/home", jail.Home, jail.Home + "/x", "/tmp", "/var", "/var/tmp/x", "/run/user/1000", "/proc/self", "/opt/golem/x", "/lib64/x"} {
		s, err := jail.Start(jail.Policy{Second: path, SecondOf: jail.Work}, time.Now)
		if err == nil {
			s.Close()
		}
		if sandbox.CodeOf(err) != sandbox.ErrInvalid || !strings.Contains(err.Error(), "of their own") {
			t.Errorf("%s: got %v", path, err)
		}
	}
}
