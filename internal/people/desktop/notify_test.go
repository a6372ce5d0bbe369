package desktop_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/people/desktop"
)

// TestSend checks that the program gets the text without markup, only the variables that it
// needs, and that it is found only in the given directories.
func TestNotify(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the test program is a shell script")
	}
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	script := "#!/bin/sh\n{ printf '%s|' \"$@\"; echo; env; } > " + out + "\n"
	if err := os.WriteFile(filepath.Join(dir, "notify-send"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := desktop.Notify(t.Context(), []string{dir}, []string{"SECRET=1"}, "golem", "x"); !errors.Is(err, desktop.ErrNone) {
		t.Errorf("without a desktop: %v", err)
	}
	if err := desktop.Notify(t.Context(), []string{t.TempDir()}, []string{"DISPLAY=:0"}, "golem", "x"); !errors.Is(err, desktop.ErrNone) {
		t.Errorf("without a program: %v", err)
	}
	if err := desktop.Notify(t.Context(), []string{dir}, []string{"DISPLAY=:0", "SECRET=1"}, "-golem", "<b>a & b</b>"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	want := "--app-name=golem|--|-golem|ba and b/b|\n"
	if len(got) < len(want) || string(got[:len(want)]) != want {
		t.Errorf("got %q, want %q first", got, want)
	}
	if strings.Contains(string(got), "SECRET") {
		t.Errorf("a variable reached the program:\n%s", got)
	}
}
