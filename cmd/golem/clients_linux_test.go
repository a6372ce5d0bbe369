package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/checks/testutil"
)

// The packages that TestClients needs, besides those of the AI SDK example.
const (
	inspectorPackage   = "@modelcontextprotocol/inspector@2.12.0"
	conformancePackage = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
)

// TestClients checks golem mcp with clients that people use.
func TestClients(t *testing.T) {
	t.Parallel()
	var modules nodeModules
	modules.dir, modules.path = testutil.NodeModules(t, "clients", []string{"--omit=optional"}, []string{"../../examples/ai-sdk/package.json"}, conformancePackage, inspectorPackage)
	for name, try := range map[string]func(*testing.T, nodeModules){"ai-sdk": tryAISDK, "inspector": tryInspector, "conformance": tryConformance} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			try(t, modules)
		})
	}
}

// nodeModules has the directory that holds the packages, and the PATH for their programs.
type nodeModules struct{ dir, path string }

// command returns a command that finds the programs of the packages. It runs in the
// directory and environment of the golem command, with a new home directory.
func (m nodeModules) command(t *testing.T, golem *exec.Cmd, program string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "env", append([]string{program}, args...)...) // env searches this PATH for the program
	cmd.Dir, cmd.Env = golem.Dir, append(golem.Env, "PATH="+m.path, "HOME="+t.TempDir())
	return cmd
}

// tryAISDK runs the example as its README describes.
func tryAISDK(t *testing.T, m nodeModules) {
	dir, golem := example(t, "ai-sdk")
	if err := os.Symlink(m.dir, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"lint"}, {"trust", "--yes"}} {
		if out, err := golem(args...).CombinedOutput(); err != nil {
			t.Fatalf("golem %q: %v\n%s", args, err, out)
		}
	}
	out, err := m.command(t, golem(), "node", "main.js").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		`(?m)^listFiles: todo.txt$`,
		`(?s)readFile: /todo.txt.*1\tbuy chairs`,
		`(?s)main wants to update /todo.txt.*\+ buy twelve chairs.*\n> yes\n`,
		`editFile: wrote /todo.txt`,
		`(?s)main wants to create /letter.txt.*\n> no\n`,
		`writeFile: Error: write_file: declined; `,
		`readFile: Error: read /../main.worker: `,
		`git_push: not listed; Error: .*golem tool git_push`,
		`apply_changes: not listed; Error: .*manual_only.*golem tool apply_changes`,
	} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("want %s in:\n%s", want, out)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "notes", "todo.txt")); err != nil || string(text) != "buy twelve chairs\ncall the printer\n" {
		t.Errorf("got %q, %v", text, err)
	}
	if exists(filepath.Join(dir, "notes", "letter.txt")) {
		t.Error("the declined file exists")
	}
	if out, err := golem("audit", "show", "--tool", "edit_file").CombinedOutput(); err != nil || !strings.Contains(string(out), "user in the client") {
		t.Errorf("%v\n%s", err, out)
	}
}

// tryInspector calls golem mcp with the Inspector, which checks answers against the
// protocol. In strict mode the Inspector also checks whether clients understand the
// tools' schemas.
func tryInspector(t *testing.T, m nodeModules) {
	_, state, golem := newTrustedProgram(t, mcpProgram)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--method", "tools/list", "--strict"}, `"name":"shell"`},
		{[]string{"--method", "tools/list", "--strict", "--protocol-era", "modern"}, `"name":"edit_file"`},
		{[]string{"--method", "resources/list"}, `"uri":"golem://journal"`},
		{[]string{"--method", "resources/read", "--uri", "golem://journal"}, `"contents":[]`},
		{[]string{"--method", "tools/call", "--tool-name", "read_file", "--tool-arg", "path=/a"}, `1\t0`},
		{[]string{"--method", "tools/call", "--tool-name", "write_file", "--tool-arg", "path=/b", "content=x", "--protocol-era", "modern"}, `created /b`},
		{[]string{"--method", "resources/read", "--uri", "golem://journal", "--protocol-era", "modern"}, `"contents":[]`},
	} {
		var said strings.Builder
		cmd := m.command(t, golem(), "mcp-inspector", // the Inspector passes no environment to the server
			slices.Concat([]string{"--cli", "golem", "mcp", "--state", state}, test.args, []string{"--format", "json"})...)
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil || !strings.Contains(string(out), test.want) {
			t.Errorf("%q: %v, want %s in:\n%s\n%s", test.args, err, test.want, out, &said)
		}
		for line := range strings.Lines(said.String()) {
			if !strings.HasPrefix(line, "golem: ") {
				t.Errorf("%q: it complains: %s", test.args, line)
			}
		}
	}
}
