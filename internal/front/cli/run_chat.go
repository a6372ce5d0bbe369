package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/program"
	"github.com/golem-forge/golem/internal/run"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/internal/visible"
	"github.com/golem-forge/golem/sandbox"
)

const chatHelp = `  /new            start a new conversation; changes are kept
  /compact        summarise the conversation so far, so that it takes less of the context
  /tool NAME …    call a tool yourself, such as /tool read_file --path /in/a.txt;
                  /tool NAME --help lists its flags
  /help           show this help
  /exit           end the run; golem run … --resume ID continues it
  Enter           send the message; Ctrl-J begins a new line, which is shown as ␤
  Up, Down, Tab   earlier messages; complete a command or the name of a tool
  Ctrl-C          delete the line, and end the chat if it is pressed twice; while the worker
                  works, stop after the current call`

// chat runs the worker for each line that the user types.
func (f *runFlags) chat(ctx context.Context, cmd *cobra.Command, r *program.Run, in run.Input, out *report) (o run.Outcome, err error) {
	var editor *lineEditor
	lines := bufio.NewReader(os.Stdin)
	prompt := "" // empty if standard input is no terminal
	read := func() (string, error) { return lines.ReadString('\n') }
	if screen := newScreen(os.Stdin).file; screen != nil {
		prompt = "> "
		fmt.Fprintln(cmd.ErrOrStderr(), "golem: type a message; /help lists the commands")
		if whyPlain(screen, f.plain) == "" {
			editor = newLineEditor(screen, screen, consoleOf(cmd.ErrOrStderr()), prompt, func(line string) []string { return completeChat(line, toolNames(r)) })
			defer editor.close()
			prompt, read = "", editor.read
		}
	}
	o = run.Outcome{End: run.Finished}
	for open := r.HasOpenCalls(); ctx.Err() == nil; open = false {
		if open || strings.TrimSpace(in.Text) != "" || len(in.Files) > 0 {
			began := time.Now()
			if editor != nil {
				out.setStatus(beginStatus(cmd.ErrOrStderr(), "waiting for the model"))
			}
			o, err = r.Do(ctx, in)
			out.setStatus(nil)
			if err != nil || o.End == run.Spent || o.End == run.Stopped || o.End == run.Paused {
				return o, err
			}
			out.answered(o)
			if editor != nil {
				fmt.Fprintln(cmd.ErrOrStderr(), "golem: "+out.turnText(r, time.Since(began)))
			}
		}
		in = run.Input{}
		fmt.Fprint(cmd.ErrOrStderr(), prompt)
		line, err := nextLine(ctx, r, read)
		if errors.Is(err, errUnasked) || errors.Is(err, errInterrupted) {
			break
		}
		if errors.Is(err, io.EOF) && line == "" {
			if prompt != "" || editor != nil {
				fmt.Fprintln(cmd.ErrOrStderr())
			}
			return run.Outcome{End: run.Finished}, nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return o, err
		}
		line = strings.TrimSpace(line)
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case !strings.HasPrefix(line, "/"):
			in.Text = line
		case word == "/exit":
			return run.Outcome{End: run.Finished}, nil
		case word == "/new":
			r.Forget()
			fmt.Fprintln(cmd.ErrOrStderr(), "golem: a new conversation")
		case word == "/compact":
			did, err := r.Compact(ctx)
			if err != nil {
				did = "the conversation stays as it is: " + err.Error()
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "golem: "+visible.Text(did))
		case word == "/help":
			fmt.Fprintln(cmd.ErrOrStderr(), chatHelp)
		case word == "/tool":
			if err := f.tool(ctx, cmd, r, rest); err != nil {
				fmt.Fprintln(cmd.ErrOrStderr(), "golem:", err)
			}
		default:
			fmt.Fprintf(cmd.ErrOrStderr(), "golem: no %s; there is /new, /compact, /tool, /help, /exit\n", word)
		}
	}
	return run.Outcome{End: run.Stopped}, nil
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

// tool makes a call for the user.
func (f *runFlags) tool(ctx context.Context, cmd *cobra.Command, r *program.Run, line string) error {
	words, err := splitWords(line)
	if err != nil {
		return err
	}
	if len(words) == 0 {
		return usageError("which tool? /tool read_file --path /in/a.txt")
	}
	call, err := callOf(r.Entry.Gate, words)
	if errors.Is(err, pflag.ErrHelp) {
		t, err := toolNamed(r.Entry.Gate.Tools, words[0])
		if err == nil {
			printTool(cmd.OutOrStdout(), t)
		}
		return err
	}
	if err != nil {
		return err
	}
	gate := r.Entry.Gate
	gate.Again = "type the same /tool line again"
	if err := printResult(cmd, gate.Do(ctx, policy.User, call)); err != nil {
		var code exit
		if !errors.As(err, &code) {
			return err
		}
	}
	return nil
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

// toolNames returns the names of the tools that the user can call in a chat.
func toolNames(r *program.Run) (names []string) {
	for _, t := range r.Entry.Gate.Tools {
		names = append(names, t.Name)
	}
	return names
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
