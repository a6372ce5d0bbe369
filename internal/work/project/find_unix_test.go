//go:build unix

package project_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/golem-forge/golem/internal/work/project"
)

// TestLoadPipe checks that reading a named pipe does not block.
func TestLoadPipe(t *testing.T) {
	w := newWorld(t)
	pipe := filepath.Join(w.program, "pipe")
	must(t, syscall.Mkfifo(pipe, 0o666))
	must(t, os.Symlink("pipe", filepath.Join(w.program, project.File)))
	_, err := project.Load(w.program, project.File, w.env, nil)
	if err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("got %v", err)
	}
}
