package worker_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/internal/work/worker"
	"github.com/golem-forge/golem/sandbox"
)

// The law of delegation: in every chain of workers no child has more than its parent, and
// Grant reports a problem exactly if a child asks for more. The test draws workers as
// files, so that it covers the parser too.

const lawCases = 5_000

var (
	lawZones   = []string{"data", "out", "none"}
	lawNames   = []string{"/", "/data", "/data/sub", "/data/sub/x", "/data2", "/out", "/out/a.md", "/none", "/none/x"}
	lawFolders = map[string]string{"./data": "/data", "./data/sub": "/data/sub", "./out": "/out", "./none": "/none"}
	lawSets    = []string{"filesystem", "shell", "git", "mcp", "custom"}
	lawWorkers = []string{"a", "b", "c"}
	lawHosts   = []string{"x.example.com", "y.example.com", "example.org"}
	lawSecrets = []string{"GITHUB_TOKEN", "GH_TOKEN", "SSH_AUTH_SOCK"}
	lawConsent = []string{"preApproved", "ask", "blocked"}
	lawFiles   = []policy.Verb{policy.Read, policy.Write, policy.Delete, policy.Attach}
)

func drawOne[T any](t *rapid.T, what string, from []T) T {
	return rapid.SampledFrom(from).Draw(t, what)
}
func drawSome[T comparable](t *rapid.T, what string, from []T) []T {
	if len(from) == 0 {
		return []T{}
	}
	return rapid.SliceOfNDistinct(rapid.SampledFrom(from), 0, len(from), rapid.ID[T]).Draw(t, what)
}
func drawOften(t *rapid.T, what string) bool  { return rapid.IntRange(0, 3).Draw(t, what) > 0 }
func drawSeldom(t *rapid.T, what string) bool { return rapid.IntRange(0, 3).Draw(t, what) == 0 }

// A wish is a worker file with what it asks for.
type wish struct {
	text   strings.Builder
	parent policy.Grant
	modest bool // it asks only for what the parent has

	kind     string
	restrict string
	ro       bool
	files    map[string]sandbox.Access // by virtual path; "" for a directory that no mount shows
	network  string                    // "", "true", "false"
	sets     []string                  // nil if none are written
	calls    []string
	explicit bool
	secrets  []string
}

func (w *wish) add(format string, args ...any) { fmt.Fprintf(&w.text, format, args...) }

func drawWish(t *rapid.T, parent policy.Grant) *wish {
	w := &wish{files: map[string]sandbox.Access{}, parent: parent, modest: rapid.IntRange(0, 9).Draw(t, "modest") > 0}
	w.kind = drawOne(t, "kind", []string{"", "inherit", "inherit", "{}", "restrict", "restrict", "zones", "zones", "paths"})
	w.drawSandbox(t)
	w.drawToolsets(t)
	if drawSeldom(t, "attachments") {
		w.add("attachment_policy: {max_attachments: %d, max_total_bytes: %d, allowed_suffixes: [%s]}\n",
			rapid.IntRange(0, 9).Draw(t, "max"), rapid.IntRange(0, 1000).Draw(t, "bytes"), drawOne(t, "suffix", []string{".md", ".PDF", ".tar.gz", ".gz"}))
	}
	if drawSeldom(t, "tool rules") {
		w.add("tool_rules: {%s: {approval_required: %v}}\n", drawOne(t, "rule", []string{"sandbox.read", "worker.call", "x_tool"}), rapid.Bool().Draw(t, "required"))
	}
	return w
}

// fit keeps what a modest wish may ask for.
func (w *wish) fit(names []string, has func(string) bool) []string {
	if !w.modest {
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !has(n) })
}

// mode draws the mode of a directory.
func (w *wish) mode(t *rapid.T, path string) string {
	modes := []string{"ro", "ro", "rw"}
	if w.modest && w.parent.Files.Access(path) < sandbox.ReadWrite {
		modes = modes[:2]
	}
	return drawOne(t, "mode", modes)
}

