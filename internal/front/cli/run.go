package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/golem-forge/golem/internal/approval"
	"github.com/golem-forge/golem/internal/model/prices"
	"github.com/golem-forge/golem/internal/network"
	"github.com/golem-forge/golem/internal/program"
	"github.com/golem-forge/golem/internal/run"
	"github.com/golem-forge/golem/internal/session"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/internal/visible"
	"github.com/golem-forge/golem/internal/worker"
	"github.com/golem-forge/golem/sandbox"
)

// runFlags are the flags of golem run.
type runFlags struct {
	handed []string // files for the entry worker: attachments, and the file of its input
	*gateFlags
	model  string
	record string
	resume string
	input  string
	file   string
	attach []string
	dry    bool
	plain  bool
	chatty bool   // there is no input, and the user sits at a terminal
	said   string // the argument that named the program
}

func newRun() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run PROGRAM|FILE [INPUT…] | [PROGRAM] --resume ID",
		Short: "Run the workers of a program with a model",
		Long: `Run the workers of a program. The entry worker gets the input and works with the model.
Each of its tool calls passes the gate. It can call other workers, which never have more
permissions than the worker that calls them.

Without an input, golem reads messages at a terminal, one after the other: a chat. /help in
it lists the commands and keys.

PROGRAM is a directory with main.worker. FILE is the worker file to start with. The other
arguments are the input. With -C, all arguments are input. golem attaches PDFs and images
among them; --attach attaches other files. The answer goes to standard output,
the progress to standard error.

If a call needs approval and nobody answers, the run pauses: golem approve ID decides, and
--resume last continues. Ctrl-C stops the run after the current call. A second Ctrl-C ends
it at once. --resume continues a run that was paused, stopped or killed, and does not
repeat calls that were done.

Exit code 0: done, also if you declined a call; 1: failed; 2: wrong arguments or
configuration; 3: a call waits for approval, or auto_deny refused one; 4: the budget is
spent; 5: no jail; 130: stopped.`,
		Example: `  golem run . "Summarise the papers"
  golem run . --model scripted:demo.yaml "Summarise the papers"
  golem run --resume last`,
	}
	f := &runFlags{gateFlags: addSessionFlags(cmd, "a new one")}
	cmd.Flags().StringVar(&f.model, "model", "", "the model: anthropic:…, openai:…, ollama:…, scripted:FILE (GOLEM_MODEL)")
	cmd.Flags().StringVar(&f.record, "record", "", "record the model's answers in a file, for --model replay:FILE")
	cmd.Flags().StringVar(&f.resume, "resume", "", "continue the run of a session: an id, or last")
	cmd.Flags().StringVar(&f.input, "input", "", "the input, instead of arguments")
	cmd.Flags().StringVar(&f.file, "file", "", "a file with the input; - is standard input")
	cmd.Flags().StringArrayVar(&f.attach, "attach", nil, "a file to attach to the input; may be given again")
	cmd.Flags().BoolVar(&f.dry, "dry-run", false, "show what a run could do and would ask, and run nothing")
	cmd.Flags().BoolVar(&f.plain, "plain", false, "in a chat: read plain lines, without editing, history and completion")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		words, err := f.begin(args)
		if err != nil {
			return err
		}
		p, err := f.program()
		if err != nil && f.resume != "" {
			return f.findPaused(err)
		}
		if err != nil {
			return err
		}
		if f.dry {
			return dryRun(cmd, p)
		}
		if f.resume != "" && f.entry == "" {
			if p, err = f.programBefore(p); err != nil && f.resume != "last" {
				return f.findPaused(err)
			}
			if err != nil {
				return err
			}
		}
		return f.run(cmd, p, words)
	}
	return cmd
}

