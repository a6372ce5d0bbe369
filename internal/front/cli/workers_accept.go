package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/audit"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/program"
	"github.com/golem-forge/golem/internal/session"
	"github.com/golem-forge/golem/internal/visible"
	"github.com/golem-forge/golem/sandbox"
)

func newWorkersAccept() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "accept [NAME]",
		Short: "Add a worker that another worker proposed",
		Long: `Show the workers that were proposed in a session, or one of them. With --yes golem writes
that worker to workers/NAME.worker, exactly as it is shown. It has no effect until you run
golem trust.`,
		Example: "  golem workers accept\n  golem workers accept translate\n  golem workers accept translate --yes",
	}
	flags := addProgramFlags(cmd)
	yes, session := false, ""
	cmd.Flags().BoolVar(&yes, "yes", false, "add it to the program")
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
		fmt.Fprint(newGutter(cmd.OutOrStdout(), w.Name), visible.Text(w.Content))
		if !yes {
			fmt.Fprintf(cmd.ErrOrStderr(), "golem: nothing was changed; golem workers accept %s --yes adds it to the program\n", w.Name)
			return nil
		}
		file, err := acceptProposal(p, s, w, secrets(os.Environ()))
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "golem: wrote %s; run golem trust before it can be called\n", file)
		return nil
	}
	return cmd
}

// acceptProposal writes a proposed worker into the program. It records that in the
// journal first. The worker can be called once the user trusts the program again.
func acceptProposal(p *program.Program, s *session.Session, w session.Proposal, secrets []string) (file string, err error) {
	if p.Worker(w.Name) != nil {
		return "", &sandbox.Error{Op: "accept", Path: w.Name, Code: sandbox.ErrExists, Hint: "the program has such a worker"}
	}
	root, err := os.OpenRoot(string(p.Root()))
	if err != nil {
		return "", visible.FileError("the program", err)
	}
	defer root.Close()
	records, err := p.Storage.OpenRecords()
	if err != nil {
		return "", err
	}
	defer records.Close()
	record := audit.Record{Kind: audit.Answer, Origin: policy.User.String(), Decision: "yes", By: "user", Note: "accepts the worker " + w.Name + " of session " + s.ID}
	if err := records.Write(record, secrets); err != nil {
		return "", err
	}
	if file, err = w.Write(root); err != nil {
		return "", err
	}
	return file, s.RemoveProposal(w)
}
