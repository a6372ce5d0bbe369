package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/visible"
	"github.com/golem-forge/golem/sandbox"
)

// fixMachine shows what root can change so that golem confines commands better. It makes
// the changes after the user approves.
func fixMachine(cmd *cobra.Command, yes bool) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	fixes := jail.Fixes(sandbox.Host(self))
	if len(fixes) == 0 {
		fmt.Fprintln(out, "nothing to change: no setting of this machine keeps golem from confining commands; golem doctor lists what holds")
		return nil
	}
	for i, f := range fixes {
		fmt.Fprintf(out, "%d. %s\n", i+1, visible.Text(f.Why))
		fmt.Fprintf(out, "   write %s:\n", f.File)
		for line := range strings.Lines(f.Content) {
			fmt.Fprintf(out, "   | %s\n", visible.Text(strings.TrimSuffix(line, "\n")))
		}
		if f.Param != "" {
			fmt.Fprintf(out, "   set it now: %s to %s\n", f.Param, f.Value)
		}
		if f.Then != "" {
			fmt.Fprintf(out, "   then you type: %s\n", f.Then)
		}
	}
	if os.Geteuid() != 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "golem: only root can change this: sudo golem doctor --fix")
		return exit(exitNoSandbox)
	}
	if !yes && !confirmed(cmd, "confirm", "these changes of this machine", "golem doctor --fix --yes") {
		return exit(exitNoSandbox)
	}
	for _, f := range fixes {
		if err := f.Apply(); err != nil {
			return fmt.Errorf("doctor --fix: %w; golem doctor says what holds now", err)
		}
		fmt.Fprintf(out, "written: %s\n", f.File)
		if f.Then != "" {
			fmt.Fprintf(out, "now type: %s\n", f.Then)
		}
	}
	fmt.Fprintln(out, "golem doctor says what holds now")
	return nil
}
