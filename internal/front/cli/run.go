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
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/jail/network"
	"github.com/golem-forge/golem/internal/work/model/prices"
	"github.com/golem-forge/golem/internal/work/naming"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/run"
	"github.com/golem-forge/golem/internal/work/session"
)

// runFlags are the flags of golem run.
type runFlags struct {
	handed []string // files for the entry worker: attachments, and the file of its input
	*gateFlags
	model       string
	fallback    []string
	only        bool // without fallbacks
	oneModel    bool // for all workers, whatever their files say
	effort      string
	temperature float64
	maxTokens   int64
	thinking    bool
	record      string
	recordFile  *os.File // the record of --record, nil for none
	resume      string
	input       string
	file        string
	attach      []string
	dry         bool
	plain       bool
	sandbox     string      // as the user wrote it
	apart       *runSandbox // that of --sandbox, nil for none
	chatty      bool        // there is no input, and the user sits at a terminal
	said        string      // the argument that named the program
	detach      bool
	editor      bool // standard input has the messages of an editor
}

func newRun() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run [PROGRAM|WORKER] [INPUT…] | [PROGRAM] --resume ID",
		Short: "Let a model work on this directory, or run a program",
		Long: `Give a task to a worker with a model. The worker works on a copy-on-write view of the
current directory, and its changes wait in a session: golem diff shows them, and golem
apply copies them into your directory. Each of its tool calls passes the gate. Its commands
run in the jail, without a network unless you allow one.

In a directory with a program, the entry worker of the program gets the task. Elsewhere it
is the default worker, which has tools for files and commands; golem workers shows it, and
golem init --for repository writes it out. PROGRAM is a directory, and WORKER is the name or
the file of a worker. A first word that names neither is part of the input. With -C, all
arguments are input. golem adds the text of a pipe to the input: git diff | golem run
"review this". It attaches PDFs and images that are named; --attach attaches other files.
The answer goes to standard output, the progress to standard error.

The model is that of --model, GOLEM_MODEL, the project file or golem config set model:
VENDOR:NAME. The vendors are anthropic, openai, gemini, openrouter, mistral, deepseek, groq,
xai and ollama. golem reads a key from the vendor's variable, such as ANTHROPIC_API_KEY, or
from the secret with the vendor's name: golem secret set anthropic. Three need no key:
ollama:NAME is a model on this machine, scripted:FILE plays a script, and replay:FILE plays
a record.

A run starts a new session, which does not have the changes of earlier ones. With -c it
continues in the newest session here that has changes.

With --sandbox, the run writes nothing to your disk except in DIR, and with memory nothing at
all: its sessions, logs and records are there, and every directory that the worker may write
to is copy-on-write. At the end golem lists what would have changed. memory:4GiB gives it
more room than 1 GiB. To look at a run in DIR later: golem diff --state DIR.

Without an input, golem reads messages at a terminal, one after the other: a chat. There
@FILE attaches a file, /diff, /apply, /discard and /undo review the changes, and /model
NAME lets another model answer. /help lists the commands and keys.

If a call needs approval and nobody answers, the run pauses: golem approve ID decides, and
--resume last continues. Ctrl-C stops the run after the current call. A second Ctrl-C ends
it at once. --resume continues a run that was paused, stopped or killed, and does not
repeat calls that were done.

Exit code 0: done, also if you declined a call; 1: failed; 2: wrong arguments or
configuration; 3: a call waits for approval, or auto_deny refused one; 4: the budget is
spent; 5: no jail; 130: stopped.`,
		Example: `  golem run "fix the failing test"
  golem run -c "now update the documentation"
  golem run "review this change" --model ollama:qwen3 < change.diff`,
	}
	f := &runFlags{gateFlags: addSessionFlags(cmd, "a new one")}
	f.addContinue(cmd)
	f.addName(cmd)
	cmd.Flags().StringVar(&f.model, "model", "", "the model: anthropic:…, openai:…, ollama:…, scripted:FILE (GOLEM_MODEL)")
	cmd.Flags().StringArrayVar(&f.fallback, "fallback", nil, "a model to ask if the model is overloaded, unknown or refuses your key; may be given again")
	cmd.Flags().StringVar(&f.effort, "effort", "", "how much the model thinks before it answers: none, low, medium or high")
	cmd.Flags().Float64Var(&f.temperature, "temperature", 0, "how much chance is in the answers, from 0 to 2")
	cmd.Flags().Int64Var(&f.maxTokens, "max-tokens", 0, "the most tokens of one answer")
	cmd.Flags().BoolVar(&f.thinking, "thinking", false, "show the thoughts of the model")
	cmd.Flags().StringVar(&f.record, "record", "", "record the model's answers in a file, for --model replay:FILE")
	cmd.Flags().StringVar(&f.resume, "resume", "", "continue the run of a session: its name, its id, or last")
	cmd.Flags().StringVar(&f.input, "input", "", "the input, instead of arguments")
	cmd.Flags().StringVar(&f.file, "file", "", "a file with the input; - is standard input")
	cmd.Flags().StringArrayVar(&f.attach, "attach", nil, "a file to attach to the input; may be given again")
	cmd.Flags().BoolVar(&f.dry, "dry-run", false, "show what a run could do and would ask, and run nothing")
	cmd.Flags().BoolVar(&f.plain, "plain", false, "in a chat: read plain lines, without editing, history and completion")
	cmd.Flags().StringVar(&f.sandbox, "sandbox", "", "keep everything that the run writes in memory, or in a new directory: memory, memory:SIZE or DIR")
	addDetach(cmd, &f.detach, "the run")
	net := ""
	cmd.Flags().StringVar(&net, "net", "", netUsage)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.checkContinue(); err != nil {
			return err
		}
		if err := f.setNetwork(net); err != nil {
			return err
		}
		if err := f.readSandbox(); err != nil {
			return err
		}
		if f.detach && backgroundOf(cmd) == nil {
			return f.startDetached(cmd)
		}
		if f.apart.needsMemory() && !f.dry {
			return f.apart.startInMemory()
		}
		words, err := f.begin(args, cmd.ErrOrStderr())
		if err == nil {
			err = f.checkName()
		}
		if err != nil {
			return err
		}
		p, err := f.open(opening{otherwise: defaultWorker, session: cmp.Or(f.resumed(), f.sessionID())})
		if err != nil {
			return f.hintPaused(err)
		}
		if f.resume == "" && !f.dry && f.apart == nil {
			if err := f.chooseContinued(cmd, p); err != nil {
				return err
			}
		}
		if f.dry {
			return dryRun(cmd, p)
		}
		if f.apart != nil {
			if p, err = f.enterSandbox(p); err != nil {
				return err
			}
		}
		if f.resume != "" && (f.entry == "" || p.IsDefault()) {
			isDefault := p.IsDefault()
			if p, err = f.programBefore(p); err != nil && (isDefault || f.resume != "last") {
				return f.findPaused(err)
			}
			if err != nil {
				return err
			}
		}
		return f.apart.explainFull(cmd.ErrOrStderr(), f.run(cmd, p, words))
	}
	return cmd
}

// run runs a program.
func (f *runFlags) run(cmd *cobra.Command, p *program.Program, words []string) error {
	if err := p.CheckEntry(); err != nil {
		return err
	}
	if err := f.askTrust(cmd, p, f.takesStdin(p)); err != nil { // before golem opens any file that the program names
		return err
	}
	if f.apart != nil {
		if err := checkSandbox(p, realPath(f.apart.dir)); err != nil {
			return err
		}
	}
	if f.resume == "" {
		if err := p.Storage.CheckLimit(); err != nil {
			return err
		}
	}
	in, err := f.given(cmd, p, words)
	if err != nil {
		return err
	}
	out := newReport(cmd)
	out.resumed = f.resume != ""
	out.where = dirOption(f.dir)
	if f.apart != nil {
		out.where, out.gone = f.apart.options(out.where), f.apart.memory
	}
	traces := newTracer(p, out.note)
	host := backgroundOf(cmd)
	var v program.WorkerOptions
	var asker *asker
	if terminal := terminalOf(host, f.takesStdin(p)); terminal != nil {
		asker = newAsker(terminal, cmd.ErrOrStderr(), f.wait)
		v.Asker = telling{asker, out}
		if host != nil {
			v.Beside = inBackground{host, v.Asker}
		} else if terminal != os.Stdin {
			defer terminal.Close()
		}
	}
	if !out.json && newScreen(cmd.ErrOrStderr()).file != nil {
		v.OnOutput = out.output
	}
	ctx, end := context.WithCancelCause(cmd.Context())
	defer end(nil)
	r, requests, closeModels, err := f.openRun(ctx, cmd, p, v, traces, out.note, out.tell)
	if err != nil {
		return err
	}
	defer closeModels()
	if err := publish(host, r.Gate.Session, ""); err != nil {
		return errors.Join(err, r.Close())
	}
	if p.IsDefault() && !out.json {
		f.tellDefault(cmd, p, r.Gate, r.Entry.ModelName)
	}
	note(cmd, slices.Concat(r.Gate.StartNotes, r.Gate.Notes)...)
	out.session, out.label = r.ID, naming.Label(r.Gate.Session)
	traces.begin(r.ID)
	if err := addComments(cmd, r, newPaths(p, "/"), &in); err != nil {
		return errors.Join(err, r.Close())
	}
	r.Chat = r.Chat || f.chatty
	if !r.Chat && !wantsJSON(cmd) { // in a chat the user types
		out.status = beginStatus(cmd.ErrOrStderr(), "waiting for the model")
		defer out.status.end()
	}
	beginHere(host)
	heard := stopping(r.Stop, end, cmd.ErrOrStderr())
	var o run.Outcome
	if r.Chat {
		talk := chat{flags: f, cmd: cmd, program: p, run: r, out: out, open: func(name string) (run.Choice, error) { return f.openAlso(p, name, requests, out.note) }}
		o, err = talk.talk(ctx, in)
	} else {
		o, err = r.Do(ctx, in)
	}
	code := heard()
	traces.end(out.note)
	if asker != nil && asker.why != nil && o.End == run.Paused {
		out.note(asker.why.Error())
	}
	sum := r.Budget.Sum()
	out.balance = r.Balance()
	changes, reviewed := describeSession(cmd.ErrOrStderr(), p, r.Gate, f.apart.options(""), out.gone)
	late := errors.Join(reviewed, r.Close())
	out.changes = changes + f.apart.describe()
	if err == nil { // there is an answer, even if closing the records failed
		err = out.end(f.command(p)+strings.TrimPrefix(f.apart.options("")+" --resume ", " "), o, sum, code)
	}
	return withLate(cmd, err, late)
}

