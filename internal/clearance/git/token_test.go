package git_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/clearance/git"
)

// writeProgram writes a script that runs in the place of a program.
func writeProgram(t *testing.T, name, script string) {
	t.Helper()
	writeFile(t, name, "#!/bin/sh\n"+script)
	if err := os.Chmod(name, 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestTokens checks which token a GitHub server gets: a named one, one from the user's
// environment, or the one of the user's gh, and never one for another server.
func TestTokens(t *testing.T) {
	bin := t.TempDir()
	seen := filepath.Join(bin, "seen")
	writeProgram(t, filepath.Join(bin, "gh"), "env >"+seen+"\npwd >>"+seen+"\necho \"ARGUMENTS $*\" >>"+seen+"\necho gh-token\n")
	broken := t.TempDir()
	writeProgram(t, filepath.Join(broken, "gh"), "echo not logged in >&2\nexit 1\n")
	const enterprise = "https://ghe.example.org"
	path := "PATH=relative:" + bin + ":" + os.Getenv("PATH")
	for _, test := range []struct {
		name, server string
		proof        git.Credentials
		want         string
	}{
		{"none", git.GitHub, git.Credentials{}, ""},
		{"explicit", git.GitHub, git.Explicit([]string{"GITHUB_TOKEN=a", "GH_TOKEN=b"}), "a"},
		{"explicit, the other name", git.GitHub, git.Explicit([]string{"GH_TOKEN=b"}), "b"},
		{"explicit without one", git.GitHub, git.Explicit([]string{path, "AWS_TOKEN=c"}), ""},
		{"explicit for an enterprise", enterprise, git.Explicit([]string{"GITHUB_TOKEN=a"}), "a"},
		{"inherited", git.GitHub, git.Inherit([]string{path, "GITHUB_TOKEN=a"}), "a"},
		{"an enterprise of the user", enterprise, git.Inherit([]string{path, "GITHUB_TOKEN=a", "GH_ENTERPRISE_TOKEN=e", "GH_HOST=GHE.example.org"}), "e"},
		{"an enterprise of the project", enterprise, git.Inherit([]string{path, "GITHUB_TOKEN=a", "GH_TOKEN=b", "GH_ENTERPRISE_TOKEN=e", "GITHUB_ENTERPRISE_TOKEN=f", "GH_HOST=example.org"}), "gh-token"},
		{"not in gh", enterprise, git.Inherit([]string{"GH_ENTERPRISE_TOKEN=e", "GH_HOST=ghe.example.org:8443", "PATH=" + broken}), ""},
		{"explicit for an enterprise of the project", enterprise, git.Explicit([]string{"GH_ENTERPRISE_TOKEN=e"}), "e"},
		{"not for an enterprise", enterprise, git.Inherit([]string{"GITHUB_TOKEN=a", "GH_TOKEN=b", "PATH=" + broken}), ""},
		{"gh", git.GitHub, git.Inherit([]string{path, "HOME=/home/u", "AWS_SECRET=canary", "GITHUB_TOKEN="}), "gh-token"},
		{"gh that is not logged in", git.GitHub, git.Inherit([]string{"PATH=" + broken}), ""},
		{"no gh", git.GitHub, git.Inherit([]string{"PATH=" + t.TempDir()}), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := openStore(t).Hub(test.server, "o/r", test.proof)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if got := r.Token(t.Context()); got != test.want {
					t.Errorf("got %q, want %q", got, test.want)
				}
			}
		})
	}
	data, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(data); !strings.Contains(text, "ARGUMENTS auth token --hostname github.com\n") || !strings.Contains(text, "HOME=/home/u\n") || !strings.Contains(text, "\n/\n") || strings.Contains(text, "canary") || strings.Contains(text, "TOKEN") {
		t.Errorf("gh got\n%s", text)
	}
}
