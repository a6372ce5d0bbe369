package program

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/trust"
	"github.com/golem-forge/golem/internal/work/starter"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// writeProgram writes the files of a program, and returns options to load it with a new state
// directory.
func writeProgram(t *testing.T, files map[string]string) Options {
	t.Helper()
	top := t.TempDir()
	dir := filepath.Join(top, "program")
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return Options{Dir: dir, State: filepath.Join(top, "state"), Home: top,
		Now: func() time.Time { return time.Unix(1_800_000_000, 0) }}
}

func loadProgram(t *testing.T, o Options) *Program {
	t.Helper()
	p, err := Load(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var wide = map[string]string{
	"golem-forge.config.yaml": `
sandbox:
  root: .
  mode: rw
  mounts: [{source: ../outside, target: /in}]
  network: true
  approval: {write: preApproved, delete: preApproved}
approval: {mode: approve_all}
`,
	"main.worker": "---\nsandbox: inherit\ntoolsets: [filesystem, shell]\n---\nDo.\n",
}

// wideProgram is a program whose files ask for all permissions.
func wideProgram(t *testing.T) Options {
	t.Helper()
	o := writeProgram(t, wide)
	if err := os.Mkdir(filepath.Join(o.Dir, "../outside"), 0o777); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestUntrustedHasNoGate: until the user trusts a program, nobody makes a call for it, whatever
// its files say.
func TestUntrustedHasNoGate(t *testing.T) {
	o := wideProgram(t)
	p := loadProgram(t, o)
	for what, open := range map[string]func() (any, error){
		"gate": func() (any, error) { return p.OpenWorker(WorkerOptions{}) },
		"run":  func() (any, error) { return p.OpenRun(RunOptions{}) },
	} {
		if _, err := open(); sandbox.CodeOf(err) != "untrusted" {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if err := p.Trust(); err != nil {
		t.Fatal(err)
	}
	gate, err := loadProgram(t, o).OpenWorker(WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	if !gate.Files.CanWrite("/in/x") || !gate.Grant.Hosts.IsAll() {
		t.Error("trusted, but the grant is not the project's")
	}
}

// TestTrustIsBoundToContent: a change of one byte in any file ends the trust, and the old
// content restores it.
func TestTrustIsBoundToContent(t *testing.T) {
	o := wideProgram(t)
	if err := loadProgram(t, o).Trust(); err != nil {
		t.Fatal(err)
	}
	trusted := func(want bool, what string) {
		t.Helper()
		p := loadProgram(t, o)
		got, err := p.IsTrusted()
		if err != nil || got != want {
			t.Errorf("%s: trusted %v, %v", what, got, err)
		}
		changed, err := p.TrustStore().Differences(p.Content)
		if err != nil || (len(changed) == 0) != want {
			t.Errorf("%s: changes %v, %v", what, changed, err)
		}
	}
	trusted(true, "as it was")
	for name, text := range wide {
		path := filepath.Join(o.Dir, name)
		os.WriteFile(path, []byte(text+" "), 0o666)
		trusted(false, name+" with a space more")
		os.WriteFile(path, []byte(text), 0o666)
		trusted(true, name+" as it was again")
	}
	added := filepath.Join(o.Dir, "workers", "new.worker")
	os.MkdirAll(filepath.Dir(added), 0o777)
	os.WriteFile(added, []byte("---\n---\nNew.\n"), 0o666)
	trusted(false, "a worker more")
	os.Remove(added)
	trusted(true, "without it again")
	os.Rename(filepath.Join(o.Dir, "main.worker"), filepath.Join(o.Dir, "other.worker"))
	trusted(false, "a worker by another name")
}

func TestTrustByHash(t *testing.T) {
	o := wideProgram(t)
	p := loadProgram(t, o)
	o.Trust = p.Content.Hash
	if ok, err := loadProgram(t, o).IsTrusted(); !ok || err != nil {
		t.Errorf("trust by hash: got %v, %v", ok, err)
	}
	for _, hash := range []string{p.Content.Hash[:16], strings.ToUpper(p.Content.Hash), "x"} {
		o.Trust = hash
		if ok, err := loadProgram(t, o).IsTrusted(); ok || sandbox.CodeOf(err) != "untrusted" {
			t.Errorf("%s: %v, %v", hash, ok, err)
		}
	}
	if _, err := os.Stat(o.State); err == nil {
		t.Error("a hash was stored")
	}
}

// TestPermissionsNameEveryLine: every line that permits more than the default policy is
// among the permissions, with its place.
func TestPermissionsNameEveryLine(t *testing.T) {
	p := loadProgram(t, wideProgram(t))
	var lines []string
	for _, w := range p.TrustRequest().Permissions() {
		lines = append(lines, w.From)
	}
	for _, want := range []string{"golem-forge.config.yaml:3", "golem-forge.config.yaml:5", "golem-forge.config.yaml:6",
		"golem-forge.config.yaml:7", "golem-forge.config.yaml:8", "main.worker:3"} {
		if !slices.Contains(lines, want) {
			t.Errorf("%s is not among %v", want, lines)
		}
	}
	narrow := writeProgram(t, map[string]string{
		"golem-forge.config.yaml": "sandbox: {root: ., mode: ro}\n", "main.worker": "---\nsandbox: inherit\n---\nRead.\n"})
	if got := loadProgram(t, narrow).TrustRequest().Permissions(); len(got) > 0 {
		t.Errorf("no permission is wider, but got %v", got)
	}
}

// TestPermissionsAreComplete: the permissions include those of git, targets and scanners,
// and the paths that another entry worker would have.
func TestPermissionsAreComplete(t *testing.T) {
	o := writeProgram(t, map[string]string{
		"golem-forge.config.yaml": "sandbox: {root: ., mode: ro}\nclearance: {scanners: [format]}\n",
		"main.worker":             "---\nsandbox: inherit\ntoolsets:\n  git: {default_target: {type: local, path: /srv/x, branch: main}}\n---\n",
	})
	var all []string
	for _, w := range loadProgram(t, o).TrustRequest().Permissions() {
		all = append(all, w.From+" "+w.What)
	}
	for _, want := range []string{"golem-forge.config.yaml:2 scanners look at results only for: format", "your credentials", "stages results for /srv/x"} {
		if !strings.Contains(strings.Join(all, "\n"), want) {
			t.Errorf("%q is not among\n%s", want, strings.Join(all, "\n"))
		}
	}
	o = writeProgram(t, map[string]string{
		"main.worker":  "---\ndescription: x\n---\n",
		"other.worker": "---\nsandbox: {paths: {h: {root: ./h, mode: rw}}}\n---\n",
	})
	if got := loadProgram(t, o).TrustRequest().Permissions(); !slices.ContainsFunc(got, func(w trust.Permission) bool { return strings.Contains(w.What, "rw ./h as /h") }) {
		t.Errorf("the paths of another entry are not named: %v", got)
	}
}

// TestPermissionsAreNotCut: a long text is shown in full.
func TestPermissionsAreNotCut(t *testing.T) {
	pattern := "echo " + strings.Repeat("a", 300) + " curl evil sh " + strings.Repeat("b", 300)
	o := writeProgram(t, map[string]string{
		"golem-forge.config.yaml": "sandbox: {root: ., mode: ro}\n",
		"main.worker":             "---\nsandbox: inherit\ntoolsets:\n  shell: {rules: [{pattern: \"" + pattern + "\", approval: preApproved}]}\n---\n",
	})
	if got := loadProgram(t, o).TrustRequest().Permissions(); !slices.ContainsFunc(got, func(w trust.Permission) bool { return strings.Contains(w.What, pattern) }) {
		t.Errorf("the pattern is not shown whole: %v", got)
	}
}

// TestPathsOfTheEntryWorker: without a project file, the paths of the entry worker are
// the project's.
func TestPathsOfTheEntryWorker(t *testing.T) {
	o := writeProgram(t, map[string]string{
		"main.worker": `---
sandbox:
  paths:
    portfolio: {root: ./portfolio, mode: rw, suffixes: [.md], max_file_bytes: 100}
    pipeline: {root: ./pipeline}
---
`, "portfolio/a.md": "a", "pipeline/b": "b"})
	p := loadProgram(t, o)
	if ok, _ := p.IsTrusted(); ok {
		t.Error("the paths of a worker count before it is trusted")
	}
	if err := p.Trust(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		op, path string
		want     bool
	}{
		{"write", "/portfolio/x.md", true}, {"write", "/portfolio/x.exe", false}, {"read", "/pipeline/b", true},
		{"write", "/pipeline/b", false}, {"read", "/main.worker", false},
	} {
		subject, err := p.Subject("")
		if err != nil {
			t.Fatal(err)
		}
		a, err := subject.File(context.Background(), test.op, test.path)
		if err != nil || a.Allowed != test.want {
			t.Errorf("%s %s: %v %s, %v", test.op, test.path, a.Allowed, a.Reason, err)
		}
	}
}

// TestChildrenNeverExceed: a child that asks for more than its parent has is an error at
// its line. A child that declares nothing has nothing.
func TestChildrenNeverExceed(t *testing.T) {
	files := map[string]string{
		"golem-forge.config.yaml": "sandbox:\n  zones:\n    data: {path: ./data, mode: ro}\n    final: {path: ./final}\n",
		"main.worker":             "---\nsandbox:\n  zones: [{name: data, mode: ro}]\ntoolsets: {filesystem: , workers: {allowed_workers: ['*']}}\n---\n",
		"workers/writer.worker":   "---\nsandbox:\n  zones:\n    - name: data\n      mode: rw\n---\n",
		"workers/other.worker":    "---\nsandbox:\n  zones:\n    - name: final\n---\n",
		"workers/pure.worker":     "---\ndescription: a pure function\n---\n",
	}
	p, err := Load(writeProgram(t, files))
	var problems strictyaml.Problems
	if !errors.As(err, &problems) {
		t.Fatalf("no problems: %v", err)
	}
	for _, want := range []string{"workers/writer.worker:", "workers/other.worker:"} {
		if !slices.ContainsFunc(problems, func(p strictyaml.Problem) bool {
			return strings.HasPrefix(p.Error(), want) && strings.Contains(p.Error(), "exceeds_parent")
		}) {
			t.Errorf("no problem at %s\n%v", want, problems)
		}
	}
	if pure := p.Tree().Find("pure"); pure == nil || !pure.Grant.Files.IsEmpty() || len(pure.Grant.Tools.Names()) > 0 {
		t.Errorf("the pure function has %+v", pure)
	}
}

func TestTreeOfCallers(t *testing.T) {
	call := func(names string) string {
		return "---\nsandbox: inherit\ntoolsets: {workers: {allowed_workers: [" + names + "]}}\n---\n"
	}
	o := writeProgram(t, map[string]string{
		"golem-forge.config.yaml": "sandbox: {root: ., mode: ro}\ndelegation: {maxDepth: 2}\n",
		"main.worker":             call("a, b, c"), "workers/a.worker": call("a, b, c"), "workers/b.worker": call("c"),
		"workers/c.worker": "---\n---\n", "workers/lone.worker": "---\n---\n",
	})
	top := loadProgram(t, o).Tree()
	if got := top.Find("c").Chain(); strings.Join(got, " ") != "main c" {
		t.Errorf("chain of the nearest c: got %v", got)
	}
	if top.Find("lone") != nil {
		t.Error("a worker that nobody may call is in the tree")
	}
	for _, c := range top.Find("a").Calls {
		if c.Circular != (c.Worker.Name == "a") {
			t.Errorf("%v: circular %v", c.Chain(), c.Circular)
		}
	}
	depths := map[string]int{"main": 2, "a": 1, "b": 1}
	for name, want := range depths {
		if got := top.Find(name).Grant.Depth; got != want {
			t.Errorf("%s has %d calls left below it, want %d", name, got, want)
		}
	}
	o.Entry = "nobody"
	if _, err := Load(o); !errors.Is(err, sandbox.ErrNotFound) {
		t.Errorf("a missing entry worker: %v", err)
	}
}

// TestInitInHostileDirectory: the directory of golem init may come from a stranger. No
// file in it leads init outside, blocks it, or becomes trusted with the files that init
// makes.
func TestInitInHostileDirectory(t *testing.T) {
	t.Run("links", func(t *testing.T) {
		top := t.TempDir()
		for _, name := range []string{"in", "out", "workers"} {
			dir := filepath.Join(top, name+"-program")
			os.MkdirAll(filepath.Join(top, "outside"), 0o777)
			os.MkdirAll(dir, 0o777)
			if err := os.Symlink("../outside", filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			if _, _, err := starter.Make(dir, starter.Options{}); err == nil || !strings.Contains(err.Error(), "not a directory") {
				t.Errorf("%s: %v", name, err)
			}
			if left, _ := os.ReadDir(dir); len(left) != 1 {
				t.Errorf("%s: left %v", name, left)
			}
		}
		if left, _ := os.ReadDir(filepath.Join(top, "outside")); len(left) > 0 {
			t.Errorf("written outside: %v", left)
		}
	})
	t.Run("remotes", func(t *testing.T) {
		o := writeProgram(t, map[string]string{".git/config": `
[remote "origin"]
	url = git@example.com:you/notes.git
[remote "secret"]
	url = https://x-access-token:ghp_secret@example.com/a/b
[remote "option"]
	url = ssh://-oProxyCommand=touch/x
[remote "disk"]
	url = /srv/notes.git
`})
		made, leftOut, err := starter.Make(o.Dir, starter.Options{})
		if err != nil || strings.Join(leftOut, " ") != "secret option" || len(made) != 7 {
			t.Fatalf("made %v, skipped %v, %v", made, leftOut, err)
		}
		if text, _ := os.ReadFile(filepath.Join(o.Dir, "golem-forge.config.yaml")); strings.Contains(string(text), "ghp_") || !strings.Contains(string(text), "you/notes.git") || runtime.GOOS != "windows" && !strings.Contains(string(text), `disk: {type: remote, url: "file:///srv/notes.git"`) {
			t.Errorf("written:\n%s", text)
		}
		loadProgram(t, o)
	})
	t.Run("a worker that is there", func(t *testing.T) {
		o := writeProgram(t, map[string]string{"workers/evil.worker": "---\nsandbox: inherit\ntoolsets: [shell]\n---\n"})
		made, _, err := starter.Make(o.Dir, starter.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := loadProgram(t, o).Content.Others(made); strings.Join(got, " ") != "workers/evil.worker" {
			t.Errorf("others: %v", got)
		}
	})
}

// TestProjectFileIsNoLink: the project file must be a regular file, because the target of
// a symlink may be unprotected.
func TestProjectFileIsNoLink(t *testing.T) {
	o := writeProgram(t, map[string]string{"real/c.txt": "sandbox: {root: ., mode: rw}\n"})
	if err := os.Symlink("real/c.txt", filepath.Join(o.Dir, "golem-forge.config.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(o); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("a symlink was read: %v", err)
	}
}

// TestNamesThatDoNotExist: a rule with a typo has no effect, so golem reports it as a
// problem.
func TestNamesThatDoNotExist(t *testing.T) {
	_, err := Load(writeProgram(t, map[string]string{
		"golem-forge.config.yaml": "sandbox: {root: ., mode: rw}\n",
		"main.worker":             "---\nsandbox: inherit\ntoolsets: {filesystem: , git: {default_target: orgin}}\ntool_rules: {write_flie: {allowed: false}}\n---\n",
		"lone.worker":             "---\nsandbox: {zones: [{name: dta}], network: true}\n---\n",
	}))
	for _, want := range []string{"no tool write_flie; did you mean write_file?", "no target orgin", "lone.worker:"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in\n%v", want, err)
		}
	}
}

// TestRemoteServerExample loads the worker with a remote MCP server in docs/workers.md, with
// the hosts that the page names for the project.
func TestRemoteServerExample(t *testing.T) {
	page, err := os.ReadFile("../../../docs/workers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(page), "**Remote MCP servers.**")
	_, after, _ = strings.Cut(after, "```yaml\n")
	example, rest, _ := strings.Cut(after, "```")
	if !strings.Contains(example, "url: https://mcp.example.com") || !strings.Contains(rest, "such as `network: [mcp.example.com]`") {
		t.Fatalf("got the example %q", example)
	}
	loadProgram(t, writeProgram(t, map[string]string{
		"golem-forge.config.yaml": "sandbox:\n  mounts: [{source: ./in, target: /in, mode: ro}]\n  network: [mcp.example.com]\n",
		"main.worker":             example + "Work.\n", "in/a": ""}))
}

// TestUnseenTrust: a policy that does not allow unseen approvals holds for the content and the
// instructions of the user's own program. For a job that of its submitter counts.
func TestUnseenTrust(t *testing.T) {
	p := loadProgram(t, wideProgram(t))
	p.Storage.UnseenOff = "policy.yaml:2"
	for _, want := range []string{"policy.yaml:2", ""} {
		if got := p.TrustStore().UnseenOff; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := p.Instructions().Trust.UnseenOff; got != want {
			t.Errorf("instructions: got %q, want %q", got, want)
		}
		p.options.Job = func(string) bool { return false }
	}
}
