package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/instruction"
	"github.com/golem-forge/golem/internal/work/program"
)

// askInstructions returns the files of instructions, such as AGENTS.md. At a terminal it shows
// those that the user does not trust, and asks whether to follow them. Otherwise it says
// that golem does not follow them. A worker that reads an untrusted one is tainted.
func (f *runFlags) askInstructions(cmd *cobra.Command, p *program.Program, note func(string)) (follow []instruction.Instruction, untrusted []string, err error) {
	list, err := p.Instructions().List()
	if err != nil {
		return nil, nil, err
	}
	mode := approval.Mode(cmp.Or(f.approval, os.Getenv("GOLEM_APPROVAL"), string(approval.Interactive)))
	var terminal *os.File
	if !wantsJSON(cmd) && f.trust == "" && mode == approval.Interactive {
		terminal = findTerminal(f.takesStdin(p))
	}
	if terminal != nil && terminal != os.Stdin {
		defer terminal.Close()
	}
	if !wantsJSON(cmd) {
		note = func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), "golem: "+text) }
	}
	errs := cmd.ErrOrStderr()
	for i, one := range list {
		name := visible.Text(one.Name)
		switch {
		case one.Same || one.Trusted:
		case one.Problem != "":
			note(name + " is not followed: " + one.Problem)
		case terminal == nil:
			note(name + " is not trusted, its text is not followed; golem trust " + visible.CommandLine(f.typedInstruction(one)))
		default:
			request, err := one.TrustQuestion()
			if err != nil {
				return nil, nil, err
			}
			d := decision{cmd: cmd, program: p, terminal: terminal, out: errs}
			if list[i].Trusted, _, err = d.decide(request, one.Trust); err != nil {
				return nil, nil, err
			}
			if !list[i].Trusted {
				fmt.Fprintln(errs, "golem: "+name+" is not followed in this run")
			}
		}
	}
	follow, untrusted, _ = instruction.Followed(list)
	return follow, untrusted, nil
}

// typedInstruction returns the path of a file of instructions as the user types it here.
func (f *programFlags) typedInstruction(one instruction.Instruction) string {
	return filepath.ToSlash(filepath.Join(f.dir, one.Name))
}

// trustInstruction shows a file of instructions and asks whether workers may follow it.
func (f *programFlags) trustInstruction(cmd *cobra.Command, file string, yes, printHash bool) error {
	p, err := f.open(opening{otherwise: defaultWorker})
	if err != nil {
		return err
	}
	names := p.Instructions().Names()
	if base := filepath.Base(file); !slices.Contains(names, base) {
		return usagef("trust takes a file of instructions for workers (AGENTS.md, CLAUDE.md), got %s; a directory is named with -C: golem trust -C %s", visible.Text(file), visible.CommandLine(file))
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(f.dir, file)
	}
	one, err := p.Instructions().Find(file)
	switch {
	case err != nil:
		return err
	case one.Problem != "":
		return usagef("%s cannot be trusted: %s", visible.Text(one.Name), one.Problem)
	case printHash:
		fmt.Fprintln(cmd.OutOrStdout(), one.Hash())
		return nil
	}
	if err := checkUnseen("trust", p, yes); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if one.Trusted && !wantsJSON(cmd) {
		printLine(out, "", "trusted: "+one.Name)
		return nil
	}
	if !one.Trusted && (yes || !wantsJSON(cmd)) {
		request, err := one.TrustQuestion()
		if err != nil {
			return err
		}
		d := decision{cmd: cmd, program: p, out: out, yes: yes}
		if !wantsJSON(cmd) {
			if d.terminal = findTerminal(false); yes || d.terminal == nil {
				showRequest(out, request)
			}
		}
		if one.Trusted, err = d.confirmed(request, "trusted", "golem trust --yes "+visible.CommandLine(file)+", or pass --trust HASH in a script", one.Trust); err != nil {
			return err
		}
		if one.Trusted && !wantsJSON(cmd) {
			fmt.Fprintln(out, "trusted as it is now: workers follow it")
		}
	}
	if wantsJSON(cmd) {
		err = printJSON(out, map[string]any{"file": visible.Text(one.Name), "hash": one.Hash(), "trusted": one.Trusted})
	}
	return cmp.Or(err, exitIf(!one.Trusted, exitDenied))
}