func (w *wish) shows(path string) bool { return w.parent.Files.Access(path) > sandbox.None }

func (w *wish) drawSandbox(t *rapid.T) {
	switch w.kind {
	case "":
		return
	case "inherit", "{}":
		w.add("sandbox: %s\n", w.kind)
		w.kind = worker.Inherit
		return
	case "restrict":
		w.restrict = drawOne(t, "restrict", append(w.fit(lawNames, w.shows), "/"))
		w.ro = rapid.Bool().Draw(t, "readonly")
		w.add("sandbox:\n  restrict: %s\n  readonly: %v\n", w.restrict, w.ro)
	case "zones":
		w.add("sandbox:\n  zones:\n")
		zones := drawSome(t, "zones", w.fit(lawZones, func(z string) bool { return w.shows("/" + z) }))
		if len(zones) == 0 {
			w.text.Reset()
			w.add("sandbox:\n  zones: []\n")
		}
		for _, z := range zones {
			mode := w.mode(t, "/"+z)
			w.files["/"+z], _ = sandbox.ParseAccess(mode)
			w.add("  - name: %s\n    mode: %s\n    approval: {%s: %s}\n", z, mode, drawOne(t, "verb", lawFiles[:3]), drawOne(t, "consent", lawConsent))
		}
	case "paths":
		w.add("sandbox:\n  paths:\n")
		known := []string{"./data", "./data/sub", "./out", "./none", "./nowhere"}
		folders := append(drawSome(t, "directories", w.fit(known, func(f string) bool { return w.shows(lawFolders[f]) })), "./out")
		slices.Sort(folders)
		for i, folder := range slices.Compact(folders) {
			mode := w.mode(t, lawFolders[folder])
			w.files[lawFolders[folder]], _ = sandbox.ParseAccess(mode)
			w.add("    p%d: {root: %s, mode: %s}\n", i, folder, mode)
		}
	}
	if drawSeldom(t, "network") {
		w.network = strconv.FormatBool(rapid.Bool().Draw(t, "on") && (w.parent.Hosts.IsAll() || !w.modest))
		w.add("  network: %s\n", w.network)
	}
	if drawSeldom(t, "level") {
		w.add("  require_os_sandbox: %s\n", drawOne(t, "which", []string{"true", "false", "landlock", "namespaces", "container"}))
	}
}

func (w *wish) drawToolsets(t *rapid.T) {
	if drawSeldom(t, "no toolsets") {
		return
	}
	w.sets = drawSome(t, "sets", w.fit(lawSets, w.parent.Tools.Has))
	if w.kind == worker.Zones && len(w.files) == 0 || w.modest && w.kind == "" {
		w.sets = slices.DeleteFunc(w.sets, usesFiles)
	}
	if drawOften(t, "calls") && (w.parent.Tools.Has("workers") || !w.modest) {
		w.sets = append(w.sets, "workers")
	}
	w.add("toolsets:\n")
	for _, set := range w.sets {
		w.add("  %s:\n", set)
		switch set {
		case "filesystem":
			if rapid.Bool().Draw(t, "approval") {
				w.add("    approval: {%s: %s}\n", drawOne(t, "verb", lawFiles[:3]), drawOne(t, "consent", lawConsent))
			}
		case "shell":
			w.add("    default: {approval: %s}\n", drawOne(t, "consent", lawConsent))
		case "git":
			w.explicit = rapid.Bool().Draw(t, "explicit")
			w.secrets = drawSome(t, "secrets", w.fit(lawSecrets, w.parent.Credentials.Has))
			w.add("    credentials:\n      mode: %s\n", map[bool]string{true: "explicit", false: "inherit"}[w.explicit])
			if len(w.secrets) > 0 {
				w.add("      env: {%s: }\n", strings.Join(w.secrets, ": , "))
			}
		case "workers":
			w.calls = drawSome(t, "workers", w.fit(lawWorkers, w.parent.Workers.Has))
			if drawSeldom(t, "all") && (w.parent.Workers.IsAll() || !w.modest) {
				w.calls = []string{"*"}
			}
			w.add("    allowed_workers: ['%s']\n", strings.Join(w.calls, "', '"))
			if len(w.calls) == 0 {
				text := strings.TrimSuffix(w.text.String(), "['']\n")
				w.text.Reset()
				w.add("%s[]\n", text)
			}
		}
	}
}

