package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/toolset/git"
	"github.com/golem-forge/golem/sandbox"
)

// An Explorer shows what waits for the user, full screen at a terminal, until the user quits
// or ctx ends. It returns the last words for the user. It is another front, which this
// package does not import.
type Explorer func(ctx context.Context, o inbox.ExploreOptions) (last string, err error)

// minExplored is the smallest number of columns for an Explorer.
const minExplored = 60

// whyPlain returns why a terminal cannot show a full screen, or "" if it can.
func whyPlain(terminal *os.File, plain bool) string {
	switch name := os.Getenv("TERM"); {
	case plain:
		return "--plain"
	case name == "" || name == "dumb":
		return "this terminal cannot move the cursor (TERM)"
	case !colours:
		return "golem has no full screen on this system"
	}
	if columns, _, err := term.GetSize(int(terminal.Fd())); err != nil || columns < minExplored {
		return fmt.Sprintf("this terminal has less than %d columns", minExplored)
	}
	return ""
}

// notePlain says why golem asks line by line, unless the user wants that.
func notePlain(cmd *cobra.Command, why string, plain bool) {
	if !plain {
		note(cmd, why+"; asking line by line")
	}
}

// addPlain adds the flags of commands that have a full screen.
func addPlain(cmd *cobra.Command, interactive, plain *bool, otherwise string) {
	cmd.Flags().BoolVarP(interactive, "interactive", "i", false, "look at it full screen, and decide there")
	cmd.Flags().BoolVar(plain, "plain", false, "with -i: "+otherwise)
}

// explore shows a session or a list full screen. The command's other output waits
// meanwhile.
func (f *programFlags) explore(cmd *cobra.Command, show Explorer, terminal *os.File, wait time.Duration, o inbox.ExploreOptions) error {
	screen := newScreen(terminal)
	o.Terminal, o.Environ, o.Colours, o.Gate.Secrets, o.Settle, o.Age = terminal, os.Environ(), !screen.plain, secrets(os.Environ()), settling, age
	if s := newScreen(cmd.OutOrStdout()); s.file != nil {
		o.Colours = !s.plain
	}
	dir, err := f.realDir()
	if err != nil {
		return err
	}
	o.Path = func(p *program.Program, name string) string { return newPaths(p, dir).pathOf(name) }
	o.Local = func(p *program.Program, r tool.Request) tool.Request { return newPaths(p, dir).localRequest(r) }
	o.Result = func(p *program.Program, r tool.Result) tool.Result { return newPaths(p, dir).localResult(r) }
	o.Front = withAccount("golem " + cmd.Name() + " -i, at a terminal")
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	keys := newKeyboard(terminal)
	free, err := keys.take(ctx, wait)
	if err != nil {
		return err
	}
	_, release := consoleOf(cmd.ErrOrStderr()).own()
	last, err := show(ctx, o)
	free()
	release()
	switch caught, is := errors.AsType[signaled](context.Cause(ctx)); {
	case is:
		return caught.code()
	case err != nil:
		return err
	case last != "":
		fmt.Fprintln(cmd.OutOrStdout(), last)
	}
	return nil
}

// exploreSession shows the changes of a session at and below the typed paths, full screen.
// Where the terminal cannot do that, it asks about each hunk instead.
func (f *gateFlags) exploreSession(cmd *cobra.Command, show Explorer, w *workSession, args []string, plain bool) error {
	terminal := findTerminal(false)
	if terminal == nil {
		return usageError("-i needs a terminal, and there is none; golem diff prints the changes, golem apply PATH… --yes applies some")
	}
	why := whyPlain(terminal, plain)
	r, names, err := w.review(cmd.ErrOrStderr(), "diff", args, why != "")
	if err != nil {
		return err
	}
	if err := f.askTrust(cmd, w.program, false); err != nil {
		return err
	}
	if why != "" {
		notePlain(cmd, why, plain)
		return f.applyPicked(cmd, w, r, args, names)
	}
	one := w.of()
	return f.explore(cmd, show, terminal, f.wait, inbox.ExploreOptions{Session: &one, Names: names})
}

// exploreAll shows everything that waits, full screen. Where the terminal cannot do that,
// it offers one item after the other.
func (f *programFlags) exploreAll(cmd *cobra.Command, fronts Fronts, plain bool) error {
	terminal := findTerminal(false)
	if terminal == nil {
		return usageError("-i needs a terminal, and there is none; golem status --all prints what waits")
	}
	o, err := f.options()
	if err != nil {
		return err
	}
	why := whyPlain(terminal, plain)
	if why == "" {
		o.OnRecover = nil // a line would damage the full screen
	}
	reader := &inbox.Reader{Options: o}
	watcher := &inbox.Watcher{Options: o, Reader: reader}
	if why != "" {
		notePlain(cmd, why, plain)
		if hubOfConfig() != "" {
			fmt.Fprintln(cmd.ErrOrStderr(), "golem: only what waits on this machine; golem approve --hub and golem jobs show what waits at your hub")
		}
		return offerItems(cmd, fronts, terminal, reader)
	}
	e := inbox.ExploreOptions{Items: watcher.ItemsAndActivities, Options: o, Resume: f.resumeRun}
	if hubOfConfig() != "" {
		e.Hub = inbox.NewHubWatcher(o, (&hubFlags{}).credentials)
	}
	return f.explore(cmd, fronts.Explore, terminal, patience, e)
}

