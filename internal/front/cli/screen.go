package cli

import (
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/golem-forge/golem/internal/pager"
	"github.com/golem-forge/golem/internal/visible"
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
}

// newScreen returns a screen for the terminal that a writer writes to, or for the writer
// itself.
func newScreen(w io.Writer) screen {
	under := w
	if v, ok := w.(*visible.Writer); ok {
		under = v.Under()
	}
	switch under := under.(type) {
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
		b.WriteString(strings.Join(s.lines(r, columns), ""))
	}
	_, err := io.WriteString(s.w, b.String())
	return err
}

// print prints a text, which must be visible. It uses the pager if the text does not fit
// on the terminal.
func (s screen) print(text string) error {
	if _, height := s.size(); s.file != nil && strings.Count(text, "\n") >= height {
		if command := pager.Command(os.Environ()); command != "" {
			_, release := consoleOf(s.w).own() // the pager has the terminal
			err := pager.Show(command, os.Environ(), s.file, text)
			release()
			if !errors.Is(err, pager.ErrNone) {
				return err
			}
		}
	}
	_, err := io.WriteString(s.w, text)
	return err
}

// lines returns a row as lines of the terminal.
func (s screen) lines(r row, columns int) []string { return r.Lines(columns, !s.plain) }

// meanwhile shows at a terminal what golem does, if that takes long.
func meanwhile(w io.Writer, what string) (stop func()) { return beginStatus(w, what).end }
