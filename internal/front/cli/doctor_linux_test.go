package cli

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDoctor holds what is said of this machine against the machine.
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
