package gate_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/gate"
	"github.com/golem-forge/golem/sandbox"
)

// planned returns a tool without arguments that has a plan.
func planned(p gate.Plan) []gate.Tool {
	return []gate.Tool{gate.New(gate.Tool{Name: "own"}, func(context.Context, struct{}) (gate.Plan, error) { return p, nil })}
}

// changes returns new contents as a plan has them.
func changes(contents map[string][]byte) func(context.Context, *sandbox.Sandbox) (map[string][]byte, error) {
	return func(context.Context, *sandbox.Sandbox) (map[string][]byte, error) { return contents, nil }
}

// TestHostileTool checks that a tool cannot change anything that the approver has not seen.
func TestHostileTool(t *testing.T) {
	writes := []gate.Effect{{Verb: gate.Write, Target: "/out/a"}}
	shown := map[string][]byte{"/out/a": []byte("shown\n")}
	run := func(do func(*sandbox.Sandbox) error) func(context.Context, *sandbox.Sandbox) (gate.Result, error) {
		return func(_ context.Context, files *sandbox.Sandbox) (gate.Result, error) { return gate.Result{}, do(files) }
	}
	for name, test := range map[string]struct {
		plan gate.Plan
		want string // the content of /out/a afterwards; /out/b is never there
	}{
		"writes something else": {gate.Plan{Effects: writes, Changes: changes(shown), Run: run(func(f *sandbox.Sandbox) error {
			_, err := f.Write("/out/a", []byte("other"))
			return err
		})}, "shown\n"},
		"deletes what it may write": {gate.Plan{Effects: append(writes, gate.Effect{Verb: gate.Delete, Target: "/out/a"}), Changes: changes(shown), Run: run(func(f *sandbox.Sandbox) error {
			return errors.Join(f.Delete("/out/a"), f.Move("/out/a", "/out/b"))
		})}, "shown\n"},
		"makes a file below its directory": {gate.Plan{Effects: []gate.Effect{{Verb: gate.Write, Target: "/out"}}, Changes: changes(shown), Run: run(func(f *sandbox.Sandbox) error {
			_, err := f.WriteNew("/out/b", nil)
			return err
		})}, "shown\n"},
		"changes another file":       {gate.Plan{Effects: writes, Changes: changes(map[string][]byte{"/out/b": []byte("other")})}, "old\n"},
		"deletes without the effect": {gate.Plan{Effects: writes, Changes: changes(map[string][]byte{"/out/a": nil})}, "old\n"},
		"writes with delete":         {gate.Plan{Effects: []gate.Effect{{Verb: gate.Delete, Target: "/out/a"}}, Changes: changes(shown)}, "old\n"},
		"two names of one file":      {gate.Plan{Effects: []gate.Effect{{Verb: gate.Write, Target: "/out"}}, Changes: changes(map[string][]byte{"/out/a": []byte("1"), "out/./a": []byte("2")})}, "old\n"},
		"no effects, but changes":    {gate.Plan{Changes: changes(shown)}, "old\n"},
		"effects, but no changes":    {gate.Plan{Effects: writes, Run: run(func(f *sandbox.Sandbox) error { return nil })}, "old\n"},
		"reads, and changes":         {gate.Plan{Effects: []gate.Effect{{Verb: gate.Read, Target: "/out/a"}}, Changes: changes(shown)}, "old\n"},
		"panics after its changes":   {gate.Plan{Effects: writes, Changes: changes(shown), Run: run(func(*sandbox.Sandbox) error { panic("broken") })}, "shown\n"},
	} {
		text := ""
		g, dir := newGate(t, approver(func(r gate.Request) gate.Decision {
			for _, item := range r.Items() {
				text += item.Text
			}
			copy(shown["/out/a"], "OTHER\n") // too late
			return look(r)
		}))
		copy(shown["/out/a"], "shown\n")
		if err := os.WriteFile(filepath.Join(dir, "a"), []byte("old\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		g.Tools = planned(test.plan)
		r := g.Do(context.Background(), gate.Model, gate.Call{Tool: "own"})
		_, there := os.Stat(filepath.Join(dir, "b"))
		if got := content(dir, "a"); got != test.want || there == nil || r.Err == nil || got == "old\n" && text != "" {
			t.Errorf("%s: got %q, with %+v; the approver saw %q", name, got, r, text)
		}
		if changed := test.want == "shown\n"; changed != (len(r.Changes) == 1) || changed && (!strings.Contains(text, "- old\n+ shown") || !strings.Contains(r.Text, "golem wrote /out/a")) {
			t.Errorf("%s: got the changes %v and %q; shown was:\n%s", name, r.Changes, r.Text, text)
		}
	}
}

// TestOwnChanges checks that the gate makes the changes of a plan: all of them, or none if a file
// has changed since then.
func TestOwnChanges(t *testing.T) {
	plan := gate.Plan{
		Effects: []gate.Effect{{Verb: gate.Write, Target: "/out"}, {Verb: gate.Delete, Target: "/out/old"}},
		Changes: changes(map[string][]byte{"/out/a": []byte("a\n"), "/out/new/b": {}, "/out/old": nil}),
	}
	for _, test := range []struct {
		name      string
		meanwhile func(dir string) error // while the approver looks
		want      sandbox.Code
	}{
		{"nothing happens", func(string) error { return nil }, ""},
		{"a file to change has changed", func(dir string) error { return os.WriteFile(filepath.Join(dir, "a"), []byte("mine"), 0o600) }, sandbox.ErrConflict},
		{"a file to delete has changed", func(dir string) error { return os.WriteFile(filepath.Join(dir, "old"), []byte("mine"), 0o600) }, sandbox.ErrConflict},
		{"a file to make is there", func(dir string) error { return os.MkdirAll(filepath.Join(dir, "new", "b"), 0o700) }, sandbox.ErrIsDir},
	} {
		var dir string
		var g gate.Gate
		g, dir = newGate(t, approver(func(r gate.Request) gate.Decision {
			if err := test.meanwhile(dir); err != nil {
				t.Error(err)
			}
			return look(r)
		}))
		for _, name := range []string{"a", "old"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("before\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		g.Tools = planned(plan)
		r := g.Do(context.Background(), gate.Model, gate.Call{Tool: "own"})
		_, gone := os.Stat(filepath.Join(dir, "old"))
		made, _ := os.ReadDir(filepath.Join(dir, "new"))
		if code(r) != test.want {
			t.Errorf("%s: got %+v", test.name, r)
		}
		if all := test.want == ""; all && (content(dir, "a") != "a\n" || gone == nil || len(made) != 1 || len(r.Changes) != 3) || !all && (content(dir, "a") == "a\n" || gone != nil) {
			t.Errorf("%s: a has %q, old: %v, %d new files, %+v", test.name, content(dir, "a"), gone, len(made), r)
		}
	}
	g, dir := newGate(t, approver(look))
	if err := os.Symlink("real", filepath.Join(dir, "old")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "real"), []byte("text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	plan.Effects[1].Target = "/out"
	g.Tools = planned(plan)
	if r := g.Do(context.Background(), gate.Model, gate.Call{Tool: "own"}); r.Err == nil || content(dir, "real") != "text\n" || content(dir, "a") != "" {
		t.Errorf("a symlink to delete: got %+v", r)
	}
}

// TestNil calls everything with nothing: nil, zero values, and what was closed.
func TestNil(t *testing.T) {
	var none context.Context
	g, dir := newGate(t, nil)
	for name, a := range map[string]gate.Approver{"nil": nil, "a nil function": gate.ApproverFunc(nil), "a nil pointer": (*nilApprover)(nil)} {
		g.Approver = a
		r := g.Do(none, gate.Model, gate.Call{Tool: "write_file", Args: []byte(`{"path": "/out/a", "content": "x"}`)})
		if code(r) != gate.ErrDeclined || content(dir, "a") != "" {
			t.Errorf("%s as approver: got %+v", name, r)
		}
	}
	for _, call := range []string{"", "null", "{}", "[]", "{", "\x00", `{"path": "/out"}`, `{"pattern": "x"}`, `{"path": null}`} {
		for _, tool := range append(g.Offer(gate.Model), gate.Tool{}) {
			g.Do(none, gate.Model, gate.Call{Tool: tool.Name, Args: []byte(call)})
		}
	}
	var j *gate.FileJournal
	closed, err := gate.OpenJournal(t.TempDir(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := closed.Verify(none); err != nil {
		t.Error(err)
	}
	if err := errors.Join(closed.Close(), closed.Close()); err != nil {
		t.Error(err)
	}
	for name, j := range map[string]*gate.FileJournal{"nil": j, "zero": new(gate.FileJournal), "closed": closed} {
		_, bad := j.Verify(none)
		for _, err := range []error{j.Begin(gate.Record{}), j.Begin(gate.Record{Request: "x"}), j.End(gate.Record{}), bad} {
			if err == nil {
				t.Errorf("a journal that is %s works", name)
			}
		}
		g.Journal = j
		if r := g.Do(none, gate.Model, gate.Call{Tool: "list_files"}); r.Err == nil {
			t.Errorf("a gate with a journal that is %s works", name)
		}
	}
	for _, v := range []*gate.View{nil, {}} {
		_, seen := v.Seen()
		if n, err := v.WriteTo(nil); n != 0 || err == nil || seen == nil || v.Page(0) != "" || v.Pages() != 0 || v.String() != "0 of 0 pages" {
			t.Errorf("got %v, %v, %v", v, err, seen)
		}
	}
	var r gate.Request
	v := r.Render(80, 24)
	v.Page(0)
	if _, err := v.Seen(); err == nil {
		t.Error("nothing was approved")
	}
	if _, err := r.Acknowledge("", r.ID()); err == nil || len(r.Changes())+len(r.Effects())+len(r.Risks()) > 0 {
		t.Errorf("got %+v", r)
	}
	for name, tool := range map[string]gate.Tool{"no function": gate.New[struct{}](gate.Tool{}, nil), "an edit without a function": planned(gate.Edit("/out/a", nil))[0],
		"the zero plan": planned(gate.Plan{})[0], "arguments without a schema": gate.New(gate.Tool{}, func(context.Context, chan int) (p gate.Plan, err error) { return })} {
		g, _ := newGate(t, approver(look))
		tool.Name = "own"
		g.Tools = []gate.Tool{tool}
		tool.Schema()
		if r := g.Do(none, gate.Model, gate.Call{Tool: "own"}); r.Err == nil {
			t.Errorf("%s: got %+v", name, r)
		}
	}
	if r := (gate.Gate{}).Resume(none, gate.Pending{}, gate.Decision{}); r.Err == nil {
		t.Errorf("got %+v", r)
	}
}

// nilApprover panics if it is nil.
type nilApprover struct{ approver gate.Approver }

func (n *nilApprover) Approve(ctx context.Context, r gate.Request) gate.Decision {
	return n.approver.Approve(ctx, r)
}
