package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/records/version"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/run"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

// A NewProxy returns the connection of an editor with an agent. It is part of another front,
// which this package does not import.
type NewProxy func(program.ProxyOptions) program.Proxy

func newACP(proxy NewProxy) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "acp [flags] [WORKER] | -- AGENT [ARG…]",
		Short: "Connect an editor with a worker, or with an agent in the jail",
		Long: `Serve an editor that speaks the Agent Client Protocol, such as Zed, a JetBrains IDE, Neovim
or Emacs. The editor starts golem acp in the directory of the project.

Without --, golem itself is the agent: a worker of the program works on the editor's
prompts, as under golem run. WORKER is the name or the file of a worker, and without it the
entry worker or the default worker works. Each conversation of the editor has a session.
golem asks for approval in the editor. If that cannot show the whole question, golem approve
answers it.

With -- AGENT, golem stands between the editor and another agent, and the agent runs as
under golem exec: with its profile, its keys outside, and a network of its vendor's hosts.
The agent sees the directory at the path that it has on this machine, because editors name
files by their paths. It cannot use the files and terminals of the editor. If it needs
another host, golem asks in the editor. The agent's own questions go to the editor, too,
unless --approval answers them.

Changes wait in a session: golem diff shows them, and golem apply copies them into your
directory.`,
		Example: `  golem acp --model anthropic:claude-opus-4-5
  golem acp -- claude-agent-acp
  golem acp --name fix-login -- gemini --experimental-acp`,
	}
	f := addExecFlags(cmd)
	own := &runFlags{gateFlags: f.gateFlags, editor: true}
	cmd.Flags().StringVar(&own.model, "model", "", "without --: the model of the worker, as for golem run (GOLEM_MODEL)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.list {
			return printProfiles(cmd)
		}
		if wantsJSON(cmd) {
			return usageError("golem acp prints only messages for its editor; golem diff --json lists the changes")
		}
		if cmd.ArgsLenAtDash() < 0 {
			return f.runWorker(cmd, args, own, proxy)
		}
		if cmd.ArgsLenAtDash() != 0 || len(args) == 0 {
			return usageError("acp needs an agent after --, such as golem acp -- gemini --experimental-acp" + takenAsValue(cmd))
		}
		if own.model != "" {
			return usageError("--model is for workers; the agent after -- has its own options")
		}
		if err := f.check(args); err != nil {
			return err
		}
		return f.runForEditor(cmd, args, proxy)
	}
	return cmd
}

// connect returns the connection with the editor at the standard streams. closed ends it.
func (f *execFlags) connect(cmd *cobra.Command, proxy NewProxy) (editor program.Proxy, closed func(), err error) {
	dir, err := f.realDir()
	if err != nil {
		return nil, nil, err
	}
	cmd.SetOut(cmd.ErrOrStderr()) // standard output belongs to the editor
	if term.IsTerminal(int(os.Stdin.Fd())) {
		fmt.Fprintln(cmd.ErrOrStderr(), "golem: waiting for messages of an editor on standard input; the settings of the editor start golem acp; Ctrl-C ends it")
	}
	// An editor that disconnects causes an error, and must not end golem.
	gone := make(chan os.Signal, 1)
	signal.Notify(gone, syscall.SIGPIPE)
	return proxy(program.ProxyOptions{In: os.Stdin, Out: os.Stdout, Dir: dir, Show: shortly, Wait: f.wait, Approval: approval.Mode(f.approval),
		Tell: func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), "golem:", visible.Text(text)) }}), func() { signal.Stop(gone) }, nil
}

// runForEditor runs an agent for the editor at the standard streams.
func (f *execFlags) runForEditor(cmd *cobra.Command, args []string, proxy NewProxy) error {
	editor, closed, err := f.connect(cmd, proxy)
	if err != nil {
		return err
	}
	defer closed()
	f.editor = editor
	return f.run(cmd, args)
}

