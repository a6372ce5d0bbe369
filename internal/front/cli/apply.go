package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/internal/work/toolset/settle"
	"github.com/golem-forge/golem/sandbox"
)

func newApply() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apply [PATH…]",
		Short: "Copy the changes of a session into your directory",
		Long: `Copy the changes of a session into your directory: all of them, or those at and below
each PATH, relative to the current directory. golem shows the changes, asks once, and applies
exactly what you approved. golem undo restores what was there.

With -p golem asks about each hunk, as git add -p does: y applies it, n leaves it in the
session, a and d decide for the rest of the file, s splits it, e opens it in your editor, q
ends the questions. A new or deleted file, a symlink, a binary file and new permissions are
one question each. Then golem lists what you chose, and asks once.

With --commits golem takes the commits that the agent made in the session's git repository.
They arrive as refs/golem/SESSION/BRANCH, and with --branch NAME also as a new branch. golem
shows every commit with its diff first, and changes nothing else in .git. The authors of the
commits are unverified.

New files that git ignores by the rules of your directory, such as node_modules, stay in the
session, unless PATH names them or a directory in which all are ignored. --ignored applies
them too.

If a file also changed in your directory, that is a conflict, and golem applies nothing.
--merge combines both versions. --overwrite takes the session's. golem applies a protected
file only if PATH names it. It never applies changes in .git: only --commits adds refs there.

Exit code 0: applied; 1: failed, or nothing to apply; 2: wrong arguments; 3: declined, or no
terminal to ask at.`,
		Example: `  golem apply
  golem apply -p
  golem apply --commits --branch from-agent`,
	}
	f := &applyFlags{gateFlags: addChoiceFlags(cmd)}
	cmd.Flags().BoolVar(&f.all, "all", false, "all changes, as without PATH")
	cmd.Flags().BoolVar(&f.ignored, "ignored", false, "also new files that git ignores, such as node_modules")
	cmd.Flags().BoolVarP(&f.pick, "patch", "p", false, "choose hunk by hunk")
	cmd.Flags().BoolVar(&f.dry, "dry-run", false, "only show what would be applied")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "apply without showing the changes and without asking")
	cmd.Flags().BoolVar(&f.commits, "commits", false, "take the commits that the agent made")
	cmd.Flags().StringVar(&f.branch, "branch", "", "with --commits: also make this new branch")
	cmd.Flags().BoolVar(&f.merge, "merge", false, "combine both versions of a file that changed in your directory too")
	cmd.Flags().BoolVar(&f.overwrite, "overwrite", false, "replace a file that changed in your directory too")
	cmd.Flags().StringArrayVar(&f.hunks, "hunks", nil, "only these hunks of a file, by their numbers in golem diff: PATH:1,3; may be given again")
	cmd.Flags().DurationVar(&f.wait, "wait", patience, "how long to wait for an approval")
	cmd.RunE = f.run
	addFetchFlag(cmd, f.programFlags)
	return cmd
}

// applyFlags are the flags of golem apply.
type applyFlags struct {
	*gateFlags
	all, dry, yes, merge, overwrite, pick, ignored bool

	hunks  []string
	branch string
}

// check returns an error for flags that do not go together.
func (f *applyFlags) check(cmd *cobra.Command, args []string) error {
	switch {
	case f.all && (len(args) > 0 || len(f.hunks) > 0):
		return usageError("--all applies everything; omit the paths or --all")
	case f.branch != "" && !f.commits:
		return usagef("--branch names the new branch for commits: golem apply --commits --branch %s", visible.CommandLine(f.branch))
	case f.commits && (len(args) > 0 || len(f.hunks) > 0 || f.all || f.dry || f.merge || f.overwrite || f.pick):
		return usageError("--commits takes all commits of the session; use it only with --branch, --session, --yes and --wait; golem diff --commits shows them")
	case f.merge && f.overwrite:
		return usageError("--merge and --overwrite exclude each other")
	case f.pick && (f.all || f.dry || f.yes || f.merge || f.overwrite || len(f.hunks) > 0 || wantsJSON(cmd)):
		return usageError("-p asks about each hunk; use it only with PATH, --session and --wait")
	case f.yes && f.dry:
		return usageError("--yes and --dry-run exclude each other")
	}
	return nil
}

