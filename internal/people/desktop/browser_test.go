package desktop_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/golem-forge/golem/internal/people/desktop"
)

// TestOpen checks that the program gets the file, and that without a desktop nothing is
// started.
func TestOpenFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the test program is a shell script")
	}
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	script := "#!/bin/sh\nprintf %s \"$*\" > '" + out + "'\n"
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := desktop.OpenFile(t.Context(), []string{dir}, []string{"DISPLAY="}, "/a b.html"); !errors.Is(err, desktop.ErrNone) {
		t.Fatalf("without a desktop: got %v, want %v", err, desktop.ErrNone)
	}
	if _, err := os.Stat(out); err == nil {
		t.Fatal("the program was started without a desktop")
	}
	if err := desktop.OpenFile(t.Context(), []string{filepath.Join(dir, "none"), dir}, []string{"DISPLAY=:0", "PATH=/bin:/usr/bin"}, "/a b.html"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(out); err != nil || string(got) != "/a b.html" {
		t.Fatalf("got %q, %v", got, err)
	}
}
