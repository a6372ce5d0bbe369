package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/run"
	"github.com/golem-forge/golem/internal/work/toolset/settle"
	"github.com/golem-forge/golem/sandbox"
)

const chatHelp = `  @FILE           in a message: attach a file that the worker may read
  /diff [PATH…]   show what the worker has changed and your directory does not have
  /apply [PATH…]  apply it, or only these files; golem shows it and asks;
                  --merge and --overwrite as for golem apply
  /discard [PATH…]
                  delete it, or only these files; golem shows it and asks
  /undo           undo the last change in your directory; golem shows it and asks
  /model [NAME]   show the model, or let another one answer from now on
  /new            start a new conversation; changes are kept
  /compact        summarise the conversation so far, so that it takes less of the context
  /tool NAME …    call a tool yourself, such as /tool read_file --path /in/a.txt;
                  /tool NAME --help lists its flags
  /help           show this help
  /exit           end the run; golem run … --resume ID continues it
  Enter           send the message; Ctrl-J begins a new line, which is shown as ␤
  Up, Down, Tab   earlier messages; complete a command or the name of a tool
  Ctrl-C          delete the line, and end the chat if it is pressed twice; while the worker
                  works, stop after the current call`

// chatCommands are the commands of a chat.
func chatCommands() []string {
	return []string{"/diff", "/apply", "/discard", "/undo", "/model", "/new", "/compact", "/tool", "/help", "/exit"}
}

// A chat runs the entry worker for each message that the user types.
type chat struct {
	flags   *runFlags
	cmd     *cobra.Command
	program *program.Program
	run     *program.Run
	out     *report
	open    func(name string) (run.Choice, error) // opens another model
}

// talk reads messages and commands, until the user ends the chat.
func (c *chat) talk(ctx context.Context, in run.Input) (o run.Outcome, err error) {
	errs, r := c.cmd.ErrOrStderr(), c.run
	var editor *lineEditor
	lines := bufio.NewReader(os.Stdin)
	prompt := "" // empty if standard input is no terminal
	read := func() (string, error) { return lines.ReadString('\n') }
	if screen := newScreen(os.Stdin).file; screen != nil {
		prompt = "> "
		fmt.Fprintln(errs, "golem: type a message; /help lists the commands")
		if whyPlain(screen, c.flags.plain) == "" {
			editor = newLineEditor(screen, screen, consoleOf(errs), prompt, func(line string) []string {
				return completeChat(line, visible.Each(r.Entry.Gate.Tools, func(t tool.Tool) string { return t.Name }))
			})
			defer editor.close()
			prompt, read = "", editor.read
		}
	}
	o = run.Outcome{End: run.Finished}
	for open := r.HasOpenCalls(); ctx.Err() == nil; open = false {
		if open || strings.TrimSpace(in.Text) != "" || len(in.Files) > 0 {
			began := time.Now()
			if editor != nil {
				c.out.setStatus(beginStatus(errs, "waiting for the model"))
			}
			o, err = r.Do(ctx, in)
			c.out.setStatus(nil)
			if err != nil || o.End == run.Spent || o.End == run.Stopped || o.End == run.Paused {
				return o, err
			}
			c.out.answered(o)
			if editor != nil {
				fmt.Fprintln(errs, "golem: "+c.out.turnText(r, time.Since(began)))
			}
		}
		in = run.Input{}
		fmt.Fprint(errs, prompt)
		line, err := nextLine(ctx, r, read)
		if errors.Is(err, errUnasked) || errors.Is(err, errInterrupted) {
			break
		}
		if errors.Is(err, io.EOF) && line == "" {
			if prompt != "" || editor != nil {
				fmt.Fprintln(errs)
			}
			return run.Outcome{End: run.Finished}, nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return o, err
		}
		line = strings.TrimSpace(line)
		if line == "/exit" {
			return run.Outcome{End: run.Finished}, nil
		}
		if strings.HasPrefix(line, "/") {
			err = c.command(ctx, line)
		} else {
			in, err = c.message(line)
		}
		if err != nil {
			fmt.Fprintln(errs, "golem: "+visible.Text(err.Error()))
		}
	}
	return run.Outcome{End: run.Stopped}, nil
}

