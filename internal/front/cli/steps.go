package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/files/layers"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/files/steps"
	"github.com/golem-forge/golem/internal/people/visible"
)

func newSteps() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "steps [SESSION]",
		Short: "List the steps of a session",
		Long: `List the steps of a session: what it held after each command that changed files, the first
one first. A step has its number, the age and the name of the command, and the files and lines
that it changed. The last line is what the session holds now, if the last command is no step
yet: golem makes a step before the next command begins. SESSION is the session used last,
if you give none.

A golem run or golem mcp makes one step for all its calls. golem keeps the last 50 steps of a
session. Sessions on copies have no steps.`,
		Example: "  golem steps\n  golem steps fix-login",
		Args:    takesArgs(0, 1, oneSession),
	}
	flags := addProgramFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		w, err := flags.sessionOf(args)
		if err != nil {
			return err
		}
		rows, err := stepRows(w.Dir())
		if err != nil {
			return fmt.Errorf("steps of session %s: %w", w.label(), err)
		}
		if wantsJSON(cmd) {
			return printJSON(cmd.OutOrStdout(), map[string]any{"session": w.ID, "steps": rows})
		}
		if len(rows) == 0 {
			fmt.Fprintf(cmd.OutOrStdout(), "session %s has no steps: no command has changed files in it\n", w.label())
			return nil
		}
		var columns [][]string
		for _, r := range rows {
			columns = append(columns, r.columns())
		}
		printColumns(cmd.OutOrStdout(), columns)
		return nil
	}
	return cmd
}

// A stepRow is a step as golem steps prints it.
type stepRow struct {
	layers.Step
	IsNow   bool `json:"now,omitempty"` // it is what the session holds now, and no step yet
	Files   int  `json:"files"`
	Added   int  `json:"added"`
	Removed int  `json:"removed"`
}

// stepRows returns the steps of the session in a directory and what it holds now.
func stepRows(dir string) ([]stepRow, error) {
	all, err := layers.ReadSteps(dir)
	if err != nil {
		return nil, err
	}
	before, err := steps.MomentOf(dir, new(layers.Step))
	if err != nil {
		return nil, err
	}
	rows := []stepRow{}
	for _, one := range append(all.Line(), layers.Step{}) {
		at := &one
		if one.Number == 0 {
			at, one = nil, all.Begun
		}
		after, err := steps.MomentOf(dir, at)
		if err != nil {
			return nil, err
		}
		list, err := steps.Differences(before, after)
		if err != nil {
			return nil, err
		}
		before = after
		if at == nil && len(list) == 0 {
			continue
		}
		r := stepRow{Step: one, IsNow: at == nil}
		for _, d := range list {
			if d.Kind != overlay.Dir && d.OldKind != overlay.Dir {
				r.Files++
			}
			added, removed := d.Count()
			r.Added, r.Removed = r.Added+added, r.Removed+removed
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// columns returns the step as a line.
func (r stepRow) columns() []string {
	name := strconv.Itoa(r.Number)
	if r.IsNow {
		name = "now"
	}
	when := ""
	if !r.Time.IsZero() {
		when = age(r.Time)
	}
	return []string{name, when, visible.Line(r.Command, maxWhat), visible.Count(r.Files, "file"), fmt.Sprintf("+%d -%d", r.Added, r.Removed)}
}