// run runs golem apply.
func (f *applyFlags) run(cmd *cobra.Command, args []string) error {
	args, err := f.takeSession(args)
	if err == nil {
		err = f.check(cmd, args)
	}
	if err != nil {
		return err
	}
	if f.yes {
		f.approval = "approve_all"
	}
	w, err := f.choose(cmd)
	if err == nil && !f.dry {
		err = w.awaitCalls(cmd, "applied")
	}
	if err != nil {
		return err
	}
	if f.commits {
		if f.yes {
			fmt.Fprintln(cmd.ErrOrStderr(), "golem: taking the commits unseen (--yes)")
		}
		c := newUserCall(cmd, f.gateFlags, settle.ApplyArgs{Commits: true, Branch: f.branch})
		c.work = w
		return c.run()
	}
	return f.applyFiles(cmd, w, args)
}

// applyFiles applies the changes at the typed paths, or the chosen hunks.
func (f *applyFlags) applyFiles(cmd *cobra.Command, w *workSession, args []string) error {
	paths, parts, err := w.hunksOf(f.hunks)
	if err != nil {
		return err
	}
	w.hunks, w.unfolded = f.hunks, f.ignored
	typed, resolved := append(paths, args...), f.merge || f.overwrite
	r, names, err := w.review(cmd.ErrOrStderr(), "apply", typed, f.dry || f.pick)
	switch {
	case err != nil:
		return err
	case len(r.Files) == 0:
		return w.nothing(cmd, "apply", r)
	case f.dry:
		return showDryRun(cmd, w, r)
	case f.pick:
		return f.applyPicked(cmd, w, r, args, names)
	}
	if err := w.checkConflicts(r, typed, resolved, names[:len(paths)]...); err != nil {
		return err
	}
	if f.yes {
		fmt.Fprintf(cmd.ErrOrStderr(), "golem: applying %s unseen (--yes)\n", visible.Count(r.Total().Files, "changed file"))
	}
	c := newUserCall(cmd, f.gateFlags, settle.ApplyArgs{Paths: names[len(paths):], Hunks: parts, Ignored: f.ignored, Merge: f.merge, Overwrite: f.overwrite})
	c.applies(w, r, typed, resolved)
	return c.run()
}

// applies sets what the call applies: the changes of a session at the typed paths, or all.
// resolved is true if the user has said what to do about conflicts.
func (c *userCall) applies(w *workSession, r *session.Review, typed []string, resolved bool) {
	c.work, c.doing = w, "applying "+visible.Count(r.Total().Files, "file")
	c.explain = func(r tool.Result) tool.Result {
		if r.OK() && len(typed) > 0 {
			rest, _, err := w.review(io.Discard, "apply", nil, false)
			c.partly = c.partly || err == nil && len(rest.Files) > 0
		}
		return w.explainConflict("apply", r, typed, resolved)
	}
}

// hunksOf parses --hunks. It returns the paths as typed, and the hunks argument of
// apply_changes.
func (w *workSession) hunksOf(hunks []string) (paths, parts []string, err error) {
	for _, h := range hunks {
		typed, numbers, ok := cutLast(h, ":")
		if !ok {
			return nil, nil, usagef("--hunks %s: %s", sandbox.Shown(h), hunksHint)
		}
		name, err := w.nameOf(typed)
		if err != nil {
			return nil, nil, err
		}
		paths, parts = append(paths, typed), append(parts, name+":"+numbers)
	}
	return paths, parts, nil
}

// checkConflicts returns an error if files to apply changed in the user's directory too
// and the user has not said what to do about it. args are the paths that the user typed.
// Nothing resolves a conflict in a file of which the user named hunks.
func (w *workSession) checkConflicts(r *session.Review, args []string, resolved bool, hunks ...string) error {
	var names []string
	for _, c := range r.Files {
		if c.Conflict && (!resolved || slices.Contains(hunks, c.Path)) {
			names = append(names, w.shown(c.Path))
		}
	}
	if len(names) == 0 {
		return nil
	}
	typed := ""
	for _, arg := range args {
		typed += " " + visible.CommandLine(arg)
	}
	typed += w.option()
	return &sandbox.Error{Op: "apply", Code: sandbox.ErrConflict, Hint: "changed in your directory since the session first changed it: " + strings.Join(names, ", ") +
		"; nothing was applied; " + w.golem() + "apply --merge" + typed + " combines both versions, " + w.golem() + "apply --overwrite" + typed + " takes the session's, " + w.golem() + "discard" + typed + " deletes the session's"}
}

