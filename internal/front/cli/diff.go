package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/choice"
	"github.com/golem-forge/golem/internal/work/ignored"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/internal/work/toolset/settle"
	"github.com/golem-forge/golem/sandbox"
)

func newDiff(show Explorer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff [PATH…]",
		Short: "Show the changes of a session",
		Long: `Show the changes of a session that are not in your directory yet. Files that golem
marks as risky come first. PATH is a file or directory, relative to the current directory.
New files that git ignores by the rules of your directory are one line for each ignored
directory, such as node_modules. --all shows each of them.

At a terminal the diff is coloured and paged (GOLEM_PAGER, PAGER, NO_COLOR). Without a
terminal golem prints a patch for git apply, with the exact bytes of the files. Everything
else goes to standard error. Exit code 1 then means that a patch cannot express one of
the changes.

With --tool golem opens the changes in the tool that your git uses (diff.tool and difftool.NAME
in your own configuration, never that of a repository), or in the one that you name. The tool
shows read-only copies, which golem removes when you close it. Control characters are replaced
in them, and a name such as .env is %2Eenv. A tool that shows one file at a time opens one after the
other. golem does not know what you saw there, so golem apply asks as always.

With -i golem shows the files and their diffs full screen. There you choose hunks with the
keys of git add -p, and apply or discard them; ? lists the keys. An approval covers only
lines that were on the screen. With --plain, or at a terminal with less than 60 columns,
-i asks about each hunk as golem apply -p does.`,
		Example: `  golem diff
  golem diff --tool=meld src
  golem diff --session last > changes.patch && git apply changes.patch`,
	}
	f := addChoiceFlags(cmd)
	stat, names, interactive, plain, all := false, false, false, false, false
	cmd.Flags().BoolVar(&all, "all", false, "also each new file that git ignores")
	cmd.Flags().BoolVar(&stat, "stat", false, "one line for each file, and the total")
	cmd.Flags().BoolVar(&f.commits, "commits", false, "the commits that the agent made, each with its diff")
	cmd.Flags().BoolVar(&names, "name-only", false, "only the paths of the files")
	addPlain(cmd, &interactive, &plain, "ask about each hunk, line by line")
	withTool := ""
	cmd.Flags().StringVar(&withTool, "tool", "", "open the changes in your diff tool, or in this one")
	cmd.Flags().Lookup("tool").NoOptDefVal = usersTool
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		args, err := f.takeSession(args)
		if err != nil {
			return err
		}
		if stat && names {
			return usageError("--stat and --name-only exclude each other")
		}
		if f.commits && (names || len(args) > 0) {
			return usageError("--commits shows all commits of the session; only --stat and --session go with it")
		}
		if interactive && (stat || names || all || f.commits || wantsJSON(cmd)) {
			return usageError("-i shows everything full screen; use it only with PATH, --session and --plain")
		}
		if plain && !interactive {
			return usageError("--plain is for golem diff -i; golem diff prints plain text anyway")
		}
		if withTool != "" && (interactive || stat || names || f.commits || wantsJSON(cmd)) {
			return usageError("--tool opens a program that shows everything; use it only with PATH, --session and --all")
		}
		w, err := f.choose(cmd)
		if _, is := errors.AsType[noChangesError](err); is {
			fmt.Fprintln(cmd.ErrOrStderr(), "golem: "+err.Error())
			if wantsJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), diffDocument(nil, &session.Review{}))
			}
			return nil
		}
		if err != nil {
			return err
		}
		if f.commits {
			return showCommits(cmd, w, stat)
		}
		if interactive {
			return f.exploreSession(cmd, show, w, args, plain)
		}
		w.unfolded = all
		if withTool != "" {
			return openTool(cmd, w, withTool, args)
		}
		r, _, err := w.review(cmd.ErrOrStderr(), "diff", args, !stat && !names)
		if err != nil {
			return err
		}
		if wantsJSON(cmd) {
			return w.printReview(cmd, r)
		}
		switch {
		case names:
			for _, c := range r.Files {
				fmt.Fprintln(cmd.OutOrStdout(), w.shown(c.Path))
			}
			return nil
		case stat:
			v := newReviewText(cmd.OutOrStdout(), w, r)
			v.stat(false)
			v.notes()
			return v.b.flush()
		}
		if s := newScreen(cmd.OutOrStdout()); s.file == nil && (s.plain || !cmd.Flags().Changed("color")) {
			return w.printPatch(cmd, r)
		}
		v := newReviewText(cmd.OutOrStdout(), w, r)
		v.diffs()
		return v.b.flush()
	}
	addFetchFlag(cmd, f.programFlags)
	return cmd
}

