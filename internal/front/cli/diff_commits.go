package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/internal/work/toolset/settle"
	"github.com/golem-forge/golem/sandbox"
)

// showCommits prints the commits that a session has made: what to look at first, the
// message, and the diff of each.
func showCommits(cmd *cobra.Command, w *workSession, stat bool) error {
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	list, skipped, err := w.program.Commits(w.Session).Read(ctx)
	if err != nil {
		return err
	}
	note(cmd, skipped...)
	if wantsJSON(cmd) {
		return printJSON(cmd.OutOrStdout(), map[string]any{"session": w.ID, "repositories": append([]settle.CommitRepository{}, list...), "skipped": append([]string{}, skipped...)})
	}
	if len(list) == 0 {
		return &sandbox.Error{Op: "diff", Code: sandbox.ErrNotFound, Hint: "session " + w.ID + " has no new commits"}
	}
	v := newReviewText(cmd.OutOrStdout(), w, &session.Review{})
	for _, r := range list {
		v.commitList(r)
		if stat {
			continue
		}
		for _, c := range r.Commits {
			v.commit(c)
		}
	}
	printNext(v.b, "golem apply"+v.option()+" --commits [--branch NAME]")
	return v.b.flush()
}

// commitList prints a line for each commit of a repository, and the warnings.
func (v *reviewText) commitList(r settle.CommitRepository) {
	added, removed := 0, 0
	for _, c := range r.Commits {
		added, removed = added+c.Added, removed+c.Removed
	}
	v.line("%s: %s in %s, +%d -%d, authors unverified", v.title(), visible.Count(len(r.Commits), "commit"), v.shown(r.Name), added, removed)
	for _, c := range r.Commits {
		for _, f := range c.Flags {
			v.row(warning, c.Short()+" "+v.flag(f))
		}
	}
	var rows [][]string
	for _, c := range r.Commits {
		rows = append(rows, []string{c.Short(), c.Subject(), fmt.Sprintf("+%d -%d", c.Added, c.Removed), "by " + c.Author})
	}
	printColumns(v.b, rows)
	for _, name := range r.Branches {
		v.line("golem apply --commits makes refs/golem/%s at %s", visible.Line(name, maxColumns), r.Tips[name][:7])
	}
}

// commit prints one commit with its message and its diff.
func (v *reviewText) commit(c settle.Commit) {
	v.b.WriteString("\n")
	v.line("commit %s by %s (unverified), %s", c.Hash, c.Author, c.Time.Format("2006-01-02 15:04"))
	for line := range strings.Lines(c.Message) {
		v.line("    %s", visible.Text(strings.TrimSuffix(line, "\n")))
	}
	for _, f := range c.Files {
		text := string(f.Op) + " " + v.shown(f.Path)
		if f.About != "" {
			text += " (" + f.About + ")"
		}
		if f.Omitted != "" {
			text += "  content not shown: " + f.Omitted
		}
		v.line("%s", text)
		v.page.Diff(v.b, f.Path, f.Diff)
	}
}
