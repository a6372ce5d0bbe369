package forge

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/conf"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/sandbox"
)

// program makes a program of files, and options to load it with a state of its
// own.
func program(t *testing.T, files map[string]string) Options {
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

func load(t *testing.T, o Options) *Program {
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

// wideProgram is a program whose files ask for all there is.
func wideProgram(t *testing.T) Options {
	t.Helper()
	o := program(t, wide)
	if err := os.Mkdir(filepath.Join(o.Dir, "../outside"), 0o777); err != nil {
		t.Fatal(err)
	}
	return o
}

// Until the user trusts it, a program can read its own folder and nothing else,
// whatever its files say.
func TestUntrustedIsTheDefaultPolicy(t *testing.T) {
	o := wideProgram(t)
	p := load(t, o)
	grant, s, err := p.Ceiling()
	if err != nil {
		t.Fatal(err)
	}
	if got := s.WritableRoots(); len(got) > 0 {
		t.Errorf("writable: %v", got)
	}
	if _, err := s.Read("/main.worker"); err != nil {
		t.Errorf("its own folder: %v", err)
	}
	if _, err := s.List("/in"); err == nil {
		t.Error("a folder outside is shown")
	}
	for _, e := range []policy.Effect{{Verb: policy.Connect, Target: "example.com"}, {Verb: policy.Use, Target: "shell"}, {Verb: policy.Call, Target: "main"}} {
		if d := grant.Decide(e); d.Consent != policy.Blocked {
			t.Errorf("%s is %s", e, d.Consent)
		}
	}
	if err := p.Trust(); err != nil {
		t.Fatal(err)
	}
	grant, s, err = load(t, o).Ceiling()
	if err != nil {
		t.Fatal(err)
	}
	if !s.CanWrite("/in/x") || !grant.Hosts.IsAll() {
		t.Error("trusted, and yet not what the project says")
	}
}

// Trust is for the content: one byte more, less or other in any file ends it,
// and the old content brings it back.
func TestTrustIsBoundToContent(t *testing.T) {
	o := wideProgram(t)
	if err := load(t, o).Trust(); err != nil {
		t.Fatal(err)
	}
	trusted := func(want bool, what string) {
		t.Helper()
		p := load(t, o)
		got, err := p.Trusted()
		if err != nil || got != want {
			t.Errorf("%s: trusted %v, %v", what, got, err)
		}
		changed, err := p.Changed()
		if err != nil || (changed == "") != want {
			t.Errorf("%s: changes %q, %v", what, changed, err)
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
	p := load(t, o)
	o.Trust = p.Content.Hash
	if ok, err := load(t, o).Trusted(); !ok || err != nil {
		t.Errorf("the hash itself: %v, %v", ok, err)
	}
	for _, hash := range []string{p.Content.Hash[:16], strings.ToUpper(p.Content.Hash), "x"} {
		o.Trust = hash
		if ok, err := load(t, o).Trusted(); ok || sandbox.CodeOf(err) != "untrusted" {
			t.Errorf("%s: %v, %v", hash, ok, err)
		}
	}
	if _, err := os.Stat(o.State); err == nil {
		t.Error("a hash was written down")
	}
}

// Every line that widens the default policy is in the summary, with its place.
func TestWideningsNameEveryLine(t *testing.T) {
	p := load(t, wideProgram(t))
	var lines []string
	for _, w := range p.Widenings() {
		lines = append(lines, w.From)
	}
	for _, want := range []string{"golem-forge.config.yaml:3", "golem-forge.config.yaml:5", "golem-forge.config.yaml:6",
		"golem-forge.config.yaml:7", "golem-forge.config.yaml:8", "main.worker:3"} {
		if !slices.Contains(lines, want) {
			t.Errorf("%s is not among %v", want, lines)
		}
	}
	narrow := program(t, map[string]string{
		"golem-forge.config.yaml": "sandbox: {root: ., mode: ro}\n", "main.worker": "---\nsandbox: inherit\n---\nRead.\n"})
	if got := load(t, narrow).Widenings(); len(got) > 0 {
		t.Errorf("nothing is widened, and yet: %v", got)
	}
}

// The programs that a worker would run are named before it is trusted.
func TestWideningsNamePrograms(t *testing.T) {
	files := maps.Clone(wide)
	files["main.worker"] = "---\nsandbox: inherit\ntoolsets:\n  filesystem:\n  mcp: {servers: {x: {command: [evil, --now]}}}\n---\n"
	o := program(t, files)
	os.Mkdir(filepath.Join(o.Dir, "../outside"), 0o777)
	p := load(t, o)
	found := slices.ContainsFunc(p.Widenings(), func(w Widening) bool { return strings.Contains(w.What, "evil --now") })
	if !found {
		t.Errorf("the program is not named: %v", p.Widenings())
	}
}

// Without a project file the entry worker's paths, in llm-do's spelling, are
// the project's.
func TestPathsOfTheEntryWorker(t *testing.T) {
	o := program(t, map[string]string{
		"main.worker": `---
sandbox:
  paths:
    portfolio: {root: ./portfolio, mode: rw, suffixes: [.md], max_file_bytes: 100}
    pipeline: {root: ./pipeline}
---
`, "portfolio/a.md": "a", "pipeline/b": "b"})
	p := load(t, o)
	for _, test := range []struct {
		op, path string
		want     bool
	}{
		{"write", "/portfolio/x.md", true}, {"write", "/portfolio/x.exe", false}, {"read", "/pipeline/b", true},
		{"write", "/pipeline/b", false}, {"read", "/main.worker", false},
	} {
		a, err := p.Explain(context.Background(), test.op, test.path, "")
		if err != nil || a.Allowed != test.want {
			t.Errorf("%s %s: %v %s, %v", test.op, test.path, a.Allowed, a.Reason, err)
		}
	}
	if ok, _ := p.Trusted(); ok {
		t.Error("a worker's paths hold before it is trusted")
	}
}

// A child that asks for more than its parent has is an error at its line, and
// one that declares nothing has nothing.
func TestChildrenNeverExceed(t *testing.T) {
	files := map[string]string{
		"golem-forge.config.yaml": "sandbox:\n  zones:\n    data: {path: ./data, mode: ro}\n    final: {path: ./final}\n",
		"main.worker":             "---\nsandbox:\n  zones: [{name: data, mode: ro}]\ntoolsets: {filesystem: , workers: {allowed_workers: ['*']}}\n---\n",
		"workers/writer.worker":   "---\nsandbox:\n  zones:\n    - name: data\n      mode: rw\n---\n",
		"workers/other.worker":    "---\nsandbox:\n  zones:\n    - name: final\n---\n",
		"workers/pure.worker":     "---\ndescription: a pure function\n---\n",
	}
	p, err := Load(program(t, files))
	var problems conf.Problems
	if !errors.As(err, &problems) {
		t.Fatalf("no problems: %v", err)
	}
	for _, want := range []string{"workers/writer.worker:", "workers/other.worker:"} {
		if !slices.ContainsFunc(problems, func(p conf.Problem) bool {
			return strings.HasPrefix(p.Error(), want) && strings.Contains(p.Error(), "exceeds_parent")
		}) {
			t.Errorf("no problem at %s\n%v", want, problems)
		}
	}
	if pure := p.Tree().Find("pure"); pure == nil || !pure.Grant.Files.None() || len(pure.Grant.Tools.Names()) > 0 {
		t.Errorf("the pure function has %+v", pure)
	}
}

func TestTreeOfCallers(t *testing.T) {
	call := func(names string) string {
		return "---\nsandbox: inherit\ntoolsets: {workers: {allowed_workers: [" + names + "]}}\n---\n"
	}
	o := program(t, map[string]string{
		"golem-forge.config.yaml": "sandbox: {root: ., mode: ro}\ndelegation: {maxDepth: 2}\n",
		"main.worker":             call("a, b, c"), "workers/a.worker": call("a, b, c"), "workers/b.worker": call("c"),
		"workers/c.worker": "---\n---\n", "workers/lone.worker": "---\n---\n",
	})
	top := load(t, o).Tree()
	if got := top.Find("c").Chain(); strings.Join(got, " ") != "main c" {
		t.Errorf("the nearest c is %v", got)
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
		t.Errorf("an entry that is not there: %v", err)
	}
}
