package git_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/clearance/git"
)

// TestNamesAsGitAcceptsThem checks that BadName refuses every name that git refuses. It may
// refuse a few more, which git refuses on other systems.
func TestNamesAsGitAcceptsThem(t *testing.T) {
	dir := newRepository(t)
	blob := runGit(t, dir, "rev-parse", "HEAD:a.txt")
	takes := func(name string) bool {
		cmd := exec.Command("git", "-c", "core.protectNTFS=true", "-c", "core.protectHFS=true", "update-index", "--add", "--cacheinfo", "100644,"+blob+","+name)
		cmd.Dir = dir
		cmd.Env = append(cmd.Environ(), "GIT_INDEX_FILE="+filepath.Join(t.TempDir(), "index"))
		return cmd.Run() == nil
	}
	names := strings.Split("a|a/b|..|../a|a/..|a/../b|.|./a|a/.|/a|a/|a//b|//|.git|.GIT|.Git/x|a/.git|a/.gIt/b|git~1|GIT~1/x|a/git~1|"+
		".git |.git.|.git . .|.git::$INDEX_ALLOCATION/x|.git:x|git~1.|git~1 |git~1:a|.git\\x|a\\.git|a\\.git\\b|a\\..\\b|..\\x|"+
		".g\u200cit|.git\u200d|\u202e.git|\ufeff.git/a|.gi\u206ft|.gitx|.gitignore|.gitattributes|.gitmodules|git|xgit~1|git~2|.git~1|"+
		"...|..a|a..|.. |.a|a.|-|--|-x|con|aux.txt|a b|a\tb|a\nb|a\x1bb|*|?|:a|~|é|.ɡit|a:b|.git\x7f", "|")
	stricter := map[string]string{
		"..\\x": "Windows takes it for a directory above", "a\\..\\b": "the same",
	}
	taken, refused := 0, 0
	for _, name := range names {
		want, why := takes(name), git.BadName(name, git.Plain)
		if stricter[name] != "" {
			want = false
		}
		if want {
			taken++
		} else {
			refused++
		}
		if (why == "") != want {
			t.Errorf("%q: got %q, git accepts it: %v", name, why, want)
		}
	}
	if taken < 20 || refused < 20 {
		t.Errorf("git accepted %d names and refused %d: the test checks too little", taken, refused)
	}
}

// TestBranchesAsGitAcceptsThem compares BadBranch with git.
func TestBranchesAsGitAcceptsThem(t *testing.T) {
	s := openStore(t)
	for _, name := range strings.Split("main|drafts/notes|a.b|é|-x|--upload-pack=x|+main:refs/heads/prod|:prod|main:refs/*|HEAD|@|@{u}|a..b|x y|a~1|a^|"+
		"HEAD^{/x}|a?|a[|a\\b|/a|a/|a//b|.a|a/.b|a.lock|a/b.lock/c|a.||a\nb|a\x00b|a\x1bb|a\u202eb", "|") {
		taken := exec.Command("git", "check-ref-format", "--branch", name).Run() == nil
		if why := git.BadBranch(name); why == "" && !taken {
			t.Errorf("%q: accepted by golem, refused by git", name)
		}
		if _, err := s.Stage(t.Context(), "", newCommit(git.Hash(name), newFile("a", "a"))); name != "" && err == nil {
			t.Errorf("%q was accepted as a commit", name)
		}
	}
	for _, name := range []string{"main", "drafts/notes", "a.b", "é", "v1-x_y"} {
		if why := git.BadBranch(name); why != "" {
			t.Errorf("%q: %s", name, why)
		}
	}
}
