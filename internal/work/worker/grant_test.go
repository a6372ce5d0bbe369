package worker_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/work/worker"
	"github.com/golem-forge/golem/sandbox"
)

// projectOf returns the grant of a project that mounts these directories: "/data ro".
func projectOf(mounts ...string) policy.Grant {
	var limits []sandbox.Limit
	for _, m := range mounts {
		target, mode, _ := strings.Cut(m, " ")
		access, ok := sandbox.ParseAccess(mode)
		if !ok {
			panic(m)
		}
		limits = append(limits, sandbox.Limit{Path: target, Access: access})
	}
	return policy.Grant{Files: policy.AllFiles().With(limits...), Tools: policy.All(), Workers: policy.All(),
		Credentials: policy.All(), Hosts: policy.AllHosts(), Depth: 5, Attachments: policy.Attachments{Unlimited: true}}
}

// locate finds the directories of the tests by name.
func locate(folder string) (string, bool) {
	name, ok := strings.CutPrefix(folder, "./")
	return "/" + name, ok && name != "elsewhere"
}

func accesses(g policy.Grant, names ...string) string {
	var list []string
	for _, name := range names {
		list = append(list, name+" "+g.Files.Access(name).String())
	}
	return strings.Join(list, ", ")
}

func grant(t testing.TB, text string, parent policy.Grant, entry bool) policy.Grant {
	t.Helper()
	g, problems := parse(t, text).Grant(parent, locate, entry)
	if len(problems) > 0 {
		t.Fatalf("Grant: %v\n%s", problems, text)
	}
	return g
}

const called, first = false, true

// TestGrantFiles checks the files that a worker gets, in each spelling.
func TestGrantFiles(t *testing.T) {
	mounts := projectOf("/ rw", "/cache ro")
	zones := projectOf("/data rw", "/workspace rw", "/cache ro")
	for _, c := range []struct {
		name, text string
		parent     policy.Grant
		entry      bool
		want       string
	}{
		{"inherit", "sandbox: inherit", zones, called, "/data rw, /cache ro, /other none"},
		{"empty", "sandbox: {}", zones, called, "/data rw, /cache ro, /other none"},
		{"restrict", "sandbox: {restrict: /src}", mounts, called, "/src rw, /src/app.ts rw, /secrets none, / none, /srcx none"},
		{"restrict, spelled otherwise", "sandbox: {restrict: src/./x/..//}", mounts, called, "/src rw, /secrets none"},
		{"restrict climbs", "sandbox: {restrict: /src/../secrets}", mounts, called, "/src none, /secrets rw"},
		{"restrict, another case", "sandbox: {restrict: /SRC}", mounts, called, "/src none, /SRC rw"},
		{"restrict readonly", "sandbox: {restrict: /src, readonly: true}", mounts, called, "/src ro, /src/a ro, /secrets none"},
		{"restrict / keeps all", "sandbox: {restrict: /}", mounts, called, "/src rw, /cache ro, / rw"},
		{"restrict a ro mount", "sandbox: {restrict: /cache, readonly: false}", mounts, called, "/cache ro, /src none"},
		{"readonly alone", "sandbox: {readonly: true}", mounts, called, "/src ro, /cache ro, / ro"},
		{"restrict above mounts", "sandbox: {restrict: /a}", projectOf("/a/b rw", "/a/c ro", "/d rw"), called, "/a none, /a/b rw, /a/c ro, /d none"},
		{"zones", "sandbox: {zones: [{name: data, mode: ro}, {name: workspace}]}", zones, called, "/data ro, /workspace rw, /cache none"},
		{"zones of a root", "sandbox: {zones: [{name: src}, {name: cache, mode: ro}]}", mounts, called, "/src rw, /cache ro, /other none, / none"},
		{"no zones", "sandbox: {zones: []}", zones, first, "/data none, /workspace none, / none"},
		{"paths", "sandbox: {paths: {p: {root: ./data}, q: {root: ./workspace, mode: rw}}}", zones, called, "/data ro, /workspace rw, /cache none, /p none"},
		{"a path in a mount", "sandbox: {paths: {p: {root: ./data/sub, mode: rw}}}", zones, called, "/data none, /data/sub rw"},
		{"a path in another", "sandbox: {paths: {p: {root: ./data}, q: {root: ./data/sub, mode: rw}}}", zones, called, "/data ro, /data/sub rw"},
		{"nothing", "", zones, called, "/data none, / none"},
		{"nothing, entry", "", zones, first, "/data none, / none"},
		{"nothing but tools without files, entry", "toolsets: [custom, mcp]", zones, first, "/data none, / none"},
		{"file tools, entry", "toolsets: [filesystem]", zones, first, "/data rw, /cache ro, /other none"},
		{"shell, entry", "toolsets: [shell]", zones, first, "/data rw, /cache ro"},
		{"git, entry", "toolsets: [git]", zones, first, "/data rw, /cache ro"},
		{"an alias for the shell, entry", "shell_default: {approval: ask}", zones, first, "/data rw, /cache ro"},
		{"entry that restricts itself", "sandbox: {restrict: /data, readonly: true}\ntoolsets: [shell]", zones, first, "/data ro, /workspace none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := accesses(c.parent, "/", "/data", "/cache", "/src")
			g := grant(t, c.text, c.parent, c.entry)
			var names []string
			for pair := range strings.SplitSeq(c.want, ", ") {
				name, _, _ := strings.Cut(pair, " ")
				names = append(names, name)
			}
			if got := accesses(g, names...); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if after := accesses(c.parent, "/", "/data", "/cache", "/src"); after != before {
				t.Errorf("the parent's grant changed: %s, before %s", after, before)
			}
		})
	}
}