// diffDocument returns the document that golem diff --json prints. about is nil if no
// session has changes.
func diffDocument(about *sessionDocument, r *session.Review) any {
	files, flags := r.Files, r.Flags
	if files == nil {
		files = []session.FileChange{}
	}
	if flags == nil {
		flags = []review.Flag{}
	}
	return map[string]any{"session": about, "changes": files, "flags": flags, "moves": r.Moves, "ignored": append([]ignored.Files{}, r.Ignored...), "skipped_in_git": r.Git, "unfit": r.Unfit}
}

// printReview prints the document of golem diff --json.
func (w *workSession) printReview(cmd *cobra.Command, r *session.Review) error {
	about, err := aboutSession(w.program, w.Session)
	if err != nil {
		return err
	}
	return printJSON(cmd.OutOrStdout(), diffDocument(&about, r))
}

// A reviewText is the changes of a session as text for a person at a terminal.
type reviewText struct {
	*workSession
	review   *session.Review
	page     visible.Page
	b        *pageBuffer
	hasDiffs bool // it shows the diffs
}

func newReviewText(w io.Writer, work *workSession, r *session.Review) *reviewText {
	b := newPageBuffer(w)
	b.screen.environ = gitEnv(work).Safe
	return &reviewText{workSession: work, review: r, page: b.screen.page(), b: b}
}

func (v *reviewText) line(format string, args ...any) {
	v.page.Line(v.b, fmt.Sprintf(format, args...))
}
func (v *reviewText) row(mark, text string) {
	v.page.Row(v.b, visible.Row{Mark: mark, Text: visible.Text(text)})
}

// head prints the session, the size of its changes, and warnings.
func (v *reviewText) head(flags []review.Flag) {
	v.line("%s: %s", v.title(), v.review.Total())
	for _, f := range flags {
		v.row(warning, v.flag(f))
	}
	if text := v.moreFlags(v.review, flags); text != "" {
		v.row(warning, text)
	}
}

// flags returns the warnings of a list: the first of each group, unless it has every change.
func (w *workSession) flags(r *session.Review) []review.Flag {
	if w.unfolded {
		return r.Flags
	}
	return review.Shorten(r.Flags)
}

// moreFlags says how to see all warnings of a review, "" if flags are all.
func (w *workSession) moreFlags(r *session.Review, flags []review.Flag) string {
	if n := len(r.Flags); n > len(flags) {
		return fmt.Sprintf("%s of %s; golem diff%s --stat --all lists all", visible.Number(len(flags)), visible.Count(n, "warning"), w.option())
	}
	return ""
}

// flag returns a warning as a line.
func (v *reviewText) flag(f review.Flag) string {
	if f.Path == "" {
		return f.At("")
	}
	return f.At(v.shown(f.Path))
}

// stat prints a line for each file that was not only moved, and a line for each moved directory
// behind the first files. If there are more than review.MostFiles, it prints only files with
// warnings, conflicts, edits in a moved directory, and deleted directories. Then one line for each
// directory sums up its other files. A short list is for the end of a command. It has only
// files with the first warnings of each group.
func (v *reviewText) stat(short bool) {
	flags := v.flags(v.review)
	v.head(flags)
	var rows [][]string
	flagged := make(map[string]bool)
	if !short {
		flags = v.review.Flags
	}
	for _, f := range flags {
		flagged[f.Path] = true
	}
	files := slices.DeleteFunc(slices.Clone(v.review.Files), session.FileChange.IsFolded)
	long := len(files) > review.MostFiles && !v.unfolded
	counted := make(map[string]int) // rows of each reason that is no warning
	var dirs review.DirectoryCounts
	for i, c := range files {
		if i == v.review.First {
			rows = append(rows, v.moves()...)
		}
		name := v.shown(c.Path)
		reason := ""
		switch {
		case c.Conflict:
			reason = "conflict"
		case c.From != "":
			reason = "edited"
		case slash(c) != "" && c.Op != overlay.Create:
			reason = "directory"
		}
		if counted[reason]++; !long || flagged[c.Path] || reason != "" && (!short || counted[reason] <= review.MostFiles) {
			rows = append(rows, []string{inbox.Letter(c.Op), name + slash(c), v.what(c), v.notesOf(c)})
			continue
		}
		dirs.Add(name, c.Added, c.Removed, !c.Unread)
	}
	if len(files) <= v.review.First {
		rows = append(rows, v.moves()...)
	}
	dirs.Each(func(dir, counts string) { rows = append(rows, []string{"", dir, counts, ""}) })
	printColumns(v.b, rows)
}

// what describes a change, with paths as the user types them.
func (v *reviewText) what(c session.FileChange) string {
	switch {
	case c.From != "" && c.Added+c.Removed > 0:
		return "moved from " + v.shown(c.From) + " (" + visible.LineCounts(c.Added, c.Removed) + ")"
	case c.From != "":
		return "moved from " + v.shown(c.From)
	case c.MovedTo != "" && c.Files == 0:
		return "moved to " + v.shown(c.MovedTo) + "/"
	case c.MovedTo != "":
		return what(c) + "; the others moved to " + v.shown(c.MovedTo) + "/"
	}
	return what(c)
}