func usesFiles(set string) bool { return set == "filesystem" || set == "shell" || set == "git" }

// asksMore computes independently whether the wish goes beyond the parent.
func (w *wish) asksMore(parent policy.Grant, entry bool) bool {
	more := false
	inherits := w.kind == worker.Inherit || w.kind == worker.Restrict
	if w.kind == "" && slices.ContainsFunc(w.sets, usesFiles) {
		more = !entry
	}
	for path, asks := range w.files {
		more = more || path == "" || asks > parent.Files.Access(path)
	}
	if w.kind == worker.Restrict && w.restrict != "/" {
		shown := false
		for _, name := range lawNames {
			shown = shown || (name == w.restrict || strings.HasPrefix(name, w.restrict+"/")) && parent.Files.Access(name) > sandbox.None
		}
		more = more || !shown
	}
	sets := w.sets
	if sets == nil && w.kind != "" && !inherits && len(w.files) > 0 && slices.ContainsFunc(lawNames, func(name string) bool { return w.files[name] > sandbox.None }) {
		sets = []string{"filesystem"}
	}
	for _, set := range sets {
		more = more || !parent.Tools.Has(set)
	}
	for _, name := range w.calls {
		more = more || name == "*" && !parent.Workers.IsAll() || !parent.Workers.Has(name)
	}
	for _, name := range w.secrets {
		more = more || !parent.Credentials.Has(name)
	}
	return more || w.network == "true" && !parent.Hosts.IsAll()
}

// drawProject draws a grant like that of a project.
func drawProject(t *rapid.T) policy.Grant {
	g := projectOf(append(drawSome(t, "mounts", []string{"/data/sub ro", "/none ro"}), drawOne(t, "data", []string{"/data ro", "/data rw", "/data rw", "/ rw"}), "/out rw")...)
	if drawSeldom(t, "project rules") {
		consent, _ := policy.ParseApproval(drawOne(t, "consent", lawConsent))
		g.Approvals = g.Approvals.With(policy.Rule{Verb: drawOne(t, "verb", lawFiles), Target: drawOne(t, "target", lawNames), Approval: consent, From: "project"})
	}
	if drawSeldom(t, "hosts") {
		g.Hosts = policy.HostsOf(drawSome(t, "which", append(lawHosts, "*.example.com"))...)
	}
	if drawSeldom(t, "tools") {
		g.Tools = policy.SetOf(append(drawSome(t, "which tools", lawSets), "filesystem", "workers")...)
	}
	g.Depth = rapid.IntRange(0, 6).Draw(t, "depth")
	g.Limits = policy.Limits{Turns: rapid.Int64Range(0, 9).Draw(t, "turns"), Workers: rapid.Int64Range(0, 9).Draw(t, "workers"), Memory: rapid.Int64Range(0, 9).Draw(t, "memory")}
	g.Level = policy.Level(rapid.IntRange(0, 3).Draw(t, "level"))
	return g
}