// TestExceeds: a request beyond the parent is an error at its line.
func TestExceeds(t *testing.T) {
	parent := projectOf("/data ro", "/workspace rw")
	parent.Tools = policy.SetOf("filesystem", "workers")
	parent.Workers = policy.SetOf("a", "b")
	parent.Hosts = policy.HostsOf("a.example.com")
	parent.Credentials = policy.SetOf("GH_TOKEN")
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"a mode", "sandbox:\n  zones:\n    - name: data\n      mode: rw",
			[]string{"4:13: zone data: exceeds_parent; asks for rw, the parent has ro; write mode: ro, or give the parent more"}},
		{"the default mode", "sandbox:\n  zones:\n    - name: data",
			[]string{"3:13: zone data: exceeds_parent; asks for rw, the parent has ro"}},
		{"a zone that is not there", "sandbox: {zones: [{name: dta, mode: ro}]}",
			[]string{"1:37: zone dta: exceeds_parent; asks for ro, the parent has none of it; it has /data ro, /workspace rw; did you mean /data?"}},
		{"two zones", "sandbox: {zones: [{name: cache}, {name: workspace}, {name: data}]}",
			[]string{"1:26: zone cache: exceeds_parent", "1:60: zone data: exceeds_parent"}},
		{"restrict elsewhere", "\nsandbox: {restrict: /src}",
			[]string{"2:10: restrict /src: exceeds_parent; asks for it, the parent has /data ro, /workspace rw; name an existing directory"}},
		{"a path's mode", "sandbox: {paths: {p: {root: ./data, mode: rw}}}",
			[]string{"1:43: path p: exceeds_parent; asks for rw, the parent has ro"}},
		{"a path elsewhere", "sandbox: {paths: {p: {root: ./elsewhere}}}",
			[]string{"1:19: path p: exceeds_parent; asks for ro, the parent has none of it; it has /data ro, /workspace rw; the directory must be one of the project's"}},
		{"a path beside the mounts", "sandbox: {paths: {p: {root: ./src}}}",
			[]string{"1:19: path p: exceeds_parent; asks for ro, the parent has none of it"}},
		{"a toolset", "sandbox: {}\ntoolsets:\n  filesystem:\n  shell:",
			[]string{"4:3: tool shell: exceeds_parent; asks for it, the parent has filesystem, workers; give the parent this toolset, or leave it out"}},
		{"a toolset by an alias", "sandbox: {}\nshell_default: {approval: ask}", []string{"2:16: tool shell: exceeds_parent"}},
		{"a worker", "toolsets:\n  workers:\n    allowed_workers: [a, c]",
			[]string{"3:26: worker c: exceeds_parent; asks for it, the parent has a, b; a worker may call only workers that its caller may call"}},
		{"every worker", `allow_workers: ["*"]`, []string{"1:17: worker *: exceeds_parent; asks for every worker, the parent has a, b"}},
		{"the network", "sandbox: {paths: {p: {root: ./data}}, network: true}",
			[]string{"1:48: host *: exceeds_parent; asks for every host, the parent has a.example.com; write network: false"}},
		{"a credential", "sandbox: {}\ntoolsets:\n  - filesystem\n  - git: {credentials: {mode: explicit, env: {GITHUB_TOKEN: , GH_TOKEN: }}}",
			[]string{"4:5: tool git: exceeds_parent", "4:47: credential GITHUB_TOKEN: exceeds_parent; asks for it, the parent has GH_TOKEN; leave it out"}},
		{"all at once", "sandbox: {zones: [{name: data}]}\ntoolsets: [filesystem, shell]\nallow_workers: [c]",
			[]string{"1:26: zone data: exceeds_parent", "2:24: tool shell: exceeds_parent", "3:17: worker c: exceeds_parent"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, problems := parse(t, c.text).Grant(parent, locate, called)
			err := problems.Err()
			for i, p := range problems {
				text := strings.TrimPrefix(p.Error(), "w.worker:")
				if i >= len(c.want) || !strings.HasPrefix(text, c.want[i]) {
					t.Fatalf("got\n%v\nwant\n%s", problems, strings.Join(c.want, "\n"))
				}
				if sandbox.CodeOf(p) != sandbox.ErrExceedsParent {
					t.Errorf("%v: got code %s", p, sandbox.CodeOf(p))
				}
			}
			if len(problems) != len(c.want) || !errors.Is(err, sandbox.ErrExceedsParent) {
				t.Errorf("got %v, want %d problems", err, len(c.want))
			}
			if beyond := g.Within(parent); len(beyond) > 0 {
				t.Errorf("the grant is beyond the parent's: %v", beyond)
			}
		})
	}
}

