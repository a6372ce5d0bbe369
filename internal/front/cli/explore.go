package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/golem-forge/golem/internal/inbox"
	"github.com/golem-forge/golem/internal/tool"
)

// An Explorer shows the changes of a session, full screen at a terminal, until the user
// quits or ctx ends. It returns the last words for the user. It is another front, which this package does not
// import.
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

// addPlain adds the flags of commands that have a full screen.
func addPlain(cmd *cobra.Command, interactive, plain *bool, otherwise string) {
	cmd.Flags().BoolVarP(interactive, "interactive", "i", false, "look at it full screen, and decide there")
	cmd.Flags().BoolVar(plain, "plain", false, "with -i: "+otherwise)
}

// explore shows a session full screen. The command's other output waits meanwhile.
func (f *gateFlags) explore(cmd *cobra.Command, show Explorer, terminal *os.File, o inbox.ExploreOptions) error {
	screen := newScreen(terminal)
	o.Terminal, o.Environ, o.Colours, o.Secrets, o.Settle = terminal, os.Environ(), !screen.plain, secrets(os.Environ()), settling
	if s := newScreen(cmd.OutOrStdout()); s.file != nil {
		o.Colours = !s.plain
	}
	dir, err := f.realDir()
	if err != nil {
		return err
	}
	o.Path = func(s inbox.Session, name string) string { return newPaths(s.Program, dir).pathOf(name) }
	o.Local = func(s inbox.Session, r tool.Request) tool.Request { return newPaths(s.Program, dir).localRequest(r) }
	o.Result = func(s inbox.Session, r tool.Result) tool.Result { return newPaths(s.Program, dir).localResult(r) }
	o.Front = withAccount("golem " + cmd.Name() + " -i, at a terminal")
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	keys := newKeyboard(terminal)
	free, err := keys.take(ctx, f.wait)
	if err != nil {
		return err
	}
	_, release := consoleOf(cmd.ErrOrStderr()).own()
	last, err := show(ctx, o)
	free()
	release()
	var caught signaled
	switch {
	case errors.As(context.Cause(ctx), &caught):
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
	r, names, err := w.review("diff", args, why != "")
	if err != nil {
		return err
	}
	if err := f.askTrust(cmd, w.program, false); err != nil {
		return err
	}
	if why != "" {
		if !plain {
			fmt.Fprintln(cmd.ErrOrStderr(), "golem: "+why+"; asking line by line")
		}
		return f.applyPicked(cmd, w, r, names)
	}
	one := w.of()
	return f.explore(cmd, show, terminal, inbox.ExploreOptions{Session: &one, Names: names})
}
