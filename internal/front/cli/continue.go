package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/continuing"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

// addContinue adds the flag that continues the newest session with changes.
func (f *gateFlags) addContinue(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.goesOn, "continue", "c", false, "continue in the newest session here that has changes and shows the same directories")
}

// checkContinue refuses flags that contradict --continue.
func (f *gateFlags) checkContinue() error {
	if f.goesOn && f.session != "" {
		return usageError("--continue and --session both choose a session; use one of them")
	}
	return nil
}

// chooseContinued chooses the session of --continue: the newest one of a program that has
// changes and shows the same directories. Without the flag, it is the choice of the user's
// configuration; if that is none, it only says which session --continue would choose.
func (f *gateFlags) chooseContinued(cmd *cobra.Command, p *program.Program) error {
	isFlag := f.goesOn
	if !isFlag && f.sessionID() != "" {
		return nil
	}
	one, other, err := continuing.Newest(p.Storage.Sessions)
	byDefault := p.Project.Ceiling.Preferences().Session == "continue"
	switch {
	case err != nil && (isFlag || byDefault):
		return err
	case one == nil && isFlag:
		return &sandbox.Error{Op: "continue", Code: sandbox.ErrNotFound, Hint: f.noneToContinue(cmd, p, other)}
	case one == nil || err != nil:
		return nil
	case !isFlag && !byDefault:
		if !wantsJSON(cmd) {
			fmt.Fprintf(cmd.ErrOrStderr(), "golem: session %s has changes that this new session does not have; -c continues in it\n", one.ID)
		}
		return nil
	}
	w := newWorkSession(p, one, "")
	if h, ok := w.of().Holder(); ok || p.Storage.IsRunning(one) {
		who := "another golem"
		if ok {
			who = visible.Line(describeHolder(h), maxColumns)
		}
		return &sandbox.Error{Op: "continue", Code: sandbox.ErrConflict, Hint: who + ", works in session " + one.ID + "; wait until it ends, or start another session with --session new"}
	}
	if !isFlag && !wantsJSON(cmd) {
		fmt.Fprintf(cmd.ErrOrStderr(), "golem: continues in session %s, as your configuration says; --session new starts another\n", one.ID)
	}
	f.session = one.ID
	return nil
}

// noneToContinue says that --continue finds no session, and what helps. other is a session
// that shows other directories, nil for none.
func (f *gateFlags) noneToContinue(cmd *cobra.Command, p *program.Program, other *session.Session) string {
	if all, err := f.sessionsHere(); err == nil && other == nil { // also those of a directory above
		for _, w := range all {
			if w.program.Storage.Sessions.HasWork(w.Session) {
				other = w.Session
				break
			}
		}
	}
	hint := "no session here has changes; " + cmd.CommandPath() + " without --continue starts one, golem status --all lists those elsewhere"
	if other != nil {
		hint = "no session with these directories has changes; --session " + other.ID + " continues one with others, and " + cmd.CommandPath() + " without --continue starts a new one"
	}
	for _, dir := range continuing.Damaged(p.Storage.Sessions) {
		hint += "; golem cannot read a session, because its file session.json is damaged; its changes are in " + visible.Text(dir)
	}
	return hint
}

// meansShell returns the error for a line of a shell after -c, which is --continue here;
// nil if there is a program of this name.
func (f *gateFlags) meansShell(args []string) error {
	if !f.goesOn || len(args) != 1 || !strings.ContainsAny(args[0], " \t\n") {
		return nil
	}
	if _, err := os.Stat(args[0]); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(args[0], "/") && inPath(args[0]) {
		return nil
	}
	return usagef("-c continues a session, and takes no line for a shell; did you mean golem exec -- sh -c %s? To run it in the session: golem exec -c -- sh -c %s", visible.CommandLine(args[0]), visible.CommandLine(args[0]))
}

// startsNew reports whether a command starts a new session.
func (f *gateFlags) startsNew() bool { return f.sessionID() == "" || f.sessionID() == session.New }
