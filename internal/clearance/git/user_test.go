package git_test

import (
	"os/exec"
	"testing"

	"github.com/golem-forge/golem/internal/clearance/git"
)

// TestUserSetting reads settings of the user while a repository, and variables that an agent's
// files could set, have others.
func TestUserSetting(t *testing.T) {
	home, top := t.TempDir(), t.TempDir()
	runGit(t, top, "init", "-q")
	runGit(t, top, "config", "diff.tool", "theirs")
	runGit(t, top, "config", "difftool.theirs.cmd", "theirs")
	writeFile(t, home+"/.gitconfig", "[diff]\n\ttool = mine\n[include]\n\tpath = more\n[difftool \"mine\"]\n\tpath = ~/mine\n")
	writeFile(t, home+"/more", "[difftool \"a b\"]\n\tcmd = x \\\"$LOCAL\\\"\n")
	t.Chdir(top)
	program, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"diff.tool": "mine", "difftool.theirs.cmd": "", "difftool.a b.cmd": `x "$LOCAL"`, "difftool.mine.path": home + "/mine", "difftool.a\nb.cmd": "", "nothing": ""} {
		for _, environ := range [][]string{{"HOME=" + home}, {"HOME=" + home, "GIT_DIR=" + top + "/.git", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=" + key, "GIT_CONFIG_VALUE_0=theirs"}} {
			if got, err := git.UserSetting(t.Context(), program, environ, key); err != nil || got != want {
				t.Errorf("%s: %q, %v, want %q", key, got, err, want)
			}
		}
	}
	if got, err := git.UserSetting(t.Context(), program, []string{"HOME=" + t.TempDir()}, "diff.tool"); err != nil || got != "" {
		t.Errorf("without a configuration: %q, %v", got, err)
	}
}
