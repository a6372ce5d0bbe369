package policy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/sandbox"
)

func rule(verb policy.Verb, target string, approval policy.Approval) policy.Rule {
	return policy.Rule{Verb: verb, Target: target, Approval: approval, From: "golem-forge.config.yaml:7"}
}

// newOpenGrant returns a grant that leaves all decisions to the rules.
func newOpenGrant(layers ...[]policy.Rule) policy.Grant {
	g := policy.Grant{Files: policy.AllFiles(), Tools: policy.All(), Workers: policy.All(), Depth: 1,
		Hosts: policy.AllHosts(), Credentials: policy.All()}
	for _, layer := range layers {
		g.Approvals = g.Approvals.With(layer...)
	}
	return g
}

func TestZeroGrantAllowsNothing(t *testing.T) {
	for _, e := range effects {
		if d := (policy.Grant{}).Decide(e); d.Approval != policy.Blocked || d.Why == "" {
			t.Errorf("%s: got %s, %q; want blocked and why", e, d.Approval, d.Why)
		}
	}
	// A rule does not allow what the grant does not have.
	rules := policy.Approvals{}
	for _, e := range effects {
		rules = rules.With(rule(e.Verb, e.Target, policy.PreApproved))
	}
	for _, e := range effects {
		if d := (policy.Grant{Approvals: rules}).Decide(e); d.Approval != policy.Blocked {
			t.Errorf("%s preApproved by a rule: got %s, want blocked", e, d.Approval)
		}
	}
	if why := (policy.Attachments{}).RefusalReason("/a.md", 0, 0); why == "" {
		t.Error("zero Attachments let a file through")
	}
	if got := (policy.Grant{}).Decide().Approval; got != policy.PreApproved {
		t.Errorf("no effects: got %s, want preApproved: nothing needs no approval", got)
	}
}

func TestModes(t *testing.T) {
	admitted := map[policy.Mode][]policy.Origin{
		policy.Closed:  nil,
		policy.LLM:     {policy.Model, policy.Peer},
		policy.Manual:  {policy.User},
		policy.Both:    {policy.Model, policy.User, policy.Peer},
		policy.Mode(4): nil, policy.Mode(255): nil,
	}
	for mode, origins := range admitted {
		for origin := range policy.Origin(6) {
			want := false
			for _, o := range origins {
				want = want || o == origin
			}
			if got := mode.Admits(origin); got != want {
				t.Errorf("%s admits %s: got %v, want %v", mode, origin, got, want)
			}
		}
	}
}

func TestDefaults(t *testing.T) {
	for e, want := range map[policy.Effect]policy.Approval{
		{Verb: policy.Read, Target: "/a"}:           policy.PreApproved,
		{Verb: policy.Attach, Target: "/a"}:         policy.PreApproved,
		{Verb: policy.Call, Target: "w"}:            policy.PreApproved,
		{Verb: policy.Use, Target: "t"}:             policy.PreApproved,
		{Verb: policy.Write, Target: "/a"}:          policy.Ask,
		{Verb: policy.Delete, Target: "/a"}:         policy.Ask,
		{Verb: policy.Run, Target: "ls"}:            policy.Ask,
		{Verb: policy.Connect, Target: "a.org"}:     policy.Ask,
		{Verb: policy.Nothing, Target: "/a"}:        policy.Blocked,
		{Verb: policy.Verb(99), Target: "/a"}:       policy.Blocked,
		{Verb: policy.Read, Target: ""}:             policy.Blocked,
		{Verb: policy.Read, Target: "a"}:            policy.Blocked,
		{Verb: policy.Write, Target: "/a/../b"}:     policy.Blocked,
		{Verb: policy.Write, Target: "/a//b"}:       policy.Blocked,
		{Verb: policy.Delete, Target: "/a/"}:        policy.Blocked,
		{Verb: policy.Delete, Target: "/a/."}:       policy.Blocked,
		{Verb: policy.Attach, Target: "/a\x00.pdf"}: policy.Blocked,
	} {
		d := newOpenGrant().Decide(e)
		if d.Approval != want {
			t.Errorf("%q: got %s, want %s", e, d.Approval, want)
		}
		if d.Approval != policy.Blocked && d.Rule.From != "" {
			t.Errorf("%s: a default that was written at %s", e, d.Rule.From)
		}
	}
}

