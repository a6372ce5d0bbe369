package clearance_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/sandbox"
)

// serve serves the bare repository of a scene over HTTP as git does. If there is a
// password, clients need it.
func (s *scene) serve(password string) string {
	s.Helper()
	runGit(s, s.bare, "config", "http.receivepack", "true")
	backend := &cgi.Handler{
		Stderr: io.Discard,
		Path:   filepath.Join(runGit(s, s.bare, "--exec-path"), "git-http-backend"),
		Env:    []string{"GIT_PROJECT_ROOT=" + filepath.Dir(s.bare), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, got, _ := r.BasicAuth(); got != password {
			w.Header().Set("WWW-Authenticate", "Basic")
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	s.Cleanup(server.Close)
	return server.URL + "/bare.git"
}

// remote returns a desk with the remote at an address as its only target.
func (s *scene) remote(address string, proof git.Credentials) *clearance.Commits {
	s.Helper()
	return s.open(proof, clearance.Target{Name: "origin", Type: "remote", URL: address, Branch: "main"})
}

// open returns a desk with other targets.
func (s *scene) open(proof git.Credentials, targets ...clearance.Target) *clearance.Commits {
	s.Helper()
	return s.openWith("git", proof, targets...)
}

func (s *scene) openWith(program string, proof git.Credentials, targets ...clearance.Target) *clearance.Commits {
	s.Helper()
	folder, err := state.Open(s.state)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { folder.Close() })
	store, err := git.Open(s.Context(), filepath.Join(s.state, "git"), program)
	if err != nil {
		s.Fatal(err)
	}
	desk, err := clearance.Open(folder, store, targets, proof)
	if err != nil {
		s.Fatal(err)
	}
	return desk
}

// TestPushToARemote pushes to a remote over HTTP.
func TestPushToARemote(t *testing.T) {
	for _, way := range []string{"http", "file"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := setUp(t)
			address := "file://" + s.bare
			if way == "http" {
				address = s.serve("")
			}
			s.desk = s.remote(address, git.Credentials{})
			if err := s.desk.Refresh(t.Context(), "", ""); err != nil {
				t.Fatal(err)
			}
			c, rival := s.stage("", "a.txt=new\n"), s.stage("", "a.txt=rival\n")
			if c.Files[0].Operation != clearance.Update {
				t.Errorf("got %v, want an update", c.Files)
			}
			for range 2 {
				got, err := s.desk.Push(t.Context(), c.ID, "main")
				if err != nil || got.CommitSHA != string(c.Commit) || got.URL != address {
					t.Fatalf("got %v, %v", got, err)
				}
			}
			if now := runGit(t, s.bare, "rev-parse", "main"); now != string(c.Commit) {
				t.Errorf("main is %s, want %s", now, c.Commit)
			}
			_, err := s.desk.Push(t.Context(), rival.ID, "")
			s.checkRefused(err, sandbox.ErrConflict)

			// The next commit is staged on what was pushed. A remote that was reset has
			// moved too, and its reset stays.
			next := s.stage("", "a.txt=next\n")
			runGit(t, s.bare, "update-ref", "refs/heads/main", "main^")
			_, err = s.desk.Push(t.Context(), next.ID, "")
			s.checkRefused(err, sandbox.ErrConflict)

			// A branch that does not exist is created.
			r := newRequest("", "a=b")
			r.Branch = "drafts/new"
			fresh, err := s.desk.Stage(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.desk.Push(t.Context(), fresh.ID, ""); err != nil {
				t.Fatal(err)
			}
			if now := runGit(t, s.bare, "rev-parse", "drafts/new"); now != string(fresh.Commit) {
				t.Errorf("the new branch is %s, want %s", now, fresh.Commit)
			}
			runGit(t, s.bare, "fsck", "--strict")
		})
	}
}

// TestCredentialsOfTheUser checks that git asks the user's credential helpers only with
// inherited credentials.
func TestCredentialsOfTheUser(t *testing.T) {
	t.Parallel()
	const password = "canary-4711"
	s := setUp(t)
	address := s.serve(password)
	home := t.TempDir()
	writeFile(t, filepath.Join(home, ".gitconfig"), "[credential]\n\thelper = \"!f() { echo username=u; echo password=${CANARY}"+password+"; }; f\"\n")
	environment := []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "GIT_SSH_COMMAND=false", "CANARY=x"}
	for _, test := range []struct {
		name  string
		proof git.Credentials
		want  sandbox.Code
	}{
		{"inherit", git.Inherit(environment), ""},
		{"explicit", git.Explicit([]string{"GIT_AUTHOR_NAME=x"}), git.ErrUnreachable},
		{"none", git.Credentials{}, git.ErrUnreachable},
	} {
		s.desk = s.remote(address, test.proof)
		err := s.desk.Refresh(t.Context(), "", "")
		if test.want != "" {
			s.checkRefused(err, test.want)
		} else if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if err != nil && strings.Contains(err.Error(), password) {
			t.Errorf("%s: the error has the password: %v", test.name, err)
		}
	}
}

