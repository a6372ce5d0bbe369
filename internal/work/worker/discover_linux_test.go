package worker_test

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/work/worker"
)

// TestDiscoverCase: a worker whose name is in another case must not be missing in silence.
func TestDiscoverCase(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		paths []string
		want  string
		err   string // a part of the error
	}{
		{"an ending in upper case", map[string]string{"main.WORKER": "name: x"}, []string{".", "workers"}, "", "main.WORKER: this worker is not read; a worker file ends in .worker, in lower case; rename it"},
		{"yaml in upper case", map[string]string{"main.YAML": "instructions: x", "mkdocs.YML": "site: x"}, []string{"."}, "", "main.YAML: this worker is not read; a worker file ends in .yaml, in lower case"},
		{"a directory in upper case", map[string]string{"Workers/a.worker": "", "main.worker": ""}, []string{".", "workers"}, "main=main.worker", "Workers: workers there are not read; write worker_paths: [Workers]"},
		{"a directory that the project names", map[string]string{"Workers/a.worker": ""}, []string{"workers", "./Workers"}, "a=Workers/a.worker", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := discover(writeProgram(t, c.files), c.paths...)
			if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %q, %v; want %q, %q", got, err, c.want, c.err)
			}
		})
	}
}

// TestFindUnread: in a program without workers, a file that was meant as one must not be
// missing in silence. The program would have only the limits of its project file.
func TestFindUnread(t *testing.T) {
	const problem = "this worker is not read, and the program has no other"
	for name, text := range map[string]string{
		".main.worker": "", "main.worker.md": "", "Main.Worker.txt": "", "workers/.x.worker": "", "workers/x/x.worker": "", "workers/a/b/x.worker": "", "Workers/x.yaml": "prompt: x",
		"main.yaml": "\"toolsets\": {}", "main.yml": "  toolsets : {}", "workers/a.yaml": "{prompt: x}", "workers/.a.yml": "\ufeffinstructions: x", "WORKERS/a.YML": "x: 1\nPrompt: x",
		"agents/x.worker": "", "a/b/c/d/e/x.worker": "", ".sandbox/main.worker": "", "agents/X.Worker.md": "", "workers/x.workers": "", "main.workers": "",
		"main.YAML": "name: x\nsandbox: {zones: [{name: data}]}", "workers/b.yml": "{description: x, sandbox: inherit}", "./main.yml": "attachmentPolicy: {}",
		"main.worker ": "", "main.worker\u00a0": "", "main.worker.disabled": "", "main (1).worker": "", "main.wroker": "",
		"workers/x.md": "---\nname: x\nsandbox: inherit\n---\nGo.\n", "workers/a/x": "# x\n---\n---\nGo.\n", "Workers/x.txt": "\ufeff---\r\nTool_Rules: []\r\n---\r\n", "main.md": "---\nmodel: x\n---\n",
	} {
		if err := worker.FindUnread(writeProgram(t, map[string]string{name: text}), []string{"workers"}, nil).Err(); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for name, text := range map[string]string{"service.worker.js": "", "openapi.yaml": "prompt: x", "main.yaml": "hosts: all", "main.yml": "name: x\nmodel: y", "./main.yaml": "sandbox: {}\nhosts: all", "node_modules/x/a.worker": "", "agents/x.worker.js": "", "openapi/x.yaml": "sandbox: {}", "tasks/main.yml": "prompt: x", "workers/README.md": "# Workers\nprompt: x\n", "workers/page.md": "---\ntitle: x\ndescription: y\n---\n", "workers/x.lua": "--- x\nname: y\n---\n", "workers/a.md": "---\nname: x\n",
		"docs/x.md": "---\nname: x\n---\n", "main.worker.js": "---\n---\n", "workers/deploy.yaml": "kind: Deployment"} {
		if err := worker.FindUnread(writeProgram(t, map[string]string{name: text}), []string{"workers"}, nil).Err(); err != nil {
			t.Errorf("%s: got %v", name, err)
		}
	}
	other := writeProgram(t, map[string]string{"sub/golem-forge.config.yaml": "", "sub/main.worker": "", "sub/agents/x.worker": ""})
	if err := worker.FindUnread(other, []string{"workers"}, nil).Err(); err != nil {
		t.Errorf("another program: got %v", err)
	}
	for _, make := range []func(root string) error{
		func(root string) error { return os.Symlink("/nonexistent", root+"/main.yaml") },
		func(root string) error { return unix.Mkfifo(root+"/workers/a.yaml", 0o600) },
		func(root string) error { return os.Symlink("deep/x.worker", root+"/workers/.x.worker") },
	} {
		root := writeProgram(t, map[string]string{"workers/README": ""})
		if err := make(root); err != nil {
			t.Fatal(err)
		}
		if err := worker.FindUnread(root, []string{"workers"}, nil).Err(); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("got %v", err)
		}
	}
}