// TestClosestRuleDecides checks the precedence of rules (A21): the closest target
// decides, blocked wins a tie, and the order of the rules does not matter.
func TestClosestRuleDecides(t *testing.T) {
	layer := []policy.Rule{
		rule(policy.Write, "/zone", policy.Ask),
		rule(policy.Write, "/zone/kept", policy.Blocked),
		rule(policy.Write, "/zone/kept/notes.md", policy.PreApproved),
		rule(policy.Write, "/tie", policy.PreApproved),
		rule(policy.Write, "/tie", policy.Blocked),
		rule(policy.Write, "/tie", policy.Ask),
		rule(policy.Write, "*", policy.PreApproved),
		rule(policy.Call, "*", policy.Blocked),
		rule(policy.Call, "w", policy.Ask),
		rule(policy.Connect, "*", policy.Ask),
		rule(policy.Connect, "*.example.com", policy.PreApproved),
		rule(policy.Connect, "e.example.com", policy.Blocked),
	}
	backwards := make([]policy.Rule, len(layer))
	for i, r := range layer {
		backwards[len(layer)-1-i] = r
	}
	for _, test := range []struct {
		verb   policy.Verb
		target string
		want   policy.Approval
		by     string
	}{
		{policy.Write, "/zone/a", policy.Ask, "/zone"},
		{policy.Write, "/zone", policy.Ask, "/zone"},
		{policy.Write, "/zone/kept/a", policy.Blocked, "/zone/kept"},
		{policy.Write, "/zone/kept", policy.Blocked, "/zone/kept"},
		{policy.Write, "/zone/keptless", policy.Ask, "/zone"},
		{policy.Write, "/zone/kept/notes.md", policy.PreApproved, "/zone/kept/notes.md"},
		{policy.Write, "/zoned", policy.PreApproved, "/"},
		{policy.Write, "/tie/a", policy.Blocked, "/tie"},
		{policy.Write, "/", policy.PreApproved, "/"},
		{policy.Read, "/zone/kept/a", policy.PreApproved, ""},
		{policy.Call, "v", policy.Blocked, "*"},
		{policy.Call, "w", policy.Ask, "w"},
		{policy.Connect, "other.org", policy.Ask, "*"},
		{policy.Connect, "example.com", policy.Ask, "*"},
		{policy.Connect, "A.Example.com.", policy.PreApproved, "*.example.com"},
		{policy.Connect, "E.EXAMPLE.COM", policy.Blocked, "e.example.com"},
	} {
		for _, g := range []policy.Grant{newOpenGrant(layer), newOpenGrant(backwards)} {
			d := g.Decide(policy.Effect{Verb: test.verb, Target: test.target})
			if d.Approval != test.want || d.Rule.Target != test.by {
				t.Errorf("%s %s: got %s by %q, want %s by %q", test.verb, test.target, d.Approval, d.Rule.Target, test.want, test.by)
			}
		}
	}
}

