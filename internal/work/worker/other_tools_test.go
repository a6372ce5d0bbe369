package worker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/work/worker"
)

// TestDKeysOfOtherTools: golem refuses keys of other tools with a hint, and the pages
// about moving from those tools list each of them.
func TestDKeysOfOtherTools(t *testing.T) {
	for _, test := range []struct{ page, listed, file, hint string }{
		{"from-llm-do.md", "| `output_schema_ref` |", "output_schema_ref: x", "output_schema: {"},
		{"from-llm-do.md", "| `server_side_tools` |", "server_side_tools: [x]", "toolsets"},
		{"from-llm-do.md", "| `shell_rules[].sandbox_paths` |", "shell_rules: [{pattern: ls, approval_required: false, sandbox_paths: [in]}]", "limit the files in sandbox"},
		{"from-golem-forge-ts.md", "| `toolsets.git.auto_pull: true` |", "toolsets: {git: {auto_pull: true}}", "git_pull"},
		{"from-golem-forge-ts.md", "| `toolsets.custom.module` |", "toolsets: {custom: {module: ./tools.ts}}", "command: [node"},
		{"from-golem-forge-ts.md", "| `sandbox.approval` of a worker |", "sandbox: {approval: {write: ask}}\ntoolsets: {filesystem: {approval: {write: ask}}}", "keep toolsets.filesystem.approval"},
		{"from-llm-do.md", "| `model` |", "model: claude", "anthropic:claude-sonnet-4-5"},
		{"from-llm-do.md", "| `shell_cwd` |", "shell_cwd: /home/user/src", "relative to the program's"},
		{"from-llm-do.md", "| `shell_cwd` |", "shell_cwd: ../src", "relative to the program's"},
	} {
		readPage(t, test.page, test.listed)
		_, err := worker.Parse("a.worker", []byte("---\n"+test.file+"\n---\nx\n"))
		if err == nil || !strings.Contains(err.Error(), test.hint) {
			t.Errorf("%s: got %v, want a hint with %q", test.file, err, test.hint)
		}
	}
}

// readPage returns a page about moving from another tool, and reports an error if it does
// not list something.
func readPage(t *testing.T, page, listed string) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), listed) {
		t.Errorf("%s does not list %s", page, listed)
	}
	return string(text)
}

// TestDKeysThatGolemReads: golem reads keys of other tools as the pages about moving from
// those tools say.
func TestDKeysThatGolemReads(t *testing.T) {
	for _, test := range []struct {
		page, listed, file string
		read               func(*worker.Worker) bool
	}{
		{"from-llm-do.md", "| `model` | the model of this worker", "model: anthropic:claude-sonnet-4-5", func(w *worker.Worker) bool { return w.Model.Text == "anthropic:claude-sonnet-4-5" }},
		{"from-llm-do.md", "| `model` | the model of this worker", "model: null", func(w *worker.Worker) bool { return w.Model.Text == "" }},
		{"from-llm-do.md", "| `shell_cwd` | the directory", "shell_cwd: ./src", func(w *worker.Worker) bool { return w.ShellDir == "/src" }},
		{"from-llm-do.md", "| `shell_cwd` | the directory", "shell_cwd: null", func(w *worker.Worker) bool { return w.ShellDir == "" }},
		{"from-llm-do.md", "| `output_schema_ref` and `server_side_tools` without a value |", "output_schema_ref: null\nserver_side_tools: []", func(w *worker.Worker) bool { return true }},
		{"from-llm-do.md", "| `allow_workers` |", "allow_workers: [x]", func(w *worker.Worker) bool { return w.Workers.Has("x") && !w.Workers.Has("y") }},
		{"from-llm-do.md", "| `attachment_policy {", "name: x", func(w *worker.Worker) bool { return w.Attachments.Max == 4 && w.Attachments.Bytes == 10_000_000 }},
		{"from-golem-forge-ts.md", "| `sandbox.approval` of a worker |", "sandbox: {restrict: /src, approval: {write: preApproved, delete: blocked}}", func(w *worker.Worker) bool {
			return w.Sandbox.Restrict == "/src" && len(w.Rules) == 2 && w.Rules[0].Target == "/" && w.Rules[0].Approval == policy.PreApproved && w.Rules[1].Approval == policy.Blocked
		}},
		{"from-golem-forge-ts.md", "| `sandbox.approval` of a worker |", "sandbox: {approval: {write: ask}}", func(w *worker.Worker) bool {
			return w.Sandbox.Kind == worker.Restrict && w.Sandbox.Restrict == "/" && !w.Sandbox.ReadOnly && len(w.Rules) == 1 && w.Rules[0].Approval == policy.Ask
		}},
		{"from-golem-forge-ts.md", "| `toolsets.git.auto_pull: false` |", "sandbox: inherit\ntoolsets: {git: {auto_pull: false}}", func(w *worker.Worker) bool { return len(w.Toolsets) == 1 }},
	} {
		readPage(t, test.page, test.listed)
		w, err := worker.Parse("a.worker", []byte("---\n"+test.file+"\n---\nx\n"))
		if err != nil {
			t.Errorf("%s: %v", test.file, err)
		} else if !test.read(w) {
			t.Errorf("%s: got %+v", test.file, w)
		}
	}
}

