//go:build unix

package clearance_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/clearance/git"
)

// TestPushOverSSH pushes to a remote by ssh. A program in the place of ssh runs the other
// side here. It gets only the named variables, and no other variable of the user.
func TestPushOverSSH(t *testing.T) {
	t.Setenv("CANARY", "canary")
	t.Setenv("SSH_ASKPASS", "canary")
	for _, test := range []struct {
		name     string
		proof    func(path string) git.Credentials
		has, not string
	}{
		{"inherit", func(path string) git.Credentials {
			return git.Inherit(append(os.Environ(), "PATH="+path, "SSH_AUTH_SOCK=/agent", "HOME=/home/u"))
		}, "HOME=/home/u\n", "canary"},
		{"explicit", func(path string) git.Credentials {
			return git.Explicit([]string{"PATH=" + path, "SSH_AUTH_SOCK=/agent"})
		}, "ARGUMENTS -F none -o BatchMode=yes -o IdentityFile=none", "HOME=" + os.Getenv("HOME") + "\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := setUp(t)
			bin := t.TempDir()
			seen := filepath.Join(bin, "seen")
			writeFile(t, bin+"/ssh", "#!/bin/sh\nenv >>"+seen+"\necho \"ARGUMENTS $*\" >>"+seen+"\nfor last; do :; done\neval \"$last\"\n")
			if err := os.Chmod(bin+"/ssh", 0o755); err != nil {
				t.Fatal(err)
			}
			s.desk = s.remote("ssh://you@example.org"+s.bare, test.proof(bin+":"+os.Getenv("PATH")))
			if err := s.desk.Refresh(t.Context(), "", ""); err != nil {
				t.Fatal(err)
			}
			c := s.stage("", "a.txt=new\n")
			if _, err := s.desk.Push(t.Context(), c.ID, ""); err != nil {
				t.Fatal(err)
			}
			if now := runGit(t, s.bare, "rev-parse", "main"); now != string(c.Commit) {
				t.Errorf("main is %s, want %s", now, c.Commit)
			}
			data, err := os.ReadFile(seen)
			if text := string(data); err != nil || !strings.Contains(text, "SSH_AUTH_SOCK=/agent\n") || !strings.Contains(text, test.has) ||
				strings.Contains(text, "canary") || strings.Contains(text, test.not) {
				t.Errorf("ssh got\n%s", text)
			}
		})
	}
}
