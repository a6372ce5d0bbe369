package git

import (
	"context"
	"fmt"
	"strings"

	"github.com/golem-forge/golem/internal/clearance"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/sandbox"
)

// A look is what is shown of a staged commit.
type look struct {
	set    Set
	target Target
	commit *clearance.StagedCommit
	files  []clearance.FileDiff
}

func (s Set) look(ctx context.Context, desk *clearance.Desk, c *clearance.StagedCommit) (*look, error) {
	l := &look{set: s, target: s.of(c), commit: c}
	err := desk.Diff(ctx, c, func(f clearance.FileDiff) error {
		l.files = append(l.files, f)
		return nil
	})
	return l, err
}

// shown returns the changes that who decides is shown.
func (l *look) shown(a pushArgs) ([]tool.Change, error) {
	var list []tool.Change
	for _, f := range l.files {
		list = append(list, tool.Change{Path: l.target.name(f.Path), Op: tool.Op(f.Operation), Diff: f.Text, Base: string(f.Old), Becomes: string(f.New)})
	}
	return list, nil
}

func (l *look) overridden(a pushArgs) string { return "" }

func (s Set) diff() tool.Tool {
	const op = "git_diff"
	return tool.New(about(op, "Show what a staged commit changes, from the very objects that would be pushed, what is risky first."), func(ctx context.Context, _ tool.Names, a commitArgs) (tool.Plan, error) {
		desk, err := s.desk(ctx, op)
		if err != nil {
			return tool.Plan{}, err
		}
		c, err := s.chosen(desk, a.CommitID, "")
		if err != nil {
			return tool.Plan{}, err
		}
		plan := tool.Reading(func(ctx context.Context, _ *sandbox.Sandbox) (tool.Result, error) {
			l, err := s.look(ctx, desk, c)
			if err != nil {
				return tool.Result{}, err
			}
			var b strings.Builder
			fmt.Fprintln(&b, s.line(c))
			for _, f := range l.files {
				fmt.Fprintf(&b, "%s %s (+%d)\n%s", letter(f.Operation), l.target.name(f.Path), f.Added, f.Text)
			}
			return tool.Result{Text: b.String(), Data: map[string]any{"commitId": c.ID, "files": s.files(c)}}, nil
		})
		plan.Args = commitArgs{c.ID}
		return plan, nil
	})
}