// diffs prints each file with its diff.
func (v *reviewText) diffs() {
	v.hasDiffs = true
	flags := v.flags(v.review)
	v.head(flags)
	own := make(map[string][]review.Flag) // of each file, if the head omits some
	if len(flags) < len(v.review.Flags) {
		for _, f := range v.review.Flags {
			own[f.Path] = append(own[f.Path], f)
		}
	}
	for i, c := range v.review.Files {
		if i == v.review.First {
			v.movedLines()
		}
		if c.IsFolded() {
			continue
		}
		text := inbox.Letter(c.Op) + " " + v.shown(c.Path) + slash(c)
		if about := v.what(c); about != "" {
			text += "  " + about
		}
		if note := v.notesOf(c); note != "" {
			text += "  " + note
		}
		v.b.WriteString("\n")
		v.line("%s", text)
		for _, f := range own[c.Path] {
			v.row(warning, v.flag(f))
		}
		v.page.Diff(v.b, c.Path, c.Diff)
	}
	if len(v.review.Files) == v.review.First {
		v.movedLines()
	}
	v.b.WriteString("\n")
	v.notes(v.hunksExample()...)
}

// movedLines prints a line for each moved directory.
func (v *reviewText) movedLines() {
	for i, row := range v.moves() {
		if i == 0 && v.review.First > 0 {
			v.b.WriteString("\n")
		}
		v.line("%s %s  %s", row[0], row[1], row[2])
	}
}

// hunksExample returns a command that applies one hunk of a file with several, or nothing.
func (v *reviewText) hunksExample() []string {
	for _, c := range v.review.Files {
		if strings.Count("\n"+c.Diff, "\n@@ ") > 1 {
			return []string{"golem apply" + v.option() + " --hunks " + visible.CommandLine(v.pathOf(c.Path)) + ":1"}
		}
	}
	return nil
}

// notesOf returns notes about a change: permissions, conflicts, protection and size.
func (v *reviewText) notesOf(c session.FileChange) string {
	var notes []string
	if c.OldMode != "" && c.Op != overlay.Mode {
		notes = append(notes, "permissions "+c.OldMode+" → "+c.Mode)
	}
	if c.UnusualMode {
		notes = append(notes, "permissions "+c.Mode)
	}
	if c.Conflict {
		notes = append(notes, "! changed in your directory too")
	}
	if choice.Stays(c) != "" {
		notes = append(notes, v.stays(c))
	} else if c.Protected != "" {
		notes = append(notes, "protected ("+c.Protected+"): golem applies it only if you name it")
	}
	if c.Unread && slash(c) != "" {
		notes = append(notes, "golem did not count all lines")
	} else if c.Enough {
		notes = append(notes, "not read, because much has changed; golem diff FILE compares it")
	} else if c.Unread {
		notes = append(notes, "too large to compare")
	}
	return strings.Join(notes, "; ")
}

// stays says why golem leaves a directory that the session deleted or replaced, and what to type.
func (w *workSession) stays(c session.FileChange) string {
	return choice.Stays(c) + "; " + visible.CommandLine("rm", "-r", w.pathOf(c.Path)) + " yourself, or " + w.golem() + "discard" + w.option() + " " + visible.CommandLine(w.pathOf(c.Path))
}

// notes prints the skipped changes and the next commands, with more of them.
func (v *reviewText) notes(more ...string) {
	for _, text := range v.skippedBy(v.review) {
		v.line("%s", text)
	}
	if len(v.review.Files) == 0 {
		return
	}
	for _, c := range v.review.Files {
		if c.Conflict {
			printNext(v.b, v.golem()+"apply"+v.option()+" --merge combines both versions", v.golem()+"apply"+v.option()+" --overwrite takes the session's")
			return
		}
	}
	var next []string
	if !v.hasDiffs {
		next = append(next, "golem diff"+v.option())
	}
	apply := v.golem() + "apply" + v.option()
	if !v.inChat {
		apply += " [-p]"
	}
	next = append(append(next, apply+" [PATH…]"), more...)
	printNext(v.b, append(next, v.golem()+"discard"+v.option()+" [PATH…]")...)
}

// commitsHint says how to take the commits of a session. The verb stands for the option that names the session.
const commitsHint = "its commits: golem diff%s --commits, golem apply%[1]s --commits --branch NAME"

