//go:build unix

package git_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/clearance/git"
)

// TestHooksOfAnotherUser checks that a push runs no hook of a repository that belongs
// to another user.
func TestHooksOfAnotherUser(t *testing.T) {
	if git.Owned(stat(t, "/")) != (os.Geteuid() == 0) {
		t.Error("a directory of root's belongs to somebody else")
	}
	s, dir := openStore(t), filepath.Join(t.TempDir(), "bare.git")
	runGit(t, filepath.Dir(dir), "init", "-q", "--bare", dir)
	ran := filepath.Join(t.TempDir(), "ran")
	writeFile(t, filepath.Join(dir, "hooks/pre-receive"), "#!/bin/sh\ntouch "+ran+"\n")
	if err := os.Chmod(filepath.Join(dir, "hooks/pre-receive"), 0o755); err != nil {
		t.Fatal(err)
	}
	target, err := s.Target(t.Context(), dir, true)
	if err != nil {
		t.Fatal(err)
	}
	if names, err := target.Hooks(t.Context()); len(names) > 0 || err != nil {
		t.Errorf("without RunHooks: %v, %v", names, err)
	}
	target.RunHooks(git.Credentials{})
	if names, err := target.Hooks(t.Context()); len(names) != 1 || err != nil {
		t.Errorf("of one's own: %v, %v", names, err)
	}
	if os.Geteuid() != 0 {
		return // only root can change the owner of a file
	}
	hash, _ := stageCommit(t, s, target, newCommit("", newFile("a", "a")))
	if err := target.Take(t.Context(), "", hash); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "hooks", "hooks/pre-receive"} {
		name = filepath.Join(dir, name)
		if err := os.Lchown(name, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		err := target.Move(t.Context(), "main", "", hash)
		if err == nil || !strings.Contains(err.Error(), "another user") && !strings.Contains(err.Error(), "others can write") {
			t.Errorf("%s of another user: %v", name, err)
		}
		if now, err := target.Branch(t.Context(), "main"); now != "" || err != nil {
			t.Errorf("%s of another user: main is at %q, %v", name, now, err)
		}
		if _, err := os.Lstat(ran); err == nil {
			t.Errorf("repository %s of another user: the hook ran", name)
		}
		if err := os.Lchown(name, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := target.Move(t.Context(), "main", "", hash); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(ran); err != nil {
		t.Error("the hook did not run:", err)
	}
}

func stat(t *testing.T, name string) os.FileInfo {
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info
}
