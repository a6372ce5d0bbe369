package forge

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/approval"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/tool"
)

// A git, or any other program, that a worker has put into a folder of PATH is not run.
func TestNoProgramOfAWorker(t *testing.T) {
	files := cleared(bare)
	files["out/bin/git"] = "#!/bin/sh\necho ran >> \"$(dirname \"$0\")\"/ran\nexit 1\n"
	options := program(t, files)
	dir := filepath.Join(options.Dir, "out/bin")
	if err := os.Chmod(filepath.Join(dir, "git"), 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	path := strings.Join([]string{dir, link, "out/bin", os.Getenv("PATH")}, string(os.PathListSeparator))
	options.Environ = []string{"PATH=" + path}
	t.Setenv("PATH", path)
	p := load(t, options)
	if err := p.Trust(); err != nil {
		t.Fatal(err)
	}
	door, err := p.Door(Visit{Session: NewSession, Asker: saying(func(tool.Request) approval.Reply { return approval.Reply{} })})
	if err != nil {
		t.Fatal(err)
	}
	defer door.Close()
	r := door.Do(t.Context(), policy.User, tool.Call{Tool: "git_stage", Args: []byte(`{"files":["/src/x"],"message":"m"}`)})
	if r.Err != nil {
		t.Error(r.Err)
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("the worker's git was run")
	}
	for _, one := range p.environment() {
		if strings.Contains(one, dir) || strings.Contains(one, link) {
			t.Errorf("what a push runs looks for programs in %s", one)
		}
	}
}