// message returns a message with the files that its words name by @FILE. A word with @ that
// names no file which the worker may read is text.
func (c *chat) message(line string) (in run.Input, err error) {
	errs := c.cmd.ErrOrStderr()
	in.Text = line
	dir, err := os.Getwd()
	if err != nil {
		return in, err
	}
	known := newPaths(c.program, dir)
	for _, word := range strings.Fields(line) {
		typed, ok := strings.CutPrefix(strings.TrimRight(word, ",.;:!?)"), "@")
		if !ok || typed == "" {
			continue
		}
		host := typed
		if !filepath.IsAbs(host) {
			host = filepath.Join(dir, host)
		}
		name, inside := nameIn(known.mounts, realPath(host))
		if !inside {
			fmt.Fprintf(errs, "golem: @%s is sent as text: no such file in the directories of %s; golem run --attach FILE sends any file of yours\n", sandbox.Shown(typed), c.run.Entry.Name)
			continue
		}
		files, err := c.run.Attach([]string{name}, in.Files)
		if err != nil {
			fmt.Fprintf(errs, "golem: @%s is sent as text: %s\n", sandbox.Shown(typed), visible.Text(err.Error()))
			continue
		}
		in.Files = append(in.Files, files...)
		fmt.Fprintf(errs, "golem: attached %s, %s\n", sandbox.Shown(typed), visible.Count(len(files[0].Data), "byte"))
	}
	return in, nil
}

// command does what a line with a command says.
func (c *chat) command(ctx context.Context, line string) error {
	errs := c.cmd.ErrOrStderr()
	word, rest, _ := strings.Cut(line, " ")
	words, err := splitWords(rest)
	if err != nil {
		return err
	}
	switch word {
	case "/new":
		c.run.Forget()
		fmt.Fprintln(errs, "golem: a new conversation")
	case "/compact":
		did, err := c.run.Compact(ctx)
		if err != nil {
			return fmt.Errorf("the conversation stays as it is: %w", err)
		}
		fmt.Fprintln(errs, "golem: "+visible.Text(did))
	case "/help":
		fmt.Fprintln(errs, chatHelp)
	case "/tool":
		return c.tool(ctx, words)
	case "/diff":
		return c.diff(words)
	case "/apply", "/discard":
		return c.decide(ctx, word[1:], words)
	case "/undo":
		return c.doWith(ctx, settle.UndoArgs{}, line)
	case "/model":
		return c.useModel(words)
	default:
		return usagef("no %s; there is %s", word, strings.Join(chatCommands(), ", "))
	}
	return nil
}

// session returns the session of the run with the paths as the user types them.
func (c *chat) session() (*workSession, error) {
	if c.run.Gate.Session == nil {
		return nil, usageError("the worker has no session: what it writes is in your directory at once; /undo undoes the last change")
	}
	dir, err := os.Getwd()
	w := newWorkSession(c.program, c.run.Gate.Session, dir)
	w.inChat = true
	return w, err
}

// diff shows the changes of the session.
func (c *chat) diff(paths []string) error {
	w, err := c.session()
	if err != nil {
		return err
	}
	r, _, err := w.review(c.cmd.ErrOrStderr(), "diff", paths, true)
	if err != nil {
		return err
	}
	v := newReviewText(c.cmd.OutOrStdout(), w, r)
	v.diffs()
	return v.b.flush()
}

// decide applies or discards changes of the session, after the user has seen them.
func (c *chat) decide(ctx context.Context, verb string, words []string) error {
	var given settle.ApplyArgs
	var paths []string
	for _, word := range words {
		switch {
		case verb == "apply" && word == "--merge":
			given.Merge = true
		case verb == "apply" && word == "--overwrite":
			given.Overwrite = true
		case strings.HasPrefix(word, "-"):
			return usagef("no %s here; golem %s in another terminal has more options, once you have ended the chat", sandbox.Shown(word), verb)
		default:
			paths = append(paths, word)
		}
	}
	w, err := c.session()
	if err != nil {
		return err
	}
	r, names, err := w.review(c.cmd.ErrOrStderr(), verb, paths, false)
	if err != nil {
		return err
	}
	if len(r.Files) == 0 {
		return w.nothing(c.cmd, verb, r)
	}
	if verb == "discard" {
		return c.doWith(ctx, discardArgs(names), "/discard")
	}
	if err := w.checkConflicts(r, paths, given.Merge || given.Overwrite); err != nil {
		return err
	}
	given.Paths = names
	return c.doWith(ctx, given, "/apply")
}

// useModel lets another model answer, or says which one answers.
func (c *chat) useModel(names []string) error {
	switch len(names) {
	case 0:
		fmt.Fprintln(c.cmd.ErrOrStderr(), "golem: "+visible.Text(c.run.Entry.ModelName)+" answers; /model NAME lets another one answer")
		return nil
	case 1:
	default:
		return usageError("one model: /model NAME")
	}
	m, err := c.open(names[0])
	if err == nil {
		err = c.run.UseModel(m, contextOf(c.program, m.Name))
	}
	if err != nil {
		return fmt.Errorf("%w; %s still answers", err, c.run.Entry.ModelName)
	}
	fmt.Fprintln(c.cmd.ErrOrStderr(), "golem: "+visible.Text(m.Name)+" answers from now on, with the whole conversation so far")
	return nil
}

