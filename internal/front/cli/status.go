package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/choice"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/spf13/cobra"
)

func newStatus(fronts Fronts) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what waits for you here",
		Long: `Show what waits for you in this directory: sessions with changes that are not applied,
calls that wait for approval, staged commits that wait for a review, and published ports.
With --all, show what waits for you in every directory.

With -i golem shows what waits in every directory full screen, the riskiest first. There you
open an item and decide: approve a call, apply changes, push a commit. ? lists the keys.
If your configuration names a hub, the list has what waits there too.
With --plain, or at a terminal with less than 60 columns, -i asks about one item after the
other.`,
		Example: "  golem status\n  golem status --all\n  golem status -i",
		Args:    noArgs,
	}
	f := addProgramFlags(cmd)
	every, interactive, plain := false, false, false
	cmd.Flags().BoolVar(&every, "all", false, "in every directory that golem was used in")
	last := 0
	addLastSessions(cmd, &last)
	addPlain(cmd, &interactive, &plain, "ask about one item after the other")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case plain && !interactive:
			return usageError("--plain is for golem status -i; golem status prints plain text anyway")
		case interactive && (wantsJSON(cmd) || f.dir != "." || f.entry != "" || len(f.set) > 0):
			return usageError("-i shows every directory full screen; use it only with --plain")
		case interactive:
			return f.exploreAll(cmd, fronts, plain)
		}
		most := last
		if wantsJSON(cmd) && !cmd.Flags().Changed("last") {
			most = 0
		}
		if every {
			return f.statusOfAll(cmd, most)
		}
		all, err := f.sessionsHere()
		if err != nil {
			return err
		}
		p, wrong := f.open(opening{strict: true, otherwise: emptyProgram})
		if wrong != nil || p.Content.Hash == "" {
			p = nil
		}
		var list []inbox.ProgramSession
		for _, w := range all {
			list = append(list, w.of())
		}
		o, err := f.options()
		if err != nil {
			return err
		}
		bare, wrong := program.LoadMounts(o, nil)
		if wrong != nil {
			bare = nil
		}
		waiting, err := inbox.Collect(cmd.Context(), list, most, p, bare)
		if err != nil {
			return err
		}
		ports, running := inbox.PublishedPorts(list), runningOf(o, list)
		if wantsJSON(cmd) {
			d := newStatusDocument(waiting)
			d.Ports, d.Running = ports, running
			return printJSON(cmd.OutOrStdout(), d)
		}
		if len(running) > 0 {
			printActivities(cmd.OutOrStdout(), running, o.Home)
		}
		for _, p := range ports {
			fmt.Fprintf(cmd.OutOrStdout(), "published: %s, session %s (%s)\n", p.Port(), cmp.Or(p.Name, p.Session), p.What)
		}
		if waiting.IsEmpty() {
			fmt.Fprintln(cmd.OutOrStdout(), "nothing waits for you here")
			f.printElsewhere(cmd.OutOrStdout())
			for _, line := range f.hintBelow("golem status") {
				fmt.Fprintln(cmd.OutOrStdout(), line)
			}
			return nil
		}
		dir, err := f.realDir()
		if err != nil {
			return err
		}
		at := dirOption(f.dir)
		printStatus(cmd.OutOrStdout(), waiting, dir, at)
		if len(waiting.Sessions) > 0 {
			printNext(cmd.OutOrStdout(), "golem diff"+at, "golem apply"+at, "golem discard"+at)
		}
		return nil
	}
	addFetchFlag(cmd, f)
	return cmd
}

// A statusDocument is the document that golem status --json prints.
type statusDocument struct {
	Sessions  []inbox.Changes `json:"sessions"`
	Approvals []string        `json:"approvals"`       // the ids of calls that wait for approval
	Staged    []string        `json:"staged"`          // the ids of commits that wait for review
	Ready     []string        `json:"ready,omitempty"` // the sessions whose paused run can continue

	Ports   []inbox.PublishedPort `json:"ports,omitempty"`
	Running []inbox.Activity      `json:"running,omitempty"`
}

// newStatusDocument returns what waits, as golem status --json prints it.
func newStatusDocument(w inbox.Waiting) statusDocument {
	return statusDocument{Sessions: append([]inbox.Changes{}, w.Sessions...), Ready: visible.Each(w.Ready, func(s *session.Session) string { return s.ID }),
		Approvals: visible.Each(w.Approvals, func(c inbox.Call) string { return c.ID }),
		Staged:    visible.Each(w.Staged, func(c inbox.Commit) string { return c.ID })}
}

