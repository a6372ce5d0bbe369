package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
)

func newSessions() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "List, show, export and remove sessions",
		Long: `List the sessions of this directory, the last used one first: the id, the program or the
input that started it, its age, its state, and the size of the files it keeps. The state
is running (golem uses it now), paused (its run waits for an approval), changes (it has
changes that were not applied) or clean. golem exec removes its session at the end if it
holds nothing. golem keeps all others until you remove them. It lists the newest 20.`,
		Example: "  golem sessions\n  golem sessions show last\n  golem sessions prune --older 30d",
		Args:    noArgs,
	}
	flags := addProgramFlags(cmd)
	last := 0
	addLastSessions(cmd, &last)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list, err := flags.sessionsHere()
		if err != nil {
			return err
		}
		older := 0
		if most := len(list); last > 0 && most > last && (!wantsJSON(cmd) || cmd.Flags().Changed("last")) {
			older, list = most-last, list[:last]
		}
		documents := []sessionDocument{}
		rows := [][]string{{"session", "started by", "used", "state", "keeps", "", ""}}
		for _, w := range list {
			d, err := w.about()
			if err != nil {
				return err
			}
			documents = append(documents, d)
			rows = append(rows, w.listRow(d))
		}
		if wantsJSON(cmd) {
			return printJSON(cmd.OutOrStdout(), map[string]any{"sessions": documents})
		}
		if len(list) == 0 {
			fmt.Fprintln(cmd.OutOrStdout(), "no sessions here; golem exec CMD starts one")
			for _, line := range flags.hintBelow("golem sessions") {
				fmt.Fprintln(cmd.OutOrStdout(), line)
			}
			return nil
		}
		printColumns(cmd.OutOrStdout(), rows)
		if older > 0 {
			fmt.Fprintf(cmd.OutOrStdout(), "not listed: %s; golem sessions --last 0 lists all, golem sessions prune removes old ones\n", visible.Count(older, "older session"))
		}
		return nil
	}
	cmd.AddCommand(newSessionsShow(), newSessionsExport(), newSessionsRemove(), newSessionsPrune())
	return cmd
}

// addLastSessions adds the flag for the length of a list of sessions.
func addLastSessions(cmd *cobra.Command, last *int) {
	cmd.Flags().IntVar(last, "last", maxListed, "how many sessions to list, the last used first; 0 for all; --json lists all unless you give it")
}

// maxListed is how many sessions a list or an error names.
const maxListed = 20

// about describes a session with its state.
func (w *workSession) about() (sessionDocument, error) {
	d, err := aboutSession(w.program, w.Session)
	if err != nil {
		return d, err
	}
	d.What, d.Input = w.what(), w.program.Storage.Runs().FirstInput(w.Session)
	d.State = string(w.program.Storage.StateOf(w.Session))
	if h, ok := w.of().Holder(); ok {
		d.Running = &h
	}
	return d, nil
}

// listRow returns a session as a line of golem sessions.
func (w *workSession) listRow(d sessionDocument) []string {
	on := ""
	if d.Copy {
		on = "on a copy"
	}
	what := d.What
	if w.Command == "" {
		what = visible.Line(d.Input, maxToldInput)
	}
	state := d.State
	if d.Running != nil {
		state += ": " + describeHolder(*d.Running)
	}
	return []string{d.ID, what, age(d.Used), state, visible.Count(d.Files, "file"), tool.FormatSize(d.Bytes), on}
}

func minute(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }
