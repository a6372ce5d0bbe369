package git_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/sandbox"
)

// TestCredentialsOfAPush checks the environment and the arguments of a git that reaches a
// remote. A program in the place of git records both.
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
		adds      []string
	}{
		{"none", github, git.Credentials{}, []string{"GIT_CONFIG_GLOBAL=/dev/null"}, []string{"canary", "/home/u", "/agent", "Authorization"}, nil},
		{"inherit", github, git.Inherit(user), []string{"HOME=/home/u", "SSH_AUTH_SOCK=/agent", "Authorization: Basic"}, []string{"canary-aws", "canary-ssh", "canary-diff", "/canary", "LD_PRELOAD", "GIT_CONFIG_COUNT=9", "GIT_CONFIG_GLOBAL"}, nil},
		{"inherit elsewhere", "https://example.org/r", git.Inherit(user), []string{"HOME=/home/u"}, []string{"Authorization"}, nil},
		{"explicit", github, git.Explicit([]string{"SSH_AUTH_SOCK=/agent"}), []string{"SSH_AUTH_SOCK=/agent", "GIT_CONFIG_GLOBAL=/dev/null"}, []string{"canary", "HOME=/home/u", "Authorization"}, []string{"SSH_AUTH_SOCK"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			program, seen := filepath.Join(dir, "git"), filepath.Join(dir, "seen")
			writeFile(t, program, "#!/bin/sh\ncase \"$*\" in *ls-remote*) env >"+seen+"; echo \"ARGUMENTS $*\" >>"+seen+"; exit 1;; esac\nexec "+real+" \"$@\"\n")
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
			// Besides the variables of every git there are only the named ones.
			if test.name == "explicit" || test.name == "none" {
				if got, want := variableNames(string(data)), append(variableNames(base), test.adds...); !sameSet(got, want) {
					t.Errorf("variables: got %v, want %v", got, want)
				}
			}
			lines := strings.Split(string(data), "\n")
			if i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "ARGUMENTS") }); strings.Contains(lines[i], "canary") || strings.Contains(lines[i], "Basic") {
				t.Errorf("the list of processes shows a secret: %s", lines[i])
			}
		})
	}
}

// base lists the variables of every git that reaches a remote, including those that the
// shell sets.
const base = `PATH= HOME= XDG_CONFIG_HOME= LC_ALL= TZ= TERM= GIT_CONFIG_NOSYSTEM= GIT_CONFIG_SYSTEM= GIT_CONFIG_GLOBAL= GIT_ATTR_NOSYSTEM=
GIT_NO_REPLACE_OBJECTS= GIT_NO_LAZY_FETCH= GIT_OPTIONAL_LOCKS= GIT_CEILING_DIRECTORIES= GIT_LITERAL_PATHSPECS= GIT_PROTOCOL_FROM_USER=
GIT_TERMINAL_PROMPT= GIT_ASKPASS= SSH_ASKPASS= GIT_PAGER= GIT_EDITOR= GIT_SEQUENCE_EDITOR= GIT_SSH_COMMAND= PWD=`

// variableNames returns the names of the variables in a text.
func variableNames(text string) (list []string) {
	for _, line := range strings.Fields(text) {
		if name, _, ok := strings.Cut(line, "="); ok && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == "" && !slices.Contains([]string{"OLDPWD", "SHLVL", "_"}, name) {
			list = append(list, name)
		}
	}
	return list
}

func sameSet(a, b []string) bool {
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}

// TestSilentRemote checks that a push fails with a clear error when a remote
// accepts a connection and sends nothing.
func TestSilentRemote(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer closed.Close()
	s := openStore(t)
	git.Hurry(s, 100*time.Millisecond)
	r, err := s.Remote("http://"+closed.Addr().String()+"/x.git", git.Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = r.Now(t.Context(), "main"); !errors.Is(err, git.ErrUnreachable) || !strings.Contains(err.Error(), "did not answer within 100ms") {
		t.Errorf("got %v", err)
	}
}

// TestRefusingRemote checks that the error for a remote that refuses can be shown: it
// is an error of the sandbox, without a path of the machine.
func TestRefusingRemote(t *testing.T) {
	t.Parallel()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	s := openStore(t)
	r, err := s.Remote("http://"+gone.Addr().String()+"/x.git", git.Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Now(t.Context(), "main")
	var told *sandbox.Error
	if !errors.As(err, &told) || told.Code != git.ErrUnreachable || !strings.Contains(told.Hint, "git says: fatal: unable to access") || !strings.Contains(told.Hint, "see that the remote can be reached") {
		t.Errorf("got %v", err)
	}
	for said, want := range map[string]string{
		"fatal: bad config line 1 in file /home/you/.gitconfig": "git says: fatal: bad config line 1 in file …",
		"fatal: unable to access 'https://host/x.git/': no":     "git says: fatal: unable to access 'https://host/x.git/': no",
		"ssh: connect to host a port 22: no\nfatal: Could not":  "git says: ssh: connect to host a port 22: no",
	} {
		if err := git.Said(said); !errors.As(err, &told) || told.Hint != want {
			t.Errorf("%q: got %v", said, err)
		}
	}
}

// TestRemoteThatEchoesSecrets checks that the error contains no secret when the remote prints
// the secrets that it got.
func TestRemoteThatEchoesSecrets(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		plain, _ := base64.StdEncoding.DecodeString(secret)
		said := fmt.Sprintf("ERR you said %s, which is %s", secret, plain)
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		fmt.Fprintf(w, "001e# service=git-upload-pack\n0000%04x%s", len(said)+4, said)
	}))
	defer server.Close()
	const token = "canary-4711-token"
	r, err := openStore(t).Hub(server.URL, "o/r", git.Explicit([]string{"GITHUB_TOKEN=" + token}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Now(t.Context(), "main")
	if err == nil || !strings.Contains(err.Error(), "you said …, which is x-access-token:…") {
		t.Errorf("got %v", err)
	}
}

// TestRemotesWithTricks checks that addresses and branch names that git would read as programs,
// options or refspecs are refused.
func TestRemotesWithTricks(t *testing.T) {
	s := openStore(t)
	for _, address := range []string{
		"", "-u", "--upload-pack=touch x", "ext::sh -c x", "fd::3", "file:///etc", "/etc", "../x", "git://host/x", "https::x", "a b:c", "host:\x1b", "ftp://host/x",
	} {
		if _, err := s.Remote(address, git.Credentials{}); err == nil {
			t.Errorf("%q was accepted as an address", address)
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

// TestStreamsHeldByOthers runs a git that ends while another process holds its streams,
// as every process does that is started at the same moment.
func TestStreamsHeldByOthers(t *testing.T) {
	t.Parallel()
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "git")
	writeFile(t, program, "#!/bin/sh\nsleep 1.5 &\nexec "+real+" \"$@\"\n")
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := git.Open(t.Context(), filepath.Join(t.TempDir(), "state"), program); err != nil {
		t.Error(err)
	}
}
