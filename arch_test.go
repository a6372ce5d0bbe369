// Package golem_test checks the house itself: who may import whom, what may
// be used where, what must be documented. The tables in arch_test.go are the
// rules; arch_check_test.go reads every Go file of the module, for every
// system, and compares; arch_self_test.go shows that each rule can fail.
// A rule that stands in the way is changed in its table, with its reason, in
// the same commit as the code that needs it.
package golem_test

import (
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/golem-forge/golem"

// A layer is the place of one package, or of all that a star matches.
type layer struct {
	pkg   string
	layer int
	what  string
}

// layers places every package. A package imports only lower layers, and never
// its own: toolsets do not know each other, and neither do fronts.
// A star stands for one directory name.
var layers = []layer{
	{"sandbox", 0, "file access for workers: mounts, limits, one resolver, errors, backends"},
	{"sandbox/sandboxtest", 0, "test suite for backends, and the table of attacks"},
	{"internal/durable", 0, "replaces files so that a crash leaves the old or the new content"},
	{"internal/overlay", 0, "changes over a directory: list, pick, apply, undo"},
	{"internal/merge", 0, "merges two changed texts with their common base"},
	{"internal/benchtable", 0, "times golem and its peers for make bench"},
	{"internal/testutil", 0, "helpers for the tests of many packages"},
	{"internal/policy", 1, "grants, effects, approval levels and rules, as pure values"},
	{"internal/command", 1, "splits command lines into words and matches them against rules"},
	{"internal/strictyaml", 1, "reads YAML with positions and a schema"},
	{"internal/visible", 1, "escapes untrusted text for a terminal"},
	{"internal/clipboard", 1, "writes text to the user's clipboard"},
	{"internal/pager", 1, "shows a long text in the user's pager"},
	{"internal/jail", 1, "confines a command to the files of a sandbox"},
	{"internal/terminal", 1, "connects a person's terminal with a program's"},
	{"internal/git", 1, "the only package that runs git"},
	{"internal/clearance/scan", 1, "scanners for content, one file each"},
	{"internal/state", 1, "the state directory: everything golem stores"},
	{"internal/state/statetest", 1, "test suite for stores"},
	{"internal/audit", 2, "the journal"},
	{"internal/egress", 2, "a network that reaches only the hosts of a grant"},
	{"internal/clearance", 2, "stage, scan, review and push results"},
	{"internal/clearance/review", 2, "what a reviewer should look at first in a change"},
	{"internal/profile", 2, "settings for foreign agents"},
	{"internal/worker", 2, "reads .worker files"},
	{"internal/project", 2, "reads golem-forge.config.yaml"},
	{"internal/undo", 2, "keeps what file tools replace, so that the user can undo the last calls"},
	{"internal/starter", 3, "makes a new program for golem init"},
	{"internal/trust", 3, "what content of a program the user trusts, and what it permits"},
	{"internal/explain", 3, "explains why a worker may or may not use a file"},
	{"internal/tool", 3, "tools, calls, plans, results, and the gate that every call passes"},
	{"internal/approval", 4, "approval modes, pending requests, remembered rules, and the text of prompts"},
	{"internal/taint", 4, "records what a worker has read that is untrusted"},
	{"internal/model", 4, "one interface to a language model"},
	{"internal/model/*", 4, "one directory per model vendor; wire has their HTTP client, models finds them by name"},
	{"internal/toolset/*", 5, "the built-in tools, one directory per set"},
	{"internal/session", 6, "sessions of exec, run and mcp: their overlays or copies, files and commands"},
	{"internal/run", 6, "the loop of a run: model, calls, delegation, budgets, resume"},
	{"internal/program", 7, "opens a project and connects its parts"},
	{"internal/front/*", 8, "the ways in: command line, MCP server"},
	{"cmd/golem", 9, "main"},
	{".", 10, "this test; the root directory has no other code"},
}

// sideways lists the imports within one layer that are allowed.
var sideways = []struct{ from, to, why string }{
	{"sandbox/sandboxtest", "sandbox", "a suite knows what it tests"},
	{"internal/state/statetest", "internal/state", "a suite knows what it tests"},
	{"internal/overlay", "internal/durable", "files are replaced by one writer, those of a layer too"},
	{"internal/command", "internal/policy", "rules are policy's; what they match is known here"},
	{"internal/clearance", "internal/clearance/review", "what is staged is told with what to look at first"},
	{"internal/model/*", "internal/model", "a vendor implements the one interface"},
	{"internal/model/*", "internal/model/wire", "what vendors have in common, the keeping of keys above all, is there once"},
	{"internal/model/models", "internal/model/*", "the one that finds a vendor by its name knows all of them"},
}

// public packages are imported by others: every exported name is documented.
var public = []string{"sandbox", "sandbox/sandboxtest"}

// pure packages are compiled for the browser, and stay free of heavy.
var (
	pure  = []string{"sandbox", "internal/policy", "internal/tool", "internal/toolset/file"}
	heavy = []string{"net/http", "os/exec", "text/template"}
)

// A limit says where names may be used: with only, nowhere else; with never,
// everywhere else; with neither, nowhere. A place is a package or, where it
// ends in .go, a file; a star stands for a part of one name.
// Limits do not bind test files.
type limit struct {
	names       []string
	only, never []string
	why         string
}

// outer are the packages that meet the world and hand it down.
var outer = []string{"cmd/*", "internal/front/*", "internal/program"}

// imports limits packages by import path.
var imports = []limit{
	{names: []string{"os/exec"}, only: []string{"internal/jail", "internal/git", "internal/clipboard", "internal/pager", "internal/testutil"},
		why: "programs are started in the jail, git by internal/git, the desktop's own for its clipboard by internal/clipboard, and the user's pager by internal/pager"},
	{names: heavy, never: append([]string{"sandbox/sandboxtest"}, pure...),
		why: "these packages are compiled for the browser"},
	{names: []string{"unsafe"}, only: []string{"internal/jail/*_linux.go"},
		why: "system calls that golang.org/x/sys does not wrap, and nothing else"},
	{names: []string{"C"}, why: "one static binary, no cgo"},
	{names: []string{"log"}, why: "errors are returned, and what happened is in the journal"},
	{names: []string{"testing"}, only: []string{"sandbox/sandboxtest", "internal/state/statetest", "internal/testutil"}, why: "test code is in test files, or in packages for them"},
}

// identifiers limits what is taken from a package: import path, dot, name.
var identifiers = []limit{
	{names: []string{
		"os.Args", "flag.Parse", "flag.CommandLine",
		"os.Getenv", "os.LookupEnv", "os.Environ", "os.ExpandEnv", "os.UserHomeDir", "os.UserCacheDir", "os.UserConfigDir",
		"os.Stdin", "os.Stdout", "os.Stderr", "fmt.Print", "fmt.Printf", "fmt.Println", "os.Exit",
	}, only: append([]string{"internal/testutil"}, outer...), why: "arguments, environment and standard streams are handed down"},
	{names: []string{"time.Now", "time.Since", "time.Until"}, only: append([]string{"sandbox/sandboxtest", "internal/benchtable"}, outer...),
		why: "the clock is handed down; only what measures reads it for itself"},
	{names: []string{"os.Rename"}, only: []string{"internal/durable"},
		why: "a rename that replaces something is synced before and after; durable does both"},
	{names: []string{"sync.Mutex", "sync.RWMutex"},
		never: []string{"sandbox", "internal/policy", "internal/tool", "internal/worker", "internal/project"},
		why:   "these packages are made of values"},
}

// variables limits the types of package-level variables.
var variables = []limit{
	{names: []string{
		"sync.Mutex", "sync.RWMutex", "sync.Once", "sync.Map", "sync.Cond", "sync.WaitGroup",
		"sync/atomic.Bool", "sync/atomic.Int32", "sync/atomic.Int64", "sync/atomic.Uint32", "sync/atomic.Uint64",
		"sync/atomic.Uintptr", "sync/atomic.Pointer", "sync/atomic.Value",
	}, why: "a package-level variable does not change; sync.OnceValue computes one that is late"},
}

// goroutines limits go statements, and the calls that hide one.
var goroutines = limit{
	only: []string{
		"sandbox/walk*.go", "sandbox/search*.go", "sandbox/sandboxtest", "internal/state/statetest",
		"internal/audit", "internal/run", "internal/model", "internal/model/*", "internal/egress", "internal/jail", "internal/terminal", "internal/front/*",
	},
	why: "a goroutine has an owner that waits for it",
}

// inits limits init functions.
var inits = limit{
	only: []string{"internal/front/part"},
	why:  "nothing happens before main, except that a process of a jail runs before packages that it does not need are initialised",
}

// Sizes. A file that is too long tells two things.
const (
	maxLines   = 600 // of a file, tests apart
	maxMain    = 15  // of cmd/golem/main.go
	maxMethods = 5   // of an interface
	maxOfType  = 40  // methods of any other type
)

// wide are the interfaces that may have more than maxMethods methods.
var wide = map[string]int{"sandbox.Backend": 7}

// broad are the types that may have more than maxOfType methods. The numbers only go down.
var broad = []struct {
	name string
	most int
	why  string
}{
	{"sandbox.Sandbox", 88, "the public API: one method for each file operation"},
	{"internal/program.Program", 115, "not split yet"},
	{"internal/jail.Session", 54, "not split yet"},
	{"internal/clearance.Desk", 46, "not split yet"},
	{"internal/project.loader", 49, "one method for each key of the file"},
	{"internal/worker.reader", 44, "one method for each key of the file"},
}

// backward limits, for packages of many files, the share in percent of references between
// files that run backwards: against the best order of the files that can be found. A
// package that reads from top to bottom has none. The numbers only go down.
var backward = map[string]int{
	"internal/approval": 30, "internal/clearance": 27, "internal/clearance/scan": 32, "internal/front/mcp": 26,
	"internal/project": 26, "internal/toolset/file": 26, "internal/toolset/git": 43, "internal/toolset/shell": 27,
}

// maxBackward is the share for packages that backward does not name.
const maxBackward = 25

// TestArchitecture holds the tree to the tables above.
func TestArchitecture(t *testing.T) {
	sources, err := readTree(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range check(sources) {
		t.Error(f)
	}
}

// TestPureClosure looks at everything a pure package brings along, other
// modules included, on this system and in the browser.
func TestPureClosure(t *testing.T) {
	closure := func(goos, goarch, pkg string) []string {
		cmd := exec.Command("go", "list", "-deps", pkg)
		cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list -deps %s: %v", pkg, err)
		}
		return strings.Fields(string(out))
	}
	if !slices.Contains(closure("linux", "amd64", "html/template"), "text/template") {
		t.Fatal("the closure of html/template lacks text/template: this test sees nothing")
	}
	for _, pkg := range pure {
		if _, err := os.Stat(pkg); err != nil {
			continue // not built yet
		}
		for _, sys := range [][2]string{{"linux", "amd64"}, {"js", "wasm"}} {
			for _, dep := range closure(sys[0], sys[1], "./"+pkg) {
				if slices.Contains(heavy, dep) {
					t.Errorf("%s/%s: %s brings along %s", sys[0], sys[1], pkg, dep)
				}
			}
		}
	}
}

// TestDecisions holds the index of docs/decisions to be complete: every record,
// and every module and tool that is required directly.
func TestDecisions(t *testing.T) {
	read := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	index := read("docs/decisions/README.md")
	records, err := fs.Glob(os.DirFS("docs/decisions"), "[0-9]*.md")
	if err != nil || len(records) == 0 {
		t.Fatalf("decision records: got %v, %v", records, err)
	}
	for _, r := range records {
		if !strings.Contains(index, "("+r+")") {
			t.Errorf("docs/decisions/README.md does not link %s", r)
		}
	}
	direct := regexp.MustCompile(`(?m)^(?:require )?\t?([\w.-]+\.[\w.-]+/\S+) v\S+$`).FindAllStringSubmatch(read("go.mod"), -1)
	tools := regexp.MustCompile(`(?m)^(?:tool )?\t?([\w.-]+\.[\w.-]+/\S+)$`).FindAllStringSubmatch(read("tools/go.mod"), -1)
	if len(tools) == 0 {
		t.Error("tools/go.mod: found no tool: this test sees nothing")
	}
	for _, m := range append(direct, tools...) {
		if !strings.Contains(index, "`"+m[1]+"`") {
			t.Errorf("docs/decisions/README.md has no line for %s", m[1])
		}
	}
}
