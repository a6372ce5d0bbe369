package git_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/git"
)

// What a git that reaches a remote has in its environment, and on its command
// line, by a program in its place that writes both down.
func TestCredentialsOfAPush(t *testing.T) {
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	user := []string{
		"HOME=/home/u", "SSH_AUTH_SOCK=/agent", "GITHUB_TOKEN=canary-token", "AWS_SECRET_ACCESS_KEY=canary-aws",
		"GIT_SSH_COMMAND=canary-ssh", "GIT_CONFIG_COUNT=9", "GIT_EXTERNAL_DIFF=canary-diff", "GIT_TRACE=/canary", "LD_PRELOAD=canary",
	}
	const github = "https://github.com/o/r"
	for _, test := range []struct {
		name, url string
		proof     git.Credentials
		has, not  []string
	}{
		{"none", github, git.Credentials{}, []string{"GIT_CONFIG_GLOBAL=/dev/null"}, []string{"canary", "/home/u", "/agent", "Authorization"}},
		{"inherit", github, git.Inherit(user), []string{"HOME=/home/u", "SSH_AUTH_SOCK=/agent", "Authorization: Basic"}, []string{"canary-aws", "canary-ssh", "canary-diff", "/canary", "LD_PRELOAD", "GIT_CONFIG_COUNT=9", "GIT_CONFIG_GLOBAL"}},
		{"inherit elsewhere", "https://example.org/r", git.Inherit(user), []string{"HOME=/home/u"}, []string{"Authorization"}},
		{"explicit", github, git.Explicit([]string{"SSH_AUTH_SOCK=/agent"}), []string{"SSH_AUTH_SOCK=/agent", "GIT_CONFIG_GLOBAL=/dev/null"}, []string{"canary", "HOME=/home/u", "Authorization"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			program, seen := filepath.Join(dir, "git"), filepath.Join(dir, "seen")
			put(t, program, "#!/bin/sh\ncase \"$*\" in *ls-remote*) env >"+seen+"; echo \"ARGUMENTS $*\" >>"+seen+"; exit 1;; esac\nexec "+real+" \"$@\"\n")
			if err := os.Chmod(program, 0o755); err != nil {
				t.Fatal(err)
			}
			s, err := git.Open(t.Context(), filepath.Join(dir, "state"), program)
			if err != nil {
				t.Fatal(err)
			}
			r, err := s.Remote(test.url, test.proof)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Now(t.Context(), "main"); err == nil {
				t.Error("the program in git's place was not run")
			}
			data, err := os.ReadFile(seen)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range test.has {
				if !strings.Contains(string(data), want) {
					t.Errorf("%s is missing in\n%s", want, data)
				}
			}
			for _, bad := range test.not {
				if strings.Contains(string(data), bad) {
					t.Errorf("%s is in\n%s", bad, data)
				}
			}
			lines := strings.Split(string(data), "\n")
			if i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "ARGUMENTS") }); strings.Contains(lines[i], "canary") || strings.Contains(lines[i], "Basic") {
				t.Errorf("the list of processes shows a secret: %s", lines[i])
			}
		})
	}
}

func TestRemotesWithTricks(t *testing.T) {
	s := open(t)
	for _, address := range []string{
		"", "-u", "--upload-pack=touch x", "ext::sh -c x", "fd::3", "file:///etc", "/etc", "../x", "git://host/x", "https::x", "a b:c", "host:\x1b", "ftp://host/x",
	} {
		if _, err := s.Remote(address, git.Credentials{}); err == nil {
			t.Errorf("%q was taken for an address", address)
		}
	}
	r, err := s.Remote("https://localhost:1/x", git.Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	for _, branch := range []string{"+main:refs/heads/prod", ":prod", "--force", "*", "HEAD", "a b"} {
		err := r.Push(t.Context(), branch, "", "1234567890123456789012345678901234567890")
		if err == nil || !strings.Contains(err.Error(), "no name of a branch") {
			t.Errorf("%q: got %v", branch, err)
		}
	}
}
