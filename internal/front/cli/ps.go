package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/golem-forge/golem/internal/people/detached"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/terminal"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/storage"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/sandbox"
)

// psFlags are the flags of golem ps and golem attach.
type psFlags struct{ *programFlags }

func newPS() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List what runs, also in the background",
		Long: `List what your golems run, in every directory: the session, the command, its age, the
processor time and memory of golem and the commands in its jail, and the last line of output.
What waits for your approval is on a line of its own. The list also has what ended in the
background within the last week, with its exit code, and runs that can continue. The changes
of all of them wait in their sessions.`,
		Example: "  golem ps\n  golem ps stop claude-otter\n  golem ps --json",
		Args:    noArgs,
	}
	f := psFlags{&programFlags{dir: "."}}
	cmd.PersistentFlags().StringVar(&f.state, "state", "", "the directory of golem's state (GOLEM_STATE)")
	markShared(cmd.PersistentFlags(), "state")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		_, list, err := f.activities(cmd)
		if err != nil {
			return err
		}
		if wantsJSON(cmd) {
			return printJSON(cmd.OutOrStdout(), map[string]any{"activities": append([]inbox.Activity{}, list...)})
		}
		if len(list) == 0 {
			fmt.Fprintln(cmd.OutOrStdout(), "nothing runs; golem exec -d CMD starts a command in the background")
			return nil
		}
		home, _ := os.UserHomeDir()
		printActivities(cmd.OutOrStdout(), list, home)
		return nil
	}
	cmd.AddCommand(f.newStop())
	return cmd
}

// activities returns what the user's golems do, in every directory.
func (f psFlags) activities(cmd *cobra.Command) (*inbox.Watcher, []inbox.Activity, error) {
	o, err := f.options()
	if err != nil {
		return nil, nil, err
	}
	w := &inbox.Watcher{Options: o, Reader: &inbox.Reader{Options: o}}
	list, err := w.Activities(cmd.Context())
	return w, list, err
}

// printActivities prints a list of what runs.
func printActivities(out io.Writer, list []inbox.Activity, home string) {
	rows := [][]string{{"session", "command", "state", "age", "processor", "memory", "directory", "last line"}}
	for _, a := range list {
		rows = append(rows, activityRow(a, home))
	}
	printColumns(out, rows)
	for _, a := range list {
		if a.Cost != "" {
			fmt.Fprintf(out, "session %s: %s\n", activityName(a), a.Cost)
		}
		for _, w := range a.Waiting {
			fmt.Fprintf(out, "session %s waits: %s; golem approve %s -C %s\n", activityName(a), w.Title, w.ID, visible.CommandLine(a.Directory))
		}
	}
}

// activityRow returns what happens in a session as a line of a list.
func activityRow(a inbox.Activity, home string) []string {
	used, memory := "", ""
	if a.Usage != nil {
		used, memory = a.Usage.CPU.Round(time.Second/10).String(), visible.Amount(a.Usage.Memory)
	}
	return []string{activityName(a), cmp.Or(a.Command, visible.Cut(a.Input, maxWhat), a.What), activityState(a), strings.TrimSuffix(age(a.Since), " ago"), used, memory, visible.HomeRelative(a.Directory, home), a.Doing}
}

// activityName returns the word by which to name a session in which something happens.
func activityName(a inbox.Activity) string { return cmp.Or(a.Name, a.ID) }

// activityState says whether something runs, or how it ended.
func activityState(a inbox.Activity) string {
	switch {
	case a.Detached != nil && a.State != storage.SessionPaused:
		return a.Detached.String()
	case a.State == storage.SessionRunning:
		return "running"
	case a.Resume:
		return "can continue"
	}
	return string(a.State)
}

// stopTime is how long golem ps stop waits for a program after each signal.
const stopTime = 10 * time.Second