// runWorker runs workers for the editor at the standard streams.
func (f *execFlags) runWorker(cmd *cobra.Command, args []string, own *runFlags, proxy NewProxy) error {
	for _, name := range []string{"budget", "continue", "env", "gpu", "mount", "name", "profile", "publish", "root", "session", "worker"} {
		if cmd.Flags().Changed(name) {
			return usagef("--%s goes with golem acp -- AGENT; the worker has what its file and the project file say, and the editor chooses the session", name)
		}
	}
	f.session = session.New
	words, err := own.begin(args, cmd.ErrOrStderr())
	if err == nil && len(words) > 0 {
		err = usagef("no worker %s here; golem workers lists them, and golem acp -- %s runs an agent", sandbox.Shown(words[0]), visible.CommandLine(words...))
	}
	if err == nil {
		err = f.setNetwork(f.net)
	}
	if err != nil {
		return err
	}
	if f.jail != "" {
		f.set = append(f.set, "sandbox.require_os_sandbox="+f.jail)
	}
	editor, closed, err := f.connect(cmd, proxy)
	if err != nil {
		return err
	}
	defer closed()
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	editor.Serve(ctx, program.AgentOptions{Version: version.Release, List: own.sessionsForEditor,
		Open: func(id string, asker approval.PendingAsker, tell func(run.Event)) (*program.AgentRun, error) {
			return own.openForEditor(ctx, cmd, id, asker, tell)
		}})
	if caught, is := errors.AsType[signaled](context.Cause(ctx)); is {
		return caught.code()
	}
	return nil
}

// maxSessions is how many sessions the list of an editor has.
const maxSessions = 50

// sessionsForEditor returns the sessions whose run an editor can continue.
func (f *runFlags) sessionsForEditor() (list []program.AgentSession, err error) {
	p, err := f.open(opening{otherwise: defaultWorker})
	if err != nil {
		return nil, err
	}
	all, err := p.Storage.Sessions.List()
	for _, s := range all {
		if begin, wrong := p.Storage.Runs().Begin(s); wrong == nil && begin.Worker != "" && len(list) < maxSessions {
			list = append(list, program.AgentSession{ID: s.ID, Title: cmp.Or(p.Storage.Runs().FirstInput(s), naming.Label(s)), Used: s.LastUsed})
		}
	}
	return list, err
}

// openForEditor opens a run for an editor: a new one, or that of the session with an id.
func (f *runFlags) openForEditor(ctx context.Context, cmd *cobra.Command, id string, asker approval.PendingAsker, tell func(run.Event)) (*program.AgentRun, error) {
	files, gate, one := *f.programFlags, *f.gateFlags, *f
	gate.programFlags, one.gateFlags, one.resume = &files, &gate, id
	p, err := one.open(opening{otherwise: defaultWorker, session: cmp.Or(id, session.New)})
	var ended run.End
	if err == nil && id != "" {
		s, wrong := p.Storage.Runs().Find(id)
		if wrong == nil && s.ID != id {
			wrong = usagef("no session has the id %s", sandbox.Shown(id))
		}
		if wrong == nil {
			ended, wrong = p.Storage.Runs().End(s)
		}
		if err = wrong; err == nil && (one.entry == "" || p.IsDefault()) {
			p, err = one.programBefore(p)
		}
	}
	if err == nil {
		err = cmp.Or(p.CheckEntry(), one.askTrust(cmd, p, false))
	}
	if err == nil && id == "" {
		err = p.Storage.CheckLimit()
	}
	if err != nil {
		return nil, err
	}
	attachments, err := p.Attachments()
	if err != nil {
		return nil, err
	}
	tellLine := func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), "golem: "+visible.Text(text)) }
	traces := newTracer(p, tellLine)
	r, _, closeModels, err := one.openRun(ctx, cmd, p, program.WorkerOptions{Beside: asker}, traces, tellLine, tell)
	if _, is := errors.AsType[exit](err); is {
		err = errors.New("golem refuses to continue the session; its log, which has standard error, says why")
	}
	if err != nil {
		return nil, err
	}
	r.Cancelled = ended != run.Paused
	traces.begin(r.ID)
	note(cmd, slices.Concat(r.Gate.StartNotes, r.Gate.Notes)...)
	tellLine("session " + naming.Label(r.Gate.Session) + " (" + r.Entry.Name + ", " + r.Entry.ModelName + ")")
	known := newPaths(p, "/")
	return &program.AgentRun{Run: r, Add: attachments.Add,
		HostPath: func(name string) string {
			if host, ok := known.hostOf(name); ok {
				return host
			}
			return ""
		},
		Name: func(host string) string {
			name, _ := nameIn(known.mounts, realPath(host))
			return name
		},
		Close: func() error {
			traces.end(tellLine)
			changes, wrong := describeSession(cmd.ErrOrStderr(), p, r.Gate, "", false)
			fmt.Fprint(cmd.ErrOrStderr(), changes)
			wrong = errors.Join(wrong, r.Close())
			closeModels()
			return wrong
		}}, nil
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
