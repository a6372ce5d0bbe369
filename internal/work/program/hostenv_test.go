package program

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	gitrun "github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/work/session"
)

// TestNoProgramOfAWorker: golem runs no git or other program that a worker has put into a
// directory of PATH.
func TestNoProgramOfAWorker(t *testing.T) {
	files := newTargetProgram(bare)
	files["out/bin/git"] = "#!/bin/sh\necho ran >> \"$(dirname \"$0\")\"/ran\nexit 1\n"
	options := writeProgram(t, files)
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
	p := loadProgram(t, options)
	if err := p.Trust(); err != nil {
		t.Fatal(err)
	}
	gate, err := p.OpenWorker(WorkerOptions{Session: session.New, Asker: fixedAsker(func(tool.Request) approval.Reply { return approval.Reply{} })})
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	r := gate.Do(t.Context(), policy.User, tool.Call{Tool: "git_stage", Args: []byte(`{"files":["/src/x"],"message":"m"}`)})
	if r.Err != nil {
		t.Error(r.Err)
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("the worker's git was run")
	}
	for _, one := range p.hostEnv().Safe() {
		if strings.Contains(one, dir) || strings.Contains(one, link) {
			t.Errorf("programs of a push would come from %s", one)
		}
	}
}

// TestNoProgramFromAReachedDirectory: golem never runs a git in a directory that
// workers may write to, whatever the mode of the mount and the name of the directory in
// PATH.
func TestNoProgramFromAReachedDirectory(t *testing.T) {
	for _, test := range []struct{ name, config, dir string }{
		{"overlay root", "sandbox:\n  root: .\n", "bin"},
		{"overlay mount", "sandbox:\n  mounts:\n    - {source: w, target: /w, mode: overlay}\n", "w/bin"},
		{"untrusted mount", "sandbox:\n  mounts:\n    - {source: in, target: /in, mode: ro, trust: untrusted}\n", "in/bin"},
		{"beside the mounts", "sandbox:\n  mounts:\n    - {source: w, target: /w, mode: ro}\n", "vendor/bin"},
	} {
		t.Run(test.name, func(t *testing.T) {
			options := writeProgram(t, map[string]string{"golem-forge.config.yaml": test.config, "w/x": "", "in/x": "", test.dir + "/git": "#!/bin/sh\nexit 1\n"})
			dir := filepath.Join(options.Dir, test.dir)
			git := filepath.Join(dir, "git")
			if err := os.Chmod(git, 0o755); err != nil {
				t.Fatal(err)
			}
			// A symlink to the directory, and one to the program itself.
			outside := t.TempDir()
			for name, to := range map[string]string{"link": dir, "git": git} {
				if err := os.Symlink(to, filepath.Join(outside, name)); err != nil {
					t.Fatal(err)
				}
			}
			list := []string{dir, dir + "/../" + filepath.Base(dir), filepath.Join(outside, "link"), outside}
			p := loadProgram(t, options)
			for _, one := range list {
				if got := gitrun.Find(one, p.hostEnv().CanWorkerWrite); got != "" {
					t.Errorf("%s: found %s", one, got)
				}
			}
			if got := gitrun.Find(os.Getenv("PATH"), p.hostEnv().CanWorkerWrite); got == "" {
				t.Error("the git of the system is not found")
			}
		})
	}
}
