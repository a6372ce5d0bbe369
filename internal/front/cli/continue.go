package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/continuing"
	"github.com/golem-forge/golem/internal/work/naming"
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
	if !isFlag && p.Project.Ceiling.Preferences().Session != "continue" {
		if one := continuing.Recent(p.Storage.Sessions); one != nil && !wantsJSON(cmd) {
			fmt.Fprintf(cmd.ErrOrStderr(), "golem: session %s has changes that this new session does not have; -c continues in it\n", naming.Label(one))
		}
		return nil
	}
	one, other, err := continuing.Newest(p.Storage.Sessions)
	switch {
	case err != nil:
		return err
	case one == nil && isFlag:
		return &sandbox.Error{Op: "continue", Code: sandbox.ErrNotFound, Hint: f.noneToContinue(cmd, p, other)}
	case one == nil:
		return nil
	}
	w := newWorkSession(p, one, "")
	if h, ok := w.of().Holder(); ok || p.Storage.IsRunning(one) {
		who := "another golem"
		if ok {
			who = visible.Line(describeHolder(h), maxColumns)
		}
		return &sandbox.Error{Op: "continue", Code: sandbox.ErrConflict, Hint: who + ", works in session " + naming.Label(one) + "; wait until it ends, or start another session with --session new"}
	}
	if !isFlag && !wantsJSON(cmd) {
		fmt.Fprintf(cmd.ErrOrStderr(), "golem: continues in session %s, as your configuration says; --session new starts another\n", naming.Label(one))
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
		hint = "no session with these directories has changes; --session " + naming.Label(other) + " continues one with others, and " + cmd.CommandPath() + " without --continue starts a new one"
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

// checkRights asks the user if a command in a session that continues may use more of the
// network, directories or credentials than the session began with. The session may hold
// content that somebody else wrote, and that was harmless without them.
func checkRights(cmd *cobra.Command, p *program.Program, gate *program.OpenWorker) error {
	one := gate.Session
	if one == nil || one.Begun {
		return nil
	}
	began, known := continuing.Began(one)
	more := gate.Rights.Beyond(began)
	if len(more) == 0 {
		return nil
	}
	than := "than session " + naming.Label(one) + " began with"
	if !known {
		than = "in session " + naming.Label(one) + ", and golem has no record of what the session began with"
	}
	d := decision{cmd: cmd, program: p, terminal: findTerminal(false), out: cmd.ErrOrStderr()}
	if d.terminal != nil {
		request, err := tool.NewCommandRequest("continue", "give the command more "+than, more, nil, nil, map[string]string{"session": one.ID, "more": strings.Join(more, "\n")})
		if err != nil {
			return err
		}
		if yes, _, err := d.decide(request, func() error { return continuing.Record(one, gate.Rights) }); yes || err != nil {
			return err
		}
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "golem: not started: the command would have more %s:\n", than)
	for _, line := range more {
		fmt.Fprintln(cmd.ErrOrStderr(), "  "+line)
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "golem: "+fewer(cmd, began, known, more)+"--session new starts another session; at a terminal golem asks")
	return exit(exitDenied)
}

// fewer says which flags limit a command to what its session began with; "" for none.
func fewer(cmd *cobra.Command, began continuing.Rights, known bool, more []string) string {
	has := func(kind string) bool {
		return slices.ContainsFunc(more, func(line string) bool { return strings.HasPrefix(line, kind) })
	}
	var flags []string
	if has("network: ") && cmd.Flags().Lookup("net") != nil && !began.AllHosts {
		net := "off"
		if len(began.Hosts) > 0 {
			net = visible.CommandLine(strings.Join(visible.Each(began.Hosts, func(r policy.HostRule) string { return r.Host }), ","))
		}
		flags = append(flags, "--net "+net)
	}
	if has("credential: ") && cmd.Flags().Lookup("profile") != nil {
		flags = append(flags, "--profile plain without --env")
	}
	if !known || len(flags) == 0 {
		return ""
	}
	return strings.Join(flags, " and ") + " continues with what it has; "
}

// startsNew reports whether a command starts a new session.
func (f *gateFlags) startsNew() bool { return f.sessionID() == "" || f.sessionID() == session.New }