// begin takes the program from the arguments, and returns the other arguments.
func (f *runFlags) begin(args []string) ([]string, error) {
	if f.resume != "" && f.session != "" {
		return nil, usageError("--resume names the session whose run continues; omit --session")
	}
	if len(args) == 0 {
		if f.dir == "." && f.resume == "" {
			return nil, usageError("run what? golem run . for the program in this directory")
		}
		f.said = f.dir
		return nil, nil
	}
	f.said = args[0]
	info, err := os.Stat(args[0])
	switch {
	case err != nil && f.dir != ".": // the flag names the program, so all words are the input
		f.said = f.dir
		return args, nil
	case err != nil && strings.HasPrefix(sameMeaning(args[0]), "exec "):
		return nil, usagef("no program %s; golem run starts workers, golem exec starts other programs: golem exec %s", sandbox.Shown(args[0]), visible.CommandLine(args...))
	case err != nil && strings.Contains(args[0], " "): // the input, without the program
		return nil, usagef("no program %s; the first argument is a directory or a worker file: golem run . %s", sandbox.Shown(args[0]), visible.CommandLine(args...))
	case err != nil:
		return nil, usagef("no program %s; the first argument is a directory or a worker file: golem run . \"what to do\"; a worker by its name: golem run . --entry NAME \"what to do\"", sandbox.Shown(args[0]))
	case f.dir != ".":
		return nil, usageError("--program and an argument name a program; use one of them")
	case info.IsDir():
		f.dir = args[0]
	case worker.Stem(args[0]) == "":
		return nil, usagef("%s is no worker file: its name does not end in .worker, .yaml or .yml", sandbox.Shown(args[0]))
	case f.entry != "":
		return nil, usageError("--entry and a worker file name a worker; use one of them")
	default:
		f.dir, f.entry = filepath.Dir(args[0]), worker.Stem(filepath.Base(args[0]))
		if f.entry == "worker" {
			f.entry = filepath.Base(f.dir)
		}
	}
	return args[1:], nil
}

// run runs a program.
func (f *runFlags) run(cmd *cobra.Command, p *program.Program, words []string) error {
	if p.Content.Hash == "" {
		return noProgram(p)
	}
	if err := f.askTrust(cmd, p, f.file == "-"); err != nil { // before golem opens any file that the program names
		return err
	}
	if f.resume == "" {
		if err := program.CheckStateLimit(p); err != nil {
			return err
		}
	}
	in, err := f.given(cmd, p, words)
	if err != nil {
		return err
	}
	out := newReport(cmd)
	out.resumed = f.resume != ""
	if f.dir != "." {
		out.where = " -C " + visible.CommandLine(f.dir)
	}
	requests := network.NewOwnRequests("model", "the model that you chose", time.Now)
	defer requests.Close()
	m, name, closeModel, err := f.open(p, requests, out.note)
	if err != nil {
		return err
	}
	defer closeModel()
	v := program.GateOptions{ApproveReads: f.reads, Secrets: secrets(os.Environ()), Session: cmp.Or(f.sessionID(), session.New), Copy: wantsCopy(f.copy)}
	if f.resume != "" {
		s, err := p.Runs().Find(f.resumed())
		if err != nil {
			return err
		}
		v.Session = s.ID
	}
	if terminal := findTerminal(f.file == "-"); terminal != nil {
		v.Asker = telling{newAsker(terminal, cmd.ErrOrStderr(), f.wait), out}
		if terminal != os.Stdin {
			defer terminal.Close()
		}
	}
	if !out.json && newScreen(cmd.ErrOrStderr()).file != nil {
		v.OnOutput = out.output
	}
	ctx, end := context.WithCancelCause(cmd.Context())
	defer end(nil)
	copying := newCopying(ctx, cmd.ErrOrStderr(), wantsCopy(f.copy))
	v.OnCopy = copying.tell
	r, err := p.OpenRun(program.RunOptions{GateOptions: v, Model: m, ModelName: name, Requests: requests, Price: prices.Cost, Resume: f.resume != "", Attached: f.handed, OnEvent: out.tell})
	copying.end(err == nil)
	if err != nil {
		return err
	}
	for _, note := range append(r.Gate.StartNotes, r.Gate.Notes...) {
		fmt.Fprintln(cmd.ErrOrStderr(), "golem: "+note)
	}
	out.session = r.ID
	r.Chat = r.Chat || f.chatty
	if !r.Chat && !wantsJSON(cmd) { // in a chat the user types
		out.status = beginStatus(cmd.ErrOrStderr(), "waiting for the model")
		defer out.status.end()
	}
	heard := stopping(r.Stop, end, cmd.ErrOrStderr())
	o, err := f.talk(ctx, cmd, r, in, out)
	code := heard()
	sum := r.Budget.Sum()
	out.balance = r.Balance()
	changes, reviewed := describeSession(cmd.ErrOrStderr(), p, r.Gate)
	late := errors.Join(reviewed, r.Close())
	out.changes = changes
	if err == nil { // there is an answer, even if closing the records failed
		err = out.end("golem run "+visible.CommandLine(f.said)+" --resume ", o, sum, code)
	}
	return withLate(cmd, err, late)
}

