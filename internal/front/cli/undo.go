package cli

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/program"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/sandbox"
)

func newUndo() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "undo",
		Short: "Undo the last change in your directories",
		Long: `Undo the last change in your directories: of a worker's command, of golem apply, or of a
file tool in a directory with mode: rw. golem restores the files. Changes that came from
a session go back into it. If any of the files has changed since, golem undoes nothing.
golem shows a diff and asks first, and records the undo in the journal.

golem can undo the last 50 calls of file tools, one with each golem undo, if they need at
most 64 MiB in all and 16 MiB for one file. It can undo only the last command or apply.

With --forget golem forgets the last change without undoing it, so that you can undo the
one before.

Exit code 0 is done, 1 nothing to undo or changed since, 3 declined.`,
		Example: "  golem undo\n  golem undo --yes\n  golem undo --forget",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("undo takes no path, got %s: it undoes the last change as a whole; golem undo shows the change and asks", sandbox.Shown(args[0]))
			}
			return nil
		},
	}
	flags := addGateFlags(cmd)
	flags.undoes = true
	forget := false
	yes := false
	cmd.Flags().BoolVar(&yes, "yes", false, "undo without showing the change and without asking")
	cmd.Flags().BoolVar(&forget, "forget", false, "forget the last change without undoing it")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if yes {
			flags.approval = "approve_all"
		}
		args, err := encodeArgs(map[string]any{"forget": forget})
		if err != nil {
			return err
		}
		return flags.call(cmd, tool.Call{Tool: "undo", Args: args})
	}
	return cmd
}

// call makes a call, and prints the result.
func (f *gateFlags) call(cmd *cobra.Command, c tool.Call) error {
	r, err := f.do(cmd, c, false)
	if err != nil && r.OK() {
		return err
	}
	if printed := printResult(cmd, r); printed != nil {
		return printed
	}
	return err
}

// undoable loads the program whose last change is undone. That may be directories without
// a program whose session is gone. Then golem searches upwards from the current directory
// for the nearest one in which golem exec applied changes.
func (f *gateFlags) undoable() (*program.Program, error) {
	p, missing := f.open(opening{session: f.sessionID()})
	o, err := f.options()
	if err != nil {
		return nil, err
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, err
	}
	for ; ; o.Dir = filepath.Dir(o.Dir) {
		last, err := program.LoadForUndo(o, nil)
		if last != nil && err == nil {
			return program.LoadForUndo(o, p)
		}
		if o.Dir == filepath.Dir(o.Dir) {
			break
		}
	}
	if p == nil {
		return nil, missing
	}
	return p, nil
}