// describeCommits says how to take the commits of a session, or that the user's
// repository has all of them.
func (w *workSession) describeCommits() string {
	hint := fmt.Sprintf(commitsHint, w.option())
	if !w.hasEnded {
		return hint
	}
	n, err := w.program.Commits(w.Session).Count(context.Background())
	switch {
	case err != nil:
		return hint
	case n == 0:
		return "your repository has all its commits; golem discard" + w.option() + " deletes the session"
	}
	return "its " + visible.Count(n, "commit") + strings.TrimPrefix(hint, "its commits")
}

// skippedBy describes the changes that are not among the files of a review.
func (w *workSession) skippedBy(r *session.Review) []string {
	commits := ""
	if r.Refs {
		commits = w.describeCommits()
	}
	return choice.Skipped(r, commits, w.shownPlace)
}

// shownPlace returns a path as the user types it. It may end with a slash or "/*".
func (w *workSession) shownPlace(name string) string {
	dir, ok := strings.CutSuffix(name, "/*")
	if ok {
		return strings.TrimSuffix(w.shown(cmp.Or(dir, "/")), "/") + "/*"
	}
	if dir, ok = strings.CutSuffix(name, "/"); ok {
		return w.shown(dir) + "/"
	}
	return w.shown(name)
}

// slash returns "/" for a directory, to add to its path.
func slash(c session.FileChange) string {
	if c.Kind == overlay.Dir || c.Kind == overlay.Nothing && c.OldKind == overlay.Dir {
		return "/"
	}
	return ""
}

// age describes how long ago a time was.
func age(t time.Time) string { return visible.Age(t, time.Now()) }

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
		return &sandbox.Error{Op: "diff", Code: sandbox.ErrNotFound, Hint: "session " + w.label() + " has no new commits"}
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
	v.line("commit %s by %s (unverified), %s", c.Hash, c.Author, c.Dates())
	for line := range strings.Lines(c.Text()) {
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

// moves returns a row for each moved directory. If there are more than review.MostFiles, one
// row stands for all that were moved from one directory to another one.
func (v *reviewText) moves() (rows [][]string) {
	all := slices.SortedFunc(slices.Values(v.review.Moves), func(a, b changes.Move) int { return strings.Compare(a.From+"/", b.From+"/") })
	moved := make([]movedFiles, len(all))
	for _, c := range v.review.Files {
		if c.From == "" {
			continue
		}
		// No moved directory is in another one.
		i, _ := slices.BinarySearchFunc(all, c.From, func(m changes.Move, name string) int { return strings.Compare(m.From+"/", name) })
		if i > 0 && strings.HasPrefix(c.From, all[i-1].From+"/") {
			moved[i-1].add(c)
		}
	}
	type pair struct{ from, to string }
	var order []pair
	groups := make(map[pair]movedFiles)
	for i, m := range all {
		at := pair{m.From, m.To}
		if len(all) > review.MostFiles {
			at = pair{path.Dir(m.From), path.Dir(m.To)}
		}
		g, ok := groups[at]
		if !ok {
			order = append(order, at)
		}
		groups[at] = movedFiles{g.dirs + 1, g.files + m.Files, g.edited + moved[i].edited, g.asNew + m.Files - moved[i].files, m}
	}
	var rest movedFiles
	for i, at := range order {
		switch g := groups[at]; {
		case i >= review.MostFiles:
			rest = movedFiles{rest.dirs + g.dirs, rest.files + g.files, rest.edited + g.edited, rest.asNew + g.asNew, g.last}
		case g.dirs > 1:
			rows = append(rows, []string{"R", v.inside(at.from) + " → " + v.inside(at.to), visible.Number(g.dirs) + " directories with " + g.String(), ""})
		default:
			rows = append(rows, []string{"R", v.shown(g.last.From) + "/ → " + v.shown(g.last.To) + "/", g.String(), ""})
		}
	}
	if rest.dirs > 0 {
		rows = append(rows, []string{"R", visible.Number(rest.dirs) + " more directories", rest.String() + "; golem diff" + v.option() + " --json lists all", ""})
	}
	return rows
}

// inside stands for the directories in a directory.
func (v *reviewText) inside(dir string) string {
	if dir = v.shown(dir); dir == "." {
		return "*/"
	}
	return strings.TrimSuffix(dir, "/") + "/*/"
}

// movedFiles counts the files of moved directories.
type movedFiles struct {
	dirs, files, edited int
	asNew               int // listed like new files, because golem did not compare them or because they mean something else now
	last                changes.Move
}

func (m *movedFiles) add(c session.FileChange) {
	if m.files++; c.Edited {
		m.edited++
	}
}

// String describes the files: "3 files moved, 1 of them edited, 1 listed as new".
func (m movedFiles) String() string {
	text := visible.Count(m.files, "file") + " moved"
	if m.edited > 0 {
		text += ", " + visible.Number(m.edited) + " of them edited"
	}
	if m.asNew > 0 {
		text += ", " + visible.Number(m.asNew) + " listed as new"
	}
	return text
}
