package tool_test

import (
	"context"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/sandbox"
)

// newLocateTool returns a tool that returns the name it located.
func newLocateTool() tool.Tool {
	t := tool.Tool{Name: "locate", Toolset: "filesystem", Mode: policy.Both, Verbs: []policy.Verb{policy.Read}, Description: "test"}
	return tool.New(t, func(_ context.Context, n tool.Names, a pathArgs) (tool.Plan, error) {
		at, err := n.Locate("read", a.Path, sandbox.ReadOnly, false)
		if err != nil {
			return tool.Plan{}, err
		}
		canonical, err := n.Canonical(a.Path)
		if err != nil {
			return tool.Plan{}, err
		}
		run := func(context.Context, *sandbox.Sandbox) (tool.Result, error) {
			return tool.Result{Text: at + " " + canonical}, nil
		}
		return tool.NewReadPlan(run, policy.Effect{Verb: policy.Read, Target: at}), nil
	})
}

// TestNamesOfCommands checks that a name which a command prints is understood: commands
// see the mount at / as /work. If there is a /work in the sandbox, the name means that
// one.
func TestNamesOfCommands(t *testing.T) {
	memory := func(names ...string) sandbox.Backend {
		objects := map[string]sandbox.Object{}
		for _, name := range names {
			objects[name] = sandbox.Object{Content: "x"}
		}
		return sandbox.NewMemory(objects)
	}
	at := func(target string, b sandbox.Backend) sandbox.Mount {
		return sandbox.Mount{Target: target, Backend: b, Access: sandbox.ReadOnly}
	}
	top, withWork := []sandbox.Mount{at("/", memory("a/b"))}, []sandbox.Mount{at("/", memory("work/a", "a"))}
	tests := []struct {
		mounts     []sandbox.Mount
		name, want string // "" for an error
	}{
		{top, "/work/a/b", "/a/b"},
		{top, "/work", "/"},
		{top, "/work/", "/"},
		{top, "/work//a", "/a"},
		{top, "/a/b", "/a/b"},
		{top, "/work/../a", "/a"},
		{top, "/work/../../a", ""},
		{top, "/workshop", "/workshop"},
		{withWork, "/work/a", "/work/a"},
		{[]sandbox.Mount{at("/", memory("a")), at("/work", memory("b"))}, "/work/a", "/work/a"},
		{[]sandbox.Mount{at("/in", memory("a"))}, "/work/in/a", ""},
	}
	for _, test := range tests {
		files, err := sandbox.New(sandbox.Config{Mounts: test.mounts})
		if err != nil {
			t.Fatal(err)
		}
		g := tool.Gate{Tools: []tool.Tool{newLocateTool()}, Files: files, Journal: &journal{}, Approver: approver(approveAll),
			Grant: policy.Grant{Files: policy.AllFiles(), Tools: policy.All()}}
		r := g.Do(t.Context(), policy.Model, tool.Call{Tool: "locate", Args: []byte(`{"path":"` + test.name + `"}`)})
		want := test.want + " " + test.want
		if test.want == "" && r.OK() || test.want != "" && r.Text != want {
			t.Errorf("%s: got %q %v, want %q", test.name, r.Text, r.Err, test.want)
		}
	}
}

// TestAlwaysAsk checks that a plan with AlwaysAsk needs approval whatever the grant says,
// and that a rule can block it.
func TestAlwaysAsk(t *testing.T) {
	for _, test := range []struct {
		consent policy.Approval
		asks    int
		code    string
	}{{policy.PreApproved, 1, ""}, {policy.Ask, 1, ""}, {policy.Blocked, 0, "blocked"}} {
		about := tool.Tool{Name: "write", Toolset: "filesystem", Mode: policy.Both, Verbs: []policy.Verb{policy.Write}, Description: "test"}
		asks := tool.New(about, func(_ context.Context, _ tool.Names, a pathArgs) (tool.Plan, error) {
			p := tool.NewChangePlan(func(context.Context, *sandbox.Sandbox) (tool.Preparation, error) {
				return tool.NewPreparation(func(_ context.Context, files *sandbox.Sandbox) (tool.Result, error) {
					return tool.Result{}, writeFile(files, a.Path)
				}), nil
			}, policy.Effect{Verb: policy.Write, Target: a.Path})
			p.AlwaysAsk = true
			return p, nil
		})
		files, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Backend: sandbox.NewMemory(nil), Access: sandbox.ReadWrite}}})
		if err != nil {
			t.Fatal(err)
		}
		var asked []tool.Request
		g := tool.Gate{Tools: []tool.Tool{asks}, Files: files, Journal: &journal{},
			Approver: approver(func(r tool.Request) tool.Answer { asked = append(asked, r); return approveAll(r) }),
			Grant: policy.Grant{Files: policy.AllFiles(), Tools: policy.All(),
				Approvals: policy.Approvals{}.With(policy.Rule{Verb: policy.Write, Target: "/", Approval: test.consent})}}
		r := g.Do(t.Context(), policy.Model, tool.Call{Tool: "write", Args: []byte(`{"path":"/a"}`)})
		code := ""
		if r.Err != nil {
			code = string(r.Err.Code)
		}
		if len(asked) != test.asks || code != test.code {
			t.Errorf("%v: asked %d times, %v", test.consent, len(asked), r.Err)
		}
		for _, q := range asked {
			if len(q.ToApprove) != 1 || !strings.HasPrefix(q.ToApprove[0].String(), "write /a") {
				t.Errorf("%v: asked about %v", test.consent, q.ToApprove)
			}
		}
	}
}