func (f psFlags) newStop() *cobra.Command {
	now := false
	cmd := &cobra.Command{
		Use:   "stop SESSION…",
		Short: "End what runs in a session",
		Long: `End what runs in a session, in the background or in another terminal. The program gets
SIGTERM. If a program in the background has not ended after 10 seconds, golem ends its jail.
A run stops after its current call; with --now, at once. The changes stay in the session.`,
		Example: "  golem ps stop claude-otter\n  golem ps stop --now claude-otter",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError("stop needs a session; golem ps lists those in which something runs")
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&now, "now", false, "end a run at once, and a program in the background without waiting")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, id := range args {
			s, err := f.activeSession(cmd, id)
			if err != nil {
				return err
			}
			if err := stopSession(cmd, s, now); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

// stopSession ends what runs in a session, and reports how it ended.
func stopSession(cmd *cobra.Command, s inbox.ProgramSession, now bool) error {
	dir := filepath.Join(s.Dir(), detached.Name)
	d, ok := detached.Read(dir)
	said, err := s.Stop(now)
	if err != nil {
		return err
	}
	if !ok || !d.Running || s.HasRun() && !now {
		fmt.Fprintln(cmd.OutOrStdout(), said)
		return nil
	}
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	tick := time.NewTicker(glance)
	defer tick.Stop()
	again := time.After(stopTime)
	if now {
		again = time.After(glance)
	}
	for d.Running {
		select {
		case <-ctx.Done():
			return nil
		case <-again:
			s.Stop(true) // an error means that it has just ended
			again = time.After(stopTime)
		case <-tick.C:
			d, _ = detached.Read(dir)
		}
	}
	fmt.Fprintf(cmd.OutOrStdout(), "session %s has %s; golem diff --session %s shows its changes\n", naming.Label(s), d.String(), naming.Label(s))
	return nil
}

// activeSession returns the session with an id: one of this directory, or one of another in
// which something runs or has ended in the background.
func (f psFlags) activeSession(cmd *cobra.Command, id string) (inbox.ProgramSession, error) {
	all, err := f.sessionsHere()
	if err != nil {
		all = nil // the directory may have a program that golem cannot read
	}
	if w, err := naming.Find(all, id); err == nil && (id != lastSession || isDetached(w)) {
		return w.of(), nil
	}
	watcher, list, err := f.activities(cmd)
	if err != nil {
		return inbox.ProgramSession{}, err
	}
	var active []*workSession
	for _, a := range list {
		if s, err := inbox.OpenSession(watcher.Options, a.Program, a.ID); err == nil {
			active = append(active, newWorkSession(s.Program, s.Session, ""))
		}
	}
	slices.SortStableFunc(active, func(a, b *workSession) int { return b.LastUsed.Compare(a.LastUsed) })
	if len(active) == 0 {
		return inbox.ProgramSession{}, &sandbox.Error{Op: "session", Path: id, Code: sandbox.ErrNotFound, Hint: "nothing runs; golem exec -d CMD starts a command in the background"}
	}
	w, err := naming.Find(active, id)
	if err != nil {
		return inbox.ProgramSession{}, err
	}
	root := string(w.program.Root())
	home, _ := os.UserHomeDir()
	if dir, err := f.realDir(); err != nil || !strings.HasPrefix(dir+"/", strings.TrimSuffix(root, "/")+"/") {
		fmt.Fprintf(cmd.ErrOrStderr(), "golem: session %s is in %s\n", naming.Label(w), visible.Text(visible.HomeRelative(root, home)))
	}
	return w.of(), nil
}

// isDetached reports whether a program runs in the background of a session, or did.
func isDetached(w *workSession) bool {
	_, ok := detached.Read(filepath.Join(w.Dir(), detached.Name))
	return ok
}

func newAttach() *cobra.Command {
	log := false
	cmd := &cobra.Command{
		Use:   "attach [SESSION]",
		Short: "Take the terminal of a program in the background",
		Long: `Show the terminal of a program that golem exec -d or golem run -d started, and type there.
Ctrl-] d leaves it, and the program continues. Ctrl-] Ctrl-] sends one Ctrl-] to the program.
Several terminals may be attached: all show the output, and the one that attached or typed
last sets the size. golem asks its questions there, too. When the program ends, the exit code
is that of golem exec. Without SESSION, golem takes the only one in the background. SESSION may be
in any directory; golem prefers one here, and says where another is.

With --log, golem prints the output so far, follows it, and sends nothing. golem keeps the
last 8 to 16 MiB of output. It drops control sequences that reach more than the screen.`,
		Example: "  golem attach\n  golem attach claude-otter\n  golem attach --log claude-otter",
		Args:    takesArgs(0, 1, "attach takes one session, got %d"),
	}
	f := psFlags{&programFlags{dir: "."}}
	cmd.Flags().StringVar(&f.state, "state", "", "the directory of golem's state (GOLEM_STATE)")
	markShared(cmd.Flags(), "state")
	cmd.Flags().BoolVar(&log, "log", false, "only print the output, and follow it until the program ends or you press Ctrl-C")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if wantsJSON(cmd) {
			return usageError("attach shows a terminal; golem ps --json lists what runs")
		}
		s, err := f.attachable(cmd, args, log)
		if err != nil {
			return err
		}
		if log {
			return printLog(cmd, s)
		}
		return attach(cmd, s)
	}
	return cmd
}

// attachable returns the session that the arguments name, or the only one in the background.
func (f psFlags) attachable(cmd *cobra.Command, args []string, log bool) (s inbox.ProgramSession, err error) {
	if len(args) > 0 {
		return f.activeSession(cmd, args[0])
	}
	watcher, list, err := f.activities(cmd)
	if err != nil {
		return s, err
	}
	list = slices.DeleteFunc(list, func(a inbox.Activity) bool { return a.Detached == nil || !a.Detached.Running && !log })
	switch {
	case len(list) == 0:
		return s, &sandbox.Error{Op: "attach", Code: sandbox.ErrNotFound, Hint: "nothing runs in the background; golem exec -d CMD starts a command there, golem ps lists what ended"}
	case len(list) > 1:
		return s, usagef("%d programs are in the background: %s; name one, golem ps describes them", len(list), naming.Some(visible.Each(list, activityName)))
	}
	return inbox.OpenSession(watcher.Options, list[0].Program, list[0].ID)
}

// detachedIn returns the state of the program in the background of a session.
func detachedIn(s inbox.ProgramSession) (dir string, d detached.Status, err error) {
	dir = filepath.Join(s.Dir(), detached.Name)
	d, ok := detached.Read(dir)
	if !ok {
		hint := "nothing ran in the background of this session; golem exec -d --session " + naming.Label(s) + " CMD starts a command there"
		if h, is := s.Holder(); is {
			hint = describeHolder(h) + ", works in it at another terminal; only what was started with --detach can be attached"
		}
		err = &sandbox.Error{Op: "attach", Path: naming.Label(s), Code: sandbox.ErrNotFound, Hint: hint}
	}
	return dir, d, err
}

// attach connects this terminal with the program in the background of a session.
func attach(cmd *cobra.Command, s inbox.ProgramSession) error {
	dir, d, err := detachedIn(s)
	switch {
	case err != nil:
		return err
	case !d.Running:
		return &sandbox.Error{Op: "attach", Path: naming.Label(s), Code: sandbox.ErrNotFound, Hint: "it has " + d.String() + ", " + age(d.LastUsed(dir)) + "; golem attach --log " + naming.Label(s) + " prints its output, golem diff --session " + naming.Label(s) + " shows its changes"}
	case !term.IsTerminal(int(os.Stdout.Fd())) || findTerminal(true) == nil:
		return usageError("attach needs a terminal; golem attach --log " + naming.Label(s) + " prints the output without one")
	}
	conn, err := detached.Dial(dir)
	if err != nil {
		return &sandbox.Error{Op: "attach", Path: naming.Label(s), Code: sandbox.ErrNotFound, Hint: fmt.Sprintf("golem cannot reach it: %s; golem ps lists what runs", visible.Line(err.Error(), maxColumns))}
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "golem: attached to %s, session %s; %s leaves it\n", cmp.Or(shownCommand(d), "the run"), naming.Label(s), detached.LeaveKeys)
	end, err := detached.Attach(conn, detached.Options{In: os.Stdin, Out: os.Stdout})
	if err != nil {
		return err
	}
	switch {
	case end.Signal != nil:
		return signaled{end.Signal}.code()
	case end.Ended:
		fmt.Fprintf(cmd.ErrOrStderr(), "golem: session %s has ended, exit code %d\n", naming.Label(s), end.Code)
		if end.Code != 0 {
			return exit(end.Code)
		}
	case end.Lost:
		return &sandbox.Error{Op: "attach", Path: naming.Label(s), Code: sandbox.ErrNotFound, Hint: "its golem was killed; golem diff --session " + naming.Label(s) + " shows its changes"}
	default:
		fmt.Fprintln(cmd.ErrOrStderr(), "golem: "+attachedNote(naming.Label(s)))
	}
	return nil
}

// printLog prints the output of the program in the background of a session, and follows it.
// At a terminal it passes the filter for programs.
func printLog(cmd *cobra.Command, s inbox.ProgramSession) error {
	dir, _, err := detachedIn(s)
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	var w io.Writer = os.Stdout
	if term.IsTerminal(int(os.Stdout.Fd())) {
		filtered := &filteredOutput{filter: terminal.Filter{Quiet: true}, to: os.Stdout}
		defer filtered.end()
		w = filtered
	}
	lost := func() error {
		_, err := fmt.Fprintln(cmd.ErrOrStderr(), "golem: some output is missing here: the program prints faster than this terminal shows it")
		return err
	}
	if err := detached.Follow(ctx, dir, w, lost); err != nil {
		return err
	}
	if caught, is := errors.AsType[signaled](context.Cause(ctx)); is {
		return caught.code()
	}
	return nil
}

// A filteredOutput writes the output of a program to a terminal.
type filteredOutput struct {
	filter terminal.Filter
	to     io.Writer
}

// Write implements io.Writer.
func (f *filteredOutput) Write(data []byte) (int, error) {
	if _, err := f.to.Write(f.filter.Pass(nil, data)); err != nil {
		return 0, err
	}
	return len(data), nil
}

// end resets the terminal.
func (f *filteredOutput) end() { f.to.Write(f.filter.Undo()) }

// runningOf returns those of some sessions in which something runs, or has ended in the
// background.
func runningOf(o program.Options, list []inbox.ProgramSession) []inbox.Activity {
	w := &inbox.Watcher{Options: o, Reader: &inbox.Reader{Options: o}}
	return slices.DeleteFunc(w.ActivitiesOf(list), func(a inbox.Activity) bool { return a.State != storage.SessionRunning && a.Detached == nil })
}
