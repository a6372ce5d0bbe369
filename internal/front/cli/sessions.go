package cli

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/program"
	"github.com/golem-forge/golem/internal/session"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/internal/transaction"
	"github.com/golem-forge/golem/internal/visible"
)

func newSessions() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "List, show, export and remove sessions",
		Long: `List the sessions of a program, the last used one first, with the number and size of the
files in each, and the input of its first run. golem keeps a session with changes until
you remove it. golem sessions show ID shows the messages and calls in one.`,
		Example: "  golem sessions\n  golem sessions show k3xq2a\n  golem sessions remove --older 720h",
		Args:    noArgs,
	}
	flags := addProgramFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		p, err := flags.open(opening{})
		if err != nil {
			return err
		}
		list, err := p.Sessions().List()
		if err != nil {
			return err
		}
		documents := []sessionDocument{}
		rows := [][]string{{"session", "begun", "last used", "keeps", "", "", ""}}
		for _, s := range list {
			d, err := aboutSession(p, s)
			if err != nil {
				return err
			}
			d.Input = firstInput(p, s)
			documents = append(documents, d)
			if d.Input != "" {
				rows[0][6] = "input"
			}
			on := ""
			if d.Copy {
				on = "on a copy"
			}
			rows = append(rows, []string{d.ID, minute(d.Begun), minute(d.Used), visible.Count(d.Files, "file"), tool.FormatSize(d.Bytes), on, visible.Line(d.Input, maxToldInput)})
		}
		if wantsJSON(cmd) {
			return printJSON(cmd.OutOrStdout(), map[string]any{"sessions": documents})
		}
		if len(list) == 0 {
			fmt.Fprintln(cmd.OutOrStdout(), "no sessions; the first call that uses a mount with mode: overlay starts one")
			return nil
		}
		printColumns(cmd.OutOrStdout(), rows)
		return nil
	}
	cmd.AddCommand(newSessionsShow(), newSessionsExport(), newSessionsRemove())
	return cmd
}

func minute(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }

// keepsChanges reports whether a session has changes that were not applied, or cannot be
// read.
func keepsChanges(p *program.Program, s *session.Session) bool {
	list, unfit, err := p.Sessions().Changes(s, nil, false)
	about, told := aboutSession(p, s)
	return err != nil || told != nil || len(list) > 0 || unfit != "" || len(about.Others) > 0
}

func newSessionsRemove() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "remove [ID…]",
		Short: "Remove sessions and their changes",
		Long: `Remove sessions. golem skips a session that another golem uses. It also skips sessions
with changes that were not applied, unless you give --yes.

Exit code 0 is all removed, 1 some skipped.`,
		Example: "  golem sessions remove k3xq2a\n  golem sessions remove --older 720h --yes",
	}
	flags := addProgramFlags(cmd)
	var older time.Duration
	yes := false
	cmd.Flags().BoolVar(&yes, "yes", false, "also remove sessions with changes that were not applied")
	cmd.Flags().DurationVar(&older, "older", 0, "sessions that were not used for this long: 720h")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && older <= 0 {
			return usageError("remove which? name a session, or --older 720h; golem sessions lists them")
		}
		p, err := flags.open(opening{})
		if err != nil {
			return err
		}
		var chosen []*session.Session
		for _, id := range args {
			s, err := p.Sessions().Find(id)
			if err != nil {
				return err
			}
			chosen = append(chosen, s)
		}
		if older > 0 {
			list, err := p.Sessions().List()
			if err != nil {
				return err
			}
			for _, s := range list {
				if time.Since(s.LastUsed) > older {
					chosen = append(chosen, s)
				}
			}
		}
		removed, busy, kept := []string{}, []string{}, []string{}
		for _, s := range chosen {
			if !yes && keepsChanges(p, s) {
				kept = append(kept, s.ID)
				continue
			}
			switch err := p.RemoveSession(s, secrets(os.Environ())); {
			case errors.Is(err, transaction.ErrBusy):
				busy = append(busy, s.ID)
			case err != nil:
				return err
			default:
				removed = append(removed, s.ID)
			}
		}
		if wantsJSON(cmd) {
			return printJSON(cmd.OutOrStdout(), map[string]any{"removed": removed, "busy": busy, "kept": kept})
		}
		fmt.Fprintf(cmd.OutOrStdout(), "removed %s\n", visible.Count(len(removed), "session"))
		for _, id := range busy {
			fmt.Fprintf(cmd.OutOrStdout(), "skipped session %s: another golem uses it\n", id)
		}
		for _, id := range kept {
			fmt.Fprintf(cmd.OutOrStdout(), "skipped session %s: it has changes that were not applied; golem diff --session %s shows them, --yes removes them\n", id, id)
		}
		if len(busy)+len(kept) > 0 {
			return exit(exitFailed)
		}
		return nil
	}
	return cmd
}