// offerItems asks about each item that waits whether to open it, and runs the command for
// it.
func offerItems(cmd *cobra.Command, fronts Fronts, terminal *os.File, reader *inbox.Reader) error {
	items, problems, err := reader.Items(cmd.Context())
	if err != nil {
		return err
	}
	for _, p := range problems {
		fmt.Fprintf(cmd.ErrOrStderr(), "golem: cannot tell what waits in %s: %s\n", p.Directory, p.Text)
	}
	if len(items) == 0 {
		fmt.Fprintln(cmd.OutOrStdout(), "nothing waits for you in any directory")
		return nil
	}
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	for i, it := range items {
		fmt.Fprintf(cmd.OutOrStdout(), "%d of %s: %s, %s risk, in %s, %s\n  %s\n", i+1, visible.Count(len(items), "item"), it.Kind, it.Risk, it.Directory, age(it.Since), it.Title)
		for _, why := range it.Reasons {
			fmt.Fprintln(cmd.OutOrStdout(), "  ! "+why)
		}
		p, err := inbox.OpenProgram(reader.Options, it.Program)
		if err != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), "golem: "+visible.Line(err.Error(), maxColumns))
			continue
		}
		args := commandFor(it, string(p.Root()))
		yes, stopped, err := newAsker(terminal, cmd.ErrOrStderr(), patience).confirm(ctx, "status -i", "open it with golem "+visible.CommandLine(args...))
		if err != nil {
			return err
		}
		if stopped {
			fmt.Fprintln(cmd.ErrOrStderr(), "golem: stopped; "+visible.Count(len(items)-i, "item")+" without an answer; golem status --all lists what waits")
			return exit(exitDenied)
		}
		if !yes {
			continue
		}
		root := newRoot(fronts, args...)
		root.SetArgs(args)
		root.SetOut(cmd.OutOrStdout())
		root.SetErr(cmd.ErrOrStderr())
		root.SetIn(cmd.InOrStdin())
		if err := root.ExecuteContext(ctx); err != nil && err.Error() != "" {
			fmt.Fprintln(cmd.ErrOrStderr(), "golem: "+visible.Line(err.Error(), maxColumns))
		}
	}
	return nil
}

// commandFor returns the command that decides about an item of a directory.
func commandFor(it inbox.Item, dir string) []string {
	switch it.Kind {
	case inbox.KindChanges:
		return []string{"apply", "-p", "-C", dir, naming.Mark + cmp.Or(it.Name, it.ID)}
	case inbox.KindCommit:
		return []string{"review", "-i", "--plain", "-C", dir, it.ID}
	case inbox.KindRun:
		return []string{"run", dir, "--resume", cmp.Or(it.Name, it.ID)}
	}
	return []string{"approve", it.ID, "-C", dir}
}

// exploreCommits shows the staged commits of the program full screen, or those with some
// ids. Where the terminal cannot do that, it prints each and asks whether to push it.
func (f *gateFlags) exploreCommits(cmd *cobra.Command, show Explorer, ids []string, plain bool) error {
	terminal := findTerminal(false)
	if terminal == nil {
		return usageError("-i needs a terminal, and there is none; golem review prints the commits")
	}
	p, err := f.program()
	if err != nil {
		return err
	}
	list := func(context.Context) ([]inbox.Item, []inbox.Problem, error) {
		items, err := inbox.StagedItems(p)
		if len(ids) > 0 {
			items = slices.DeleteFunc(items, func(it inbox.Item) bool {
				return !slices.ContainsFunc(ids, func(id string) bool { return id != "" && strings.HasPrefix(it.ID, id) })
			})
		}
		return items, nil, err
	}
	items, _, err := list(cmd.Context())
	switch {
	case err != nil:
		return err
	case len(items) == 0 && len(ids) > 0:
		return &sandbox.Error{Op: "review", Path: ids[0], Code: sandbox.ErrNotFound, Hint: "no staged commit has this id; golem review lists those that wait"}
	case len(items) == 0:
		return f.review(cmd, nil, false, false)
	}
	if err := f.askTrust(cmd, p, false); err != nil {
		return err
	}
	if why := whyPlain(terminal, plain); why != "" {
		notePlain(cmd, why, plain)
		for _, it := range items {
			if err := f.review(cmd, []string{it.ID}, false, false); err != nil {
				return err
			}
			yes, stopped, err := newAsker(terminal, cmd.ErrOrStderr(), f.wait).confirm(cmd.Context(), "review -i", "push commit "+it.ID[:min(12, len(it.ID))])
			if err != nil {
				return err
			}
			if stopped {
				fmt.Fprintln(cmd.ErrOrStderr(), "golem: stopped; the commit still waits; golem review lists what waits")
				return exit(exitDenied)
			}
			if yes {
				if err := f.use(cmd, git.PushArgs{CommitID: it.ID}); err != nil {
					return err
				}
			}
		}
		return nil
	}
	o, err := f.options()
	if err != nil {
		return err
	}
	o.OnRecover = nil // a line would damage the full screen
	return f.explore(cmd, show, terminal, f.wait, inbox.ExploreOptions{Items: list, Options: o, OpenOnly: true, Gate: program.WorkerOptions{Worker: f.worker, Session: f.sessionID()}})
}
