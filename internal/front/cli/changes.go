package cli

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/storage"
	"github.com/golem-forge/golem/internal/work/choice"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/internal/work/spending"
	"github.com/golem-forge/golem/internal/work/toolset/settle"
	"github.com/golem-forge/golem/sandbox"
)

func newChanges() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "changes [PATH…]",
		Short: "Show or discard the changes of a session",
		Long: `Show the changes of a session in mounts with mode: overlay. Your directories stay
unchanged until you apply them: golem tool apply_changes applies all changes, some paths
or some hunks. The session keeps its changes until you apply or discard them, also if
golem is killed. Without --session it is the last used session.

A line begins with A for created, M for changed or D for deleted. A ! means that the file
changed in your directory too.

--discard discards the changes at and below each PATH, or all changes. golem asks first,
and records it in the journal.`,
		Example: "  golem changes\n  golem changes --diff /src\n  golem changes --discard /build",
	}
	flags := addGateFlags(cmd)
	diff, discard := false, false
	cmd.Flags().BoolVar(&diff, "diff", false, "also show diffs; each hunk has a number for apply_changes")
	cmd.Flags().BoolVar(&discard, "discard", false, "discard changes")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if discard && diff {
			return usageError("--discard and --diff do not go together; look first, then discard")
		}
		p, err := flags.program()
		if err != nil {
			return err
		}
		s, err := p.Storage.Sessions.Find(flags.sessionID())
		if err != nil {
			return err
		}
		if discard {
			flags.session = s.ID
			return newUserCall(cmd, flags, discardArgs(args)).run()
		}
		// Both walk through all that the session keeps.
		var about sessionDocument
		described := make(chan error, 1)
		go func() {
			var err error
			about, err = aboutSession(p, s)
			described <- err
		}()
		list, unfit, err := p.Storage.Sessions.Changes(s, args, diff)
		if e := <-described; err == nil {
			err = e
		}
		if err != nil {
			return err
		}
		if len(list) == 0 && len(args) > 0 {
			return &sandbox.Error{Op: "changes", Path: args[0], Code: sandbox.ErrNotFound, Hint: "session " + naming.Label(s) + " has not changed it; golem changes lists what it has"}
		}
		if wantsJSON(cmd) {
			return printJSON(cmd.OutOrStdout(), map[string]any{"session": about, "changes": list, "unfit": unfit})
		}
		printChanges(cmd.OutOrStdout(), about, list, diff)
		if unfit != "" {
			fmt.Fprintln(cmd.OutOrStdout(), "skipped: "+unfit+"; golem discard without a path removes it, with all other changes")
		}
		return nil
	}
	return cmd
}

// discardArgs returns the arguments that discard the changes at some names, or all.
func discardArgs(names []string) settle.DiscardArgs {
	if len(names) == 0 {
		names = []string{"/"}
	}
	return settle.DiscardArgs{Paths: names}
}

// A sessionDocument describes a session.
type sessionDocument struct {
	ID    string    `json:"id"`
	Name  string    `json:"name,omitempty"`
	Begun time.Time `json:"begun"`
	Used  time.Time `json:"used"`
	Copy  bool      `json:"copy"`  // it works on copies of the directories
	Files int       `json:"files"` // number of files it stores
	Bytes int64     `json:"bytes"`
	What  string    `json:"what,omitempty"`  // the program or the input that started it
	State string    `json:"state,omitempty"` // running, paused, changes or clean
	// Running is what works in the session now, nil for nothing.
	Running *changes.Holder `json:"running,omitempty"`
	// Input is the input of the first run in the session, if it is known.
	Input string `json:"input,omitempty"`
	// Cost is what its agents asked of models, nil for nothing.
	Cost *spending.Account `json:"cost,omitempty"`
	// Others are the targets of directories that the session changed and that are not
	// mounted now.
	Others []string `json:"others,omitempty"`
}

func aboutSession(p *program.Program, s *session.Session) (sessionDocument, error) {
	k, err := p.Storage.Sessions.Open(s)
	if err != nil {
		return sessionDocument{}, err
	}
	defer k.Close()
	d := sessionDocument{ID: s.ID, Name: s.Name, Begun: s.Started, Used: s.LastUsed, Copy: s.Copy}
	d.Files, d.Bytes = k.Usage()
	d.Others = k.OtherTargets()
	if spent := storage.SpentIn(s); !spent.IsEmpty() {
		d.Cost = &spent
	}
	return d, nil
}

