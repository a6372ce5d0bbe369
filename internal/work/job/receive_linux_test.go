package job_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/work/job"
	"github.com/golem-forge/golem/internal/work/program"
)

// TestTakeProgram checks that a snapshot of a program for another machine has everything that a run
// needs, and nothing else.
func TestTakeProgram(t *testing.T) {
	needed := map[string]string{
		"golem-forge.config.yaml": "model: scripted:scripts/main.yaml\nsandbox:\n  mounts:\n    - {source: data/in, target: /in, mode: ro}\n    - {source: real, target: /out, mode: overlay}\n",
		"main.worker":             "---\nsandbox: inherit\ninstruction_files: [AGENTS.md]\ntoolsets: {filesystem: }\n---\nWork.\n",
		"workers/other.worker":    "---\ndescription: helps\nsandbox: inherit\n---\nHelp.\n",
		"AGENTS.md":               "Be brief.\n", "scripts/main.yaml": "- text: done\n", "more.yaml": "- text: done\n",
		"data/in/a.txt": "a\n", "data/in/.hidden": "h\n", "real/b.txt": "b\n",
	}
	other := []string{".git/config", ".env", "data/private.txt", "scripts/other.yaml", "real2/c.txt"}
	dir := filepath.Join(t.TempDir(), "made")
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var want []string
	for name, text := range needed {
		write(name, text)
		want = append(want, name)
	}
	for _, name := range other {
		write(name, "not needed\n")
	}
	if err := os.Rename(filepath.Join(dir, "more.yaml"), filepath.Join(dir, "scripts", "more.yaml")); err != nil { // a script by a symlink
		t.Fatal(err)
	}
	if err := os.Symlink("scripts/more.yaml", filepath.Join(dir, "more.yaml")); err != nil {
		t.Fatal(err)
	}
	want = append(want, "scripts/more.yaml")
	take := func() (names, skipped []string) {
		t.Helper()
		p, err := program.Load(program.Options{Dir: dir, State: t.TempDir(), Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		shots, err := job.NewSnapshotter(p, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		made, skipped, err := shots.TakeProgram(t.Context(), "scripted:more.yaml", "anthropic:x")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range made.Program {
			if e.Kind != "dir" {
				names = append(names, e.Name)
			}
		}
		return names, skipped
	}
	names, skipped := take()
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	if want := []string{".env", ".git", "data/private.txt", "real2", "scripts/other.yaml"}; !slices.Equal(skipped, want) {
		t.Errorf("skipped %q, want %q", skipped, want)
	}

	// A mount of the whole directory has everything.
	write("golem-forge.config.yaml", "sandbox: {root: ., mode: overlay}\n")
	if names, skipped := take(); len(names) != len(want)+len(other) || len(skipped) > 0 {
		t.Errorf("got %q, skipped %q", strings.Join(names, " "), skipped)
	}
}
