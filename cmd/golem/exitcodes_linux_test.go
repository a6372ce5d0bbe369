package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// listedCommands returns the commands that golem --help lists.
func listedCommands(t *testing.T, env []string) []string {
	t.Helper()
	cmd := exec.Command("golem", "--help")
	cmd.Env = env
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z]+)  +[A-Z]`).FindAllStringSubmatch(string(out), -1) {
		names = append(names, m[1])
	}
	if len(names) < 20 {
		t.Fatalf("golem --help lists %q", names)
	}
	return names
}

// TestExitCodes checks that the exit codes mean the same in every command.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env := append(os.Environ(), "GOLEM_STATE="+t.TempDir(), "HOME="+t.TempDir(), "NO_COLOR=1")
	for name, text := range map[string]string{
		"p/golem-forge.config.yaml": "sandbox:\n  mounts:\n    - {source: ./out, target: /out}\n    - {source: ./never, target: /never, approval: {write: blocked}}\n",
		"p/main.worker":             "---\nsandbox: inherit\ntoolsets: [filesystem, shell]\n---\nWork.\n",
		"p/out/here.txt":            "here\n",
		"p/never/here.txt":          "here\n",
		"p/ask.yaml":                "- calls: [{tool: write_file, args: {path: /out/a.md, content: x}}]\n- {text: Done}\n",
		"p/blocked.yaml":            "- calls: [{tool: write_file, args: {path: /never/a.md, content: x}}]\n- {text: Done}\n",
		"p/fails.yaml":              "- {fail: denied}\n",
		"p/many.yaml":               "- calls: [{tool: list_files, args: {path: /out}}]\n- calls: [{tool: list_files, args: {path: /never}}]\n- {text: Done}\n",
		"stranger/main.worker":      "---\nsandbox: inherit\n---\nWork.\n",
		"broken/main.worker":        "---\nnope: 1\n---\n",
		"bare/a.txt":                "a\n",
		"bare/seven.sh":             "exit 7\n",
		"changed/a.txt":             "a\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := func(in, line string) (code int, said string) {
		cmd := exec.Command("golem", strings.Fields(line)...)
		cmd.Dir, cmd.Env = filepath.Join(dir, in), env
		out, _ := cmd.CombinedOutput()
		return cmd.ProcessState.ExitCode(), string(out)
	}
	for _, setup := range []struct{ in, line string }{{"p", "trust --yes"}, {"changed", "exec touch b.txt"}} {
		if code, said := run(setup.in, setup.line); code != 0 {
			t.Fatalf("%s: code %d\n%s", setup.line, code, said)
		}
	}
	type row struct {
		in, line string
		want     int
	}
	table := []row{
		// 0: done, also if a person declined a call or a rule blocked it
		{"bare", "version", 0}, {"bare", "help", 0}, {"bare", "status", 0}, {"bare", "sessions", 0}, {"bare", "completion bash", 0}, {"bare", "schema project", 0},
		{"bare", "diff", 0}, {"p", "lint", 0}, {"p", "config", 0}, {"p", "workers", 0}, {"p", "tools", 0}, {"p", "explain /out/here.txt", 0}, {"p", "audit show", 0},
		{"p", "audit verify", 0}, {"p", "approvals", 0}, {"p", "tool read_file --path /out/here.txt", 0}, {"p", "run . go --model scripted:blocked.yaml", 0},
		{"p", "tool shell --command false --approval approve_all", 0}, {"p", "trust --print-hash", 0}, {"p", "undo --help", 0},
		{"changed", "diff --stat", 0}, {"changed", "apply --dry-run", 0},
		// 1: failed, or there is nothing to do it to
		{"bare", "apply", 1}, {"bare", "discard", 1}, {"bare", "apply --commits", 1}, {"p", "undo", 1}, {"p", "run . go --model scripted:fails.yaml", 1},
		{"p", "tool read_file --path /out/none.txt", 1}, {"changed", "diff none.txt", 1}, {"changed", "apply none.txt", 1},
		// an id that names nothing
		{"p", "approve nosuch", 1}, {"p", "approvals show nosuch", 1}, {"p", "approvals revoke nosuch", 1}, {"p", "sessions show nosuch", 1}, {"p", "sessions rm nosuch", 1},
		{"p", "audit show nosuch", 1}, {"p", "run . go --resume nosuch", 1}, {"changed", "diff --session nosuch", 1}, {"changed", "apply --session nosuch", 1}, {"p", "exec --session nosuch true", 1},
		// 2: wrong use, or a configuration that golem refuses
		{"bare", "fly", 2}, {"bare", "--fly", 2}, {"bare", "lint", 2}, {"broken", "lint", 2}, {"broken", "run . go", 2}, {"broken", "exec true", 2}, {"broken", "tools", 2},
		{"bare", "run", 2}, {"bare", "exec", 2}, {"bare", "tool", 2}, {"p", "tool nosuch", 2}, {"p", "tools nosuch", 2}, {"p", "tool read_file --nope x", 2}, {"p", "tool read_file", 2},
		{"bare", "scan none", 2}, {"p", "run nosuch", 2}, {"p", "run . go --model scripted:ask.yaml --approval perhaps", 2}, {"p", "run . go --model nobody:x", 2}, {"changed", "apply --merge --overwrite", 2},
		{"changed", "diff --stat --name-only", 2}, {"p", "approve", 2}, {"p", "audit show --last few", 2}, {"bare", "schema nosuch", 2}, {"bare", "completion nosuch", 2},
		{"changed", "apply -p", 2}, {"p", "mcp install nosuch", 2},
		// 3: a call waits, auto_deny refused one, the user declined, or nobody trusts the program
		{"p", "run . go --model scripted:ask.yaml", 3}, {"p", "run . go --model scripted:ask.yaml --approval auto_deny", 3}, {"p", "tool write_file --path /out/b --content x", 3},
		{"p", "tool write_file --path /never/b --content x", 3}, {"p", "tool write_file --path /out/b --content x --approval auto_deny", 3}, {"changed", "apply", 3}, {"changed", "discard", 3},
		{"stranger", "run . go --model scripted:x.yaml", 3}, {"stranger", "exec true", 3}, {"stranger", "tool list_files", 3}, {"stranger", "trust", 3},
		{"p", "explain /never/a --op write", 3},
		// 4: the budget is spent
		{"p", "run . go --model scripted:many.yaml --set budget.turns=1", 4},
		// the code of the program
		{"bare", "exec sh seven.sh", 7}, {"bare", "exec true", 0}, {"p", "tool shell --command false --approval approve_all --exit-code", 1},
	}
	for _, name := range listedCommands(t, env) {
		if name != "help" {
			table = append(table, row{"bare", name + " --no-such-flag", 2})
		}
	}
	for _, test := range table {
		code, said := run(test.in, test.line)
		if code != test.want {
			t.Errorf("%s: golem %s: got code %d, want %d\n%s", test.in, test.line, code, test.want, said)
		}
		if test.want == 2 && !strings.Contains(said, "golem") && !strings.Contains(said, ".worker:") {
			t.Errorf("%s: golem %s does not say what to type:\n%s", test.in, test.line, said)
		}
	}
}