// TestDToolRulesAsList: tool_rules as a list mean the same as the map.
func TestDToolRulesAsList(t *testing.T) {
	rules := func(text string) (list []policy.Rule) {
		w, err := worker.Parse("a.worker", []byte("---\n"+text+"---\nx\n"))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range w.Rules {
			r.From = ""
			list = append(list, r)
		}
		return list
	}
	asMap := rules("tool_rules:\n  sandbox.write: {approval_required: true}\n  shell: {allowed: false}\n")
	asList := rules("tool_rules:\n  - {name: sandbox.write, approval_required: true, description: asks}\n  - {name: shell, allowed: false}\n")
	if len(asMap) == 0 || len(asMap) != len(asList) {
		t.Fatalf("got %v, want %v", asList, asMap)
	}
	for i := range asMap {
		if asMap[i] != asList[i] {
			t.Errorf("got %v, want %v", asList[i], asMap[i])
		}
	}
	for text, want := range map[string]string{
		"tool_rules: [{approval_required: true}]\n":                                              "a rule without a name",
		"tool_rules: [{name: shell, allowed: false}, {name: shell, approval_required: false}]\n": "two rules for",
		"tool_rules: [{name: sandbox.wrte, allowed: false}]\n":                                   "no such name",
		"tool_rules: [{name: shell}]\n":                                                          "says nothing",
	} {
		if _, err := worker.Parse("a.worker", []byte("---\n"+text+"---\nx\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// TestDWorkersElsewhere: golem reads workers from the places and files of older systems,
// and ignores other YAML files.
func TestDWorkersElsewhere(t *testing.T) {
	readPage(t, "from-llm-do.md", "| workers in `.yaml` files:")
	readPage(t, "from-golem-forge-ts.md", "| workers in `.workers` |")
	dir := t.TempDir()
	put := func(name, text string) {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	discover := func(paths ...string) (string, error) {
		found, err := worker.Discover(dir, paths, []string{"read_file"})
		var names []string
		for _, w := range found {
			names = append(names, w.Name+"="+w.File)
		}
		return strings.Join(names, " "), err
	}
	put("main.yaml", "description: x\ninstructions: Work.\n")
	put("compose.yaml", "services: {}\n")
	put("deploy/worker.yaml", "apiVersion: v1\nkind: Deployment\nspec:\n  prompt: no\n")
	put("workers/data.yaml", "a: 1\n")
	put("workers/list.yml", "- instructions: 1\n")
	put("workers/old.yaml", "instructions: Do it.\n")
	put("workers/other.yml", "---\nallow_workers: [old]\n---\nDo it.\n")
	put("workers/more/worker.yml", "instructions: Do it.\n")
	put("workers/git/worker.yaml", "toolsets:\n  workers: {allowed_workers: []}\n")
	put(".workers/hidden.worker", "---\ndescription: x\n---\nx\n")
	put(".workers/.dotted.worker", "---\ndescription: x\n---\nx\n")
	got, err := discover(".", "workers", ".workers")
	if want := "main=main.yaml git=workers/git/worker.yaml hidden=.workers/hidden.worker more=workers/more/worker.yml old=workers/old.yaml other=workers/other.yml"; got != want || err != nil {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}

	// A project that names other directories does not lose workers without a word.
	if _, err := discover(".", "workers"); err == nil || !strings.Contains(err.Error(), "write worker_paths: [.workers]") {
		t.Errorf("got %v", err)
	}
	// Problems of a YAML worker are reported like those of any other.
	put("workers/old.yaml", "instructions: Do it.\nmodle: x\n")
	put("workers/read_file.yaml", "instructions: Do it.\n")
	put("main.worker", "---\ndescription: x\n---\nx\n")
	_, err = discover(".", "workers", ".workers")
	for _, want := range []string{`workers/old.yaml:2:1: unknown key "modle"`, "read_file is the name of a tool", "name: main is also the name of main.worker"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
