package cli

import (
	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/forge"
	"github.com/golem-forge/golem/internal/tool"
)

func newUndo() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "undo",
		Short: "Take back what the last command has changed, or what was applied last",
		Long: `Take back what the last command of a worker has changed in the folders that it may
write, or what apply_changes has brought in last: files and folders are again what
they were, byte for byte, and a session has what was applied of it again. Nothing is
done where any of it has changed since. It asks first, and is journaled.

Exit code 0 is done, 1 nothing to take back or changed since, 3 no.`,
		Example: "  golem undo\n  golem undo --approval approve_all",
		Args:    cobra.NoArgs,
	}
	flags := addVisitFlags(cmd)
	flags.undoes = true
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return flags.call(cmd, tool.Call{Tool: "undo", Args: []byte("{}")})
	}
	return cmd
}

// call makes a call, and prints what came of it.
func (f *visitFlags) call(cmd *cobra.Command, c tool.Call) error {
	r, err := f.do(cmd, c, false)
	if err != nil && r.OK() {
		return err
	}
	if printed := printResult(cmd, r); printed != nil {
		return printed
	}
	return err
}

// undoable loads the program whose last changes are undone. That may be folders without a
// program, whose session is gone.
func (f *visitFlags) undoable() (*forge.Program, error) {
	p, missing := f.programOf(f.sessionID())
	o, err := f.options()
	if err != nil {
		return nil, err
	}
	last, err := forge.Undoable(o, p)
	switch {
	case err != nil:
		return nil, err
	case last == nil:
		return nil, missing
	}
	return last, nil
}
