package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// fixMachine shows what root can change so that golem confines commands better. It makes
// the changes after the user approves.
func (f *programFlags) fixMachine(cmd *cobra.Command, yes bool) error {
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
	asks, err := fixQuestion(fixes)
	if err != nil {
		return err
	}
	d := decision{cmd: cmd, out: out, terminal: findTerminal(false), yes: yes}
	if os.Geteuid() != 0 || d.terminal == nil || yes { // otherwise the question shows it
		showRequest(out, asks)
	}
	if os.Geteuid() != 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "golem: only root can change this: sudo golem doctor --fix")
		return exit(exitNoSandbox)
	}
	if d.program, err = f.open(opening{strict: true, otherwise: sessionState}); err != nil {
		return err // the journal of this directory records the decision
	}
	if err := checkUnseen("doctor --fix", d.program, yes); err != nil {
		return err
	}
	ok, err := d.confirmed(asks, "changed", "golem doctor --fix --yes", func() error {
		for _, f := range fixes {
			if err := f.Apply(); err != nil {
				return fmt.Errorf("doctor --fix: %w; golem doctor says what holds now", err)
			}
			fmt.Fprintf(out, "written: %s\n", f.File)
			if f.Then != "" {
				fmt.Fprintf(out, "now type: %s\n", f.Then)
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case !ok:
		return exit(exitNoSandbox)
	}
	fmt.Fprintln(out, "golem doctor says what holds now")
	return nil
}

// fixQuestion returns the request to change this machine.
func fixQuestion(fixes []jail.Fix) (tool.Request, error) {
	var details []string
	var changes []tool.Change
	for _, f := range fixes {
		details = append(details, f.Why)
		if f.Param != "" {
			details = append(details, "set it now: "+f.Param+" to "+f.Value)
		}
		if f.Then != "" {
			details = append(details, "then you type: "+f.Then)
		}
		base := sandbox.Version{}
		old, err := os.ReadFile(f.File)
		if err == nil {
			base = base.With(old)
		}
		changes = append(changes, tool.DescribeChange(f.File, base, old, []byte(f.Content)))
	}
	return tool.NewCommandRequest("doctor --fix", "change the settings of this machine", nil, details, changes, nil)
}
