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

// suspends are the signals that suspend golem: there are none.
func suspends() []os.Signal { return nil }

func suspendSelf() {}

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

// settle waits until a question was on screen for so long, throws away what was typed and
// not yet read, and reports whether a line was.
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

// glance is how often it is looked whether a question is to be drawn again.
const glance = 100 * time.Millisecond

// line returns the next line. Where interrupted returns an error, it is not waited for.
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

// take does not keep other processes from the console.
func (k *keyboard) take(context.Context, time.Duration) (release func(), err error) {
	return func() {}, nil
}

// A guard would share a terminal with a golem that asks at it; there are no locks on
// terminals here.
type guard struct{}

func openGuard(*os.File) *guard { return nil }

func (*guard) share() (release func(), free bool) { return func() {}, true }
