package cli

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/work/choice"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/run"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

func newComments() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "comments [SESSION]",
		Short: "List the comments on the changes of a session, and add some",
		Long: `List the comments that people wrote about the changes of a session, in golem desk or with
golem comments add. golem keeps them beside the session, where its commands cannot read them.

Each comment says whether the lines changed since it was written: not changed, moved, or
changed. So you see which comments the next version of the agent answers.

golem run --resume SESSION sends the comments that the agent did not get yet, as the next
message. So does golem run -c or --session SESSION, with your input.`,
		Example: "  golem comments\n  golem comments add app.go:12-14 \"keep the old limit\"\n  golem comments remove k3x7qa",
		Args:    takesArgs(0, 1, oneSession),
	}
	flags := addProgramFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		w, err := flags.sessionOf(args)
		if err != nil {
			return err
		}
		return printComments(cmd, w)
	}
	cmd.AddCommand(newCommentsAdd(), newCommentsSend(), newCommentsRemove())
	return cmd
}

// A commentDocument is a comment, with what became of its lines.
type commentDocument struct {
	choice.Comment
	Standing choice.Standing `json:"standing"`
	LineNow  int             `json:"line_now,omitempty"`
}

// printComments prints the comments on a session.
func printComments(cmd *cobra.Command, w *workSession) error {
	notes, err := choice.ReadNotes(w.Session)
	if err != nil {
		return err
	}
	files, err := choice.ReadCommented(w.program.Storage.Sessions, w.Session, notes.Comments)
	if err != nil {
		return err
	}
	list := []commentDocument{}
	for _, c := range notes.Comments {
		standing, line := c.Stand(files[c.Path])
		list = append(list, commentDocument{c, standing, line})
	}
	if wantsJSON(cmd) {
		return printJSON(cmd.OutOrStdout(), map[string]any{"session": w.ID, "comments": list})
	}
	if len(list) == 0 {
		fmt.Fprintf(cmd.OutOrStdout(), "session %s has no comments; golem comments add PATH:LINE TEXT adds one\n", w.label())
		return nil
	}
	b := newPageBuffer(cmd.OutOrStdout())
	page := b.screen.page()
	page.Line(b, fmt.Sprintf("session %s: %s, %d not sent", w.describe(), visible.Count(len(list), "comment"), len(notes.Unsent())))
	for _, c := range list {
		now := c.Standing.String()
		if c.Standing == choice.Moved {
			now = fmt.Sprintf("moved to line %d, not changed since", c.LineNow)
		}
		sent := ""
		if !c.Sent.IsZero() {
			sent = ", sent " + age(c.Sent)
		}
		page.Line(b, fmt.Sprintf("%s  %s: %s", c.ID, c.Place(w.shown), now))
		for _, line := range c.Lines {
			page.Row(b, visible.Row{Mark: visible.Content, Text: visible.Text(line)})
		}
		for line := range strings.Lines(c.Text) {
			page.Row(b, visible.Row{Mark: commentMark, Text: visible.Prose(strings.TrimSuffix(line, "\n"))})
		}
		page.Row(b, visible.Row{Mark: visible.Detail, Text: audit.FrontText(c.By) + ", " + age(c.Written) + sent})
	}
	return b.flush()
}

// commentMark begins the lines of a comment, which no line of a file begins with.
const commentMark = "»"

func newCommentsAdd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add [PATH[:LINE[-LAST]]] TEXT…",
		Short: "Comment on a line, a file, or all changes",
		Long: `Comment on lines of a changed file, on the file, or without PATH on all changes of the
session. The lines are those of the version in the session, and with --old those of the
version in your directory. One argument is a text. Of several, the first one is the place.`,
		Example: "  golem comments add app.go:12 \"this must stay below 100\"\n  golem comments add \"split this into two changes\"",
		Args:    takesArgs(1, math.MaxInt, "a comment needs a text: golem comments add PATH:LINE 'TEXT'"),
	}
	f := addChoiceFlags(cmd)
	old := false
	cmd.Flags().BoolVar(&old, "old", false, "the lines are those of the version in your directory")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		w, err := f.choose(cmd)
		if err != nil {
			return err
		}
		var file *choice.File
		line, last := 0, 0
		text := args
		if len(args) > 1 {
			text = args[1:]
			typed := ""
			typed, line, last = cutPlace(args[0])
			name, err := w.nameOf(typed)
			if err != nil {
				return err
			}
			files, err := choice.ReadCommented(w.program.Storage.Sessions, w.Session, []choice.Comment{{Path: name}})
			if err != nil {
				return err
			}
			if file = files[name]; file == nil {
				return &sandbox.Error{Op: "comments", Path: name, Code: sandbox.ErrNotFound, Hint: "session " + w.label() + " has not changed it; golem diff --name-only lists what it changed"}
			}
		}
		c, err := choice.NewComment(file, line, last, old, strings.Join(text, " "), withAccount("golem comments"), time.Now())
		if err != nil {
			return err
		}
		if err := choice.ChangeNotes(w.Session, func(n *choice.Notes) error { return n.Add(c) }); err != nil {
			return err
		}
		return printLineOr(cmd, map[string]any{"session": w.ID, "comment": c}, "comment %s on %s", c.ID, c.Place(w.shown))
	}
	return cmd
}

