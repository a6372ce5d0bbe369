package program

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
)

// TestEntryLimits: whatever the files and names of its workers are, golem acts for a
// program with the limits of a worker, or not at all.
func TestEntryLimits(t *testing.T) {
	const limited = "sandbox: {zones: [{name: in, mode: ro}]}\n---\nRead.\n"
	for name, test := range map[string]struct {
		files map[string]string
		as    string // the worker; "" if golem refuses
	}{
		"main":                   {map[string]string{"main.worker": "---\n" + limited}, "main"},
		"main with another name": {map[string]string{"main.worker": "---\nname: writer\n" + limited, "workers/b.worker": "---\n" + limited}, "writer"},
		"main in another case":   {map[string]string{"main.worker": "---\nname: Main\n" + limited}, "Main"},
		"the only worker":        {map[string]string{"workers/x.worker": "---\n" + limited}, "x"},
		"several":                {map[string]string{"workers/x.worker": "---\n" + limited, "workers/y.worker": "---\n" + limited}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			test.files["golem-forge.config.yaml"] = "sandbox: {root: ., mode: rw}\n"
			test.files["in/a"], test.files["private/s"] = "a\n", "s\n"
			o := writeProgram(t, test.files)
			p := loadProgram(t, o)
			if err := p.Trust(); err != nil {
				t.Fatal(err)
			}
			refused := func(what string, err error) {
				t.Helper()
				if err == nil || !strings.Contains(err.Error(), "--entry") {
					t.Errorf("%s: got %v, want an error that names --entry", what, err)
				}
			}
			listed, err := p.Tools("")
			if test.as == "" {
				refused("tools", err)
				_, err = p.OpenWorker(WorkerOptions{})
				refused("gate", err)
				_, err = p.Subject("")
				refused("explain", err)
				_, err = p.OpenRun(RunOptions{})
				refused("run", err)
				refused("entry", p.CheckEntry())
				refused("lint", p.EntryProblems().Err())
				o.Entry = "y"
				p, test.as = loadProgram(t, o), "y"
				listed, err = p.Tools("")
			}
			if err != nil || strings.Join(listed.Workers, " ") != test.as {
				t.Fatalf("tools: got %v, %v, want those of %s", listed.Workers, err, test.as)
			}
			gate, err := p.OpenWorker(WorkerOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer gate.Close()
			for path, want := range map[string]bool{"/in/a": true, "/private/s": false} {
				subject, err := p.Subject("")
				if err != nil {
					t.Fatal(err)
				}
				a, err := subject.File(context.Background(), "read", path)
				if err != nil || a.Allowed != want {
					t.Errorf("explain %s: got %v, %v, want %v", path, a.Allowed, err, want)
				}
				r := gate.Do(context.Background(), policy.User, tool.Call{Tool: "read_file", Args: []byte(`{"path":"` + path + `"}`)})
				if r.OK() != want {
					t.Errorf("read %s: got %v, want %v", path, r.Err, want)
				}
			}
		})
	}
}

// TestIgnoredWorker: a worker below a project file without workers has limits that the
// project file lacks. golem reports it once, also if it is next to the user.
func TestIgnoredWorker(t *testing.T) {
	o := writeProgram(t, map[string]string{"golem-forge.config.yaml": "", "a/main.worker": "---\n---\nGo.\n", "a/b/x": ""})
	top := o.Dir
	for dir, hint := range map[string]string{".": "a worker is a regular file", "a": "write worker_paths: [a]", "a/b": "write worker_paths: [a]"} {
		o.Dir = filepath.Join(top, dir)
		if _, err := Load(o); err == nil || !strings.HasPrefix(err.Error(), "a/main.worker: this worker is not read, and the program has no other; "+hint) || strings.Count(err.Error(), "is not read") > 1 {
			t.Errorf("%s: got %v", dir, err)
		}
	}
	child := writeProgram(t, map[string]string{"golem-forge.config.yaml": "", "a/main.worker": "---\n---\nGo.\n", "workers/child.worker": "---\n---\nGo.\n"})
	child.Dir = filepath.Join(child.Dir, "a")
	if _, err := Load(child); err == nil || !strings.Contains(err.Error(), "a/main.worker: this worker is not read") {
		t.Errorf("beside another worker: got %v", err)
	}
	if err := os.WriteFile(filepath.Join(top, "golem-forge.config.yaml"), []byte("worker_paths: [a]\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if p := loadProgram(t, o); p.Entry == nil || p.Entry.File != "a/main.worker" {
		t.Errorf("got the entry worker %v", p.Entry)
	}
}

// TestUnreadWorker: a project file without workers is the only limit, so golem refuses a file
// that was meant as a worker. In a directory without a project file only a file that was meant
// as main.worker counts.
func TestUnreadWorker(t *testing.T) {
	for _, name := range []string{".main.worker", "workers/x/x.worker"} {
		if _, err := Load(writeProgram(t, map[string]string{"golem-forge.config.yaml": "", name: ""})); err == nil || !strings.Contains(err.Error(), name+": this worker is not read, and the program has no other") {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := Load(writeProgram(t, map[string]string{name: "", "workers/child.worker": "---\n---\nGo.\n"})); strings.Contains(name, "main") != (err != nil && strings.Contains(err.Error(), "golem does not read this file")) {
			t.Errorf("%s beside a worker: got %v", name, err)
		}
		if _, err := Load(writeProgram(t, map[string]string{name: ""})); strings.Contains(name, "main") != (err != nil && strings.Contains(err.Error(), "golem does not read this file")) {
			t.Errorf("%s without a project file: got %v", name, err)
		}
	}
	const page = "---\nname: x\nsandbox: {zones: [{name: data}]}\n---\nGo.\n"
	for _, name := range []string{"main.worker ", "main.worker\u00a0", "main.worker.txt", "main.md", "workers/x.md", "workers/x", "worker/x.txt", "workers/a/x.markdown"} {
		o := writeProgram(t, map[string]string{"golem-forge.config.yaml": "", name: page})
		if _, err := Load(o); err == nil || !strings.Contains(err.Error(), "this worker is not read") {
			t.Errorf("%q: got %v", name, err)
		}
	}
	o := writeProgram(t, map[string]string{"golem-forge.config.yaml": "", "workers/child.worker": "---\n---\nGo.\n", "a/main.worker ": page})
	o.Dir = filepath.Join(o.Dir, "a")
	if _, err := Load(o); err == nil || !strings.Contains(err.Error(), "\"a/main.worker \": this worker is not read") {
		t.Errorf("next to the user: got %v", err)
	}
}
