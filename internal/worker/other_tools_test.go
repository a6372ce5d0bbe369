package worker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/worker"
)

// TestDKeysOfOtherTools: golem refuses keys of other tools with a hint, and the pages
// about moving from those tools list each of them.
func TestDKeysOfOtherTools(t *testing.T) {
	for _, test := range []struct{ page, listed, file, hint string }{
		{"from-llm-do.md", "| `model` |", "model: x", "compatible_models"},
		{"from-llm-do.md", "| `output_schema_ref` |", "output_schema_ref: x", "output_schema: {"},
		{"from-llm-do.md", "| `shell_cwd` |", "shell_cwd: out", "cd DIR"},
		{"from-llm-do.md", "| `server_side_tools` |", "server_side_tools: [x]", "toolsets"},
		{"from-llm-do.md", "| `shell_rules[].sandbox_paths` |", "shell_rules: [{pattern: ls, approval_required: false, sandbox_paths: [in]}]", "limit the files in sandbox"},
		{"from-golem-forge-ts.md", "| `sandbox.approval` of a worker |", "sandbox: {approval: {write: ask}}", "toolsets.filesystem.approval"},
		{"from-golem-forge-ts.md", "| `toolsets.git.auto_pull` |", "toolsets: {git: {auto_pull: true}}", "git_pull"},
		{"from-golem-forge-ts.md", "| `toolsets.custom.module` |", "toolsets: {custom: {module: ./tools.ts}}", "command: [node"},
	} {
		page, err := os.ReadFile("../../docs/" + test.page)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), test.listed) {
			t.Errorf("%s does not list %s", test.page, test.listed)
		}
		_, err = worker.Parse("a.worker", []byte("---\n"+test.file+"\n---\nx\n"))
		if err == nil || !strings.Contains(err.Error(), "unknown key") || !strings.Contains(err.Error(), test.hint) {
			t.Errorf("%s: got %v, want a hint with %q", test.file, err, test.hint)
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

// TestDWorkersElsewhere: golem reports workers in places where older tools looked, and
// ignores other files.
func TestDWorkersElsewhere(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("main.worker", "---\ndescription: x\n---\nx\n")
	put("workers/data.yaml", "a: 1\n")
	if _, err := worker.Discover(dir, []string{"workers"}, nil); err != nil {
		t.Fatalf("a file that is no worker: %v", err)
	}
	put("workers/old.yaml", "name: old\ninstructions: Do it.\n")
	put("workers/more/worker.yml", "instructions: Do it.\n")
	put(".workers/hidden.worker", "---\ndescription: x\n---\nx\n")
	_, err := worker.Discover(dir, []string{"workers"}, nil)
	for _, want := range []string{"rename it to workers/old.worker", "rename it to workers/more/worker.worker", "write workerPaths: [.workers]"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := os.RemoveAll(dir + "/workers"); err != nil {
		t.Fatal(err)
	}
	found, err := worker.Discover(dir, []string{".workers"}, nil)
	if err != nil || len(found) != 2 {
		t.Errorf("got %v, %v", found, err)
	}
}
