package golem_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestRelease makes the files of a release for this machine twice, compares their bytes, installs
// golem from them with install.sh, refuses a changed archive, and installs, uses and
// removes the Debian package on a copy of this machine.
func TestRelease(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"dpkg", "script", "unshare", "awk"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(program + " is missing; on Debian make test installs it")
		}
	}
	clone := t.TempDir() // a clean tree, so that the version names the commit only
	run(t, ".", nil, "git", "clone", "-q", "--no-hardlinks", ".", clone)
	var dirs []string
	for _, name := range []string{"one", "two"} {
		dir := filepath.Join(t.TempDir(), name)
		run(t, clone, []string{"SYSTEMS=linux/" + runtime.GOARCH}, "scripts/dist", dir)
		dirs = append(dirs, dir)
	}
	sums := read(t, filepath.Join(dirs[0], "SHA256SUMS"))
	if second := read(t, filepath.Join(dirs[1], "SHA256SUMS")); sums != second || strings.Count(sums, "\n") < 10 {
		t.Errorf("two builds differ:\n%s\n%s", sums, second)
	}
	home := t.TempDir()
	if out := run(t, clone, nil, "sh", "packaging/install.sh", "--from", dirs[0], "--to", home, "--hub"); !strings.Contains(out, "installed: "+home+"/bin/golem (golem 0.") {
		t.Errorf("install.sh: got %q", out)
	}
	for _, name := range []string{"bin/golem-hub", "share/man/man1/golem-run.1.gz", "share/bash-completion/completions/golem"} {
		if _, err := os.Stat(filepath.Join(home, name)); err != nil {
			t.Error(err)
		}
	}
	archives, _ := filepath.Glob(filepath.Join(dirs[1], "golem_*.tar.gz"))
	if len(archives) != 1 {
		t.Fatalf("got %q", archives)
	}
	if err := os.WriteFile(archives[0], append([]byte(read(t, archives[0])), 0), 0o644); err != nil {
		t.Fatal(err)
	}
	install := exec.Command("sh", "packaging/install.sh", "--from", dirs[1], "--to", filepath.Join(home, "other"))
	if out, err := install.CombinedOutput(); err == nil || !strings.Contains(string(out), "nothing was installed") {
		t.Errorf("a changed archive: got %v, %q", err, out)
	}
	packages, _ := filepath.Glob(filepath.Join(dirs[0], "golem_*.deb"))
	if out := run(t, clone, nil, "scripts/try-package", packages[0]); !strings.HasSuffix(out, "installed, used and removed\n") {
		t.Errorf("the package: got\n%s", out)
	}
}

// run runs a program in a directory and returns its output.
func run(t *testing.T, dir string, env []string, words ...string) string {
	t.Helper()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return string(out)
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
