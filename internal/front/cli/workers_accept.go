package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

func newWorkersAccept() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "accept [NAME]",
		Short: "Add a worker that another worker proposed",
		Long: `Show the workers that were proposed in a session, or one of them. golem asks whether to add
that worker, and writes it to workers/NAME.worker, exactly as it is shown. It has no effect
until you run golem trust. Without a terminal golem only shows it, except with --yes.`,
		Example: "  golem workers accept\n  golem workers accept translate\n  golem workers accept translate --yes",
	}
	flags := addProgramFlags(cmd)
	yes, session := false, ""
	cmd.Flags().BoolVar(&yes, "yes", false, "add it to the program without asking")
	cmd.Flags().StringVar(&session, "session", "", "the session; the last used one if not given")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 || len(args) == 0 && yes {
			return usageError("accept which? golem workers accept NAME --yes")
		}
		p, err := flags.open(opening{})
		if err != nil {
			return err
		}
		s, err := p.Storage.Sessions.Find(session)
		if err != nil {
			return err
		}
		if len(args) == 0 {
			list, err := s.Proposals()
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), map[string]any{"session": s.ID, "proposed": list})
			}
			for _, w := range list {
				fmt.Fprintln(cmd.OutOrStdout(), w.Name)
			}
			if len(list) == 0 {
				fmt.Fprintf(cmd.OutOrStdout(), "no worker was proposed in session %s\n", s.ID)
			}
			return nil
		}
		w, err := s.Proposal(args[0])
		if err != nil {
			return err
		}
		file, err := acceptWorker(cmd, p, s, w, yes)
		if err != nil || file == "" {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "golem: wrote %s; run golem trust before it can be called\n", file)
		return nil
	}
	return cmd
}

// acceptWorker shows a proposed worker, and adds it to the program if the user approves. The
// file is "" if golem did not add it because there is no terminal.
func acceptWorker(cmd *cobra.Command, p *program.Program, s *session.Session, w session.Proposal, yes bool) (file string, err error) {
	if err := checkUnseen("workers accept", p, yes); err != nil {
		return "", err
	}
	d := decision{cmd: cmd, program: p, terminal: findTerminal(false), out: cmd.OutOrStdout(), yes: yes}
	if yes || d.terminal == nil { // otherwise the question shows it
		fmt.Fprint(newGutter(cmd.OutOrStdout(), w.Name), visible.Text(w.Content))
	}
	if !yes && d.terminal == nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "golem: nothing was changed; golem workers accept %s --yes adds it to the program\n", w.Name)
		return "", nil
	}
	request, err := tool.NewCommandRequest("workers accept", "add the worker "+w.Name+" to the program", nil, strings.Split(strings.TrimSuffix(w.Content, "\n"), "\n"), nil, map[string]string{"session": s.ID, "worker": w.Name})
	if err != nil {
		return "", err
	}
	ok, err := d.confirmed(request, "added", "", func() error {
		file, err = acceptProposal(p, s, w)
		return err
	})
	if err == nil && !ok {
		return "", exit(exitDenied)
	}
	return file, err
}

// acceptProposal writes a proposed worker into the program. The worker can be called once
// the user trusts the program again.
func acceptProposal(p *program.Program, s *session.Session, w session.Proposal) (file string, err error) {
	if p.Worker(w.Name) != nil {
		return "", &sandbox.Error{Op: "accept", Path: w.Name, Code: sandbox.ErrExists, Hint: "the program has such a worker"}
	}
	root, err := os.OpenRoot(string(p.Root()))
	if err != nil {
		return "", visible.FileError("the program", err)
	}
	defer root.Close()
	if file, err = w.Write(root); err != nil {
		return "", err
	}
	return file, s.RemoveProposal(w)
}