func TestChains(t *testing.T) {
	links, granted, deep := 0, 0, 0
	testutil.Law(t, lawCases, func(t *rapid.T) {
		parent := drawProject(t)
		clean := true
		for i := range rapid.IntRange(1, 6).Draw(t, "chain") {
			wish := drawWish(t, parent)
			text := wish.text.String()
			w, err := worker.Parse("w.worker", []byte(text))
			if err != nil {
				t.Fatalf("Parse: %v\n%s", err, text)
			}
			child, problems := w.Grant(parent, func(folder string) (string, bool) {
				at, ok := lawFolders[folder]
				return at, ok
			}, i == 0)
			if more := wish.asksMore(parent, i == 0); more != (len(problems) > 0) {
				t.Fatalf("asks for more: %v, problems: %v\nof %v, tools %v\n%s", more, problems, parent.Files.Roots(), parent.Tools.Names(), text)
			}
			mustLieWithin(t, child, parent, text)
			links++
			if clean = clean && len(problems) == 0; clean {
				granted++
				mustHave(t, wish, child, text)
				if i >= 3 {
					deep++
				}
			}
			parent = child
		}
	})
	t.Logf("%d links, %d of them granted all the way up, %d at depth four or more", links, granted, deep)
	if granted*20 < links || deep == 0 {
		t.Errorf("got %d granted of %d links, %d of them deep: the test checks too little", granted, links, deep)
	}
}

// mustHave checks that a granted wish is fulfilled, and nothing more.
func mustHave(t *rapid.T, w *wish, child policy.Grant, text string) {
	for _, set := range w.sets {
		if !child.Tools.Has(set) {
			t.Fatalf("the toolset %s is lost:\n%s", set, text)
		}
	}
	for _, set := range lawSets {
		if child.Tools.Has(set) && !slices.Contains(w.sets, set) && !(w.sets == nil && set == "filesystem") {
			t.Fatalf("got the toolset %s without a request:\n%s", set, text)
		}
	}
	for _, name := range lawWorkers {
		if child.Workers.Has(name) != (slices.Contains(w.calls, name) || slices.Contains(w.calls, "*")) {
			t.Fatalf("may call %s: %v\n%s", name, child.Workers.Has(name), text)
		}
	}
	for _, name := range lawNames {
		got := child.Files.Access(name)
		switch w.kind {
		case worker.Zones, worker.Paths:
			if asks, ok := w.files[name]; ok && got != asks {
				t.Fatalf("%s: got %v, want %v\n%s", name, got, asks, text)
			}
			declared := false
			for path := range w.files {
				declared = declared || name == path || strings.HasPrefix(name, path+"/")
			}
			if !declared && got > sandbox.None {
				t.Fatalf("%s: got %v unasked\n%s", name, got, text)
			}
		case worker.Restrict:
			inside := w.restrict == "/" || name == w.restrict || strings.HasPrefix(name, w.restrict+"/")
			if got > sandbox.None && !inside || got > sandbox.ReadOnly && w.ro {
				t.Fatalf("%s: got %v\n%s", name, got, text)
			}
		}
	}
	if w.network == "false" && !child.Hosts.IsEmpty() || w.network == "" && (w.kind == worker.Zones || w.kind == worker.Paths) && !child.Hosts.IsEmpty() {
		t.Fatalf("got hosts without a request\n%s", text)
	}
	if w.explicit {
		for _, name := range lawSecrets {
			if child.Credentials.Has(name) != slices.Contains(w.secrets, name) {
				t.Fatalf("credential %s: got %v\n%s", name, child.Credentials.Has(name), text)
			}
		}
	}
}

