package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/program"
	"github.com/golem-forge/golem/internal/session"
	"github.com/golem-forge/golem/internal/visible"
)

func newStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what waits for you here",
		Long: `Show what waits for you in this directory: sessions with changes that are not applied,
calls that wait for approval, and staged commits that wait for a review. With --all, show
what waits for you in every directory.`,
		Example: "  golem status\n  golem status --all\n  golem status -C ~/notes --json",
		Args:    noArgs,
	}
	f := addProgramFlags(cmd)
	every := false
	cmd.Flags().BoolVar(&every, "all", false, "in every directory that golem was used in")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if every {
			return f.statusOfAll(cmd)
		}
		all, err := f.sessionsHere()
		if err != nil {
			return err
		}
		p, wrong := f.open(opening{strict: true, otherwise: emptyProgram})
		if wrong != nil || p.Content.Hash == "" {
			p = nil
		}
		d, rows, err := collectStatus(cmd.Context(), all, p)
		if err != nil {
			return err
		}
		if wantsJSON(cmd) {
			return printJSON(cmd.OutOrStdout(), d)
		}
		if d.isEmpty() {
			fmt.Fprintln(cmd.OutOrStdout(), "nothing waits for you here")
			return nil
		}
		printStatus(cmd.OutOrStdout(), d, rows, "")
		if len(rows) > 0 {
			fmt.Fprintln(cmd.OutOrStdout(), "next: golem diff, golem apply, golem discard")
		}
		return nil
	}
	return cmd
}

// collectStatus returns what waits in some sessions and in a program, which may be nil. It
// also returns the sessions as lines of golem status.
func collectStatus(ctx context.Context, all []*workSession, p *program.Program) (statusDocument, [][]string, error) {
	d := statusDocument{Sessions: []sessionStatus{}, Approvals: []string{}, Staged: []string{}}
	var rows [][]string
	programs := make(map[*program.Program]bool)
	for _, w := range all {
		programs[w.program] = true
		r, err := w.program.Sessions().Review(w.Session, nil, false)
		if err != nil {
			return d, nil, err
		}
		s := w.status(r)
		if s.Commits {
			if s.Count, err = program.CountCommits(ctx, w.program, w.Session); err != nil {
				s.Problem = visible.Line(err.Error(), maxColumns)
			}
		}
		if len(r.Files) == 0 && r.Unfit == "" && len(r.Others) == 0 && s.Count == 0 && s.Problem == "" {
			continue
		}
		d.Sessions = append(d.Sessions, s)
		rows = append(rows, s.row(w, r))
	}
	if p != nil {
		programs[p] = true
	}
	return d, rows, d.addWaiting(programs)
}

// A statusDocument is the document that golem status --json prints.
type statusDocument struct {
	Sessions  []sessionStatus `json:"sessions"`
	Approvals []string        `json:"approvals"` // the ids of calls that wait for approval
	Staged    []string        `json:"staged"`    // the ids of commits that wait for review
}

// A sessionStatus describes a session with changes.
type sessionStatus struct {
	ID      string        `json:"id"`
	What    string        `json:"what,omitempty"` // the program or the input that started it
	Used    time.Time     `json:"used"`
	Files   int           `json:"files"`
	Added   int           `json:"added"`
	Removed int           `json:"removed"`
	Git     int           `json:"skipped_in_git"`
	Commits bool          `json:"commits"`                  // it has commits, branches or tags
	Count   int           `json:"commit_count"`             // commits that your repository does not have
	Problem string        `json:"commit_problem,omitempty"` // why golem cannot read the commits
	Flags   []review.Flag `json:"flags"`
}

func (w *workSession) status(r *session.Review) sessionStatus {
	s := sessionStatus{ID: w.ID, What: w.what(), Used: w.LastUsed, Files: len(r.Files), Git: r.Git, Commits: r.Refs, Flags: append([]review.Flag{}, r.Flags...)}
	for _, c := range r.Files {
		s.Added, s.Removed = s.Added+c.Added, s.Removed+c.Removed
	}
	return s
}

// row returns a session as a line of golem status.
func (s sessionStatus) row(w *workSession, r *session.Review) []string {
	commits := ""
	switch {
	case s.Problem != "":
		commits = "commits cannot be read"
	case s.Count > 0:
		commits = visible.Count(s.Count, "commit")
	}
	return []string{s.ID, s.What, age(s.Used), visible.Count(s.Files, "file"), lineCounts(s.Added, s.Removed), commits, warningsOf(w, r)}
}

// warningsOf summarises the warnings of a session in one line.
func warningsOf(w *workSession, r *session.Review) string {
	code := make(map[string]bool)
	first, others := "", 0
	for _, f := range r.Flags {
		switch {
		case !f.BecomesCode():
			others++
		case !code[f.Path]:
			if code[f.Path] = true; first == "" {
				first = w.shown(f.Path)
			}
		}
	}
	var parts []string
	switch len(code) {
	case 0:
	case 1:
		parts = append(parts, "1 file becomes code ("+first+")")
	default:
		parts = append(parts, visible.Count(len(code), "file")+" become code ("+first+", …)")
	}
	if others > 0 {
		parts = append(parts, visible.Count(others, "warning"))
	}
	if len(parts) == 0 {
		return ""
	}
	return "! " + strings.Join(parts, ", ")
}

// addWaiting adds the calls and commits that wait.
func (d *statusDocument) addWaiting(programs map[*program.Program]bool) error {
	states := make(map[string]bool)
	for p := range programs {
		if states[string(p.State())] || !p.HasState() {
			continue
		}
		states[string(p.State())] = true
		if err := d.addRecords(p); err != nil {
			return err
		}
	}
	return nil
}

func (d *statusDocument) addRecords(p *program.Program) error {
	r, err := p.OpenRecords()
	if err != nil {
		return err
	}
	defer r.Close()
	waiting, err := r.Waiting(p.Sessions())
	if err != nil {
		return err
	}
	for _, w := range waiting {
		d.Approvals = append(d.Approvals, w.ID)
	}
	staged, err := r.Staged()
	d.Staged = append(d.Staged, staged...)
	return err
}

// isEmpty reports whether nothing waits.
func (d statusDocument) isEmpty() bool { return len(d.Sessions)+len(d.Approvals)+len(d.Staged) == 0 }

// printStatus prints what waits in a directory. dir is the directory if it is not the
// current one.
func printStatus(out io.Writer, d statusDocument, rows [][]string, dir string) {
	at := ""
	if dir != "" {
		at = " -C " + commandLine(dir)
	}
	if len(rows) > 0 {
		fmt.Fprintf(out, "%s with changes\n", visible.Count(len(rows), "session"))
		printColumns(out, rows)
	}
	wait := func(n int) string {
		if n == 1 {
			return "waits"
		}
		return "wait"
	}
	if n := len(d.Approvals); n > 0 {
		command := "golem approvals" + at
		if n == 1 {
			command = "golem approve " + d.Approvals[0] + at
		}
		fmt.Fprintf(out, "%s %s: %s\n", visible.Count(n, "approval"), wait(n), command)
	}
	if n := len(d.Staged); n > 0 {
		fmt.Fprintf(out, "%s %s for review: golem review%s\n", visible.Count(n, "commit"), wait(n), at)
	}
}
