// Package checks_test checks the architecture: which package may import which,
// what may be used where, what must be documented. arch_test.go has the tables
// of rules. arch_check_test.go compares every Go file of the module, for every
// system, with the rules. arch_self_test.go shows that each rule can fail.
// If a rule prevents a good change, change it in its table, with the reason, in
// the same commit as the code. The package also tests the documents: it runs
// their commands and checks their links.
package checks_test

import (
	"io/fs"
	"maps"
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

// layers places every package. A package imports only packages in lower layers:
// a toolset cannot import a toolset, and a front cannot import a front.
// A star stands for one directory name.
var layers = []layer{
	{"sandbox", 0, "file access for workers: mounts, limits, one resolver, errors, backends"},
	{"sandbox/sandboxtest", 0, "test suite for backends, and the table of attacks"},
	{"internal/files/durable", 0, "replaces files so that a crash leaves the old or the new content"},
	{"internal/files/parcel", 0, "a directory as a list of entries with contents by hash, to make it on another machine"},
	{"internal/files/claim", 0, "tells whether the process that made a file still needs it"},
	{"internal/files/overlay", 0, "changes over a directory: list, pick, apply, undo"},
	{"internal/records/secret", 0, "recognizes credentials by their form, and variables that hold them by their names"},
	{"internal/files/patch", 0, "hunks of a text to choose, split, edit and merge; patches that git reads"},
	{"web", 0, "the npm package @golem-forge/browser; its tests run in Chromium and Firefox"},
	{"internal/people/syntax", 0, "finds comments, strings, keywords and names in source code, for colours"},
	{"internal/checks/benchtable", 0, "times golem and its peers for make bench"},
	{"internal/records/version", 0, "which source a binary was built from"},
	{"internal/checks/testutil", 0, "helpers for the tests of many packages"},
	{"sandbox/opfs", 1, "public: a backend for browsers, in the origin private file system"},
	{"internal/decide/policy", 1, "grants, effects, approval levels and rules, as pure values"},
	{"internal/decide/command", 1, "splits command lines into words and matches them against rules"},
	{"internal/work/strictyaml", 1, "reads YAML with positions and a schema"},
	{"internal/work/workerfile", 1, "says which files golem reads as workers"},
	{"internal/records/keyring", 1, "the user's secrets, in the system's keyring or in files"},
	{"internal/people/visible", 1, "escapes untrusted text for a terminal"},
	{"internal/people/desktop", 1, "uses programs of the user's desktop: clipboard, notifications, browser"},
	{"internal/people/pager", 1, "shows a long text in the user's pager"},
	{"internal/people/editor", 1, "opens a text in the user's editor, and changes in the user's diff tool"},
	{"internal/jail", 1, "confines a command to the files of a sandbox"},
	{"internal/people/terminal", 1, "connects a person's terminal with a program's"},
	{"internal/clearance/git", 1, "the only package that runs git"},
	{"internal/clearance/scan", 1, "scanners for content, one file each"},
	{"internal/records/state", 1, "the state directory: everything golem stores"},
	{"internal/records/state/statetest", 1, "test suite for stores"},
	{"internal/hub", 1, "the connection to a hub: keys, jobs and decisions with their signatures"},
	{"internal/people/detached", 2, "keeps the terminal of a program in the background, and attaches terminals to it"},
	{"internal/files/filecontent", 2, "says what a content is: text, blank, JSON, its type and version, and how two differ"},
	{"internal/records/audit", 2, "the journal"},
	{"internal/hub/store", 2, "the contracts of state on NATS JetStream, with fences, documents and queues"},
	{"internal/files/changes", 2, "changes of a command or session, until they are applied or discarded"},
	{"internal/jail/egress", 2, "a network that reaches only the hosts of a grant"},
	{"internal/jail/preset", 2, "the hosts from which the user's package clients download"},
	{"internal/clearance", 2, "stage, scan, review and push results"},
	{"internal/clearance/review", 2, "what a reviewer should look at first in a change"},
	{"internal/jail/profile", 2, "settings for foreign agents"},
	{"internal/work/worker", 2, "reads .worker files"},
	{"internal/work/naming", 2, "the names of sessions: which are allowed, how golem makes one, and which session a word means"},
	{"internal/work/project", 2, "reads golem-forge.config.yaml"},
	{"internal/files/undo", 2, "keeps what file tools replace, so that the user can undo the last calls"},
	{"internal/hub/serve", 3, "the hub: keeps jobs, contents and decisions, and answers people and nodes by their roles"},
	{"internal/work/starter", 3, "makes a new program for golem init"},
	{"internal/decide/trust", 3, "what content of a program the user trusts, and what it permits"},
	{"internal/decide/tool", 3, "tools, calls, plans, results, and the gate that every call passes"},
	{"internal/clearance/scanners", 3, "the scanners that a project lists, with their jail and cached verdicts"},
	{"internal/files/part", 3, "runs the processes of a jail before the rest of the program is initialised"},
	{"internal/records/inventory", 4, "what golem stores for all programs: where, by which version, and how much"},
	{"internal/work/lint", 4, "mistakes that do not stop golem from reading a program, such as old keys"},
	{"internal/decide/explain", 4, "explains why a worker may or may not use a file"},
	{"internal/decide/display", 4, "a request as rows of text, for a person who decides about it"},
	{"internal/decide/approval", 4, "approval modes, pending requests and remembered rules"},
	{"internal/decide/taint", 4, "records what a worker has read that is untrusted"},
	{"internal/work/model", 4, "one interface to a language model"},
	{"internal/work/model/*", 4, "one directory per model vendor; wire has their HTTP client, models finds them by name"},
	{"internal/jail/network", 5, "which hosts a session may reach, with which credentials, and when golem asks"},
	{"internal/work/toolset/*", 5, "the built-in tools, one directory per set"},
	{"internal/work/spending", 5, "counts what the requests of foreign agents to models cost, and keeps them within a budget"},
	{"internal/work/instruction", 5, "files with instructions for workers, such as AGENTS.md, and which of them the user trusts"},
	{"internal/work/ignored", 5, "new files that git ignores, which lists show as one line"},
	{"internal/work/calltree", 5, "which worker may call which, and what each may do there"},
	{"internal/people/device", 5, "the user's devices that may decide, and what they sign"},
	{"internal/clearance/target", 6, "the repositories that results are pushed to, and the store of staged commits"},
	{"internal/work/foreigntools", 6, "tools of the programs that worker files name: custom tools and MCP servers"},
	{"internal/work/session", 6, "sessions of exec, run and mcp: their overlays or copies, files and commands"},
	{"internal/work/run", 6, "the loop of a run: model, calls, delegation, budgets, resume"},
	{"gate", 6, "public: tools, rules, approvals and a journal, for other programs"},
	{"internal/records/telemetry", 7, "spans of OpenTelemetry for runs, workers, answers and calls, without their content"},
	{"internal/work/continuing", 7, "the session that a command continues in, and what that session began with"},
	{"internal/work/choice", 7, "the hunks and files that the user chooses among the changes of a session"},
	{"internal/records/storage", 7, "what golem keeps for a program: sessions, runs, approvals, journal; list, find, remove, measure"},
	{"internal/work/program", 8, "opens a project and connects its parts"},
	{".", 9, "public: workspaces, workers and models, for other programs"},
	{"internal/work/job", 9, "snapshots of programs for other machines, their limits there, and their results"},
	{"internal/hub/node", 10, "does the jobs of a hub on this machine"},
	{"internal/work/evaluation", 10, "runs the cases of a program and compares the runs with what the user expects"},
	{"internal/people/inbox", 10, "collects what waits for the user, for every front"},
	{"internal/front/*", 11, "the ways in: command line, MCP server, browser"},
	{"cmd/golem", 12, "main"},
	{"cmd/golem-hub", 12, "main of golem-hub"},
	{"cmd/golem-wasm", 12, "main of the npm package in web/"},
	{"examples/embed/*", 12, "programs that use the public packages"},
	{"internal/checks", 13, "checks the architecture, the documents and the releases; it has only tests"},
}

// sideways lists the imports within one layer that are allowed.
var sideways = []struct{ from, to, why string }{
	{"sandbox/sandboxtest", "sandbox", "a suite imports what it tests"},
	{"internal/records/state/statetest", "internal/records/state", "a suite imports what it tests"},
	{"internal/files/overlay", "internal/files/durable", "one writer replaces all files, also those of an overlay"},
	{"internal/checks/testutil", "internal/files/durable", "npm packages move into their cache"},
	{"internal/work/workerfile", "internal/work/strictyaml", "the keys of a YAML file say whether it is a worker"},
	{"internal/decide/command", "internal/decide/policy", "the rules are values of policy; command matches them"},
	{"internal/decide/approval", "internal/decide/display", "what was shown is kept, and shown again as the same text"},
	{"internal/clearance", "internal/clearance/review", "a staged commit is listed with what to look at first"},
	{"internal/work/model/*", "internal/work/model", "a vendor implements the one interface"},
	{"internal/work/model/*", "internal/work/model/wire", "the vendors share one HTTP client, above all for the handling of keys"},
	{"internal/work/model/models", "internal/work/model/*", "models finds a vendor by name, so it imports all of them"},
}

// public packages can be imported by other modules. Every exported name is documented.
var public = []string{"sandbox", "sandbox/sandboxtest", "sandbox/opfs", "gate", "."}

// pure packages are compiled for the browser and do not import heavy ones.
var (
	pure  = []string{"sandbox", "sandbox/opfs", "gate", "cmd/golem-wasm", "internal/decide/policy", "internal/decide/tool", "internal/work/toolset/file"}
	heavy = []string{"net/http", "os/exec", "text/template"}
	// large modules and packages have a small stand-in on js, so that the program for
	// browsers stays under its limit: see web/package_linux_test.go.
	large = []string{"net", "github.com/spf13/cobra", "github.com/google/jsonschema-go/jsonschema", "go.yaml.in/yaml/v3", "github.com/bluekeyes/go-gitdiff/gitdiff", "github.com/gabriel-vasile/mimetype", "golang.org/x/text/unicode/norm"}
)

// A limit says where names may be used. With only, it is these places; with never,
// all places except these; with neither, no place. A place is a package or, if it
// ends in .go, a file. A star stands for a part of one name.
// Limits do not apply to test files.
type limit struct {
	names       []string
	only, never []string
	why         string
}

// outer are the packages that may read arguments, environment and clock. They pass them down.
var outer = []string{"cmd/*", "internal/front/*", "internal/files/part", "internal/work/program", "golem.go", "examples/embed/*"}

// imports limits packages by import path.
var imports = []limit{
	{names: []string{"os/exec"}, only: []string{"internal/jail", "internal/clearance/git", "internal/people/desktop", "internal/people/pager", "internal/people/editor", "internal/records/keyring", "internal/jail/preset", "internal/checks/testutil"},
		why: "only jail starts programs, except git (internal/clearance/git), programs of the desktop (internal/people/desktop), the pager (internal/people/pager), the editor (internal/people/editor), programs of the user that print a secret (internal/records/keyring) and package clients (internal/jail/preset)"},
	{names: heavy, never: append([]string{"sandbox/sandboxtest"}, pure...),
		why: "these packages are compiled for the browser"},
	{names: []string{"unsafe"}, only: []string{"internal/jail/*_linux.go"},
		why: "system calls that golang.org/x/sys does not wrap, and nothing else"},
	{names: []string{"github.com/nats-io/nats-server/v2/server"}, only: []string{"internal/hub/serve"},
		why: "it adds 10 MB, so only golem-hub links it"},
	{names: []string{"C"}, why: "one static binary, no cgo"},
	{names: []string{"log"}, only: []string{"examples/embed/*"}, why: "functions return errors, and the journal records what happened"},
	{names: []string{"testing"}, only: []string{"sandbox/sandboxtest", "internal/records/state/statetest", "internal/checks/testutil"}, why: "test code is in test files, or in packages for them"},
}

// identifiers limits the use of single identifiers: import path, dot, name.
var identifiers = []limit{
	{names: []string{
		"os.Args", "flag.Parse", "flag.CommandLine",
		"os.Getenv", "os.LookupEnv", "os.Environ", "os.ExpandEnv", "os.UserHomeDir", "os.UserCacheDir", "os.UserConfigDir",
		"os.Stdin", "os.Stdout", "os.Stderr", "fmt.Print", "fmt.Printf", "fmt.Println", "os.Exit",
	}, only: append([]string{"internal/checks/testutil"}, outer...), why: "callers pass arguments, environment and standard streams down"},
	{names: []string{"time.Now", "time.Since", "time.Until"}, only: append([]string{"sandbox/sandboxtest", "internal/checks/benchtable"}, outer...),
		why: "callers pass the clock down; only benchmarks read it themselves"},
	{names: []string{"os.Rename"}, only: []string{"internal/files/durable"},
		why: "a rename that replaces something is synced before and after; durable does both"},
	{names: []string{"sync.Mutex", "sync.RWMutex"},
		never: []string{"sandbox", "internal/decide/policy", "internal/decide/tool", "internal/work/worker", "internal/work/project"},
		why:   "these packages are made of values"},
}

// variables limits the types of package-level variables.
var variables = []limit{
	{names: []string{
		"sync.Mutex", "sync.RWMutex", "sync.Once", "sync.Map", "sync.Cond", "sync.WaitGroup",
		"sync/atomic.Bool", "sync/atomic.Int32", "sync/atomic.Int64", "sync/atomic.Uint32", "sync/atomic.Uint64",
		"sync/atomic.Uintptr", "sync/atomic.Pointer", "sync/atomic.Value",
	}, why: "a package-level variable does not change; use sync.OnceValue to compute one later"},
}

// goroutines limits go statements, and the calls that hide one.
var goroutines = limit{
	only: []string{
		"sandbox/walk*.go", "sandbox/search*.go", "sandbox/sandboxtest", "internal/records/state/statetest",
		"internal/records/audit", "internal/work/run", "internal/work/session/disk_linux.go", "internal/work/model", "internal/work/model/*", "internal/jail/egress", "internal/jail", "internal/files/changes", "internal/hub/store", "internal/hub/serve", "internal/hub/node", "internal/people/detached", "internal/people/terminal", "internal/front/*", "runtime.go", "examples/embed/*",
		"cmd/golem-wasm/serve_js.go", // a callback of the browser must not wait
	},
	why: "a goroutine has an owner that waits for it",
}

// inits limits init functions.
var inits = limit{
	only: []string{"internal/files/part"},
	why:  "nothing runs before main, except a process of the jail, which must not wait for packages that it does not need",
}

// Sizes. A file that is too long holds two things.
const (
	maxLines      = 600 // lines of a file, except tests
	maxMain       = 15  // lines of cmd/golem/main.go
	maxMethods    = 5   // methods of an interface
	maxOperations = 40  // methods of any other type, and functions that take it first
	maxExported   = 100 // exported names of a package, with methods
)

// wide are the interfaces that may have more than maxMethods methods.
var wide = map[string]int{"sandbox.Backend": 7}

// An exception is a number above a limit. It only goes down: see TestExceptionsGoDown.
type exception struct {
	name string
	most int
	why  string
}

// broad are the types that may have more than maxOperations operations.
var broad = []exception{
	{"sandbox.Sandbox", 89, "the public API: one method for each file operation"},
	{"internal/files/overlay.Overlay", 58, "lists, applies, undoes and repairs changes"},
	{"internal/work/session.Sessions", 45, "finds sessions, and reviews, undoes and repairs their changes"},
	{"internal/files/changes.Overlays", 41, "the overlays of a session: applies, undoes and repairs their changes"},
	{"internal/front/cli.programFlags", 42, "the commands that take the flags of a program"},
	{"internal/work/run.conversation", 41, "the loop of one worker: model, calls, summary"},
}

// crowded are the packages that may have more than maxExported exported names.
var crowded = []exception{
	{"sandbox", 165, "the public API, with the errors and their codes"},
	{"internal/jail", 146, "the commands, their limits and outputs, and what the kernel supports"},
	{"internal/decide/tool", 140, "tools, calls, plans, requests, results and their text, and typed arguments"},
	{"internal/work/session", 126, "sessions and the changes in them"},
	{"internal/people/inbox", 120, "what waits for the user: calls, commits, sessions and jobs of a hub"},
	{"internal/decide/policy", 115, "grants, effects, rules and limits as values"},
	{"internal/hub", 107, "the messages between a hub, its nodes and its people"},
	{"internal/files/overlay", 100, "lists, applies, undoes, repairs and measures changes"},
}

// backward limits, for packages of many files, the share in percent of references between
// files that run backwards: against the best order of the files that can be found. A
// package that reads from top to bottom has none. The numbers only go down.
var backward = map[string]int{
	"internal/decide/approval": 30, "internal/clearance": 27, "internal/clearance/scan": 32, "internal/front/mcp": 26,
	"internal/work/project": 26, "internal/work/toolset/file": 26, "internal/work/toolset/git": 43, "internal/work/toolset/shell": 27,
}

// maxBackward is the share for packages that backward does not name.
const maxBackward = 25

// TestArchitecture compares the tree with the tables above.
func TestArchitecture(t *testing.T) {
	sources, err := readTree(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range check(sources) {
		t.Error(f)
	}
}

// TestExceptionsGoDown checks that the rows of broad and crowded have today's numbers, so that
// nothing grows again to a number that it has left.
func TestExceptionsGoDown(t *testing.T) {
	sources, err := readTree(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, pkg := range new(report).parse(sources) {
		maps.Copy(counts, countOperations(pkg))
		counts[pkg[0].pkg] = countExports(pkg)
	}
	for _, row := range slices.Concat(broad, crowded) {
		if n := counts[row.name]; n < row.most {
			t.Errorf("%s has %d now, and its row in the table says %d: write %d, or remove the row", row.name, n, row.most, n)
		}
	}
}

// TestPureClosure checks all dependencies of the pure packages, including other
// modules, on this system and in the browser.
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
		t.Fatal("the closure of html/template lacks text/template: the test checks nothing")
	}
	for _, pkg := range pure {
		if _, err := os.Stat(pkg); err != nil {
			continue // not built yet
		}
		for _, sys := range [][2]string{{"linux", "amd64"}, {"js", "wasm"}} {
			for _, dep := range closure(sys[0], sys[1], "./"+pkg) {
				if slices.Contains(heavy, dep) || sys[0] == "js" && slices.Contains(large, dep) {
					t.Errorf("%s/%s: %s depends on %s", sys[0], sys[1], pkg, dep)
				}
			}
		}
	}
}

// TestDecisions checks that the index of docs/decisions is complete: it has every
// record, and every module and tool that is required directly.
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
		t.Error("tools/go.mod: found no tool: the test checks nothing")
	}
	for _, m := range append(direct, tools...) {
		if !strings.Contains(index, "`"+m[1]+"`") {
			t.Errorf("docs/decisions/README.md has no line for %s", m[1])
		}
	}
}
