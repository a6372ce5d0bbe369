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

// colours reports whether terminals on this system support colours. These need a console
// mode that golem does not set.
const colours = false

// ends returns the signals that end a question.
func ends() []os.Signal { return []os.Signal{os.Interrupt} }

// suspends returns the signals that suspend golem. Windows has none.
func suspends() []os.Signal { return nil }

func suspendSelf() {}

// findTerminal returns a console to ask at, or nil. Data from standard input never counts
// as approval, so standard input must be a console. If taken is set, standard input holds
// content, and golem uses the console of the process instead.
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

// A keyboard reads lines that a person types at a console. A read cannot be cancelled
// there. If a read outlives its question, the next question uses it.
type keyboard struct {
	file    *os.File
	reads   *bufio.Reader
	lines   chan typed
	pending bool // a read has started and not ended
}

type typed struct {
	text string
	err  error
}

func newKeyboard(f *os.File) *keyboard {
	return &keyboard{file: f, reads: bufio.NewReader(f), lines: make(chan typed, 1)}
}

// ready sets the usual modes of the console, with line editing and echo. restore sets the
// old modes again.
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

// settle waits until the question was on screen for long. Then it discards unread input,
// and reports whether there was a whole line.
func (k *keyboard) settle(ctx context.Context, long time.Duration) (early bool, err error) {
	select {
	case <-ctx.Done():
		return false, errStopped
	case <-time.After(long):
	}
	select {
	case <-k.lines:
		k.pending, early = false, true
	default:
	}
	if !k.pending {
		k.reads.Discard(k.reads.Buffered())
	}
	return early, windows.FlushConsoleInputBuffer(windows.Handle(k.file.Fd()))
}

// glance is how often golem checks whether to draw a question again.
const glance = 100 * time.Millisecond

// line returns the next line. If interrupted returns an error, line returns that error.
func (k *keyboard) line(ctx context.Context, wait time.Duration, interrupted func() error) (string, error) {
	if !k.pending {
		k.pending = true
		go func() {
			text, err := k.reads.ReadString('\n')
			k.lines <- typed{text, err}
		}()
	}
	late := time.NewTimer(wait)
	defer late.Stop()
	tick := time.NewTicker(glance)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return "", errStopped
		case <-late.C:
			return "", errLate
		case <-tick.C:
			if err := interrupted(); err != nil {
				return "", err
			}
		case line := <-k.lines:
			k.pending = false
			if line.err != nil {
				return "", errEnd
			}
			return strings.TrimSuffix(strings.TrimSuffix(line.text, "\n"), "\r"), nil
		}
	}
}
