package git_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/sandbox"
)

// stageAndTake stages a commit for a repository with a work tree, and copies the commit there.
func stageAndTake(t *testing.T, s *git.ObjectStore, dir string, files ...git.File) (*git.Target, git.Hash, git.Hash, []git.ChangedFile) {
	t.Helper()
	target, base := openWithBase(t, s, dir)
	hash, _ := stageCommit(t, s, target, newCommit(base, files...))
	changes, err := s.Changes(t.Context(), target.Objects(), base, hash)
	if err == nil {
		err = target.Take(t.Context(), base, hash)
	}
	if err != nil {
		t.Fatal(err)
	}
	return target, base, hash, changes
}

// TestDirectoryInTheWay checks that a directory with uncommitted files in the place of a
// new file is found before anything changes.
func TestDirectoryInTheWay(t *testing.T) {
	s, dir := openStore(t), newRepository(t)
	writeFile(t, filepath.Join(dir, "z/deep/mine"), "precious")
	target, base, hash, changes := stageAndTake(t, s, dir, deleteFile("dir/b.txt"), deleteFile("dir/c.txt"), newFile("dir", "a file now"), newFile("z", "a file"))
	err := target.Advance(t.Context(), "main", base, hash, changes)
	if !errors.Is(err, git.ErrDirty) || !strings.Contains(err.Error(), "z/deep/mine") {
		t.Errorf("got %v, want one that names the file in the way", err)
	}
	if got, want := runGit(t, dir, "status", "--porcelain"), "?? z/"; got != want {
		t.Errorf("the tree has changed: got\n%s", got)
	}
	os.RemoveAll(filepath.Join(dir, "z/deep/mine"))
	if err := target.Advance(t.Context(), "main", base, hash, changes); err != nil {
		t.Fatal(err)
	}
	if got := runGit(t, dir, "status", "--porcelain"); got != "" {
		t.Errorf("after the push: got\n%s", got)
	}
}

// writeGitWithHook returns a git that runs a command just before it moves a branch.
func writeGitWithHook(t *testing.T, command string) string {
	t.Helper()
	program, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "git")
	text := "#!/bin/sh\ncase \"$*\" in *update-ref*) " + command + " ;; esac\nexec " + program + " \"$@\"\n"
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return script
}

// TestFileWrittenDuringPush checks that a file somebody writes into the tree during a push
// stays, and that everything else is as before.
func TestFileWrittenDuringPush(t *testing.T) {
	for _, name := range []string{"a.txt", "zz.txt"} {
		t.Run(name, func(t *testing.T) {
			dir := newRepository(t)
			s, err := git.Open(t.Context(), filepath.Join(t.TempDir(), "state"), writeGitWithHook(t, "printf precious > '"+filepath.Join(dir, name)+"'"))
			if err != nil {
				t.Fatal(err)
			}
			target, base, hash, changes := stageAndTake(t, s, dir, deleteFile("dir/b.txt"), deleteFile("dir/c.txt"), newFile("dir", "a file now"), newFile("a.txt", "theirs"), newFile("zz.txt", "new"))
			if err := target.Advance(t.Context(), "main", base, hash, changes); !errors.Is(err, git.ErrDirty) {
				t.Errorf("got %v, want that the tree is not clean", err)
			}
			if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != "precious" {
				t.Errorf("file written meanwhile: got %q, %v", got, err)
			}
			got := strings.TrimSpace(runGit(t, dir, "status", "--porcelain", "-uall"))
			if !strings.HasSuffix(got, " "+name) || strings.Contains(got, "\n") {
				t.Errorf("more has changed: got\n%s", got)
			}
			if now := runGit(t, dir, "rev-parse", "main"); now != string(base) {
				t.Errorf("the branch is at %s, want %s", now, base)
			}
		})
	}
}

// TestPreparedFilesAreHidden checks that a worker with access to the tree cannot
// replace a prepared file. The file may become a protected one.
func TestPreparedFilesAreHidden(t *testing.T) {
	dir, list := newRepository(t), filepath.Join(t.TempDir(), "list")
	s, err := git.Open(t.Context(), filepath.Join(t.TempDir(), "state"), writeGitWithHook(t, "ls -A '"+dir+"' > "+list))
	if err != nil {
		t.Fatal(err)
	}
	target, base, hash, changes := stageAndTake(t, s, dir, newFile("main.worker", "theirs"))
	if err := target.Advance(t.Context(), "main", base, hash, changes); err != nil {
		t.Fatal(err)
	}
	files, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Source: sandbox.Host(dir), Access: sandbox.ReadWrite}}})
	if err != nil {
		t.Fatal(err)
	}
	data, _ := os.ReadFile(list)
	prepared := 0
	for name := range strings.Lines(string(data)) {
		if name = strings.TrimSpace(name); strings.HasPrefix(name, ".golem") {
			prepared++
			if _, err := files.Write("/"+name, []byte("mine")); err == nil {
				t.Errorf("%s can be written", name)
			}
		}
	}
	if prepared != 1 {
		t.Errorf("%d files were prepared, want 1:\n%s", prepared, data)
	}
}

