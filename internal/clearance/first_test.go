package clearance_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/sandbox"
)

// TestFirstPush checks the first push to a remote of which nothing was pulled. A commit
// without a base is pushed to an empty remote, and otherwise staged again on what is
// there.
func TestFirstPush(t *testing.T) {
	for _, test := range []struct {
		name, branch string
		files        []string
		empty        bool     // the remote is empty
		want         []string // operations when the files are staged again, none if the first push succeeds
	}{
		{"an empty remote", "", []string{"a.txt=mine\n"}, true, nil},
		{"a branch of an empty remote", "drafts", []string{"a.txt=mine\n"}, true, nil},
		{"a branch with other files", "", []string{"new=n\n"}, false, []string{"create new"}},
		{"a branch with the same files", "", []string{"a.txt=mine\n", "dir/b.txt=b\n", "new=n\n"}, false, []string{"update a.txt", "create new"}},
		{"a new branch", "drafts", []string{"a.txt=mine\n", "new=n\n"}, false, []string{"update a.txt", "create new"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := setUp(t)
			if test.empty {
				runGit(t, s.bare, "update-ref", "-d", "refs/heads/main")
			}
			s.desk = s.remote(s.serve(""), git.Credentials{})
			r := newRequest("", test.files...)
			r.Branch = test.branch
			c, err := s.desk.Stage(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.desk.Push(t.Context(), c.ID, "")
			if test.want != nil {
				s.checkRefused(err, sandbox.ErrConflict)
				if list, _ := s.desk.List(); len(list) != 1 || list[0].ID != c.ID {
					t.Errorf("the commit that was not pushed no longer waits: %v", list)
				}
				if c, err = s.desk.Again(t.Context(), c.ID, newRequest("")); err != nil {
					t.Fatal(err)
				}
				var ops []string
				for _, f := range c.Files {
					ops = append(ops, string(f.Operation)+" "+f.Path)
				}
				if !slices.Equal(ops, test.want) {
					t.Errorf("got %v, want %v", ops, test.want)
				}
				got, err = s.desk.Push(t.Context(), c.ID, "")
			}
			if err != nil {
				t.Fatal(err)
			}
			branch := c.Branch
			if now := runGit(t, s.bare, "rev-parse", branch); now != got.CommitSHA || now != string(c.Commit) {
				t.Errorf("%s is %s, told %s, staged %s", branch, now, got.CommitSHA, c.Commit)
			}
			if test.want != nil {
				runGit(t, s.bare, "merge-base", "--is-ancestor", "main", branch)
				if text := runGit(t, s.bare, "show", branch+":dir/c.txt"); text != "c" {
					t.Errorf("the old file is gone: %q", text)
				}
			}
		})
	}
}

// TestFirstPushWithoutChanges checks that files which the branch already has are not
// staged again.
func TestFirstPushWithoutChanges(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	s.desk = s.remote(s.serve(""), git.Credentials{})
	c := s.stage("", "dir/b.txt=b\n")
	_, err := s.desk.Push(t.Context(), c.ID, "")
	s.checkRefused(err, sandbox.ErrConflict)
	_, err = s.desk.Again(t.Context(), c.ID, newRequest(""))
	s.checkRefused(err, clearance.ErrNoChanges)
}

// TestEmptiedRemote checks that a recreated remote counts as new, whatever was
// pulled before.
func TestEmptiedRemote(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	s.desk = s.remote(s.serve(""), git.Credentials{})
	if err := s.desk.Refresh(t.Context(), "", ""); err != nil {
		t.Fatal(err)
	}
	c := s.stage("", "new=n\n")
	runGit(t, s.bare, "update-ref", "-d", "refs/heads/main")
	_, err := s.desk.Push(t.Context(), c.ID, "")
	s.checkRefused(err, sandbox.ErrConflict)
	again, err := s.desk.Again(t.Context(), c.ID, newRequest(""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.desk.Push(t.Context(), again.ID, ""); err != nil {
		t.Fatal(err)
	}
	if names := runGit(t, s.bare, "ls-tree", "--name-only", "main"); names != "new" {
		t.Errorf("got %q, want the staged content", names)
	}
}

// TestFirstPushToGitHub checks that the first commit of an empty repository is pushed
// with git, because GitHub's API refuses it.
func TestFirstPushToGitHub(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	runGit(t, s.bare, "update-ref", "-d", "refs/heads/main")
	h := newHub(t, s.bare)
	runGit(t, s.bare, "config", "http.receivepack", "true")
	s.desk = s.open(git.Explicit([]string{"GH_ENTERPRISE_TOKEN=" + hubToken}), hubTarget(h.URL))
	c := s.stage("", "a.txt=mine\n")
	if _, err := s.desk.Push(t.Context(), c.ID, ""); err != nil {
		t.Fatal(err)
	}
	if now := runGit(t, s.bare, "rev-parse", "main"); now != string(c.Commit) || len(h.calls) > 0 {
		t.Errorf("main is %s, want %s; calls of the API: %v", now, c.Commit, h.calls)
	}
}

// TestSHA256Remote checks that a remote with SHA-256 hashes is refused, with a hint
// how to get results there.
func TestSHA256Remote(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	s.desk = s.remote(s.serve(""), git.Credentials{})
	c := s.stage("", "a.txt=mine\n")
	if err := os.RemoveAll(s.bare); err != nil {
		t.Fatal(err)
	}
	runGit(t, s.local, "init", "-q", "--bare", "-b", "main", "--object-format=sha256", s.bare)
	runGit(t, s.bare, "update-ref", "refs/heads/main", runGit(t, s.bare, "commit-tree", "-m", "first", runGit(t, s.bare, "mktree", "--missing")))
	_, err := s.desk.Push(t.Context(), c.ID, "")
	s.checkRefused(err, git.ErrUnsupported)
	if err == nil || !strings.Contains(err.Error(), "file_export") {
		t.Errorf("got %v, want a hint", err)
	}
}
