package git_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/clearance/git"
)

// TestTargetRefuses checks which repositories Target refuses, and the errors.
func TestTargetRefuses(t *testing.T) {
	move := func(t *testing.T, dir, name string) string {
		away := filepath.Join(t.TempDir(), "away")
		if err := os.Rename(filepath.Join(dir, name), away); err != nil {
			t.Fatal(err)
		}
		return away
	}
	for _, test := range []struct {
		name string
		make func(t *testing.T, dir string)
		want string
	}{
		{"no repository", func(t *testing.T, dir string) { move(t, dir, ".git") }, "there is no git repository"},
		{"an empty one", func(t *testing.T, dir string) { move(t, dir, ".git"); os.Mkdir(filepath.Join(dir, ".git"), 0o755) }, "there is no git repository"},
		{"a link", func(t *testing.T, dir string) { os.Symlink(move(t, dir, ".git"), filepath.Join(dir, ".git")) }, "symlink to another place"},
		{"a file that names a directory", func(t *testing.T, dir string) {
			writeFile(t, filepath.Join(dir, ".git"), "gitdir: "+move(t, dir, ".git")+"\n")
		}, "does not know of it"},
		{"a file that names another's work tree", func(t *testing.T, dir string) {
			other := newRepository(t)
			runGit(t, other, "worktree", "add", "-q", "--detach", filepath.Join(t.TempDir(), "tree"))
			move(t, dir, ".git")
			writeFile(t, filepath.Join(dir, ".git"), "gitdir: "+filepath.Join(other, ".git/worktrees/tree")+"\n")
		}, "does not know of it"},
		{"a file that is a pipe dream", func(t *testing.T, dir string) {
			move(t, dir, ".git")
			writeFile(t, filepath.Join(dir, ".git"), strings.Repeat("gitdir: x", 10_000))
		}, "does not know of it"},
		{"objects elsewhere", func(t *testing.T, dir string) {
			os.Symlink(move(t, dir, ".git/objects"), filepath.Join(dir, ".git/objects"))
		}, "not what git makes"},
		{"references elsewhere", func(t *testing.T, dir string) { os.Symlink(move(t, dir, ".git/refs"), filepath.Join(dir, ".git/refs")) }, "not what git makes"},
		{"another hash", func(t *testing.T, dir string) {
			move(t, dir, ".git")
			runGit(t, dir, "init", "-q", "--object-format=sha256")
		}, "with golem tool apply_changes or file_export"},
		{"branches in a reftable", func(t *testing.T, dir string) {
			writeFile(t, filepath.Join(dir, ".git/config"), "[core]\n\trepositoryformatversion = 1\n[extensions]\n\trefStorage = reftable\n")
		}, "git refs migrate --ref-format=files"},
		{"what nobody knows", func(t *testing.T, dir string) {
			writeFile(t, filepath.Join(dir, ".git/config"), "[core]\n\trepositoryformatversion = 1\n[extensions]\n\trefStorage = other\n")
		}, "sha1 and files are"},
		{"no configuration at all", func(t *testing.T, dir string) { writeFile(t, filepath.Join(dir, ".git/config"), "[[[") }, "cannot be read"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, dir := openStore(t), newRepository(t)
			test.make(t, dir)
			_, err := s.Target(t.Context(), dir, false)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), filepath.Dir(dir)) {
				t.Errorf("the error names a directory of this machine: %v", err)
			}
		})
	}
}

// TestBranchesWithTricks checks that a branch does not move if it is a symbolic reference
// to another one, or if its file is behind a symlink.
func TestBranchesWithTricks(t *testing.T) {
	s, dir := openStore(t), newRepository(t)
	target, base := openWithBase(t, s, dir)
	hash, _ := stageCommit(t, s, target, newCommit(base, newFile("a.txt", "x")))
	if err := target.Take(t.Context(), base, hash); err != nil {
		t.Fatal(err)
	}
	runGit(t, dir, "branch", "prod")
	runGit(t, dir, "symbolic-ref", "refs/heads/alias", "refs/heads/prod")
	if _, err := target.Branch(t.Context(), "alias"); err == nil || !strings.Contains(err.Error(), "another name") {
		t.Errorf("an alias: got %v", err)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	writeFile(t, filepath.Join(outside, "x"), string(base)+"\n")
	os.Symlink(outside, filepath.Join(dir, ".git/refs/heads/out"))
	if err := target.Move(t.Context(), "out/x", base, hash); err == nil || !strings.Contains(err.Error(), "is a symlink") {
		t.Errorf("behind a link: got %v", err)
	}
	for _, name := range []string{"+main:refs/heads/prod", ":prod", "main:refs/*", "--force", "HEAD", "main\nupdate refs/heads/prod", "../../config"} {
		if err := target.Move(t.Context(), name, base, hash); err == nil || !strings.Contains(err.Error(), "no name of a branch") {
			t.Errorf("%q: got %v", name, err)
		}
		if _, err := target.Branch(t.Context(), name); err == nil {
			t.Errorf("%q has a commit", name)
		}
	}
	if now := runGit(t, dir, "rev-parse", "prod"); now != string(base) {
		t.Errorf("the branch prod has moved to %s", now)
	}
}

// TestBareTarget pushes to a bare repository.
func TestBareTarget(t *testing.T) {
	s, dir := openStore(t), filepath.Join(t.TempDir(), "bare.git")
	runGit(t, filepath.Dir(dir), "init", "-q", "--bare", "-b", "main", dir)
	target, err := s.Target(t.Context(), dir, true)
	if err != nil {
		t.Fatal(err)
	}
	base, err := target.Branch(t.Context(), "main")
	if err != nil || base != "" {
		t.Fatalf("a branch of an empty repository: got %q, %v", base, err)
	}
	for _, content := range []string{"one", "two"} {
		hash, _ := stageCommit(t, s, target, newCommit(base, newFile("a", content)))
		if err := target.Take(t.Context(), base, hash); err != nil {
			t.Fatal(err)
		}
		if err := target.Move(t.Context(), "main", base, hash); err != nil {
			t.Fatal(err)
		}
		if got := runGit(t, dir, "show", "main:a"); got != content {
			t.Errorf("got %q, want %q", got, content)
		}
		base = hash
	}
	runGit(t, dir, "fsck", "--strict")
	if branches, err := target.Branches(t.Context()); err != nil || len(branches) != 1 || branches["main"] != base {
		t.Errorf("branches: got %v, %v", branches, err)
	}
	var none git.Hash
	if err := target.Take(t.Context(), base, none); err == nil {
		t.Error("a missing commit was accepted")
	}
}