// TestFindUnreadMain: if golem reads other workers and no main.worker, a file that was meant
// as main must not be missing in silence. Another worker would be the entry.
func TestFindUnreadMain(t *testing.T) {
	const problem = "this worker is not read, and the program has no other that is its main.worker"
	find := func(files map[string]string) error {
		root := writeProgram(t, files)
		paths := []string{".", "workers", ".workers"}
		read, err := worker.Discover(root, paths, nil)
		if err != nil {
			return err
		}
		return worker.FindUnread(root, paths, read).Err()
	}
	for name, text := range map[string]string{
		"main.workers": "", "main.worker.txt": "", ".main.worker": "", "Main.worker.bak": "", "main.worker~": "", "main.worker.old": "", ".workers/.main.worker": "",
		"main.yaml": "name: x\nsandbox: {}\ndescription: y", "workers/main.yml": "sandbox: {}\nmodel: x", "workers/main/worker.yml": "sandbox: {}", "Worker/main.worker": "", "workers/a/main.worker": "",
	} {
		if err := find(map[string]string{name: text, "workers/child.worker": "---\n---\nx"}); err == nil || !strings.Contains(err.Error(), problem) && !strings.Contains(err.Error(), "workers there are not read") {
			t.Errorf("%s: got %v", name, err)
		}
		if err := find(map[string]string{name: text, "main.worker": "---\n---\nx"}); err != nil && strings.Contains(err.Error(), problem) {
			t.Errorf("%s beside main.worker: got %v", name, err)
		}
	}
	for name, text := range map[string]string{"other.worker.bak": "", "main.yaml": "hosts: all", "examples/main.worker": "", "main.go": "", "workers/main.worker": "---\n---\nx", "a.yaml": "sandbox: {}"} {
		if err := find(map[string]string{name: text, "workers/child.worker": "---\n---\nx"}); err != nil {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestDiscoverKeys: a key makes a YAML file a worker in every form in which YAML writes it.
func TestDiscoverKeys(t *testing.T) {
	for _, text := range []string{"instructions: x", "\"instructions\": x", "'instructions': x", "{\"instructions\": \"x\"}", "{description: y, instructions: x}", "\ufeffinstructions: x",
		"\ufeff\"instructions\": x", "\ufeff{\"instructions\": \"x\"}", "  instructions : x\n  description: y", "? instructions\n: x", "instructions : x"} {
		for _, name := range []string{"main.yaml", "main.yml"} {
			if got, err := discover(writeProgram(t, map[string]string{name: text}), ".", "workers"); got != "main="+name || err != nil {
				t.Errorf("%s %q: got %q, %v", name, text, got, err)
			}
		}
	}
	for _, text := range []string{"a: {instructions: x}", "- instructions: x", "x: 1\nvars_prompt: y", "a: |\n  prompt: x"} {
		if got, err := discover(writeProgram(t, map[string]string{"a.yaml": text}), ".", "workers"); got != "" || err != nil {
			t.Errorf("%q: got %q, %v", text, got, err)
		}
	}
}
