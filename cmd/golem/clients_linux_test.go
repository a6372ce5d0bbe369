package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The packages that TestClients needs, besides those of the AI SDK example.
const (
	inspectorPackage   = "@modelcontextprotocol/inspector@2.12.0"
	conformancePackage = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
	nodeVersion        = "22.23.3" // used if the machine has no Node that the clients can run with
)

// TestClients checks golem mcp with clients that people use.
func TestClients(t *testing.T) {
	t.Parallel()
	packages := slices.Concat([]string{conformancePackage, inspectorPackage}, examplePackages(t))
	if !modernNode(t) {
		packages = append(packages, nodeName()+"@"+nodeVersion)
	}
	name := fmt.Sprintf("clients-%.6x", sha256.Sum256([]byte(strings.Join(packages, " "))))
	modules := nodeModules(filepath.Join(fetch(t, name, "", packages, "--ignore-scripts", "--omit=optional"), "node_modules"))
	for name, try := range map[string]func(*testing.T, nodeModules){"ai-sdk": tryAISDK, "inspector": tryInspector, "conformance": tryConformance} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			try(t, modules)
		})
	}
}

// nodeName returns the name of the package that contains Node itself.
func nodeName() string { return "node-linux-" + strings.Replace(runtime.GOARCH, "amd64", "x64", 1) }

// modernNode reports whether the machine has a Node that the clients can run with.
func modernNode(t *testing.T) bool {
	out, err := exec.CommandContext(t.Context(), "node", "--version").Output()
	if err != nil {
		return false
	}
	major, _, _ := strings.Cut(strings.TrimPrefix(string(out), "v"), ".")
	n, err := strconv.Atoi(major)
	return err == nil && n >= 22
}

// examplePackages returns the packages that the AI SDK example depends on.
func examplePackages(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../examples/ai-sdk/package.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Dependencies map[string]string }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	var list []string
	for name, version := range file.Dependencies {
		if strings.ContainsAny(version, "^~*>< ") {
			t.Errorf("%s has no exact version: %s", name, version)
		}
		list = append(list, name+"@"+version)
	}
	slices.Sort(list)
	return list
}

// nodeModules is the directory that holds the packages.
type nodeModules string

// command returns a command that finds the programs of the packages. It runs in the
// directory and environment of the golem command, with a new home directory.
func (m nodeModules) command(t *testing.T, golem *exec.Cmd, program string, args ...string) *exec.Cmd {
	t.Helper()
	path := strings.Join([]string{filepath.Join(string(m), ".bin"), filepath.Join(string(m), nodeName(), "bin"), os.Getenv("PATH")}, ":")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "env", append([]string{program}, args...)...) // env searches this PATH for the program
	cmd.Dir, cmd.Env = golem.Dir, append(golem.Env, "PATH="+path, "HOME="+t.TempDir())
	return cmd
}

// tryAISDK runs the example as its README describes.
func tryAISDK(t *testing.T, m nodeModules) {
	dir, golem := example(t, "ai-sdk")
	if err := os.Symlink(string(m), filepath.Join(dir, "node_modules")); err != nil {
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
