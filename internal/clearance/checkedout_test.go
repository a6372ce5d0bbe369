package clearance_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/sandbox"
)

// TestCheckedOutBranch checks that a branch which a work tree has checked out does
// not move without its files. The next commit there would revert what was pushed.
func TestCheckedOutBranch(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(s *scene, tree string) (clearance.Target, string){
		"in a tree of a bare repository": func(s *scene, tree string) (clearance.Target, string) {
			runGit(s, s.bare, "worktree", "add", "-q", tree, "main")
			return clearance.Target{Type: "bare", Path: sandbox.Host(s.bare)}, ""
		},
		"in a repository that is no bare one": func(s *scene, tree string) (clearance.Target, string) {
			return clearance.Target{Type: "bare", Path: sandbox.Host(s.local + "/.git")}, ""
		},
		"by a file address": func(s *scene, tree string) (clearance.Target, string) {
			return clearance.Target{Type: "remote", URL: "file://" + s.local + "/.git"}, ""
		},
		"in two trees": func(s *scene, tree string) (clearance.Target, string) {
			runGit(s, s.local, "worktree", "add", "-q", "-f", tree, "main")
			return clearance.Target{Type: "local", Path: sandbox.Host(s.local)}, ""
		},
		"and rebased": func(s *scene, tree string) (clearance.Target, string) {
			runGit(s, s.bare, "worktree", "add", "-q", "--detach", tree, "main")
			writeFile(s, s.bare+"/worktrees/tree/rebase-merge/head-name", "refs/heads/main\n")
			return clearance.Target{Type: "bare", Path: sandbox.Host(s.bare)}, ""
		},
		"and has no commit yet": func(s *scene, tree string) (clearance.Target, string) {
			runGit(s, s.local, "checkout", "-q", "--orphan", "new")
			return clearance.Target{Type: "local", Path: sandbox.Host(s.local)}, "new"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setUp(t)
			target, branch := prepare(s, filepath.Join(t.TempDir(), "tree"))
			target.Name, target.Branch = "here", "main"
			s.desk = s.open(git.Credentials{}, target)
			r := newRequest("", "a.txt=new\n")
			r.Branch = branch
			c, err := s.desk.Stage(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			before, _ := s.desk.Branches(t.Context(), "")
			s.checkRefused(s.desk.Ready(t.Context(), c), sandbox.ErrConflict)
			_, err = s.desk.Push(t.Context(), c.ID, "")
			s.checkRefused(err, sandbox.ErrConflict)
			if now, _ := s.desk.Branches(t.Context(), ""); len(now) != len(before) || now["main"] != before["main"] {
				t.Errorf("a branch has moved: %v, and was %v", now, before)
			}
			if _, err := s.desk.Get(c.ID); err != nil {
				t.Errorf("the commit no longer waits: %v", err)
			}
		})
	}
}

// TestDeletedWorkTree checks that a deleted work tree does not count as having a
// branch checked out.
func TestDeletedWorkTree(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	tree := filepath.Join(t.TempDir(), "tree")
	runGit(t, s.bare, "worktree", "add", "-q", tree, "main")
	os.RemoveAll(tree)
	if _, err := s.desk.Push(t.Context(), s.stage("bare", "a.txt=new\n").ID, ""); err != nil {
		t.Error(err)
	}
}

// TestFileAddress checks that golem finds the repository of a file address as git does.
// golem init writes such an address for a clone of a repository with a work tree.
func TestFileAddress(t *testing.T) {
	t.Parallel()
	s := setUp(t)
	for i, address := range []string{s.local, s.local + "/", s.local + "/.git", s.bare, strings.TrimSuffix(s.bare, ".git")} {
		s.desk = s.open(git.Credentials{}, clearance.Target{Name: "here", Type: "remote", URL: "file://" + address, Branch: "main"})
		r := newRequest("", fmt.Sprintf("a.txt=%d\n", i))
		r.Branch = fmt.Sprint("new-", i)
		c, err := s.desk.Stage(t.Context(), r)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if _, err := s.desk.Push(t.Context(), c.ID, ""); err != nil {
			t.Errorf("%s: %v", address, err)
		}
		if branches, err := s.desk.Branches(t.Context(), ""); err != nil || branches[r.Branch] != c.Commit {
			t.Errorf("%s: the branches are %v, %v", address, branches, err)
		}
	}
}