// String describes the session in one line.
func (d sessionDocument) String() string {
	what := ""
	if d.Copy {
		what = "on a copy, "
	}
	return fmt.Sprintf("session %s, %sbegun %s, keeps %s, %s", cmp.Or(d.Name, d.ID), what, d.Begun.Local().Format("2006-01-02 15:04"), visible.Count(d.Files, "file"), visible.Amount(d.Bytes))
}

func printChanges(w io.Writer, about sessionDocument, list []session.FileChange, diff bool) {
	fmt.Fprintln(w, about)
	for _, target := range about.Others {
		fmt.Fprintln(w, "skipped: changes in a directory that was mounted at "+sandbox.Shown(target)+"; mount it again to see them")
	}
	if len(list) == 0 {
		if about.Files > 0 && len(about.Others) == 0 {
			fmt.Fprintln(w, "nothing is changed: your directory has the same content")
		} else {
			fmt.Fprintln(w, "nothing is changed")
		}
		return
	}
	var rows [][]string
	conflicts, protected := 0, 0
	for _, c := range list {
		name, note := sandbox.Shown(c.Path), ""
		if c.Kind == overlay.Dir || c.Kind == overlay.Nothing && c.OldKind == overlay.Dir {
			name += "/"
		}
		mark := " "
		if c.Conflict {
			mark, note = "!", "changed in your directory too"
			conflicts++
		}
		if c.Protected != "" {
			note = "protected (" + c.Protected + "), skipped"
			if choice.Stays(c) != "" {
				note = choice.Stays(c)
			} else if c.Inside {
				note = "protected files in it (" + c.Protected + ") are skipped"
			}
			protected++
		}
		if c.Git && c.Protected == "" {
			note = "part of what git takes for a repository, never applied"
			if c.Inside {
				note = "holds parts of what git takes for a repository, never applied"
			}
		}
		about := what(c)
		if c.OldMode != "" && c.Op != overlay.Mode {
			about += ", permission bits " + c.OldMode + " → " + c.Mode
		}
		if c.UnusualMode {
			about += ", mode " + c.Mode
		}
		rows = append(rows, []string{mark + inbox.Letter(c.Op), name, about, note})
	}
	if !diff {
		printColumns(w, rows)
	} else {
		for i, c := range list {
			printColumns(w, rows[i:i+1])
			fmt.Fprint(w, c.Diff)
		}
	}
	look := "golem changes --diff shows them, "
	if diff {
		look = ""
	}
	fmt.Fprintln(w, "next: "+look+"golem tool apply_changes applies them, golem changes --discard discards them")
	if conflicts > 0 {
		fmt.Fprintln(w, "!     golem tool apply_changes --merge combines both versions, --overwrite takes the session's")
	}
	if protected > 0 {
		fmt.Fprintln(w, "skipped: golem applies a protected path only if --paths names it, and never applies changes in .git")
	}
}

// lost describes what a deleted or replaced directory held.
func lost(c session.FileChange) string {
	text := visible.Count(c.Files, "file")
	if c.Unread {
		text = "at least " + text
	}
	if c.Removed > 0 {
		text += ", -" + visible.Number(c.Removed) + " lines"
	}
	return text
}

// what describes a change.
func what(c session.FileChange) string {
	if c.OldKind == overlay.Dir && c.Op == overlay.Modify {
		made := c
		made.Op, made.OldKind, made.Removed = overlay.Create, overlay.Nothing, 0
		return what(made) + ", in place of a directory with " + lost(c)
	}
	switch {
	case c.Op == overlay.Mode:
		return "permission bits " + c.OldMode + " → " + c.Mode
	case c.Kind == overlay.Special:
		return "a pipe, socket or device, never applied"
	case c.Kind == overlay.Symlink:
		return "a symlink to " + sandbox.Shown(c.LinkTarget)
	case c.Kind == overlay.Dir:
		return visible.Count(c.Files, "file") + ", " + visible.Amount(c.Size)
	case c.OldKind == overlay.Dir && c.MovedTo != "" && c.Files == 0:
		return "moved to " + sandbox.Shown(c.MovedTo)
	case c.OldKind == overlay.Dir && c.Op == overlay.Delete:
		return "a directory with " + lost(c)
	case c.Binary:
		return visible.Amount(c.Size) + ", binary"
	case c.Added == 0 && c.Removed == 0 && c.Op != overlay.Delete:
		return visible.Amount(c.Size)
	case c.Removed == 0:
		return fmt.Sprintf("(+%d)", c.Added)
	case c.Added == 0:
		return fmt.Sprintf("(-%d)", c.Removed)
	}
	return fmt.Sprintf("(+%d -%d)", c.Added, c.Removed)
}