// explainConflict says why a call failed with a conflict, with the paths that the user
// types. Something changed after golem had read it, for example while a question was open.
func (w *workSession) explainConflict(op string, r tool.Result, args []string, resolved bool) tool.Result {
	if r.Err == nil || r.Err.Code != sandbox.ErrConflict {
		return r
	}
	if _, busy := w.of().Holder(); busy {
		return w.explainBusy(r)
	}
	again, _, err := w.review(io.Discard, op, args, false)
	switch {
	case sandbox.CodeOf(err) == sandbox.ErrNotFound, err == nil && len(again.Files) == 0:
		err = &sandbox.Error{Op: op, Code: sandbox.ErrConflict, Hint: "session " + w.label() + " no longer has these changes: they were applied or discarded elsewhere while golem asked; " +
			"this command changed nothing; golem undo --list lists what was applied"}
	case err == nil && resolved && r.Err.Path != "": // golem could not merge a file
		err = settle.WithCommands(r.Err, visible.CommandLine(r.Err.Path), w.option())
	case err == nil:
		err = w.checkConflicts(again, args, resolved)
	}
	if now, is := errors.AsType[*sandbox.Error](err); is {
		r.Err = now
	}
	return r
}

// explainBusy says what works in the session, if a call failed because of that.
func (w *workSession) explainBusy(r tool.Result) tool.Result {
	if h, busy := w.of().Holder(); busy && r.Err != nil && r.Err.Code == sandbox.ErrConflict {
		r.Err = &sandbox.Error{Op: r.Err.Op, Code: r.Err.Code, Hint: describeHolder(h) + ", works in session " + w.label() + "; nothing was done; try again when it has ended"}
	}
	return r
}

// nothing prints what was skipped, and returns the error that there is nothing to apply
// or discard.
func (w *workSession) nothing(cmd *cobra.Command, verb string, r *session.Review) error {
	note(cmd, w.skippedBy(r)...)
	if len(r.Ignored) > 0 {
		return &sandbox.Error{Op: verb, Code: sandbox.ErrNotFound, Hint: "session " + w.label() + " has only files that git ignores; golem apply" + w.option() + " --ignored applies them too"}
	}
	return &sandbox.Error{Op: verb, Code: sandbox.ErrNotFound, Hint: "session " + w.label() + " has no changes to " + verb + "; golem status shows what waits here"}
}

// showDryRun prints the changes that golem apply would apply.
func showDryRun(cmd *cobra.Command, w *workSession, r *session.Review) error {
	if wantsJSON(cmd) {
		return w.printReview(cmd, r)
	}
	v := newReviewText(cmd.OutOrStdout(), w, r)
	v.stat(true)
	v.notes()
	v.line("dry run: nothing was applied")
	return v.b.flush()
}

func newDiscard() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "discard [PATH…]",
		Short: "Delete the changes of a session",
		Long: `Delete the changes of a session without applying them: all of them, or those at and
below each PATH, relative to the current directory. Your directory stays as it is. golem
shows the changes and asks once. A discard cannot be undone.

Exit code 0: discarded; 1: failed, or nothing to discard; 2: wrong arguments; 3: declined,
or no terminal to ask at.`,
		Example: "  golem discard build\n  golem discard src/main.c\n  golem discard --session last --yes",
	}
	f := addChoiceFlags(cmd)
	yes, all := false, false
	cmd.Flags().BoolVar(&all, "all", false, "all changes, as without PATH")
	cmd.Flags().BoolVar(&yes, "yes", false, "discard without showing the changes and without asking")
	cmd.Flags().DurationVar(&f.wait, "wait", patience, "how long to wait for an approval")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		args, err := f.takeSession(args)
		if err != nil {
			return err
		}
		if all && len(args) > 0 {
			return usageError("--all discards everything; omit the paths or --all")
		}
		if yes {
			f.approval = "approve_all"
		}
		w, err := f.choose(cmd)
		if err == nil {
			err = w.awaitCalls(cmd, "discarded")
		}
		if err != nil {
			return err
		}
		r, names, err := w.review(cmd.ErrOrStderr(), "discard", args, false)
		if err != nil {
			return err
		}
		if len(r.Files) == 0 && r.Git == 0 && r.Unfit == "" {
			return w.nothing(cmd, "discard", r)
		}
		if yes {
			what := visible.Count(r.Total().Files, "changed file")
			if r.Git > 0 {
				what += " and " + visible.Count(r.Git, "file") + " in .git"
			}
			if r.Unfit != "" {
				what += ", and names that golem cannot apply,"
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "golem: discarding %s unseen (--yes)\n", what)
		}
		c := newUserCall(cmd, f, discardArgs(names))
		c.work, c.doing = w, "discarding "+visible.Count(r.Total().Files, "file")
		c.explain = func(r tool.Result) tool.Result { return w.explainConflict("discard", r, args, true) }
		return c.run()
	}
	return cmd
}