// TestLayersOnlyTighten checks that the strictest layer decides, and that a layer without
// a rule does not count.
func TestLayersOnlyTighten(t *testing.T) {
	write := policy.Effect{Verb: policy.Write, Target: "/out/a"}
	at := func(approval policy.Approval) []policy.Rule { return []policy.Rule{rule(policy.Write, "/", approval)} }
	out := func(approval policy.Approval) []policy.Rule {
		return []policy.Rule{rule(policy.Write, "/out", approval)}
	}
	elsewhere := []policy.Rule{rule(policy.Write, "/in", policy.Blocked), rule(policy.Delete, "/", policy.Blocked)}
	for name, test := range map[string]struct {
		layers [][]policy.Rule
		want   policy.Approval
	}{
		"nobody wrote anything":                      {nil, policy.Ask},
		"the worker's preApproved holds":             {[][]policy.Rule{at(policy.PreApproved)}, policy.PreApproved},
		"though others wrote of other things":        {[][]policy.Rule{elsewhere, at(policy.PreApproved)}, policy.PreApproved},
		"parent ask, child preApproved: ask":         {[][]policy.Rule{at(policy.Ask), at(policy.PreApproved)}, policy.Ask},
		"parent preApproved, child ask: ask":         {[][]policy.Rule{at(policy.PreApproved), at(policy.Ask)}, policy.Ask},
		"the child's closer path does not lift it":   {[][]policy.Rule{at(policy.Ask), out(policy.PreApproved)}, policy.Ask},
		"a closer path of the parent's own does":     {[][]policy.Rule{append(at(policy.Ask), out(policy.PreApproved)...)}, policy.PreApproved},
		"blocked above all":                          {[][]policy.Rule{at(policy.Blocked), out(policy.PreApproved), at(policy.Ask)}, policy.Blocked},
		"blocked below all":                          {[][]policy.Rule{at(policy.PreApproved), out(policy.PreApproved), at(policy.Blocked)}, policy.Blocked},
		"preApproved by all":                         {[][]policy.Rule{at(policy.PreApproved), out(policy.PreApproved)}, policy.PreApproved},
		"an empty layer has no say":                  {[][]policy.Rule{{}, at(policy.PreApproved), nil}, policy.PreApproved},
		"a preApproved default is no ceiling either": {[][]policy.Rule{at(policy.Ask)}, policy.Ask},
	} {
		if got := newOpenGrant(test.layers...).Decide(write); got.Approval != test.want {
			t.Errorf("%s: got %s by %+v, want %s", name, got.Approval, got.Rule, test.want)
		}
		var met policy.Grant
		for i, layer := range test.layers {
			if g := newOpenGrant(layer); i == 0 {
				met = g
			} else {
				met = g.Meet(met)
			}
		}
		if len(test.layers) > 0 && met.Decide(write).Approval != test.want {
			t.Errorf("%s, by meets: got %s, want %s", name, met.Decide(write).Approval, test.want)
		}
	}
}

// TestVerbsWithFurtherRules checks that attaching needs the approval for reading, and
// deleting a directory that for deleting its content.
func TestVerbsWithFurtherRules(t *testing.T) {
	for name, test := range map[string]struct {
		rules  []policy.Rule
		effect policy.Effect
		want   policy.Approval
	}{
		"attach what may not be read": {
			[]policy.Rule{rule(policy.Read, "/secret", policy.Blocked)},
			policy.Effect{Verb: policy.Attach, Target: "/secret/a.pdf"}, policy.Blocked},
		"attach what is asked for when read": {
			[]policy.Rule{rule(policy.Read, "/", policy.Ask), rule(policy.Attach, "/", policy.PreApproved)},
			policy.Effect{Verb: policy.Attach, Target: "/a.pdf"}, policy.Ask},
		"a closer rule to attach does not lift one to read": {
			[]policy.Rule{rule(policy.Read, "/", policy.Blocked), rule(policy.Attach, "/a.pdf", policy.PreApproved)},
			policy.Effect{Verb: policy.Attach, Target: "/a.pdf"}, policy.Blocked},
		"read what may not be attached": {
			[]policy.Rule{rule(policy.Attach, "/", policy.Blocked)},
			policy.Effect{Verb: policy.Read, Target: "/a.pdf"}, policy.PreApproved},
		"delete a folder that holds what is blocked": {
			[]policy.Rule{rule(policy.Delete, "/", policy.PreApproved), rule(policy.Delete, "/a/kept", policy.Blocked)},
			policy.Effect{Verb: policy.Delete, Target: "/a"}, policy.Blocked},
		"delete its neighbour": {
			[]policy.Rule{rule(policy.Delete, "/", policy.PreApproved), rule(policy.Delete, "/a/kept", policy.Blocked)},
			policy.Effect{Verb: policy.Delete, Target: "/a/keptless"}, policy.PreApproved},
		"a rule below does not lift": {
			[]policy.Rule{rule(policy.Delete, "/a/tmp", policy.PreApproved)},
			policy.Effect{Verb: policy.Delete, Target: "/a"}, policy.Ask},
		"write a folder that holds what is blocked": { // creating a directory changes nothing in it
			[]policy.Rule{rule(policy.Write, "/a/kept", policy.Blocked)},
			policy.Effect{Verb: policy.Write, Target: "/a"}, policy.Ask},
	} {
		if got := newOpenGrant(test.rules).Decide(test.effect); got.Approval != test.want {
			t.Errorf("%s: got %s by %+v, want %s", name, got.Approval, got.Rule, test.want)
		}
	}
}