// mustLieWithin checks every part of the grant, at every name that the law uses.
func mustLieWithin(t *rapid.T, child, parent policy.Grant, text string) {
	if beyond := child.Within(parent); len(beyond) > 0 {
		t.Fatalf("beyond the parent: %v\n%s", beyond, text)
	}
	for _, name := range lawNames {
		if got, most := child.Files.Access(name), parent.Files.Access(name); got > most {
			t.Fatalf("%s: got %v, the parent has %v\n%s", name, got, most, text)
		}
		for _, verb := range lawFiles {
			mustDecideLess(t, child, parent, policy.Effect{Verb: verb, Target: name}, text)
		}
	}
	for _, file := range []string{"/a", "/a.md", "/a.pdf", "/a.gz", "/a.tar.gz"} {
		count, total := rapid.IntRange(1, 10).Draw(t, "count"), rapid.Int64Range(0, 1200).Draw(t, "total")
		if parent.Attachments.RefusalReason(file, count, total) != "" && child.Attachments.RefusalReason(file, count, total) == "" {
			t.Fatalf("attaches %s, %d, %d\n%s", file, count, total, text)
		}
	}
	for _, set := range append(lawSets, "workers", "x_tool") {
		if child.Tools.Has(set) && !parent.Tools.Has(set) {
			t.Fatalf("tool %s\n%s", set, text)
		}
		mustDecideLess(t, child, parent, policy.Effect{Verb: policy.Use, Target: set}, text)
	}
	for _, name := range append(lawWorkers, "d") {
		if child.Workers.Has(name) && !parent.Workers.Has(name) {
			t.Fatalf("worker %s\n%s", name, text)
		}
		mustDecideLess(t, child, parent, policy.Effect{Verb: policy.Call, Target: name}, text)
	}
	for _, host := range append(lawHosts, "10.0.0.1") {
		mustDecideLess(t, child, parent, policy.Effect{Verb: policy.Connect, Target: host}, text)
	}
	for _, name := range append(lawSecrets, "OTHER") {
		if child.Credentials.Has(name) && !parent.Credentials.Has(name) {
			t.Fatalf("credential %s\n%s", name, text)
		}
	}
	lower := func(what string, got, most int64) {
		if most != 0 && (got == 0 || got > most) {
			t.Fatalf("%s: got %d, the parent has %d\n%s", what, got, most, text)
		}
	}
	lower("workers", child.Limits.Workers, parent.Limits.Workers)
	lower("turns", child.Limits.Turns, parent.Limits.Turns)
	lower("memory", child.Limits.Memory, parent.Limits.Memory)
	if child.Depth > parent.Depth || child.Level < parent.Level {
		t.Fatalf("depth %d of %d, level %v of %v\n%s", child.Depth, parent.Depth, child.Level, parent.Level, text)
	}
	above := len(parent.Shell.Layers)
	if len(child.Shell.Layers) < above {
		t.Fatalf("a layer of rules for commands is lost\n%s", text)
	}
	for i, layer := range parent.Shell.Layers {
		if got := child.Shell.Layers[i]; got.Default != layer.Default || got.NoDefault != layer.NoDefault || got.From != layer.From {
			t.Fatalf("layer %d: got %+v, want %+v\n%s", i, got, layer, text)
		}
	}
}

// mustDecideLess checks that a child may do nothing that its parent may not. A default of
// the parent is no limit.
func mustDecideLess(t *rapid.T, child, parent policy.Grant, e policy.Effect, text string) {
	most := parent.Decide(e)
	if got := child.Decide(e); got.Approval > most.Approval && (most.Why != "" || most.Rule.From != "") {
		t.Fatalf("%v: got %v by %q, the parent has %v by %q%q\n%s", e, got.Approval, got.Rule.From, most.Approval, most.Rule.From, most.Why, text)
	}
}

// TestGrantProblemsInOrder: Grant returns problems in the order of the file, each with a
// hint.
func TestGrantProblemsInOrder(t *testing.T) {
	_, problems := parse(t, "allow_workers: [z]\nsandbox:\n  network: true\n  zones: [{name: x}]\nshell_default: {approval: ask}").Grant(policy.Grant{}, nil, called)
	if len(problems) < 4 || !slices.IsSortedFunc(problems, func(a, b strictyaml.Problem) int { return a.Place.Line - b.Place.Line }) {
		t.Errorf("got %v", problems)
	}
	for _, p := range problems {
		if p.Hint == "" {
			t.Errorf("%v has no hint", p)
		}
	}
}
