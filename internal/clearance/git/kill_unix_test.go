//go:build unix

package git_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/clearance/git"
)

// TestKill kills a process that stages and pushes again and again. All stages that the
// process reported exist, and the store and the target still work.
func TestKill(t *testing.T) {
	if dir := os.Getenv("GOLEM_TEST_STORE"); dir != "" {
		stageForever(t, dir, os.Getenv("GOLEM_TEST_TARGET"))
		return
	}
	bare := filepath.Join(t.TempDir(), "bare.git")
	runGit(t, filepath.Dir(bare), "init", "-q", "--bare", "-b", "main", bare)
	dir := filepath.Join(t.TempDir(), "state")
	told := 0
	for round := range 12 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKill$")
		cmd.Env = append(os.Environ(), "GOLEM_TEST_STORE="+dir, "GOLEM_TEST_TARGET="+bare)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		var last [2]string
		killed := false
		for lines.Scan() {
			words := strings.Fields(lines.Text())
			if len(words) != 3 || words[0] != "told" {
				continue
			}
			last, told = [2]string{words[1], words[2]}, told+1
			if !killed { // each time at another moment of the next operation
				time.AfterFunc(time.Duration(round)*2*time.Millisecond, func() { cmd.Process.Kill() })
				killed = true
			}
		}
		cmd.Wait()
		s, err := git.Open(t.Context(), dir, "git")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Changes(t.Context(), "", "", git.Hash(last[1])); err != nil && last[1] != "" {
			t.Errorf("a reported stage is missing: %v", err)
		}
		runGit(t, bare, "fsck", "--strict", "--no-dangling")
		runGit(t, git.RepositoryDir(s), "fsck", "--no-dangling")
		s.Tidy(time.Now(), map[git.Hash]bool{git.Hash(last[1]): true})
	}
	if told < 12 {
		t.Errorf("only %d stages were reported: the test checks too little", told)
	}
}

// stageForever prints each stage when it is in the target.
func stageForever(t *testing.T, dir, bare string) {
	s, err := git.Open(t.Context(), dir, "git")
	if err != nil {
		t.Fatal(err)
	}
	target, err := s.Target(t.Context(), bare, true)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		base, err := target.Branch(t.Context(), "main")
		if err != nil {
			t.Fatal(err)
		}
		// As with git, the user removes a lock that a killed git left.
		os.Remove(filepath.Join(bare, "refs/heads/main.lock"))
		hash, err := s.Stage(t.Context(), target.Objects(), newCommit(base, newFile(fmt.Sprintf("f%d", i), fmt.Sprint(os.Getpid(), i))))
		if err != nil {
			t.Fatal(err)
		}
		alone, err := s.Stage(t.Context(), "", newCommit("", newFile("a", fmt.Sprint(os.Getpid(), i))))
		if err != nil {
			t.Fatal(err)
		}
		if err := target.Take(t.Context(), base, hash); err != nil {
			t.Fatal(err)
		}
		if err := target.Move(t.Context(), "main", base, hash); err != nil {
			t.Fatal(err)
		}
		fmt.Println("told", hash, alone)
	}
}
