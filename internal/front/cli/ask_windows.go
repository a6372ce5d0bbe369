package cli

import (
	"bufio"
	"context"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/term"
)

// colours says whether terminals here know them: not without a mode of their own.
const colours = false

// ends are the signals that end a question.
func ends() []os.Signal { return []os.Signal{os.Interrupt} }

// findTerminal returns the console that somebody can be asked at; nil if there
// is none. What comes through standard input is never consent: only a console
// there is one to ask at. Where standard input was taken, because the user said
// that it holds content, the console of the process stands in for it.
func findTerminal(taken bool) *os.File {
	if term.IsTerminal(int(os.Stdin.Fd())) {
		return os.Stdin
	}
	if !taken {
		return nil
	}
	console, err := os.OpenFile("CONIN$", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	return console
}

// A keyboard reads lines that somebody types at a console. A read there cannot
// be called back: one that outlives its question is kept, and serves the next.
type keyboard struct {
	file    *os.File
	reads   *bufio.Reader
	lines   chan typed
	pending bool // a read is under way
}

type typed struct {
	text string
	err  error
}

func newKeyboard(f *os.File) *keyboard {
	return &keyboard{file: f, reads: bufio.NewReader(f), lines: make(chan typed, 1)}
}

// ready gives the console its usual modes, in which lines are edited and seen.
func (k *keyboard) ready() (restore func(), err error) {
	console := windows.Handle(k.file.Fd())
	var old uint32
	if err := windows.GetConsoleMode(console, &old); err != nil {
		return nil, err
	}
	usual := old | windows.ENABLE_PROCESSED_INPUT | windows.ENABLE_LINE_INPUT | windows.ENABLE_ECHO_INPUT
	if err := windows.SetConsoleMode(console, usual); err != nil {
		return nil, err
	}
	return func() { windows.SetConsoleMode(console, old) }, nil
}

// flush throws away what was typed and not yet read.
func (k *keyboard) flush() error {
	select {
	case <-k.lines:
		k.pending = false
	default:
	}
	if !k.pending {
		k.reads.Discard(k.reads.Buffered())
	}
	return windows.FlushConsoleInputBuffer(windows.Handle(k.file.Fd()))
}

// line returns the next line.
func (k *keyboard) line(ctx context.Context, wait time.Duration) (string, error) {
	if !k.pending {
		k.pending = true
		go func() {
			text, err := k.reads.ReadString('\n')
			k.lines <- typed{text, err}
		}()
	}
	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case <-ctx.Done():
		return "", errStopped
	case <-late.C:
		return "", errLate
	case line := <-k.lines:
		k.pending = false
		if line.err != nil {
			return "", errEnd
		}
		return strings.TrimSuffix(strings.TrimSuffix(line.text, "\n"), "\r"), nil
	}
}

// take does not keep other processes from the console.
func (k *keyboard) take(context.Context, time.Duration) (release func(), err error) {
	return func() {}, nil
}
