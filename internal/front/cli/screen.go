package cli

import (
	"errors"
	"io"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"

	"golang.org/x/term"

	"github.com/golem-forge/golem/internal/clearance/target"
	"github.com/golem-forge/golem/internal/decide/display"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/pager"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/project"
)

// A row is a line of text about a request.
type row = visible.Row

// These are the marks of rows.
const (
	about    = visible.About // the question itself
	detail   = visible.Detail
	argument = visible.Argument
	content  = visible.Content
	hidden   = visible.Hidden
	warning  = visible.Warning
)

// A screen prints rows.
type screen struct {
	w     io.Writer
	file  *os.File // the terminal; nil if there is none
	plain bool     // without colours
	// environ returns the environment of the pager; nil leaves out the directory of the user.
	environ func() []string
}

// newScreen returns a screen for the terminal that a writer writes to, or for the writer
// itself.
func newScreen(w io.Writer) screen {
	under := w
	if v, ok := w.(*visible.Writer); ok {
		under = v.Under()
	}
	switch under := under.(type) {
	case *pageBuffer:
		s := under.screen
		s.w = under
		return s
	case *stream:
		color := colorAuto
		if under.console.color != nil {
			color = *under.console.color
		}
		plain := !color.paints(under.file != nil)
		if under.file != nil || !plain {
			return screen{w: under, file: under.file, plain: plain}
		}
	case *os.File:
		if under != nil && term.IsTerminal(int(under.Fd())) {
			return screen{w: under, file: under, plain: !colorAuto.paints(true)}
		}
	}
	return screen{w: w, plain: true}
}

// A pageBuffer collects text that is printed for a terminal, so that the pager can show it.
type pageBuffer struct {
	strings.Builder
	screen screen
}

// newPageBuffer returns a buffer for the terminal that a writer writes to, or for the
// writer itself.
func newPageBuffer(w io.Writer) *pageBuffer { return &pageBuffer{screen: newScreen(w)} }

// flush prints the text, in the pager if it does not fit on the terminal.
func (b *pageBuffer) flush() error { return b.screen.print(b.String()) }

// page returns the width and the colours of the screen.
func (s screen) page() visible.Page {
	columns, _ := s.size()
	return visible.Page{Columns: columns, Colours: !s.plain}
}

// size returns the number of columns and lines. Without a terminal both are 0, and 0
// columns mean no limit.
func (s screen) size() (columns, lines int) {
	if s.file == nil {
		return 0, 0
	}
	columns, lines, err := term.GetSize(int(s.file.Fd()))
	if err != nil || columns <= 0 || lines <= 0 {
		return 80, 24
	}
	return max(columns, minColumns), max(lines, 1)
}

// show prints rows.
func (s screen) show(rows []row) error {
	columns, _ := s.size()
	var b strings.Builder
	for _, r := range rows {
		b.WriteString(strings.Join(r.Lines(columns, !s.plain), ""))
	}
	_, err := io.WriteString(s.w, b.String())
	return err
}

// print prints a text, which must be visible. It uses the pager if the text does not fit
// on the terminal.
func (s screen) print(text string) error {
	if _, height := s.size(); s.file != nil && strings.Count(text, "\n") >= height {
		if command := pager.Command(os.Environ()); command != "" {
			if err := s.showInPager(command, text); !errors.Is(err, pager.ErrNone) {
				return err
			}
		}
	}
	_, err := io.WriteString(s.w, text)
	return err
}

// showInPager shows a text in the pager, until the user leaves it.
func (s screen) showInPager(command, text string) error {
	_, release := consoleOf(s.w).own() // the pager has the terminal
	defer release()
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, os.Interrupt) // Ctrl-C is for the pager; if golem ended, the shell would take the terminal from it
	defer signal.Stop(caught)
	if s.environ == nil {
		s.environ = environHere
	}
	p, err := pager.Start(command, s.environ(), s.file, text)
	if err != nil {
		return err
	}
	var fed sync.WaitGroup
	fed.Go(func() { p.Feed(text) })
	defer fed.Wait()
	return p.Wait()
}

// environHere returns the user's environment without programs in the program's directory, which
// workers may have written.
func environHere() []string {
	e := target.Env{Variables: os.Environ()}
	root, _, err := project.Find(".")
	if home, _ := os.UserHomeDir(); err == nil && root != home {
		e.Writable = []string{root}
	}
	return e.Safe()
}

// A colorFlag is the value of --color.
type colorFlag string

// These are the values of --color. auto is colour at a terminal.
const (
	colorAuto   colorFlag = "auto"
	colorAlways colorFlag = "always"
	colorNever  colorFlag = "never"
)

var colorWords = []string{string(colorAuto), string(colorAlways), string(colorNever)}

// Set implements pflag.Value.
func (f *colorFlag) Set(text string) error {
	if !slices.Contains(colorWords, text) {
		return errors.New("it is auto, always or never")
	}
	*f = colorFlag(text)
	return nil
}

// String implements pflag.Value.
func (f *colorFlag) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *colorFlag) Type() string { return "auto|always|never" }

// paints reports whether golem prints colours to a stream. The flag counts first, then
// NO_COLOR, then CLICOLOR_FORCE, then the user's configuration.
func (f colorFlag) paints(terminal bool) bool {
	forced := os.Getenv("CLICOLOR_FORCE")
	switch {
	case f == colorAlways:
		return true
	case f == colorNever, os.Getenv("NO_COLOR") != "":
		return false
	case forced != "" && forced != "0":
		return true
	}
	if chosen := colorFlag(preferences().Color); chosen == colorAlways || chosen == colorNever {
		return chosen == colorAlways
	}
	return terminal && colours && os.Getenv("TERM") != "dumb" && os.Getenv("CLICOLOR") != "0"
}

// These constants limit how much of a request is shown at once.
const (
	maxRows    = 40  // rows of the body, if the screen has room
	maxColumns = 200 // characters in one line
)

// showRequest prints all of a request.
func showRequest(w io.Writer, r tool.Request) {
	newScreen(w).show(display.NewSheet(r, math.MaxInt).All())
}
