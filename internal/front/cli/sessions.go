package cli

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/storage"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/internal/work/run"
)

func newSessions() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "List, show, export and remove sessions",
		Long: `List the sessions of this directory, the last used one first: the name, the program or
the input that started it, its age, its state, and the size of the files it keeps. The state
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
		rows := [][]string{{"session", "started by", "used", "state", "keeps", "", "", ""}}
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
	return []string{w.label(), what, age(d.Used), state, visible.Count(d.Files, "file"), visible.Amount(d.Bytes), on, d.price()}
}

// price returns what the agents of the session cost, in a word; "" for nothing.
func (d sessionDocument) price() string {
	if d.Cost == nil {
		return ""
	}
	return d.Cost.Price()
}

func minute(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }

// oneSession is the error of a command that takes a session, or none for the last
// used one.
const oneSession = "one session at a time, got %d"

// sessionOf returns the session that an argument names, or the one used last.
func (f *programFlags) sessionOf(args []string) (*workSession, error) {
	all, err := f.sessionsHere()
	if err != nil {
		return nil, err
	}
	id := lastSession
	if len(args) > 0 {
		id = args[0]
	}
	return naming.Find(all, id)
}

func newSessionsShow() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show [SESSION]",
		Short: "Show a session: its state, its messages and calls",
		Long: `Show a session by its name, its id, the beginning of its id, or last: when it was used, its directories
and its state, and the messages, calls and results in its runs. golem diff shows its
changes, and golem audit show the decisions about the calls.`,
		Example: "  golem sessions show last\n  golem sessions show fix-login",
		Args:    takesArgs(0, 1, oneSession),
	}
	flags := addProgramFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		w, err := flags.sessionOf(args)
		if err != nil {
			return err
		}
		p, s := w.program, w.Session
		about, err := w.about()
		if err != nil {
			return err
		}
		if wantsJSON(cmd) {
			list := []run.Entry{}
			err := p.Storage.Runs().Read(s, func(e run.Entry) error {
				list = append(list, e.WithoutFileData())
				return nil
			})
			if err != nil {
				return err
			}
			return printJSON(cmd.OutOrStdout(), map[string]any{"session": s.ID, "about": about, "entries": list})
		}
		w.showHeader(cmd.OutOrStdout(), about)
		shown, calls := 0, make(map[string]string)
		err = p.Storage.Runs().Read(s, func(e run.Entry) error {
			shown++
			showEntry(cmd, e, calls)
			return nil
		})
		if err == nil && shown == 0 {
			fmt.Fprintln(cmd.OutOrStdout(), "no worker was run in it")
		}
		return err
	}
	return cmd
}

// showHeader prints when a session was used, its directories, its state and the next
// command.
func (w *workSession) showHeader(out io.Writer, about sessionDocument) {
	title := "session " + w.label()
	if about.What != "" {
		title += ": " + about.What
	}
	fmt.Fprintln(out, title)
	dirs := visible.Each(w.mounts, func(m mountedDir) string { return visible.Text(m.source) + " at " + visible.Text(m.target) })
	rows := [][]string{
		{"id", w.ID},
		{"started", minute(about.Begun)},
		{"last used", minute(about.Used) + ", " + age(about.Used)},
		{"directories", cmp.Or(strings.Join(dirs, ", "), "none that is still mounted")},
		{"keeps", fmt.Sprintf("%s, %s", visible.Count(about.Files, "file"), visible.Amount(about.Bytes))},
		{"state", about.State + nextFor(w.label(), about.State)},
	}
	if about.Cost != nil {
		rows = append(rows, []string{"models", about.Cost.String()})
	}
	printColumns(out, rows)
}

// nextFor says what to type for a session in a state.
func nextFor(id, state string) string {
	switch storage.SessionState(state) {
	case storage.SessionPaused:
		return ": golem approve, then golem run --resume " + id
	case storage.SessionChanges:
		return ": golem diff --session " + id
	case storage.SessionClean:
		return ": golem sessions rm " + id + " removes it"
	}
	return ""
}

// maxToldInput is how many characters of an input the list of sessions shows.
const maxToldInput = 60

// showEntry prints an entry of a session. calls maps the conversation and id of each
// earlier call to its tool.
func showEntry(cmd *cobra.Command, e run.Entry, calls map[string]string) {
	out := cmd.OutOrStdout()
	indent := strings.Repeat("  ", strings.Count(e.In, "/"))
	line := func(format string, args ...any) {
		newScreen(out).page().Line(out, indent+visible.Line(cutLine(fmt.Sprintf(format, args...)), math.MaxInt))
	}
	switch e.Kind {
	case "begin":
		line("%s  %s begins (%s)", e.Time.Local().Format("2006-01-02 15:04:05"), e.Worker, e.Model)
	case "message":
		for _, m := range e.Messages {
			for _, p := range m.Parts {
				switch {
				case p.Call != nil:
					calls[e.In+" "+p.Call.ID] = p.Call.Tool
					line("  %s calls %s %s", e.Worker, p.Call.Tool, p.Call.Args)
				case p.Result != nil:
					line("    %s: %s", calls[e.In+" "+p.Result.ID], firstLine(p.Result.Text))
				default:
					showPart(line, e.Worker, m.Role, p)
				}
			}
		}
	case "replace":
		line("  %s", cmp.Or(e.Note, "the conversation was shortened, or added to"))
	case "end":
		if e.Outcome != nil {
			line("  %s%s", e.Outcome.End, hintOf(e.Outcome.Why))
		}
	}
}

func showPart(line func(string, ...any), worker string, role model.Role, p model.Part) {
	who := worker
	if role == model.User {
		who = "input"
	}
	switch {
	case p.Text != "":
		line("  %s: %s", who, firstLine(p.Text))
	case p.File != nil:
		f := p.File.WithoutData()
		line("  with the file %s, %s, %d bytes, sha256 %.12s", f.Name, f.Type, f.Size, f.Digest)
	}
}

func newSessionsExport() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "export [SESSION]",
		Short:   "Print the messages and calls of a session, one JSON object per line",
		Long:    "Print the messages, calls and results in the runs of a session, one JSON object per line,\nin the order in which they were recorded.",
		Example: "  golem sessions export fix-login > run.jsonl\n  golem sessions export @last | grep call",
		Args:    takesArgs(0, 1, oneSession),
	}
	flags := addProgramFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		w, err := flags.sessionOf(args)
		if err != nil {
			return err
		}
		return w.program.Storage.Runs().Read(w.Session, func(e run.Entry) error {
			line, err := visible.JSONLine(e.WithoutFileData())
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(line)
			return err
		})
	}
	return cmd
}
