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

func TestCopy(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the programs are scripts here")
	}
	dir := t.TempDir()
	script := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "out")
	keeps := "{ echo \"$0 $*\" | sed 's,.*/,,'; env; cat; } > " + out + "\n"
	script("xclip", keeps)
	environ := []string{"DISPLAY=:0", "TOKEN=canary", "PATH=/nowhere", "WAYLAND_DISPLAY="}
	text := "a\n\x1b[2J é"

	name, err := desktop.Copy(t.Context(), []string{"/nowhere", dir}, environ, text)
	got, _ := os.ReadFile(out)
	if err != nil || name != "xclip" || !strings.HasPrefix(string(got), "xclip -selection clipboard -in\n") || !strings.HasSuffix(string(got), "\n"+text) || strings.Contains(string(got), "canary") {
		t.Errorf("got %s, %v, %q", name, err, got)
	}
	script("wl-copy", keeps)
	if name, err := desktop.Copy(t.Context(), []string{dir}, append(environ, "WAYLAND_DISPLAY=w"), text); err != nil || name != "wl-copy" {
		t.Errorf("on wayland: got %s, %v", name, err)
	}
	if _, err := desktop.Copy(t.Context(), []string{dir}, nil, text); !errors.Is(err, desktop.ErrNone) {
		t.Errorf("without a desktop: got %v", err)
	}
	script("xclip", "exit 3")
	if _, err := desktop.Copy(t.Context(), []string{dir}, environ, text); err == nil {
		t.Error("a program that fails: got no error")
	}
	if got, want := desktop.CopySequence("a\x1b\\"), "\x1b]52;c;YRtc\a"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