// TestEveryRuleBinds checks that a rule with a target in another form still holds, and
// that an invalid rule blocks.
func TestEveryRuleBinds(t *testing.T) {
	write := policy.Effect{Verb: policy.Write, Target: "/final/a"}
	for _, target := range []string{"/final", "/final/", "//final", "final", "/x/../final", "/final/.", "/", "*", "", "..", "/../final", "/final\x00"} {
		g := newOpenGrant([]policy.Rule{rule(policy.Write, target, policy.Blocked)})
		if got := g.Decide(write); got.Approval != policy.Blocked || got.Rule.From == "" {
			t.Errorf("write blocked at %q: got %s by %+v", target, got.Approval, got.Rule)
		}
	}
	for _, target := range []string{"", "..", "/../final", "/final\x00"} {
		g := newOpenGrant([]policy.Rule{rule(policy.Write, target, policy.PreApproved)})
		if got := g.Decide(write); got.Approval != policy.Blocked {
			t.Errorf("write preApproved at %q, which is no name: got %s", target, got.Approval)
		}
	}
	for _, approval := range []policy.Approval{policy.Unset, 9, 255} {
		g := newOpenGrant([]policy.Rule{rule(policy.Write, "/", policy.PreApproved), rule(policy.Write, "/final", approval)})
		if got := g.Decide(write); got.Approval != policy.Blocked {
			t.Errorf("approval %d: got %s", approval, got.Approval)
		}
	}
	for _, r := range []policy.Rule{
		rule(policy.Call, "/", policy.Blocked), rule(policy.Call, "*", policy.Blocked), rule(policy.Call, "", policy.PreApproved),
		rule(policy.Connect, "/", policy.Blocked), rule(policy.Connect, "Evil.ORG.", policy.Blocked), rule(policy.Connect, "evil.org/x", policy.PreApproved),
		rule(policy.Run, "", policy.Ask), rule(policy.Use, "/", policy.Blocked),
	} {
		target := "w"
		if r.Verb == policy.Connect {
			target = "evil.org"
		}
		if got := newOpenGrant([]policy.Rule{r}).Decide(policy.Effect{Verb: r.Verb, Target: target}); got.Approval != policy.Blocked {
			t.Errorf("%s at %q: got %s", r.Verb, r.Target, got.Approval)
		}
	}
}

// TestGrantsDoNotChange checks that a grant does not change when the values it was made
// from do.
func TestGrantsDoNotChange(t *testing.T) {
	rules := []policy.Rule{rule(policy.Write, "/", policy.Blocked)}
	limits := []sandbox.Limit{{Path: "/a", Access: sandbox.ReadOnly}}
	hosts, tools := []string{"a.org"}, []string{"t"}
	g := policy.Grant{Files: policy.AllFiles().With(limits...), Approvals: policy.Approvals{}.With(rules...),
		Hosts: policy.HostsOf(hosts...), Tools: policy.SetOf(tools...)}
	before := meaningOf(g)
	rules[0], limits[0] = rule(policy.Write, "/", policy.PreApproved), sandbox.Limit{Path: "/", Access: sandbox.ReadWrite}
	hosts[0], tools[0] = "example.com", "u"
	g.Hosts.Patterns()[0], g.Tools.Names()[0] = "example.com", "u"
	g.Approvals.Rules()[0].Approval = policy.PreApproved
	mustMean(t, "unchanged", g, before)
}

