package tool_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/sandbox"
)

// A waitJournal records how long each record was waited for.
type waitJournal struct{ list []string }

func (w *waitJournal) Write(r audit.Record, wait audit.Wait) error {
	w.list = append(w.list, fmt.Sprintf("%s:%d", r.Kind, wait))
	return nil
}

// TestRecordsAreWaitedFor checks how long the gate waits for the journal: a change
// waits for the disk, a read for nothing, and every outcome and refusal for the file.
func TestRecordsAreWaitedFor(t *testing.T) {
	preApproved := []policy.Rule{{Verb: policy.Write, Target: "/out", Approval: policy.PreApproved}}
	intent := func(w audit.Wait) string { return fmt.Sprintf("intent:%d outcome:%d", w, audit.Written) }
	for _, test := range []struct {
		name, path string
		verbs      []policy.Verb
		want       string
	}{
		{"read", "/out/a.md", read1, intent(audit.Queued)},
		{"write", "/out/a.md", write1, intent(audit.Durable)},
		{"delete", "/out/a.md", []policy.Verb{policy.Delete}, intent(audit.Durable)},
		{"read and write", "/out/a.md", []policy.Verb{policy.Read, policy.Write}, intent(audit.Durable)},
		{"refused", "/in/x.md", write1, fmt.Sprintf("refusal:%d", audit.Written)},
	} {
		j := &waitJournal{}
		do := readFile
		if len(test.verbs) > 1 || test.verbs[0] == policy.Write {
			do = writeFile
		}
		if test.verbs[0] == policy.Delete {
			do = removeFile
		}
		r := newRoom(t, preApproved, newEffectTool("use", policy.Both, test.verbs, do))
		r.Journal = j
		r.call(policy.Model, "use", `{"path": "`+test.path+`"}`)
		if got := strings.Join(j.list, " "); got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
	keeps := newEffectTool("keep", policy.Both, read1, readFile)
	keeps.ChangesState = true
	j := &waitJournal{}
	r := newRoom(t, preApproved, keeps)
	r.Journal = j
	r.call(policy.Model, "keep", `{"path": "/out/a.md"}`)
	if got := strings.Join(j.list, " "); got != intent(audit.Durable) {
		t.Errorf("a tool that keeps something: got %s", got)
	}
	for _, test := range []struct {
		r    audit.Record
		want audit.Wait
	}{
		{audit.Record{Kind: audit.Intent, Effects: []string{"read /a", "write /b"}}, audit.Durable},
		{audit.Record{Kind: audit.Intent, Effects: []string{"read /a"}}, audit.Queued},
		{audit.Record{Kind: audit.Outcome, Effects: []string{"write /b"}}, audit.Written},
		{audit.Record{Kind: audit.Refusal}, audit.Written},
		{audit.Record{Kind: audit.Answer}, audit.Written},
	} {
		if got := test.r.Least(); got != test.want {
			t.Errorf("%+v: got %d, want %d", test.r, got, test.want)
		}
	}
}

// A failingUndo is an undo that fails when it writes or when it syncs. It counts the calls of
// RemoveFailed.
type failingUndo struct {
	write, sync error
	removed     *int
}

func (f failingUndo) Save(string, string, []tool.Change) (func() error, error) {
	return func() error { return f.sync }, f.write
}

func (f failingUndo) RemoveFailed(string) error { *f.removed++; return nil }

// TestUndoIsWaitedFor checks that a call changes nothing unless undo has its old content on
// the disk, and that the journal has the end of such a call.
func TestUndoIsWaitedFor(t *testing.T) {
	write := tool.New(tool.Tool{Name: "write", Toolset: "filesystem", Mode: policy.Both, Verbs: write1, Description: "test"},
		func(_ context.Context, _ tool.Names, a pathArgs) (tool.Plan, error) {
			return tool.NewChangePlan(func(context.Context, *sandbox.Sandbox) (tool.Preparation, error) {
				return tool.NewPreparation(func(_ context.Context, files *sandbox.Sandbox) (tool.Result, error) {
					return tool.Result{}, writeFile(files, a.Path)
				}, tool.Change{Path: a.Path, Op: tool.Update}).WithUndo(), nil
			}, policy.Effect{Verb: policy.Write, Target: a.Path}), nil
		})
	full := errors.New("no space left on device")
	for _, test := range []struct {
		undo failingUndo
		want string
	}{
		{failingUndo{write: full}, "refusal"},
		{failingUndo{sync: full}, "intent outcome"},
	} {
		r := newRoom(t, []policy.Rule{{Verb: policy.Write, Target: "/out", Approval: policy.PreApproved}}, write)
		j := &waitJournal{}
		r.Journal, r.Undo = j, test.undo
		result := r.call(policy.Model, "write", `{"path": "/out/a.md"}`)
		if result.OK() || !strings.Contains(result.Err.Hint, "nothing was done") || !strings.Contains(result.Err.Hint, "no space left") {
			t.Errorf("%+v: got %v", test.undo, result.Err)
		}
		r.unchanged(t)
		kinds := strings.Join(j.list, " ")
		for _, w := range []string{fmt.Sprint(":", audit.Durable), fmt.Sprint(":", audit.Written)} {
			kinds = strings.ReplaceAll(kinds, w, "")
		}
		if kinds != test.want {
			t.Errorf("%+v: the journal has %s, want %s", test.undo, kinds, test.want)
		}
	}
	r := newRoom(t, []policy.Rule{{Verb: policy.Write, Target: "/out", Approval: policy.PreApproved}}, write)
	r.Undo = failingUndo{}
	if result := r.call(policy.Model, "write", `{"path": "/out/a.md"}`); !result.OK() || r.files.Files()["a.md"] != "new" {
		t.Errorf("with a working undo: got %v, %v", result.Err, r.files.Files())
	}
}

// TestUndoOfFailedCall checks that undo removes what it saved for a call that was refused
// because a file changed meanwhile, and only for such a call.
func TestUndoOfFailedCall(t *testing.T) {
	for _, test := range []struct {
		code sandbox.Code
		want int
	}{{"", 0}, {sandbox.ErrConflict, 1}, {sandbox.ErrInternal, 0}} {
		write := tool.New(tool.Tool{Name: "write", Toolset: "filesystem", Mode: policy.Both, Verbs: write1, Description: "test"},
			func(_ context.Context, _ tool.Names, a pathArgs) (tool.Plan, error) {
				return tool.NewChangePlan(func(context.Context, *sandbox.Sandbox) (tool.Preparation, error) {
					return tool.NewPreparation(func(context.Context, *sandbox.Sandbox) (tool.Result, error) {
						if test.code != "" {
							return tool.Result{}, &sandbox.Error{Op: "write", Code: test.code, Hint: "test"}
						}
						return tool.Result{}, nil
					}, tool.Change{Path: a.Path, Op: tool.Update}).WithUndo(), nil
				}, policy.Effect{Verb: policy.Write, Target: a.Path}), nil
			})
		r := newRoom(t, []policy.Rule{{Verb: policy.Write, Target: "/out", Approval: policy.PreApproved}}, write)
		removed := 0
		r.Undo = failingUndo{removed: &removed}
		if result := r.call(policy.Model, "write", `{"path": "/out/a.md"}`); result.OK() != (test.code == "") || removed != test.want {
			t.Errorf("%q: got %v, removed %d, want %d", test.code, result.Err, removed, test.want)
		}
	}
}
