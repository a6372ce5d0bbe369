package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/program"
)

// A NewProxy returns the connection of an editor with an agent. It is part of another front,
// which this package does not import.
type NewProxy func(program.ProxyOptions) program.Proxy

func newACP(proxy NewProxy) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "acp [flags] -- AGENT [ARG…]",
		Short: "Connect an editor with an agent in the jail",
		Long: `Run an agent in the jail for an editor that speaks the Agent Client Protocol, such as Zed, a
JetBrains IDE, Neovim or Emacs. The editor starts golem acp in the directory of the project.
golem stands between the editor and the agent, and the agent runs as under golem exec: with
its profile, its keys outside, and a network of its vendor's hosts.

The agent sees the directory at the path that it has on this machine, because editors name
files by their paths. It cannot use the files and terminals of the editor. Its changes wait
in a session: golem diff shows them, and golem apply copies them into your directory.

If the agent needs another host, golem asks in the editor. The agent's own questions go to
the editor, too, unless --approval answers them.`,
		Example: `  golem acp -- claude-agent-acp
  golem acp --name fix-login -- gemini --experimental-acp`,
	}
	f := addExecFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.list {
			return printProfiles(cmd)
		}
		if cmd.ArgsLenAtDash() != 0 || len(args) == 0 {
			return usageError("acp needs an agent after --, such as golem acp -- gemini --experimental-acp" + takenAsValue(cmd))
		}
		if err := f.check(args); err != nil {
			return err
		}
		if wantsJSON(cmd) {
			return usageError("golem acp prints only messages for its editor; golem diff --json lists the changes")
		}
		return f.runForEditor(cmd, args, proxy)
	}
	return cmd
}

// runForEditor runs an agent for the editor at the standard streams.
func (f *execFlags) runForEditor(cmd *cobra.Command, args []string, proxy NewProxy) error {
	dir, err := f.realDir()
	if err != nil {
		return err
	}
	cmd.SetOut(cmd.ErrOrStderr()) // standard output belongs to the editor
	if term.IsTerminal(int(os.Stdin.Fd())) {
		fmt.Fprintln(cmd.ErrOrStderr(), "golem: waiting for messages of an editor on standard input; the settings of the editor start golem acp; Ctrl-C ends it")
	}
	// An editor that disconnects causes an error, and must not end golem.
	gone := make(chan os.Signal, 1)
	signal.Notify(gone, syscall.SIGPIPE)
	defer signal.Stop(gone)
	f.editor = proxy(program.ProxyOptions{In: os.Stdin, Out: os.Stdout, Dir: dir, Show: shortly, Wait: f.wait, Approval: approval.Mode(f.approval),
		Tell: func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), "golem:", visible.Text(text)) }})
	return f.run(cmd, args)
}

// lastWords is how long golem waits for an editor to take the last messages of the agent.
const lastWords = 2 * time.Second

// attachEditor returns a function that runs the agent on pipes to the proxy of the editor.
func (f *execFlags) attachEditor(cmd *cobra.Command) func(context.Context, *jail.Jail, jail.Command) (jail.Result, error) {
	return func(ctx context.Context, s *jail.Jail, c jail.Command) (r jail.Result, err error) {
		ctx, stop := untilSignal(ctx)
		defer stop()
		ctx, end := context.WithCancel(ctx)
		defer end()
		var files []*os.File // of the agent, then of golem
		for range 3 {
			reading, writing, wrong := os.Pipe()
			if err = errors.Join(err, wrong); err == nil {
				defer reading.Close()
				defer writing.Close()
				files = append(files, reading, writing)
			}
		}
		if err != nil {
			return r, err
		}
		in, toAgent, output, out, errors, errs := files[0], files[1], files[2], files[3], files[4], files[5]
		passed, printed := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(passed)
			f.editor.Run(ctx, toAgent, output, end)
		}()
		go func() {
			defer close(printed)
			io.Copy(cmd.ErrOrStderr(), errors)
		}()
		r, err = s.Attach(ctx, c, jail.Attached{Stdin: in, Stdout: out, Stderr: errs})
		in.Close()
		out.Close()
		errs.Close()
		<-printed
		select {
		case <-passed:
		case <-time.After(lastWords): // the editor does not read
		}
		return r, err
	}
}
