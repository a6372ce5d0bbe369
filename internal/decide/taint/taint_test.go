package taint_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/taint"
	"github.com/golem-forge/golem/internal/decide/tool"
)

func effect(verb policy.Verb, target string, tree bool) policy.Effect {
	return policy.Effect{Verb: verb, Target: target, Tree: tree}
}

func TestRecordSeen(t *testing.T) {
	for _, c := range []struct {
		name string
		sees policy.Effect
		from string
	}{
		{"a file there", effect(policy.Read, "/in/a", false), "/in"},
		{"the mount itself", effect(policy.Read, "/in", false), "/in"},
		{"all below a folder above it", effect(policy.Read, "/", true), "/in"},
		{"a folder above it, and not what is below", effect(policy.Read, "/", false), ""},
		{"a file beside it", effect(policy.Read, "/inbox/a", false), ""},
		{"attached", effect(policy.Attach, "/in/a", false), "/in"},
		{"changed, which tells what was there", effect(policy.Write, "/in/a", false), "/in"},
		{"deleted, which tells it as well", effect(policy.Delete, "/in/a", false), "/in"},
		{"a folder deleted", effect(policy.Delete, "/", true), "/in"},
		{"what is trusted in it", effect(policy.Read, "/in/mine/a", true), ""},
		{"and what is not in that", effect(policy.Read, "/in/mine/web/a", false), "/in/mine/web"},
		{"or may be", effect(policy.Read, "/in/mine", true), "/in/mine/web"},
		{"beside what is trusted in it", effect(policy.Read, "/in/mineral", false), "/in"},
		{"a command, which sees all", effect(policy.Run, "ls", false), "/in"},
		{"written elsewhere", effect(policy.Write, "/out/a", false), ""},
		{"a worker is called", effect(policy.Call, "child", false), ""},
	} {
		e := &taint.Tracker{Untrusted: []string{"/in", "/in/mine/web"}, Trusted: []string{"/", "/in/mine"}}
		e.RecordSeen([]policy.Effect{c.sees})
		if e.Source() != c.from {
			t.Errorf("%s: %q, want %q", c.name, e.Source(), c.from)
		}
	}
}

// TestRules checks what a worker needs approval for, before and after it has read
// untrusted content.
func TestRules(t *testing.T) {
	e := &taint.Tracker{Untrusted: []string{"/in"}, Direct: []string{"/", "/out"}, Overlaid: []string{"/layer"}}
	foreign, reaching := tool.Tool{Name: "x", Program: "custom x"}, tool.Tool{Name: "git_pull", UsesNetwork: true}
	if rules := e.Rules(foreign); rules != nil {
		t.Errorf("rules before anything was read: %v", rules)
	}
	e.MarkTainted("/in")
	all := policy.Approvals{}.With(policy.Rule{Verb: policy.Write, Target: "/", Approval: policy.PreApproved}, policy.Rule{Verb: policy.Delete, Target: "/", Approval: policy.PreApproved},
		policy.Rule{Verb: policy.Connect, Target: "*", Approval: policy.PreApproved}, policy.Rule{Verb: policy.Run, Target: "*", Approval: policy.PreApproved})
	for _, c := range []struct {
		tool   tool.Tool
		effect policy.Effect
		want   policy.Approval
	}{
		{foreign, effect(policy.Write, "/out/a", false), policy.Ask},
		{foreign, effect(policy.Write, "/a", false), policy.Ask},
		{foreign, effect(policy.Delete, "/out/a", false), policy.Ask},
		{foreign, effect(policy.Write, "/layer/a", false), policy.PreApproved},
		{foreign, effect(policy.Connect, "example.com", false), policy.Ask},
		{foreign, effect(policy.Run, "custom x", false), policy.Ask},
		{reaching, effect(policy.Run, "ls", false), policy.PreApproved},
		{reaching, effect(policy.Use, "git_pull", false), policy.Ask},
		{foreign, effect(policy.Use, "git_stage", false), policy.PreApproved},
		{foreign, effect(policy.Read, "/out/a", false), policy.PreApproved},
	} {
		got, rule := all.With(e.Rules(c.tool)...).Of(c.effect)
		if got != c.want || got == policy.Ask && !strings.Contains(rule.From, "/in was read") {
			t.Errorf("%v with %s: %v (%s), want %v", c.effect, c.tool.Name, got, rule.From, c.want)
		}
	}
}

func TestMerge(t *testing.T) {
	told := ""
	e, child := &taint.Tracker{OnTaint: func(from string) { told += from }}, &taint.Tracker{Untrusted: []string{"/in"}}
	child.AddBytes(7)
	child.RecordSeen([]policy.Effect{effect(policy.Read, "/in/a", false), effect(policy.Read, "/in/b", false), effect(policy.Write, "/in/b", false)})
	e.Merge(child)
	e.Merge(child)
	if e.Source() != "/in" || e.Bytes() != 14 || told != "/in" {
		t.Errorf("heard %q, %d bytes, told %q", e.Source(), e.Bytes(), told)
	}
	if names := child.FilesRead(); len(names) != 1 || names[0] != "/in/a" {
		t.Errorf("got files %q, want no file that the worker wrote itself", names)
	}
	var nobody *taint.Tracker
	nobody.Merge(child)
	e.Merge(nobody)
	nobody.MarkTainted("/in")
	if nobody.Source() != "" || nobody.Bytes() != 0 {
		t.Error("a nil taint has recorded something")
	}
}

func TestConcurrentUse(t *testing.T) {
	e := &taint.Tracker{Untrusted: []string{"/in"}}
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for i := range 2000 {
				e.RecordSeen([]policy.Effect{effect(policy.Read, "/a/"+strings.Repeat("x", i%200), false)})
				e.AddBytes(1)
				e.Source()
			}
		})
	}
	all.Wait()
	if e.Bytes() != 32000 || len(e.FilesRead()) != 200 || e.Source() != "" {
		t.Errorf("%d bytes, %d names, from %q", e.Bytes(), len(e.FilesRead()), e.Source())
	}
}
