package lint_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/trust"
	"github.com/golem-forge/golem/internal/work/lint"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/worker"
)

const (
	oldProject = "sandbox: {root: ., mode: overlay}\nclearance:\n  limits: {maxFiles: 3} # few\n"
	newProject = "sandbox: {root: ., mode: overlay}\nclearance:\n  limits: {max_files: 3} # few\n"
	oldWorker  = "---\nmaxContextTokens: 9000\n---\nSay maxFiles.\n"
	newWorker  = "---\nmax_context_tokens: 9000\n---\nSay maxFiles.\n"
)

// load writes the files of a program and reads them as golem lint does.
func load(t *testing.T, files map[string]string) lint.Program {
	t.Helper()
	p := lint.Program{Root: t.TempDir()}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(p.Root, name), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if p.Project, err = project.Load(p.Root, project.File, project.Env{}, nil); err != nil {
		t.Fatal(err)
	}
	if p.Workers, err = worker.Discover(p.Root, nil, nil); err != nil {
		t.Fatal(err)
	}
	p.Content = trust.NewContent(project.File, []byte(files[project.File]), p.Workers, nil, nil)
	return p
}

// TestRespell writes keys in snake_case and changes nothing else.
func TestRespell(t *testing.T) {
	p := load(t, map[string]string{project.File: oldProject, "main.worker": oldWorker})
	list := lint.Respellings(p)
	var got []string
	for _, r := range list {
		got = append(got, r.From+" "+r.To)
	}
	if len(list) != 2 || strings.Join(got, ", ") != "maxFiles max_files, maxContextTokens max_context_tokens" {
		t.Fatalf("got %q", got)
	}
	if skipped, err := lint.Respell(p); err != nil || len(skipped) > 0 {
		t.Fatalf("skipped %v, %v", skipped, err)
	}
	for name, want := range map[string]string{project.File: newProject, "main.worker": newWorker} {
		file := filepath.Join(p.Root, name)
		data, err := os.ReadFile(file)
		if err != nil || string(data) != want {
			t.Errorf("%s: got %q, %v; want %q", name, data, err, want)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("%s: got %v, %v", name, info, err)
		}
	}
	again := load(t, map[string]string{project.File: newProject, "main.worker": newWorker})
	if list := lint.Respellings(again); len(list) > 0 {
		t.Errorf("after Respell: got %v", list)
	}
}

// TestRespellRefuses checks that golem replaces only the file that it has read.
func TestRespellRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		change func(file string) error
		want   string
	}{
		"changed": {func(file string) error { return os.WriteFile(file, []byte("# mine\n"), 0o640) }, "changed meanwhile"},
		"symlink": {func(file string) error { return replaceBySymlink(file) }, "symlink"},
		"removed": {os.Remove, "no such file"},
	} {
		p := load(t, map[string]string{project.File: oldProject})
		file := filepath.Join(p.Root, project.File)
		if err := test.change(file); err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(file)
		if _, err := lint.Respell(p); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
		if after, _ := os.ReadFile(file); string(after) != string(before) {
			t.Errorf("%s: the file has changed: %q", name, after)
		}
	}
}

func replaceBySymlink(file string) error {
	if err := os.Rename(file, file+".real"); err != nil {
		return err
	}
	return os.Symlink(file+".real", file)
}

// TestCheckSettings finds mistakes in a project file that golem can read.
func TestCheckSettings(t *testing.T) {
	for name, test := range map[string]struct {
		file string
		want []string // a part of each problem
	}{
		"nothing":         {"sandbox: {root: ., mode: overlay}\nmodel: ollama:qwen3\n", nil},
		"no directory":    {"sandbox: {mounts: [{source: ./dada, target: /in}]}\n", []string{`did you mean`}},
		"nothing to read": {"sandbox: {mounts: [{source: ./zzzzzzzz, target: /in, mode: ro}]}\n", []string{"mkdir -p"}},
		"made by a write": {"sandbox: {mounts: [{source: ./zzzzzzzz, target: /in}, {source: ./yyyyyyyy, target: /out, mode: overlay}]}\n", nil},
		"zones":           {"sandbox: {mode: sandboxed, root: ./later}\n", nil},
		"no vendor":       {"model: qwen3\n", []string{"names no vendor"}},
		"another vendor":  {"model: olama:qwen3\n", []string{"ollama"}},
	} {
		root := t.TempDir()
		if err := os.MkdirAll(filepath.Join(root, "data"), 0o755); err != nil {
			t.Fatal(err)
		}
		p, err := project.Parse(root, project.File, []byte(test.file), project.Env{}, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		problems := lint.CheckSettings(p, []string{"anthropic", "ollama"})
		ok := len(problems) == len(test.want)
		for i := 0; ok && i < len(problems); i++ {
			ok = strings.Contains(problems[i].Error(), test.want[i])
		}
		if !ok {
			t.Errorf("%s: got %v, want %q", name, problems, test.want)
		}
	}
	if problems := lint.CheckSettings(nil, nil); problems != nil {
		t.Errorf("without a project: got %v", problems)
	}
}
