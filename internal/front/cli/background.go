package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/people/detached"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

// backgroundMark is the first argument of a golem in the background. The second one is
// withPerson or withNobody, and the others are the arguments of the command. Descriptor 3 is
// the outer side of its terminal, and 4 is connected with the golem that started it.
const (
	backgroundMark = "--in-background"
	withPerson     = "with-person"
	withNobody     = "with-nobody"
)

// enterBackground returns the arguments of the command, and the host if this golem was started
// in the background.
func enterBackground(args []string) ([]string, *detached.Host, error) {
	if len(args) < 2 || args[0] != backgroundMark {
		return args, nil, nil
	}
	const outer, first = 3, 4
	h, err := detached.NewHost(os.NewFile(outer, "terminal"), os.NewFile(first, "attachment"), time.Now)
	if err == nil && args[1] == withPerson {
		err = h.TakeTerminal()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("golem does not run in the background: %w", err)
	}
	return args[2:], h, nil
}

// hostKey is the key of the host in the context of a command.
type hostKey struct{}

// backgroundOf returns the host of this golem, nil if it does not run in the background.
func backgroundOf(cmd *cobra.Command) *detached.Host {
	h, _ := cmd.Context().Value(hostKey{}).(*detached.Host)
	return h
}

// addDetach adds the flag that starts a command in the background.
func addDetach(cmd *cobra.Command, detach *bool, what string) {
	cmd.Flags().BoolVarP(detach, "detach", "d", false, "start "+what+" in the background; golem ps lists it, golem attach takes its terminal")
}

// startInBackground starts this command once more, in the background. Until the program runs,
// the user sees its output and answers its questions.
func startInBackground(cmd *cobra.Command, what string) error {
	if wantsJSON(cmd) {
		return usageError("--detach prints one line; golem ps --json lists what runs")
	}
	ends, err := detached.Open()
	if err != nil {
		return &sandbox.Error{Op: "--detach", Code: sandbox.ErrInvalid, Hint: err.Error() + "; without --detach it runs in this terminal"}
	}
	o, who := detached.Options{Plain: cmd.ErrOrStderr(), UntilBegun: true}, withNobody
	if term.IsTerminal(int(os.Stdout.Fd())) && findTerminal(true) != nil {
		o.In, o.Out, who = os.Stdin, os.Stdout, withPerson
	}
	wait, err := jail.StartSelf(append([]string{backgroundMark, who}, os.Args[1:]...), ends.Inner, ends.Outer, ends.Theirs)
	ours := ends.Ours
	ends.Ours = nil
	ends.Close()
	if err != nil {
		return errors.Join(err, ours.Close())
	}
	end, err := detached.Attach(ours, o)
	switch {
	case err != nil:
		return err
	case end.Signal != nil:
		return signaled{end.Signal}.code()
	case end.Begun:
		fmt.Fprintf(cmd.OutOrStdout(), "%s runs in the background, session %s; golem attach %s takes its terminal, golem ps lists what runs\n", what, end.Session, end.Session)
		return nil
	case end.Lost:
		end.Code = wait()
	case !end.Ended:
		fmt.Fprintln(cmd.ErrOrStderr(), "golem: left before "+what+" began; golem ps lists what runs")
	}
	if end.Code != 0 {
		return exit(max(end.Code, exitFailed))
	}
	return nil
}

// publish makes the session reachable for golem attach, if this golem runs in the background.
// command is the program that runs, "" for a run.
func publish(h *detached.Host, s *session.Session, command string) error {
	if h == nil {
		return nil
	}
	if err := h.Publish(filepath.Join(s.Dir(), detached.Name), naming.Label(s), command); err != nil {
		return fmt.Errorf("session %s in the background: %w", naming.Label(s), err)
	}
	return nil
}

// An inBackground asks about calls while a program runs in the background. A request waits for
// golem approve and the desk. When a person attaches their terminal, golem asks there, too.
type inBackground struct {
	host *detached.Host
	approval.Asker
}

// AskWhilePending implements approval.PendingAsker.
func (b inBackground) AskWhilePending(ctx context.Context, r tool.Request, _ string, answered func() bool) approval.Reply {
	nobody := approval.Reply{Answer: tool.Answer{By: "nobody", Note: errNobody.Error(), Unattended: true}}
	tick := time.NewTicker(glance)
	defer tick.Stop()
	for {
		if terminal := b.host.Attached(); terminal > 0 {
			if reply, ok := b.askHere(ctx, r, terminal, answered); ok {
				return reply
			}
		}
		select {
		case <-ctx.Done():
			return nobody
		case <-tick.C:
			if answered() {
				return nobody
			}
		}
	}
}

// askHere asks at the terminal, as long as it is attached, no other one has attached since, and
// nobody has answered elsewhere. ok is false if the question has no answer.
func (b inBackground) askHere(ctx context.Context, r tool.Request, terminal int, answered func() bool) (reply approval.Reply, ok bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		tick := time.NewTicker(glance)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if b.host.Attached() != terminal || answered() {
					cancel()
				}
			}
		}
	}()
	reply = b.Ask(ctx, r)
	ok = ctx.Err() == nil && !reply.Unattended
	cancel()
	<-watched
	return reply, ok
}

// endOnSecond passes on the signals for a command. After the second SIGTERM it ends the
// context, because the command may ignore the signal.
func endOnSecond(ctx context.Context, signals <-chan os.Signal) (passed <-chan os.Signal, limited context.Context, stop func()) {
	limited, cancel := context.WithCancel(ctx)
	out, done := make(chan os.Signal), make(chan struct{})
	go func() {
		defer close(done)
		for asked := 0; ; {
			select {
			case s := <-signals:
				if s == syscall.SIGTERM {
					asked++
				}
				if asked > 1 {
					cancel()
					continue
				}
				select {
				case out <- s:
				case <-limited.Done():
				}
			case <-limited.Done():
				return
			}
		}
	}()
	return out, limited, func() {
		cancel()
		<-done
	}
}

// attachedNote is the line after a terminal has left.
func attachedNote(id string) string {
	return "session " + id + " continues in the background; golem attach " + id + " takes its terminal again"
}

// shownCommand returns the program of a detached session.
func shownCommand(d detached.Status) string { return visible.Line(d.Command, maxWhat) }

// terminalOf returns the terminal to ask at: that of the host, if there is one, and else what
// findTerminal returns.
func terminalOf(h *detached.Host, taken bool) *os.File {
	if h != nil {
		return os.Stdout // also before it is the controlling terminal
	}
	return findTerminal(taken)
}

// beginHere says that a run begins in the background.
func beginHere(h *detached.Host) {
	if h != nil && h.TakeTerminal() == nil {
		h.Begin()
	}
}

// startDetached starts the run in the background.
func (f *runFlags) startDetached(cmd *cobra.Command) error {
	if f.dry || f.apart != nil {
		return usageError("--detach starts a run whose changes wait in a session; do not use --dry-run or --sandbox with it")
	}
	if info, err := os.Stdin.Stat(); err == nil && (info.Mode().IsRegular() || info.Mode()&os.ModeNamedPipe != 0) || f.file == "-" {
		return usageError("a run in the background does not read standard input; --file FILE is a file with the input, and < /dev/null gives it none")
	}
	return startInBackground(cmd, "the worker")
}