// TestSiblingsAreSeparate checks that two children of one parent do not share layers,
// however many the parent has: a grown slice may have spare capacity.
func TestSiblingsAreSeparate(t *testing.T) {
	read := policy.Effect{Verb: policy.Read, Target: "/a"}
	var approvals policy.Approvals
	files, shell := policy.AllFiles(), policy.Shell{}
	for range 9 {
		approvals = approvals.With(rule(policy.Write, "/", policy.Ask))
		files = files.With(sandbox.Limit{Path: "/", Access: sandbox.ReadWrite})
		shell = shell.With(policy.ShellLayer{Default: policy.PreApproved})

		one, two := approvals.With(rule(policy.Read, "/", policy.Blocked)), approvals.With(rule(policy.Read, "/", policy.PreApproved))
		if a, b := first(one.Of(read)), first(two.Of(read)); a != policy.Blocked || b != policy.PreApproved {
			t.Errorf("approval: got %s and %s, want blocked and preApproved", a, b)
		}
		closed, open := files.With(), files.With(sandbox.Limit{Path: "/", Access: sandbox.ReadWrite})
		if !closed.IsEmpty() || open.IsEmpty() {
			t.Errorf("files: got %v and %v, want none and all", closed.Roots(), open.Roots())
		}
		never, always := shell.With(policy.ShellLayer{}), shell.With(policy.ShellLayer{Default: policy.PreApproved})
		if a, b := shellOf(never, "t"), shellOf(always, "t"); a != policy.Blocked || b != policy.PreApproved {
			t.Errorf("shell: got %s and %s, want blocked and preApproved", a, b)
		}
	}
}

func first(c policy.Approval, _ policy.Rule) policy.Approval { return c }

func TestDecisionSaysWhy(t *testing.T) {
	g := policy.Grant{Files: policy.AllFiles().With(sandbox.Limit{Path: "/in", Access: sandbox.ReadOnly}),
		Tools: policy.SetOf("read_file"), Workers: policy.SetOf("w")}
	for e, want := range map[policy.Effect]string{
		{Verb: policy.Read, Target: "/out"}:        "not among its files",
		{Verb: policy.Attach, Target: "/out"}:      "not among its files",
		{Verb: policy.Write, Target: "/in/a"}:      "not among the files it may change",
		{Verb: policy.Delete, Target: "/in/a"}:     "not among the files it may change",
		{Verb: policy.Connect, Target: "a.org"}:    "not among its hosts",
		{Verb: policy.Use, Target: "shell"}:        "not among its tools",
		{Verb: policy.Call, Target: "v"}:           "not among the workers it may call",
		{Verb: policy.Call, Target: "w"}:           "no deeper call is left",
		{Verb: policy.Read, Target: "/in/../out"}:  "not a name of a file",
		{Verb: policy.Nothing, Target: "/in"}:      "no such effect",
		{Verb: policy.Read, Target: "/in/a"}:       "",
		{Verb: policy.Use, Target: "read_file"}:    "",
		{Verb: policy.Run, Target: "cat /in/a.md"}: "",
	} {
		d := g.Decide(policy.Effect{Verb: policy.Use, Target: "read_file"}, e)
		if d.Why != want {
			t.Errorf("%s: got %q, want %q", e, d.Why, want)
		}
		if want != "" && (d.Approval != policy.Blocked || d.Effect != e) {
			t.Errorf("%s: got %+v, want it blocked by that effect", e, d)
		}
	}
}

