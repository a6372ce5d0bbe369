package cli

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/model"
	"github.com/golem-forge/golem/internal/program"
	"github.com/golem-forge/golem/internal/run"
	"github.com/golem-forge/golem/internal/session"
	"github.com/golem-forge/golem/internal/visible"
)

// aSession accepts the id of a session, or no argument for the last used session.
func aSession(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("one session at a time, got %d", len(args))
	}
	return nil
}

// sessionOf returns the session that an argument names, and its program.
func (f *programFlags) sessionOf(args []string) (*program.Program, *session.Session, error) {
	id := ""
	if len(args) > 0 {
		id = args[0]
	}
	p, err := f.open(opening{session: id})
	if err != nil {
		return nil, nil, err
	}
	s, err := p.Sessions().Find(id)
	return p, s, err
}

func newSessionsShow() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show [ID]",
		Short: "Show the messages and calls of a session",
		Long: `Show the messages and calls in the runs of a session: the answers of each worker, its
calls, and their results. golem audit show shows the decisions about the calls.`,
		Example: "  golem sessions show\n  golem sessions show k3xq2a",
		Args:    aSession,
	}
	flags := addProgramFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p, s, err := flags.sessionOf(args)
		if err != nil {
			return err
		}
		if wantsJSON(cmd) {
			list := []run.Entry{}
			err := p.RunHistory(s, func(e run.Entry) error {
				list = append(list, e)
				return nil
			})
			if err != nil {
				return err
			}
			return printJSON(cmd.OutOrStdout(), map[string]any{"session": s.ID, "entries": list})
		}
		shown, calls := 0, make(map[string]string)
		err = p.RunHistory(s, func(e run.Entry) error {
			shown++
			showEntry(cmd, e, calls)
			return nil
		})
		if err == nil && shown == 0 {
			fmt.Fprintf(cmd.OutOrStdout(), "nothing was run in session %s\n", s.ID)
		}
		return err
	}
	return cmd
}

// maxToldInput is how many characters of an input the list of sessions shows.
const maxToldInput = 60

// firstInput returns the first line of the input of the first run of a session. It
// returns "" if there was no run or its record cannot be read, so that a list does not
// fail.
func firstInput(p *program.Program, s *session.Session) (input string) {
	p.RunHistory(s, func(e run.Entry) error {
		for _, m := range e.Messages {
			for _, part := range m.Parts {
				if m.Role == model.User && part.Text != "" {
					input = firstLine(part.Text)
					return errors.New("that is enough")
				}
			}
		}
		return nil
	})
	return input
}

// showEntry prints an entry of a session. calls maps the conversation and id of each
// earlier call to its tool.
func showEntry(cmd *cobra.Command, e run.Entry, calls map[string]string) {
	out := cmd.OutOrStdout()
	indent := strings.Repeat("  ", strings.Count(e.In, "/"))
	line := func(format string, args ...any) {
		fmt.Fprintln(out, indent+visible.Line(cutLine(fmt.Sprintf(format, args...)), math.MaxInt))
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
		line("  the conversation was shortened, or added to")
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
		line("  with the file %s, %s, %d bytes", p.File.Name, p.File.Type, len(p.File.Data))
	}
}

func newSessionsExport() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "export [ID]",
		Short:   "Print the messages and calls of a session, one JSON object a line",
		Long:    "Print the messages, calls and results in the runs of a session, one JSON object a line,\nin the order in which they were recorded.",
		Example: "  golem sessions export k3xq2a > run.jsonl\n  golem sessions export k3xq2a | grep call",
		Args:    aSession,
	}
	flags := addProgramFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p, s, err := flags.sessionOf(args)
		if err != nil {
			return err
		}
		return p.RunHistory(s, func(e run.Entry) error {
			line, err := visible.JSONLine(e)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(line)
			return err
		})
	}
	return cmd
}