// openRun opens the run of a program with its models. v says who is asked. closed closes the
// models after the run.
func (f *runFlags) openRun(ctx context.Context, cmd *cobra.Command, p *program.Program, v program.WorkerOptions, traces *tracer, note func(string), onEvent func(run.Event)) (r *program.Run, requests *network.OwnRequests, closed func(), err error) {
	requests, closeModel := network.NewOwnRequests("model", "the model that you chose", time.Now), func() error { return nil }
	closed = func() { closeModel(); requests.Close() }
	defer func() {
		if err != nil {
			closed()
		}
	}()
	answers, err := f.answers(cmd)
	if err != nil {
		return nil, requests, closed, err
	}
	m, fallbacks, closeModel, err := f.openModel(p, requests, note)
	if err != nil {
		return nil, requests, closed, err
	}
	summarizer, err := f.openSummarizer(p, m.Name, requests, note)
	if err != nil {
		return nil, requests, closed, err
	}
	workers, err := f.openWorkers(p, m.Name, requests, note)
	if err != nil {
		return nil, requests, closed, err
	}
	v.ApproveReads, v.Secrets, v.Session, v.Name, v.Copy, v.Isolated = f.reads, secrets(os.Environ()), cmp.Or(f.sessionID(), session.New), f.name, wantsCopy(f.copy), f.apart != nil
	if f.resume != "" {
		s, err := p.Storage.Runs().Find(f.resumed())
		if err != nil {
			return nil, requests, closed, err
		}
		v.Session = s.ID
	}
	follow, untrusted, err := f.askInstructions(cmd, p, note)
	if err != nil {
		return nil, requests, closed, err
	}
	v.Untrusted = untrusted
	copying := newCopying(ctx, cmd.ErrOrStderr(), wantsCopy(f.copy))
	v.OnCopy = copying.tell
	r, err = p.OpenRun(program.RunOptions{WorkerOptions: v, Model: m.Model, ModelName: m.Name, OneModel: f.oneModel, Fallbacks: fallbacks, Models: workers, Answers: answers, Summarizer: summarizer, Context: contextOf(p, m.Name), Requests: requests, Others: traces.others(), Price: prices.Cost, Resume: f.resume != "", Follow: follow, Attached: f.handed, OnEvent: traces.also(onEvent)})
	copying.end(err == nil)
	if err != nil {
		return nil, requests, closed, err
	}
	if err := checkRights(cmd, p, r.Gate); err != nil {
		return nil, requests, closed, errors.Join(err, r.Close())
	}
	return r, requests, closed, nil
}

// resumed returns the session whose run continues, or "" for the last run.
func (f *runFlags) resumed() string {
	if f.resume == "last" {
		return ""
	}
	return strings.TrimPrefix(f.resume, naming.Mark)
}

// programBefore loads the program again if the run that continues began with another
// entry worker.
func (f *runFlags) programBefore(p *program.Program) (*program.Program, error) {
	s, err := p.Storage.Runs().Find(f.resumed())
	if err != nil {
		return nil, err
	}
	if p.IsDefault() {
		return f.open(opening{otherwise: defaultWorker, session: s.ID}) // it may have other mounts
	}
	begin, err := p.Storage.Runs().Begin(s)
	if err != nil || begin.Worker == "" || p.Entry != nil && p.Entry.Name == begin.Worker {
		return p, err
	}
	f.entry = begin.Worker
	return f.program()
}

// stopping listens for signals. The first Ctrl-C asks the run to stop. Any other signal,
// and every later one, ends it. done stops listening, and returns the exit code for the
// first signal, or 0.
func stopping(stop func(), end context.CancelCauseFunc, errs io.Writer) (done func() exit) {
	caught, over := make(chan os.Signal, 4), make(chan struct{})
	signal.Notify(caught, ends()...)
	var code atomic.Int64
	go func() {
		for {
			select {
			case <-over:
				return
			case s := <-caught:
				first := code.CompareAndSwap(0, int64(signaled{s}.code()))
				if first && s == os.Interrupt {
					fmt.Fprintln(errs, "golem: stopping after the current call; press Ctrl-C again to end the run at once")
					stop()
				} else {
					end(signaled{s})
				}
			}
		}
	}()
	return func() exit {
		signal.Stop(caught)
		close(over)
		return exit(code.Load())
	}
}

// A telling is an asker that reports each question.
type telling struct {
	approval.Asker
	out *report
}

// Ask implements approval.Asker.
func (t telling) Ask(ctx context.Context, r tool.Request) approval.Reply {
	t.out.asks(r)
	return t.Asker.Ask(ctx, r)
}