// TestExcess checks that a child that declares more than its parent has gets an error for
// each excess (R01, R02).
func TestExcess(t *testing.T) {
	parent := policy.Grant{
		Files:   policy.AllFiles().With(sandbox.Limit{Path: "/data", Access: sandbox.ReadOnly}),
		Tools:   policy.SetOf("read_file", "list_files"),
		Hosts:   policy.HostsOf("*.example.com"),
		Workers: policy.SetOf("a\x1b[2J"),
	}
	child := policy.Grant{
		Files: policy.AllFiles().With(
			sandbox.Limit{Path: "/data", Access: sandbox.ReadWrite},
			sandbox.Limit{Path: "/other\x1b[2J", Access: sandbox.ReadOnly}),
		Tools:       policy.SetOf("read_file", "list_files", "shell"),
		Hosts:       policy.AllHosts(),
		Workers:     policy.All(),
		Credentials: policy.SetOf("TOKEN"),
	}
	want := []string{
		`file /data: exceeds_parent; asks for rw, the parent has ro`,
		`file "/other\x1b[2J": exceeds_parent; asks for ro, the parent has none`,
		`tool shell: exceeds_parent; asks for it, the parent has list_files, read_file`,
		`worker *: exceeds_parent; asks for every worker, the parent has "a\x1b[2J"`,
		`host *: exceeds_parent; asks for every host, the parent has *.example.com`,
		`credential TOKEN: exceeds_parent; asks for it, the parent has none`,
	}
	var got []string
	for _, e := range child.Within(parent) {
		got = append(got, e.Error())
		if !errors.Is(e, sandbox.ErrExceedsParent) {
			t.Errorf("%v is not ErrExceedsParent", e)
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if excess := parent.Within(child); len(excess) > 0 {
		t.Errorf("parent.Within(child): got %v, want none", excess)
	}
}

func TestWords(t *testing.T) {
	for _, c := range []policy.Approval{policy.Blocked, policy.Ask, policy.PreApproved} {
		if got, ok := policy.ParseApproval(c.String()); !ok || got != c {
			t.Errorf("%s: got %s, %v", c, got, ok)
		}
	}
	for _, text := range []string{"", "unset", "Ask", "preapproved", "pre_approved", "allow", "invalid"} {
		if got, ok := policy.ParseApproval(text); ok || got != policy.Blocked {
			t.Errorf("%q: got %s, %v; want blocked, false", text, got, ok)
		}
	}
	if got := (policy.Effect{Verb: policy.Write, Target: "/out/a.md"}).String(); got != "write /out/a.md" {
		t.Errorf("got %q", got)
	}
	if policy.Verb(99).String() != "invalid" || policy.Mode(99).String() != "invalid" || policy.Origin(99).String() != "invalid" {
		t.Error("an unknown value has a word")
	}
}

// newSession returns a grant and effects as in a real session.
func newSession() (policy.Grant, []policy.Effect) {
	project := newOpenGrant([]policy.Rule{rule(policy.Write, "/out", policy.PreApproved), rule(policy.Delete, "/out", policy.Blocked)})
	worker := newOpenGrant([]policy.Rule{rule(policy.Write, "/out/kept", policy.Ask), rule(policy.Connect, "*.example.com", policy.Ask)})
	worker.Files = worker.Files.With(sandbox.Limit{Path: "/out", Access: sandbox.ReadWrite}, sandbox.Limit{Path: "/", Access: sandbox.ReadOnly})
	worker.Tools = policy.SetOf("read_file", "write_file")
	worker.Hosts = policy.HostsOf("*.a-rather-long-name-of-a-host.example.com", "*.example.com")
	return worker.Meet(project), []policy.Effect{
		{Verb: policy.Read, Target: "/in/a-rather-long-name/of-a-file.md"},
		{Verb: policy.Write, Target: "/out/kept/a.md"},
		{Verb: policy.Write, Target: "/in/a.md"},
		{Verb: policy.Delete, Target: "/out"},
		{Verb: policy.Attach, Target: "/in/a.pdf"},
		{Verb: policy.Use, Target: "write_file"},
		{Verb: policy.Call, Target: "w"},
		{Verb: policy.Run, Target: "ls"},
		{Verb: policy.Connect, Target: "deep.below.a-rather-long-name-of-a-host.example.com"},
	}
}

func TestDecideAllocatesNothing(t *testing.T) {
	g, list := newSession()
	for _, e := range list {
		if n := testing.AllocsPerRun(100, func() { g.Decide(e) }); n != 0 {
			t.Errorf("%s: %v allocations", e, n)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	g, list := newSession()
	for _, e := range list[:4] {
		b.Run(e.Verb.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				g.Decide(e)
			}
		})
	}
}
