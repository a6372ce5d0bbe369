package tool_test

import (
	"context"
	"slices"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/sandbox"
)

// TestUnknownChangesAreOmitted checks that a plain approval is not enough if the
// changes are worked out only after the approval, or if warnings are omitted.
func TestUnknownChangesAreOmitted(t *testing.T) {
	t.Parallel()
	about := tool.Tool{Name: "pull", Toolset: "filesystem", Mode: policy.Both, Verbs: []policy.Verb{policy.Write}, UsesNetwork: true, Description: "test"}
	pull := func(reaches bool, more int) tool.Tool {
		return tool.New(about, func(_ context.Context, _ tool.Names, a pathArgs) (tool.Plan, error) {
			plan := tool.NewChangePlan(func(context.Context, *sandbox.Sandbox) (tool.Preparation, error) {
				ready := tool.NewPreparation(func(context.Context, *sandbox.Sandbox) (tool.Result, error) { return tool.Result{}, nil },
					tool.Change{Path: a.Path, Op: tool.Update, Diff: "-old\n+new\n"})
				ready.Warnings, ready.MoreWarnings = []string{"and more"}, more
				return ready, nil
			}, policy.Effect{Verb: policy.Write, Target: a.Path})
			plan.NetworkToPrepare = reaches
			return plan, nil
		})
	}
	for _, row := range []struct {
		reaches bool
		more    int
		want    []string
	}{{true, 0, []string{tool.ItemProblem}}, {false, 3, []string{tool.ItemMore}}, {false, 0, nil}} {
		r := newRoom(t, []policy.Rule{{Verb: policy.Use, Target: "pull", Approval: policy.Ask}}, pull(row.reaches, row.more))
		var asked []tool.Request
		r.Approver = approver(func(q tool.Request) tool.Answer { asked = append(asked, q); return tool.Answer{} })
		r.call(policy.Model, "pull", `{"path": "/out/a.md"}`)
		if len(asked) != 1 {
			t.Fatalf("%+v: asked %d times", row, len(asked))
		}
		q := asked[0]
		if !slices.Equal(q.Omitted(), row.want) {
			t.Errorf("%+v: omits %q", row, q.Omitted())
		}
		for _, item := range row.want {
			if !slices.Contains(q.Items(), item) {
				t.Errorf("%+v: has the items %q", row, q.Items())
			}
		}
		if (q.Problem != "") != row.reaches || (len(q.Changes) == 0) != row.reaches {
			t.Errorf("%+v: %+v", row, q)
		}
	}
}