// TestManyExcesses: Grant refuses a worker with many excessive requests quickly and
// with few problems.
func TestManyExcesses(t *testing.T) {
	var mounts []string
	for i := range 100 {
		mounts = append(mounts, fmt.Sprintf("/m%d rw", i))
	}
	parent := projectOf(mounts...)
	for range 6 { // as in deep calls
		parent = parent.Meet(parent)
	}
	parent.Workers = policy.SetOf(strings.Fields(repeatLines("w%d ", 1000))...)
	w := parse(t, "sandbox: {zones: ["+repeatLines("{name: z%d}, ", 100)+"]}\ntoolsets: {workers: {allowed_workers: ["+repeatLines("x%d, ", 1000)+"]}}")
	start := time.Now()
	_, problems := w.Grant(parent, nil, called)
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	if text := problems.Error(); len(problems) != 100 || len(text) > 100_000 || !strings.HasSuffix(text, "too many problems; fix those above first") {
		t.Errorf("%d problems of %d bytes", len(problems), len(text))
	}
}

func TestExceedsProject(t *testing.T) {
	_, problems := parse(t, "sandbox: {zones: [{name: data}]}").Grant(projectOf("/data ro"), nil, first)
	want := "w.worker:1:26: zone data: exceeds_parent; asks for rw, the project has ro; write mode: ro, or give the project more"
	if got := problems.Error(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if _, problems := parse(t, "sandbox: {paths: {p: {root: ./data}}}").Grant(projectOf("/data ro"), nil, first); len(problems) != 1 {
		t.Errorf("without a function to locate paths: got %v, want a problem", problems)
	}
}

// TestPureFunction: a pure function has no files, no shell and no git. If a called worker
// asks for them, that is an error.
func TestPureFunction(t *testing.T) {
	parent := projectOf("/data rw")
	g := grant(t, "toolsets: [custom]", parent, called)
	if !g.Files.IsEmpty() || g.Tools.Has("filesystem") || g.Tools.Has("shell") || !g.Tools.Has("custom") || !g.Hosts.IsEmpty() || !g.Credentials.IsEmpty() {
		t.Errorf("got %+v", g)
	}
	g, problems := parse(t, "toolsets:\n- filesystem\n- custom\n- shell\n- git").Grant(parent, nil, called)
	var got []string
	for _, p := range problems {
		got = append(got, p.Error())
	}
	hint := "; a worker without sandbox: is a pure function; write sandbox: inherit, or which zones it needs, or leave the toolset out"
	want := []string{"w.worker:2:3: filesystem without a sandbox" + hint, "w.worker:4:3: shell without a sandbox" + hint, "w.worker:5:3: git without a sandbox" + hint}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !g.Files.IsEmpty() || g.Tools.Has("filesystem") || g.Tools.Has("shell") || g.Tools.Has("git") {
		t.Errorf("got %v and files %v", g.Tools.Names(), g.Files.Roots())
	}
}

// TestGrantSets checks the toolsets, workers, hosts and credentials of a grant.
func TestGrantSets(t *testing.T) {
	project := projectOf("/data rw")
	lesser := project
	lesser.Tools = policy.SetOf("workers")
	lesser.Hosts = policy.Hosts{}
	lesser.Credentials = policy.SetOf("GH_TOKEN")
	tools := func(g policy.Grant) string { return strings.Join(g.Tools.Names(), " ") }
	hosts := func(g policy.Grant) string {
		return map[bool]string{true: "on", false: "off"}[g.Hosts.Allows("a.example.com")]
	}
	credentials := func(g policy.Grant) string { return strings.Join(g.Credentials.Names(), " ") }
	for _, c := range []struct {
		text   string
		parent policy.Grant
		of     func(policy.Grant) string
		want   string
	}{
		{"sandbox: {}", project, tools, "filesystem"},
		{"sandbox: {}", lesser, tools, ""}, // all of the parent's, which has no file tools
		{"sandbox: {restrict: /data}", lesser, tools, ""},
		{"sandbox: {}\ntoolsets: []", project, tools, ""},
		{"sandbox: {}\ntoolsets: [shell, custom]", project, tools, "custom shell"},
		{"sandbox: {zones: [{name: data}]}\nallow_workers: [a]", project, tools, "filesystem workers"},

		{"sandbox: {}", project, hosts, "on"},
		{"sandbox: {restrict: /data}", project, hosts, "on"},
		{"sandbox: {network: false}", project, hosts, "off"},
		{"sandbox: {network: true}", project, hosts, "on"},
		{"sandbox: {}", lesser, hosts, "off"},
		{"sandbox: {zones: [{name: data}]}", project, hosts, "off"},
		{"sandbox: {zones: [{name: data}], network: true}", project, hosts, "on"},
		{"sandbox: {paths: {p: {root: ./data}}}", project, hosts, "off"},
		{"toolsets: [mcp]", project, hosts, "off"},

		{"sandbox: {}", project, credentials, ""},
		{"sandbox: {}\ntoolsets: [git]", project, credentials, "*"},
		{"sandbox: {}\ntoolsets: {git: {credentials: {mode: inherit, env: {GH_TOKEN: }}}}", project, credentials, "*"},
		{"sandbox: {}\ntoolsets: {git: {credentials: {mode: explicit}}}", project, credentials, ""},
		{"sandbox: {}\ntoolsets: {git: {credentials: {mode: explicit, env: {GH_TOKEN: , GIT_AUTHOR_NAME: a}}}}", project, credentials, "GH_TOKEN"},
	} {
		if got := c.of(grant(t, c.text, c.parent, called)); got != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
	g, _ := parse(t, "sandbox: {}\ntoolsets: [git]").Grant(lesser, nil, called)
	if got := credentials(g); got != "GH_TOKEN" {
		t.Errorf("inherited credentials: got %q, want the parent's", got)
	}
	// An entry worker without a sandbox has the project's network too.
	if got := hosts(grant(t, "toolsets: [shell]", project, first)); got != "on" {
		t.Errorf("entry without a sandbox: got network %s", got)
	}
}

// TestGrantLowers: for approval levels, commands and numbers the stricter applies,
// without a problem.
func TestGrantLowers(t *testing.T) {
	project := projectOf("/a rw", "/b rw")
	project.Approvals = policy.Approvals{}.With(policy.Rule{Verb: policy.Write, Target: "/a", Approval: policy.Ask, From: "golem-forge.config.yaml:4"})
	project.Limits.Turns = 9
	main := grant(t, "sandbox: {}\nallow_workers: ['*']\ntoolsets:\n  filesystem: {approval: {write: preApproved, delete: ask}}\n  shell: {default: {approval: blocked}}\n"+
		"attachment_policy: {max_attachments: 3}", project, first)
	child := grant(t, "sandbox: {zones: [{name: a, approval: {write: preApproved, delete: preApproved}}, {name: b}], require_os_sandbox: namespaces}\n"+
		"toolsets: [filesystem, shell: {default: {approval: preApproved}}]\nattachment_policy: {max_attachments: 9, max_total_bytes: 5}", main, called)
	decide := func(g policy.Grant, verb policy.Verb, target string) string {
		d := g.Decide(policy.Effect{Verb: verb, Target: target})
		return d.Approval.String() + " " + d.Rule.From
	}
	for _, c := range []struct {
		g      policy.Grant
		verb   policy.Verb
		target string
		want   string
	}{
		{main, policy.Write, "/a/x", "ask golem-forge.config.yaml:4"},
		{main, policy.Write, "/b/x", "preApproved w.worker:4"}, // a default is no limit
		{main, policy.Read, "/b/x", "preApproved "},
		{child, policy.Write, "/a/x", "ask golem-forge.config.yaml:4"},
		{child, policy.Delete, "/a/x", "ask w.worker:4"},
		{child, policy.Write, "/b/x", "preApproved w.worker:4"},
	} {
		if got := decide(c.g, c.verb, c.target); got != c.want {
			t.Errorf("%v %s: got %s, want %s", c.verb, c.target, got, c.want)
		}
	}
	if n := len(child.Shell.Layers); n != 2 || child.Shell.Layers[0].Default != policy.Blocked {
		t.Errorf("shell: got %+v, want the caller's layer and its own", child.Shell.Layers)
	}
	if a := child.Attachments; a.Max != 3 || a.Bytes != 5 {
		t.Errorf("attachments: got %+v, want 3 of 5 bytes", a)
	}
	if child.Limits.Turns != 9 || child.Depth != 5 || main.Level != policy.AnyLevel || child.Level != policy.Namespaces {
		t.Errorf("got turns %d, depth %d, levels %v and %v", child.Limits.Turns, child.Depth, main.Level, child.Level)
	}
	grandchild := grant(t, "sandbox: {zones: [{name: b}], require_os_sandbox: landlock}", child, called)
	if grandchild.Level != policy.Namespaces {
		t.Errorf("level: got %v, want the stronger of its own and its parent's", grandchild.Level)
	}
}

// TestKinds: suffixes and sizes of a worker's paths apply to it and to the workers that
// it calls, in addition to those of the mounts.
func TestKinds(t *testing.T) {
	text := "sandbox: {paths: {p: {root: ./p, mode: rw, suffixes: [.md, .pdf], max_file_bytes: 100}}}"
	for _, mounts := range [][]sandbox.Mount{
		{{Target: "/p"}}, {{Target: "/"}}, {{Target: "/p", Suffixes: []string{".md", ".txt"}, MaxFileBytes: 1000}}, {{Target: "/"}, {Target: "/p/q"}},
	} {
		for i := range mounts {
			mounts[i].Access, mounts[i].Backend = sandbox.ReadWrite, sandbox.NewMemory(nil)
		}
		s, err := sandbox.New(sandbox.Config{Mounts: mounts})
		if err != nil {
			t.Fatal(err)
		}
		g := grant(t, text, projectOf("/ rw"), first)
		child := grant(t, "sandbox: {}", g, called) // its own requests do not lift its caller's limits
		for _, files := range []policy.Files{g.Files, child.Files} {
			r, err := files.Apply(s)
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]sandbox.Code{"/p/a.md": "", "/p/a.txt": sandbox.ErrSuffix, "/p/q/a.exe": sandbox.ErrSuffix} {
				if _, err := r.Write(name, nil); sandbox.CodeOf(err) != want {
					t.Errorf("%v: %s: got %v, want %q", mounts, name, err, want)
				}
			}
			if _, err := r.Write("/p/big.md", make([]byte, 101)); !errors.Is(err, sandbox.ErrTooLarge) {
				t.Errorf("%v: 101 bytes: %v", mounts, err)
			}
		}
	}
	// Without suffixes and sizes the mounts get no extra limits.
	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/p", Access: sandbox.ReadWrite, Backend: sandbox.NewMemory(nil)}}})
	if err != nil {
		t.Fatal(err)
	}
	g := grant(t, "sandbox: {paths: {p: {root: ./p}}}", projectOf("/p rw"), first)
	if r, err := g.Files.Apply(s); err != nil || r.Access("/p/x") != sandbox.ReadOnly {
		t.Errorf("got %v, %v", r, err)
	}
}

// TestDesignDocuments: the worker files in the documents that the system comes from, word for
// word, mean what the documents say.
func TestDesignDocuments(t *testing.T) {
	project := projectOf("/cache rw", "/workspace rw", "/data ro", "/input ro", "/drafts rw", "/final rw", "/portfolio rw", "/pipeline ro")
	rw := projectOf("/data rw", "/workspace rw", "/cache rw")
	load := func(file string) *worker.Worker {
		t.Helper()
		return readWorker(t, "testdata/design/"+file)
	}
	ask := func(file string, parent policy.Grant, entry bool, want string) policy.Grant {
		t.Helper()
		g, problems := load(file).Grant(parent, locate, entry)
		if got := problems.Error(); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", file, got, want)
		}
		return g
	}
	see := func(file string, g policy.Grant, want string) {
		t.Helper()
		var names []string
		for pair := range strings.SplitSeq(want, ", ") {
			name, _, _ := strings.Cut(pair, " ")
			names = append(names, name)
		}
		if got := accesses(g, names...); got != want {
			t.Errorf("%s: got %s, want %s", file, got, want)
		}
	}
	// "Parent has data: ro. Child declares data: rw: error", and "child gets only
	// what it declared".
	for _, file := range []string{"zones-formatter.worker", "analysis-formatter.worker"} {
		if w := load(file); w.Name != "formatter" || w.Description != "Formats data files" || w.Prompt != "" {
			t.Errorf("%s: got %+v", file, w)
		}
		ask(file, project, called, "zone data: exceeds_parent; asks for rw, the parent has ro")
		ask(file, project, first, "zone data: exceeds_parent; asks for rw, the project has ro")
		g := ask(file, rw, called, "")
		see(file, g, "/data rw, /workspace none, /cache none")
		if !g.Tools.Has("filesystem") {
			t.Errorf("%s: got tools %v, want those for files", file, g.Tools.Names())
		}
	}
	// "No prompt for writes", "Prompt before each write", "Prevent all deletes".
	file := "zones-document-processor.worker"
	g := ask(file, project, called, "")
	see(file, g, "/input ro, /drafts rw, /final rw, /workspace none")
	for _, c := range []struct {
		verb   policy.Verb
		target string
		want   policy.Approval
	}{
		{policy.Read, "/input/x", policy.PreApproved}, {policy.Write, "/input/x", policy.Blocked},
		{policy.Write, "/drafts/x", policy.PreApproved}, {policy.Delete, "/drafts/x", policy.PreApproved},
		{policy.Write, "/final/x", policy.Ask}, {policy.Delete, "/final/x", policy.Blocked},
	} {
		if d := g.Decide(policy.Effect{Verb: c.verb, Target: c.target}); d.Approval != c.want {
			t.Errorf("%s: %v %s: got %v, want %v", file, c.verb, c.target, d.Approval, c.want)
		}
	}
	if w := load(file); w.Name != "document_processor" {
		t.Errorf("%s: got the name %s", file, w.Name)
	}
	// "No sandbox declaration = no sandbox access (pure function)".
	for _, file := range []string{"analysis-validator.worker", "analysis-validator-again.worker"} {
		for _, entry := range []bool{called, first} {
			if g := ask(file, rw, entry, ""); !g.Files.IsEmpty() || !g.Tools.IsEmpty() {
				t.Errorf("%s: got files or tools", file)
			}
		}
	}
	// "only needs to read data, writes reports here".
	file = "analysis-report-generator.worker"
	see(file, ask(file, project, called, ""), "/data ro, /workspace rw, /cache none")
	// "Default: use host credentials; override specific env vars".
	w := load("mounts-git.worker")
	if c := w.Git.Credentials; c.Mode != "inherit" || len(c.Env) != 2 || c.Env[0].Name != "GIT_AUTHOR_NAME" || c.Env[0].Value != "Golem Worker" ||
		c.Env[1].Value != "worker@example.com" || w.Git.Inline == nil || w.Git.Inline.Type != "local" || w.Git.Inline.Path != "." {
		t.Errorf("mounts-git.worker: got %+v", w.Git)
	}
	if g := ask("mounts-git.worker", project, first, ""); !g.Tools.Has("git") || !g.Credentials.IsAll() || g.Files.Access("/data") != sandbox.ReadOnly {
		t.Errorf("mounts-git.worker: got %+v", g)
	}
	// llm-do: ro by default, suffixes, sizes, no network.
	file = "llm-do-example.worker"
	g = ask(file, project, first, "")
	see(file, g, "/portfolio rw, /pipeline ro, /data none")
	if k := g.Files.Kinds(); len(k) != 1 || k[0].Path != "/portfolio" || k[0].MaxBytes != 10_000_000 || !slices.Equal(k[0].Suffixes, []string{".md", ".pdf"}) {
		t.Errorf("%s: got kinds %+v", file, k)
	}
	if !g.Hosts.IsEmpty() || g.Level != policy.AnyLevel || !g.Tools.Has("filesystem") {
		t.Errorf("%s: got %+v", file, g)
	}
	see("analysis-paths.worker", ask("analysis-paths.worker", project, called, ""), "/cache rw, /workspace none")
	// "User approves each attachment".
	g = ask("llm-do-tool-rules.worker", project, called, "")
	g.Files = policy.AllFiles()
	if got := g.Decide(policy.Effect{Verb: policy.Attach, Target: "/a"}).Approval; got != policy.Ask {
		t.Errorf("llm-do-tool-rules.worker: attach: got %v, want ask", got)
	}
	if got := g.Decide(policy.Effect{Verb: policy.Read, Target: "/a"}).Approval; got != policy.PreApproved {
		t.Errorf("llm-do-tool-rules.worker: read: got %v, want preApproved", got)
	}
}
