package worker_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/work/worker"
)

func readWorker(t testing.TB, file string) *worker.Worker {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	w, err := worker.Parse(file, data)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// writeProgram creates a program from a map of names to contents.
func writeProgram(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		name = filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func discover(root string, paths ...string) (string, error) {
	workers, err := worker.Discover(root, paths, []string{"read_file", "shell"})
	var list []string
	for _, w := range workers {
		list = append(list, w.Name+"="+w.File)
	}
	return strings.Join(list, " "), err
}

func TestDiscover(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		paths []string
		want  string
		err   string // a part of the error
	}{
		{"main alone", map[string]string{"main.worker": "a: 1", "x.txt": ""}, nil, "", `main.worker:1:1: unknown key "a"`},
		{"main, whatever the paths", map[string]string{"main.worker": "", "z.worker": "", "w/a.worker": ""}, []string{"w"}, "main=main.worker a=w/a.worker", ""},
		{"the default", map[string]string{"main.worker": "", "b.worker": "", "a/worker.worker": "", "workers/c.worker": "", "workers/d/worker.worker": "",
			"workers/d/other.worker": "", "deep/er/worker.worker": "", "README.md": ""},
			[]string{".", "workers"}, "main=main.worker a=a/worker.worker b=b.worker c=workers/c.worker d=workers/d/worker.worker", ""},
		{"no workers directory", map[string]string{"main.worker": ""}, []string{".", "workers"}, "main=main.worker", ""},
		{"no main", map[string]string{"a.worker": ""}, []string{"."}, "a=a.worker", ""},
		{"nothing", nil, []string{"."}, "", ""},
		{"deeper paths", map[string]string{"lib/workers/a.worker": ""}, []string{"lib/workers"}, "a=lib/workers/a.worker", ""},
		{"one directory twice", map[string]string{"w/a.worker": "", "main.worker": ""}, []string{"w", "./w/", ".", "w/../w"}, "main=main.worker a=w/a.worker", ""},
		{"a name of its own", map[string]string{"a.worker": "name: z", "b.worker": ""}, []string{"."}, "b=b.worker z=a.worker", ""},
		{"main has another name", map[string]string{"main.worker": "name: z", "b.worker": ""}, []string{"."}, "z=main.worker b=b.worker", ""},
		{"worker for workers", map[string]string{"worker/a.worker": ""}, []string{".", "workers"}, "", "worker: workers there are not read; write worker_paths: [worker]"},
		{"a worker of that name", map[string]string{"worker/worker.worker": ""}, []string{".", "workers"}, "worker=worker/worker.worker", ""},
		{"other directories by choice", map[string]string{"workers/a.worker": "", "w/b.worker": ""}, []string{"w"}, "b=w/b.worker", ""},
		{"hidden names", map[string]string{".a.worker": ":", ".worker": ":", ".git/worker.worker": ":", "b.worker~": ":", "b.worker": ""}, []string{"."}, "b=b.worker", ""},

		{"a name twice", map[string]string{"a.worker": "", "w/a.worker": ""}, []string{".", "w"}, "a=a.worker a=w/a.worker",
			"w/a.worker:1:1: name: a is also the name of a.worker:1; a name calls one worker; rename one of them"},
		{"a name twice by its key", map[string]string{"a.worker": "", "b.worker": "---\n\nname: a\n---\n"}, []string{"."}, "a=a.worker a=b.worker",
			"b.worker:3:7: name: a is also the name of a.worker:1;"},
		{"file and directory", map[string]string{"a.worker": "", "a/worker.worker": ""}, []string{"."}, "", "name: a is also the name of a"},
		{"a tool's name", map[string]string{"read_file.worker": ""}, []string{"."}, "read_file=read_file.worker",
			"read_file.worker:1:1: name: read_file is the name of a tool; workers are called like tools; choose another name"},
		{"a tool's name by its key", map[string]string{"a.worker": "description: x\nname: shell"}, []string{"."}, "", "a.worker:2:7: name: shell is the name of a tool"},
		{"a path that is missing", map[string]string{"a.worker": ""}, []string{".", "wrkers"}, "a=a.worker", ".: worker_paths: wrkers: not found; it is a directory inside the program"},
		{"a path that is a file", map[string]string{"a.worker": ""}, []string{"a.worker"}, "", "worker_paths: a.worker:"},
		{"a path that leaves", nil, []string{"../x"}, "", "worker_paths: ../x; it is a directory inside the program"},
		{"a path that leaves by and by", nil, []string{"a/../../x"}, "", "worker_paths: a/../../x;"},
		{"an absolute path", nil, []string{"/etc"}, "", "worker_paths: /etc;"},
		{"an empty path", nil, []string{""}, "", `worker_paths: "";`},
		{"the rest is read", map[string]string{"a.worker": "nmae: a", "b.worker": "", "c.worker": "mode: x"}, []string{"."}, "b=b.worker",
			"a.worker:1:1: unknown key \"nmae\""},
		{"all problems", map[string]string{"a.worker": "nmae: a", "c.worker": "mode: x"}, []string{"."}, "", "\nc.worker:1:7: mode: x"},
		{"a file that is too large", map[string]string{"a.worker": strings.Repeat("#\n", 1<<20)}, []string{"."}, "", "a.worker:1:1: 1048577 bytes; a worker file may have 1048576"},
		{"a directory called like a file", map[string]string{"a.worker/x": ""}, []string{"."}, "", "a.worker: not a regular file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := writeProgram(t, c.files)
			got, err := discover(root, c.paths...)
			if c.want != "" && got != c.want || c.err == "" && (err != nil || got != c.want) {
				t.Errorf("got %s, %v, want %s", got, err, c.want)
			}
			if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("got %v, want %s", err, c.err)
			}
			if err != nil && strings.Contains(err.Error(), root) {
				t.Errorf("the error has a host path: %v", err)
			}
		})
	}
}

// TestDiscoverMany: a program has at most maxWorkers workers.
func TestDiscoverMany(t *testing.T) {
	files := map[string]string{}
	for i := range 200 {
		files[fmt.Sprintf("w%d.worker", i)] = ""
	}
	if _, err := discover(writeProgram(t, files), "."); err != nil {
		t.Error(err)
	}
	files["x.worker"] = ""
	if _, err := discover(writeProgram(t, files), "."); err == nil || !strings.HasPrefix(err.Error(), ".: more than 200 workers; a program has at most 200; ") {
		t.Errorf("got %v", err)
	}
	for name := range files {
		files[name] = "a: 1\nb: 2\n"
	}
	if _, err := discover(writeProgram(t, files), "."); strings.Count(err.Error(), "\n") != 99 || !strings.HasSuffix(err.Error(), "too many problems; fix those above first") {
		t.Errorf("got %d lines", strings.Count(err.Error(), "\n"))
	}
}

func TestDiscoverNoProgram(t *testing.T) {
	root := filepath.Join(t.TempDir(), "none")
	got, err := discover(root, ".")
	if got != "" || err == nil || err.Error() != ".: the program's directory: not found; name an existing directory" {
		t.Errorf("got %q, %v", got, err)
	}
}