// TestResumeInAnotherTree checks that Resume finishes a killed push only in the tree that
// it was made for. A user who has continued to work keeps the files.
func TestResumeInAnotherTree(t *testing.T) {
	for name, continueWork := range map[string]func(dir string, base git.Hash){
		"another branch": func(dir string, base git.Hash) { runGit(t, dir, "checkout", "-q", "-f", "-b", "dev", string(base)) },
		"a commit that reverts it": func(dir string, base git.Hash) {
			runGit(t, dir, "commit", "-q", "-m", "back")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := openStore(t), newRepository(t)
			target, base, hash, changes := stageAndTake(t, s, dir, newFile("a.txt", "theirs"), newFile("new.txt", "new"))
			scratch := filepath.Join(dir, ".git/golem-"+string(hash))
			writeFile(t, filepath.Join(scratch, "lock"), "") // and the user removed the lock of the index
			runGit(t, dir, "update-ref", "refs/heads/main", string(hash))
			continueWork(dir, base)
			if err := target.Resume(t.Context(), "main", hash, changes); err != nil {
				t.Fatal(err)
			}
			if got := runGit(t, dir, "status", "--porcelain"); got != "" {
				t.Errorf("the tree has changed: got\n%s", got)
			}
			if _, err := os.Lstat(scratch); err == nil {
				t.Error("the prepared files still exist")
			}
		})
	}
}

// TestFailedPushNamesTheReason checks that each failed push has an error of the sandbox with
// a hint. The gate would hide the text of another kind of error.
func TestFailedPushNamesTheReason(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(dir string)
		file    string
		want    string
	}{
		"a name too long for the disk":           {func(string) {}, strings.Repeat("n", 300), "too long; fix that"},
		"a directory name too long for the disk": {func(string) {}, strings.Repeat("n", 300) + "/x", "too long; fix that"},
		"a symlink for a directory":              {func(dir string) { os.Symlink("..", filepath.Join(dir, "dir/sub")) }, "dir/sub/x", "push dir/sub/x: dirty; a symlink or a file is in the place"},
		"no directory for packs": {func(dir string) {
			os.RemoveAll(filepath.Join(dir, ".git/objects/pack"))
			writeFile(t, filepath.Join(dir, ".git/objects/pack"), "")
		}, "a.txt", "git index-pack: git; git says: "},
		"an index that is none": {func(dir string) {
			os.Remove(filepath.Join(dir, ".git/index"))
			os.Mkdir(filepath.Join(dir, ".git/index"), 0o700)
		}, "a.txt", "is a directory; free disk space"},
		"a lock of the branch": {func(dir string) { writeFile(t, filepath.Join(dir, ".git/refs/heads/main.lock"), "") }, "a.txt", "remove the lock it left"},
		"a lock of the index":  {func(dir string) { writeFile(t, filepath.Join(dir, ".git/index.lock"), "") }, "a.txt", "remove the index.lock"},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := openStore(t), newRepository(t)
			target, base := openWithBase(t, s, dir)
			hash, _ := stageCommit(t, s, target, newCommit(base, newFile(c.file, "theirs")))
			changes, err := s.Changes(t.Context(), target.Objects(), base, hash)
			if err != nil {
				t.Fatal(err)
			}
			c.prepare(dir)
			if err = target.Take(t.Context(), base, hash); err == nil {
				err = target.Advance(t.Context(), "main", base, hash, changes)
			}
			var told *sandbox.Error
			if !errors.As(err, &told) || !strings.Contains(told.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if got, err := os.ReadFile(filepath.Join(dir, "a.txt")); err != nil || string(got) != "one\ntwo\n" {
				t.Errorf("the tree has changed: got %q, %v", got, err)
			}
		})
	}
}

// TestSplitIndex checks that an index which git has split into two files is read and
// written as a whole.
func TestSplitIndex(t *testing.T) {
	s, dir := openStore(t), newRepository(t)
	runGit(t, dir, "update-index", "--split-index")
	for _, content := range []string{"one", "two"} {
		target, base, hash, changes := stageAndTake(t, s, dir, newFile("a.txt", content), newFile("new/"+content, content))
		if err := target.Advance(t.Context(), "main", base, hash, changes); err != nil {
			t.Fatal(err)
		}
		if got := runGit(t, dir, "status", "--porcelain"); got != "" {
			t.Errorf("after the push: got\n%s", got)
		}
		runGit(t, dir, "update-index", "--split-index")
	}
	runGit(t, dir, "fsck", "--strict")
}

// TestDamagedRepository checks that errors about a damaged repository name no directory
// of the machine, whatever characters are in its path.
func TestDamagedRepository(t *testing.T) {
	s, dir := openStore(t), newRepository(t)
	target, base := openWithBase(t, s, dir)
	said := func(err error) {
		t.Helper()
		if err == nil {
			t.Error("got no error")
		} else if strings.Contains(err.Error(), "of mine") || strings.Contains(err.Error(), "re:po") {
			t.Errorf("the error has the path of the repository: %v", err)
		}
	}
	changes := []git.ChangedFile{{Path: "new", OldMode: git.None, NewMode: git.Plain, New: "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"}}
	runGit(t, dir, "update-index", "--split-index")
	halves, _ := filepath.Glob(strings.NewReplacer(`\`, `\\`).Replace(dir) + "/.git/sharedindex.*")
	for _, half := range halves {
		os.Remove(half)
	}
	said(target.Advance(t.Context(), "main", base, base, changes))
	tree := runGit(t, dir, "rev-parse", "HEAD^{tree}")
	object := filepath.Join(dir, ".git/objects", tree[:2], tree[2:])
	os.Chmod(object, 0o600)
	writeFile(t, object, "")
	_, err := s.Stage(t.Context(), target.Objects(), newCommit(base, newFile("a.txt", "x")))
	said(err)
	_, err = s.Names(t.Context(), target.Objects(), base, "")
	said(err)
}
