package cli

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/storage"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/run"
)

// oneSession is the error of a command that takes the id of a session, or none for the last
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
	return findSession(all, id)
}

func newSessionsShow() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show [ID]",
		Short: "Show a session: its state, its messages and calls",
		Long: `Show a session by its id, the beginning of one, or last: when it was used, its directories
and its state, and the messages, calls and results in its runs. golem diff shows its
changes, and golem audit show the decisions about the calls.`,
		Example: "  golem sessions show last\n  golem sessions show k3xq2a",
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
	title := "session " + w.ID
	if about.What != "" {
		title += ": " + about.What
	}
	fmt.Fprintln(out, title)
	dirs := visible.Each(w.mounts, func(m mountedDir) string { return visible.Text(m.source) + " at " + visible.Text(m.target) })
	rows := [][]string{
		{"started", minute(about.Begun)},
		{"last used", minute(about.Used) + ", " + age(about.Used)},
		{"directories", cmp.Or(strings.Join(dirs, ", "), "none that is still mounted")},
		{"keeps", fmt.Sprintf("%s, %s", visible.Count(about.Files, "file"), tool.FormatSize(about.Bytes))},
		{"state", about.State + nextFor(w.ID, about.State)},
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
		Use:     "export [ID]",
		Short:   "Print the messages and calls of a session, one JSON object per line",
		Long:    "Print the messages, calls and results in the runs of a session, one JSON object per line,\nin the order in which they were recorded.",
		Example: "  golem sessions export k3xq2a > run.jsonl\n  golem sessions export k3xq2a | grep call",
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