// statusRow returns a session as a line of golem status in dir.
func statusRow(s inbox.Changes, dir string) []string {
	commits := ""
	switch {
	case s.Problem != "":
		commits = "commits cannot be read"
	case s.Count > 0:
		commits = visible.Count(s.Count, "commit")
	}
	w := newWorkSession(s.Session.Program, s.Session.Session, dir)
	return []string{w.label(), s.What, age(s.Used), visible.Count(s.Files, "file"), visible.LineCounts(s.Added, s.Removed), commits, warningsOf(w, s.Review)}
}

// warningsOf summarises the warnings of a session in one line.
func warningsOf(w *workSession, r *session.Review) string {
	text := strings.Join(choice.Warnings(r, w.shown), ", ")
	if text != "" {
		text = "! " + text
	}
	files := 0
	for _, f := range r.Ignored {
		files += f.Files
	}
	if files > 0 {
		text = strings.TrimPrefix(text+", and "+visible.Count(files, "ignored file"), ", and ")
	}
	return text
}

// printStatus prints what waits in a directory. flag is what a command needs in addition
// to work there.
func printStatus(out io.Writer, d inbox.Waiting, dir, flag string) {
	var rows [][]string
	for _, s := range d.Sessions {
		rows = append(rows, statusRow(s, dir))
	}
	if len(rows) > 0 {
		newest := ""
		if d.Older > 0 {
			newest = "the newest "
		}
		fmt.Fprintf(out, "%s%s with changes\n", newest, visible.Count(len(rows), "session"))
		printColumns(out, rows)
	}
	if d.Older > 0 {
		fmt.Fprintf(out, "not listed: %s; golem status%s --last 0 lists all with changes\n", visible.Count(d.Older, "older session"), flag)
	}
	if n := len(d.Approvals); n > 0 {
		command := "golem approvals" + flag
		if n == 1 {
			command = "golem approve " + d.Approvals[0].ID + flag
		}
		fmt.Fprintf(out, "%s %s: %s\n", visible.Count(n, "approval"), visible.Verb(n, "waits", "wait"), command)
	}
	if n := len(d.Staged); n > 0 {
		fmt.Fprintf(out, "%s %s for review: golem review%s\n", visible.Count(n, "commit"), visible.Verb(n, "waits", "wait"), flag)
	}
	for _, s := range d.Ready {
		fmt.Fprintf(out, "a paused run can continue: golem run --resume %s%s\n", naming.Label(s), flag)
	}
}

// A directoryStatus says what waits in one directory.
type directoryStatus struct {
	Directory string `json:"directory"` // "" if golem does not know it
	State     string `json:"state"`     // the state directory
	statusDocument
	Why string `json:"problem,omitempty"` // why golem cannot say what waits there
}

// statusOfAll shows what waits in every directory.
func (f *programFlags) statusOfAll(cmd *cobra.Command, most int) error {
	if f.dir != "." || f.entry != "" || len(f.set) > 0 {
		return usageError("--all is for every directory; do not use -C, --entry or --set with it")
	}
	o, err := f.options()
	if err != nil {
		return err
	}
	list, err := inbox.Directories(cmd.Context(), o, most)
	if err != nil {
		return err
	}
	if !wantsJSON(cmd) {
		printStatusOfAll(cmd, o.Home, list)
		return nil
	}
	documents := []directoryStatus{}
	for _, d := range list {
		documents = append(documents, directoryStatus{d.Path, string(d.State), newStatusDocument(d.Waiting), d.Problem})
	}
	return printJSON(cmd.OutOrStdout(), map[string]any{"directories": documents})
}

func printStatusOfAll(cmd *cobra.Command, home string, list []inbox.Directory) {
	out := cmd.OutOrStdout()
	if len(list) == 0 {
		fmt.Fprintln(out, "nothing waits for you in any directory")
		return
	}
	for i, d := range list {
		if i > 0 {
			fmt.Fprintln(out)
		}
		name := cmp.Or(visible.HomeRelative(d.Path, home), string(d.State))
		fmt.Fprintln(out, visible.Text(name))
		if d.Problem != "" {
			fmt.Fprintln(out, "  "+d.Problem)
			continue
		}
		printStatus(indented{out}, d.Waiting, d.Path, " -C "+visible.CommandLine(d.Path))
		if len(d.Sessions) > 0 {
			fmt.Fprintf(out, "  next: cd %s && golem diff\n", visible.CommandLine(d.Path))
		}
	}
}

// indented indents each line. Every Write is one line.
type indented struct{ io.Writer }

// Write implements io.Writer.
func (w indented) Write(line []byte) (int, error) {
	if _, err := io.WriteString(w.Writer, "  "); err != nil {
		return 0, err
	}
	return w.Writer.Write(line)
}