// errUnasked is the error if the run stops while golem waits for a line.
var errUnasked = errors.New("the run is to stop")

// nextLine returns the next line, or errUnasked if the run stops first. The read itself
// cannot be cancelled. A read that is still waiting ends with the process.
func nextLine(ctx context.Context, r *program.Run, read func() (string, error)) (line string, err error) {
	done := make(chan struct{})
	var got string
	var failed error
	go func() {
		got, failed = read()
		close(done)
	}()
	select {
	case <-done:
		return got, failed
	case <-r.Stopped():
	case <-ctx.Done():
	}
	return "", errUnasked
}

// tool makes a call that the user typed.
func (c *chat) tool(ctx context.Context, words []string) error {
	if len(words) == 0 {
		return usageError("which tool? /tool read_file --path /in/a.txt")
	}
	call, err := callOf(c.run.Entry.Gate, words)
	if errors.Is(err, pflag.ErrHelp) {
		t, err := toolNamed(c.run.Entry.Gate.Tools, words[0])
		if err == nil {
			printTool(c.cmd.OutOrStdout(), t)
		}
		return err
	}
	if err != nil {
		return err
	}
	return c.do(ctx, call, "the same /tool line")
}

// do makes a call for the user, and prints the result. typed is what the user types to make it
// again.
func (c *chat) do(ctx context.Context, call tool.Call, typed string) error {
	gate := c.run.Entry.Gate
	gate.Again = "type " + typed + " again"
	if err := printResult(c.cmd, gate.Do(ctx, policy.User, call)); err != nil {
		var code exit
		if !errors.As(err, &code) {
			return err
		}
	}
	return nil
}

// doWith makes a call with arguments for the user.
func (c *chat) doWith(ctx context.Context, args tool.Arguments, typed string) error {
	call, err := tool.NewCall(args)
	if err != nil {
		return err
	}
	return c.do(ctx, call, typed)
}

// callOf parses a call that is written like the arguments of golem tool.
func callOf(g tool.Gate, words []string) (tool.Call, error) {
	t, err := toolNamed(g.Tools, words[0])
	if err != nil {
		return tool.Call{}, err
	}
	flags := pflag.NewFlagSet(t.Name, pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	own := newToolArgs(t)
	own.addTo(flags)
	if err := flags.Parse(words[1:]); errors.Is(err, pflag.ErrHelp) {
		return tool.Call{}, err
	} else if err != nil {
		return tool.Call{}, usagef("%v; /tool %s --help lists its flags", err, t.Name)
	}
	if flags.NArg() > 0 {
		return tool.Call{}, usagef("%s takes flags, and no argument %s", t.Name, sandbox.Shown(flags.Arg(0)))
	}
	given, err := own.read(strings.NewReader(""))
	return tool.Call{Tool: t.Name, Args: given.json}, err
}

// splitWords splits a line like a shell, with quotes. The error for an open quote names
// its position.
func splitWords(line string) (words []string, err error) {
	var b strings.Builder
	quote, at, begun := rune(0), 0, false
	for i, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			b.WriteRune(c)
		case c == '"' || c == '\'':
			quote, at, begun = c, i+1, true
		case c == ' ' || c == '\t':
			if begun {
				words = append(words, b.String())
				b.Reset()
				begun = false
			}
		default:
			b.WriteRune(c)
			begun = true
		}
	}
	if quote != 0 {
		return nil, usagef("the quote at character %d is not closed", at)
	}
	if begun {
		words = append(words, b.String())
	}
	return words, nil
}

// setStatus replaces the status line by that of a turn, nil for none.
func (r *report) setStatus(l *statusLine) {
	r.mu.Lock()
	old := r.status
	r.status = l
	r.mu.Unlock()
	old.end()
}

// turnText says how long a turn of a chat took, what the run has used so far, and how much
// of the context the conversation takes.
func (r *report) turnText(one *program.Run, took time.Duration) string {
	r.mu.Lock()
	context := r.context
	r.mu.Unlock()
	s := one.Budget.Sum()
	text := fmt.Sprintf("%s; %s tokens in, %s out", took.Round(100*time.Millisecond), visible.Number(s.Tokens.Input), visible.Number(s.Tokens.Output))
	if s.Unpriced {
		text += "; " + costUnknown
	} else if s.Cost > 0 {
		text += fmt.Sprintf("; $%.2f", s.Cost)
	}
	switch {
	case context.Limit > 0:
		text += fmt.Sprintf("; %d %% of the context", context.Share())
	case context.Tokens > 0:
		text += fmt.Sprintf("; %s tokens of context", visible.Number(context.Tokens))
	}
	return text
}
