package cli

import (
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"

	"github.com/golem-forge/golem/internal/visible"
)

// A row is a line about a request, made visible. Its mark says what it is:
// nothing a worker writes stands where a mark does.
type row struct {
	mark string
	text string
}

// The marks.
const (
	about    = "" // the question itself
	detail   = "•"
	argument = "="
	added    = "+"
	removed  = "-"
	content  = "│"
	hunk     = "@"
	hidden   = "…"
	warning  = "!"
)

// A screen prints rows.
type screen struct {
	w     io.Writer
	file  *os.File // of the terminal; nil where there is none
	plain bool     // without colours
}

// newScreen returns the terminal that a writer leads to, or the writer alone.
func newScreen(w io.Writer) screen {
	under := w
	if v, ok := w.(*visible.Writer); ok {
		under = v.Under()
	}
	if f, ok := under.(*os.File); ok && f != nil && term.IsTerminal(int(f.Fd())) {
		return screen{w: f, file: f, plain: os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" || !colours}
	}
	return screen{w: w, plain: true}
}

// size returns how many columns and lines there are; 0 columns have no end.
func (s screen) size() (columns, lines int) {
	if s.file == nil {
		return 0, 0
	}
	columns, lines, err := term.GetSize(int(s.file.Fd()))
	if err != nil || columns <= 0 || lines <= 0 {
		return 80, 24
	}
	return max(columns, 20), max(lines, 5)
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

// colour returns what comes before and after a row. It is all that is ever sent
// to a terminal beside visible text.
func (s screen) colour(mark string) (on, off string) {
	if s.plain {
		return "", ""
	}
	switch mark {
	case added:
		return "\x1b[32m", "\x1b[0m"
	case removed:
		return "\x1b[31m", "\x1b[0m"
	case hunk:
		return "\x1b[36m", "\x1b[0m"
	case hidden, warning:
		return "\x1b[33m", "\x1b[0m"
	}
	return "", ""
}

// lines returns a row as lines of the terminal. It breaks them itself: where
// the terminal does, a worker's text would begin a line as golem's own does.
func (s screen) lines(r row, columns int) []string {
	first, next := "  "+r.mark+" ", "  ┆ "
	if r.mark == about {
		first = "  "
	}
	on, off := s.colour(r.mark)
	var lines []string
	for i, piece := range broken(r.text, columns-len("  + ")-1) {
		before := next
		if i == 0 {
			before = first
		}
		lines = append(lines, on+before+piece+off+"\n")
	}
	return lines
}

// broken breaks a text into pieces of so many columns, taking each character
// for as wide as it may be; with none, it stays whole.
func broken(text string, columns int) []string {
	if columns <= 0 {
		return []string{text}
	}
	var pieces []string
	start, used := 0, 0
	for i, r := range text {
		width := 1
		switch {
		case r == '\t':
			width = 8
		case r >= 0x300:
			width = 2
		}
		if used += width; used > columns && i > start && !unicode.IsMark(r) {
			pieces = append(pieces, text[start:i])
			start, used = i, width
		}
	}
	return append(pieces, text[start:])
}