// resumed returns the session whose run continues, or "" for the last run.
func (f *runFlags) resumed() string {
	if f.resume == "last" {
		return ""
	}
	return f.resume
}

// programBefore loads the program again if the run that continues began with another
// entry worker.
func (f *runFlags) programBefore(p *program.Program) (*program.Program, error) {
	s, err := p.Runs().Find(f.resumed())
	if err != nil {
		return nil, err
	}
	begin, err := p.Runs().Begin(s)
	if err != nil || begin.Worker == "" || p.Entry != nil && p.Entry.Name == begin.Worker {
		return p, err
	}
	f.entry = begin.Worker
	return f.program()
}

// talk runs the entry worker. In chat mode it runs it again for each message.
func (f *runFlags) talk(ctx context.Context, cmd *cobra.Command, r *program.Run, in run.Input, out *report) (run.Outcome, error) {
	if r.Chat {
		return f.chat(ctx, cmd, r, in, out)
	}
	return r.Do(ctx, in)
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

// given returns the input of the entry worker.
func (f *runFlags) given(cmd *cobra.Command, p *program.Program, words []string) (in run.Input, err error) {
	files := f.attach
	var text []string
	for _, word := range words {
		if attachedUnasked(word) {
			files = append(files, word)
		} else {
			text = append(text, word)
		}
	}
	said := 0
	for _, is := range []bool{len(text) > 0, f.input != "", f.file != ""} {
		if is {
			said++
		}
	}
	if said > 1 {
		return in, usageError("the input is given twice; use arguments, --input or --file")
	}
	switch {
	case f.file == "-":
		data, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxInput+1))
		if err != nil {
			return in, err
		}
		in.Text = string(data)
	case f.file != "":
		data, err := os.ReadFile(f.file)
		if err != nil {
			return in, usagef("--file %s: %v", sandbox.Shown(f.file), errors.Unwrap(err))
		}
		in.Text = string(data)
		from, err := filepath.Abs(f.file) // unlike the name of an attachment, it does not start at the worker's directory
		if err != nil {
			return in, err
		}
		f.handed = append(f.handed, from)
	default:
		in.Text = cmp.Or(f.input, strings.Join(text, " "))
	}
	if len(in.Text) > maxInput {
		return in, usagef("the input has more than %s; attach it as a file", tool.FormatSize(maxInput))
	}
	if !utf8.ValidString(in.Text) {
		return in, usageError("the input is not UTF-8 text; attach it as a file")
	}
	f.handed = append(f.handed, files...)
	if in.Files, err = p.Attach(files); err != nil {
		return in, err
	}
	if f.resume == "" && strings.TrimSpace(in.Text) == "" && len(in.Files) == 0 && p.Entry != nil && !p.Entry.AllowEmptyInput && p.Entry.Mode != "chat" {
		if f.chatty = !wantsJSON(cmd) && newScreen(os.Stdin).file != nil && findTerminal(false) != nil; f.chatty {
			return in, nil
		}
		return in, usagef("%s needs an input; golem run %s \"what to do\"", visible.Text(p.Entry.Name), sandbox.Shown(f.said))
	}
	return in, nil
}

// maxInput is the maximum size of an input in bytes.
const maxInput = 1 << 20

// attachedUnasked reports whether golem attaches a word of the input as a file: a PDF or
// an image that exists.
func attachedUnasked(word string) bool {
	switch strings.ToLower(filepath.Ext(word)) {
	case ".pdf", ".png", ".jpg", ".jpeg", ".gif", ".webp":
		info, err := os.Stat(word)
		return err == nil && info.Mode().IsRegular()
	}
	return false
}