// TestHangingRemote checks that a canceled call to a remote that does not answer returns.
func TestHangingRemote(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	s.desk = s.remote("http://"+deaf.Addr().String()+"/x.git", git.Credentials{})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.desk.Refresh(ctx, "", ""); err == nil {
		t.Error("refreshed without an answer")
	}
}

// TestInterruptedPush checks that golem finds out whether an interrupted push reached
// the remote.
func TestInterruptedPush(t *testing.T) {
	t.Parallel()
	for hook, made := range map[string]bool{"post-receive": true, "pre-receive": false} {
		s := setUp(t)
		s.desk = s.remote(s.serve(""), git.Credentials{})
		if err := s.desk.Refresh(t.Context(), "", ""); err != nil {
			t.Fatal(err)
		}
		c := s.stage("", "a.txt=new\n")
		// The remote hangs after, or before, it has accepted the commit.
		writeFile(t, filepath.Join(s.bare, "hooks", hook), "#!/bin/sh\n: >began\nuntil [ -e go ]; do sleep 0.01; done\nexit 1\n")
		if err := os.Chmod(filepath.Join(s.bare, "hooks", hook), 0o755); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer cancel()
			for t.Context().Err() == nil {
				if _, err := os.Stat(filepath.Join(s.bare, "began")); err == nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
		got, err := s.desk.Push(ctx, c.ID, "")
		now := runGit(t, s.bare, "rev-parse", "main")
		writeFile(t, filepath.Join(s.bare, "go"), "")
		if (now == string(c.Commit)) != made {
			t.Errorf("%s: main is %s", hook, now)
		}
		if made && (err != nil || got.CommitSHA != now) || !made && err == nil {
			t.Errorf("%s: reported %v, %v; main is %s", hook, got, err, now)
		}
	}
}

// TestMissingRemote checks the errors for a remote that moves, is reset or is gone,
// and that nothing is lost.
func TestMissingRemote(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	s.desk = s.remote(s.serve(""), git.Credentials{})
	if err := s.desk.Refresh(t.Context(), "", ""); err != nil {
		t.Fatal(err)
	}
	c := s.stage("", "a.txt=new\n")
	away := s.bare + ".away"
	if err := os.Rename(s.bare, away); err != nil {
		t.Fatal(err)
	}
	_, err := s.desk.Push(t.Context(), c.ID, "")
	s.checkRefused(err, git.ErrUnreachable)
	if told := fmt.Sprint(err); !strings.Contains(told, " origin: unreachable; git says: ") {
		t.Errorf("the target is not named: %s", told)
	}
	if list, _ := s.desk.List(); len(list) != 1 {
		t.Error("the commit that was not pushed no longer waits")
	}
	// Staging needs no remote.
	s.stage("", "b=b")
	if err := os.Rename(away, s.bare); err != nil {
		t.Fatal(err)
	}
	if _, err := s.desk.Push(t.Context(), c.ID, ""); err != nil {
		t.Errorf("after the remote is back: %v", err)
	}
}

// TestPushNamesWithEveryByte checks that names with every possible byte arrive at targets
// that support them.
func TestPushNamesWithEveryByte(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"local", "bare", "http"} {
		s := setUp(t)
		target := way
		if way == "http" {
			target, s.desk = "", s.remote(s.serve(""), git.Credentials{})
			if err := s.desk.Refresh(t.Context(), "", ""); err != nil {
				t.Fatal(err)
			}
		}
		r := newRequest(target)
		for c := 1; c < 256; c++ {
			if c != '/' && c != '=' {
				r.Files = append(r.Files, newRequest("", "n/"+string([]byte{byte(c)})+"x="+string(rune(c))).Files...)
			}
		}
		c, err := s.desk.Stage(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.desk.Push(t.Context(), c.ID, ""); err != nil {
			t.Fatal(err)
		}
		dir := s.bare
		if way == "local" {
			dir = s.local
		}
		there := strings.Split(runGit(t, dir, "ls-tree", "-z", "--name-only", "main", "n/"), "\x00")
		for _, f := range r.Files {
			if !slices.Contains(there, f.Path) {
				t.Errorf("%s: %q is missing", way, f.Path)
			}
		}
		if way == "local" {
			if status := runGit(t, s.local, "status", "--porcelain"); status != "" {
				t.Errorf("status:\n%s", status)
			}
		}
	}
}
