package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDoctor compares the findings of doctor with the machine.
func TestDoctor(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("a", nil, 0o666); err != nil {
		t.Fatal(err)
	}
	_, err := os.Stat("A")
	folds := err == nil
	fd, err := unix.Openat2(unix.AT_FDCWD, "a", &unix.OpenHow{Flags: unix.O_RDONLY, Resolve: unix.RESOLVE_BENEATH})
	if err == nil {
		unix.Close(fd)
	}
	found, problem := examine()
	if problem != nil {
		t.Fatal(problem)
	}
	said := map[string]finding{}
	for _, f := range found {
		said[f.Name] = f
	}
	if got, want := strings.HasPrefix(said["files"].Why, "openat2: "), err == nil; got != want {
		t.Errorf("files: %+v, but openat2: %v", said["files"], err)
	}
	if got, want := said["case"].Holds, map[bool]string{false: "yes", true: "part"}[folds]; got != want {
		t.Errorf("case: got %q, want %q", got, want)
	}
}

// TestTryState checks that tryState accepts a directory only if the first call could
// create and use it. It leaves no files.
func TestTryState(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"own": 0o700, "open": 0o777, "shared": 0o770} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		dir + "/own":       "",
		dir + "/own/new":   "",
		dir + "/own/a/b/c": "",
		dir + "/open/new":  "everybody may replace it",
		dir + "/shared":    "others may write to it",
		"/proc/self":       "no such file",
		"/proc/x/y":        "it cannot be made in /proc: ",
	} {
		if err := tryState(name); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
	for _, name := range []string{"own", "open", "shared"} {
		if left, err := os.ReadDir(filepath.Join(dir, name)); err != nil || len(left) > 0 {
			t.Errorf("%s: leftover files: %v, %v", name, left, err)
		}
	}
}