// cutPlace splits PATH:LINE-LAST. Without a number, all of it is the path.
func cutPlace(place string) (path string, line, last int) {
	i := strings.LastIndexByte(place, ':')
	if i < 0 {
		return place, 0, 0
	}
	from, to, isRange := strings.Cut(place[i+1:], "-")
	line, err := strconv.Atoi(from)
	if last = line; err == nil && isRange {
		last, err = strconv.Atoi(to)
	}
	if err != nil || line < 1 {
		return place, 0, 0
	}
	return place[:i], line, last
}

// addComments adds the comments that the agent did not get yet to its input. Those that do not
// fit wait for the next one. A comment quotes its file, so one on an untrusted file taints the
// worker.
func addComments(cmd *cobra.Command, r *program.Run, known *paths, in *run.Input) error {
	one := r.Gate.Session
	notes, err := choice.ReadNotes(one)
	if err != nil {
		return err
	}
	list := notes.Unsent()
	message := choice.Message(list, visible.Name)
	for len(list) > 0 && len(in.Text)+len(message) >= maxInput {
		list = list[:len(list)/2]
		message = choice.Message(list, visible.Name)
	}
	if len(list) == 0 {
		return nil
	}
	for _, c := range list {
		if host, ok := known.hostOf(c.Path); ok {
			r.MarkTainted([]string{host})
		}
	}
	in.Text = strings.TrimLeft(in.Text+"\n\n"+message, "\n")
	in.OnSaid = func() error {
		return choice.ChangeNotes(one, func(n *choice.Notes) error { n.MarkSent(list, time.Now()); return nil })
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "golem: the input has "+visible.Count(len(list), "comment")+" on the changes of the session; golem comments lists them")
	return nil
}

func newCommentsSend() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "send [SESSION]",
		Short: "Print the comments that the agent did not get yet, as a message for it",
		Long: `Print the comments that the agent did not get yet, as a message for its standard input, and
mark them as sent. golem run --resume SESSION needs no such command: it sends them itself.`,
		Example: `  golem comments send | golem exec -c claude --continue -p --dangerously-skip-permissions
  golem comments send fix | golem exec --session fix codex exec resume --last -`,
		Args: takesArgs(0, 1, oneSession),
	}
	flags := addProgramFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		w, err := flags.sessionOf(args)
		if err != nil {
			return err
		}
		return choice.ChangeNotes(w.Session, func(n *choice.Notes) error {
			list := n.Unsent()
			if len(list) == 0 {
				return &sandbox.Error{Op: "comments", Path: w.label(), Code: sandbox.ErrNotFound, Hint: "the agent has all comments; golem comments add PATH:LINE TEXT adds one"}
			}
			n.MarkSent(list, time.Now())
			_, err := io.WriteString(cmd.OutOrStdout(), choice.Message(list, func(path string) string { return agentPath(w.Mounts, path) }))
			return err
		})
	}
	return cmd
}

// agentPath returns the name of a file for an agent, whose commands start in the directory at /.
func agentPath(mounts []session.Mount, path string) string {
	for _, m := range mounts {
		if m.Target != "/" && strings.HasPrefix(path, m.Target+"/") {
			return visible.Name(path)
		}
	}
	return visible.Name(strings.TrimPrefix(path, "/"))
}

func newCommentsRemove() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "remove ID",
		Aliases: []string{"rm"},
		Short:   "Remove a comment",
		Example: "  golem comments remove k3x7qa\n  golem comments rm k3x7qa",
		Args:    takesArgs(1, 1, "one comment at a time, got %d"),
	}
	flags := addProgramFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		all, err := flags.sessionsHere()
		if err != nil {
			return err
		}
		for _, w := range all {
			if n, err := choice.ReadNotes(w.Session); err == nil && n.Remove(args[0]) == nil {
				if err := choice.ChangeNotes(w.Session, func(n *choice.Notes) error { return n.Remove(args[0]) }); err != nil {
					return err
				}
				return printLineOr(cmd, map[string]any{"session": w.ID, "removed": args[0]}, "removed comment %s of session %s", visible.Text(args[0]), w.label())
			}
		}
		return &sandbox.Error{Op: "comments", Path: args[0], Code: sandbox.ErrNotFound, Hint: "no session here has such a comment; golem comments SESSION lists them"}
	}
	return cmd
}
