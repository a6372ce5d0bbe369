package visible

import (
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"unicode"

	"github.com/golem-forge/golem/internal/people/syntax"
)

// A Row is a printed line with visible text. Its mark says what kind of line it is.
// Untrusted text never stands in the place of the mark.
type Row struct {
	Mark string
	Text string
	Item string // the item of a request that the row shows or belongs to: see tool.Request.Items

	Old, New int // of a row of a diff: the numbers of its line before and after the change, 0 for none
}

// The marks.
const (
	About    = ""  // the subject of all rows
	Header   = "?" // the first line of a question
	Detail   = "•"
	Argument = "="
	Added    = "+"
	Removed  = "-"
	Content  = "│"
	Hunk     = "@"
	Hidden   = "…"
	Warning  = "!"
)

// MarkColour returns the code of the colour of a row with a mark at a terminal, or "".
func MarkColour(mark string) string {
	switch mark {
	case Header:
		return "7"
	case Added:
		return "32"
	case Removed:
		return "31"
	case Hunk:
		return "36"
	case Hidden, Warning:
		return "33"
	}
	return ""
}

// Coloured returns a text with the codes of a colour, or unchanged if there are none.
func Coloured(codes, text string) string {
	if codes == "" || text == "" {
		return text
	}
	return "\x1b[" + codes + "m" + text + "\x1b[0m"
}

// Margin is the number of columns of a line that are not for the text of a row: those of
// the bar and the mark, which may be wide, and the last column.
const Margin = 7

// Lines returns a row as lines for a terminal of the given width, or as one line if the
// width is 0. It wraps the text itself: if the terminal wrapped it, untrusted text could
// begin a line like golem's own.
func (r Row) Lines(columns int, colours bool) []string {
	return r.lines("  ", columns, colours, nil)
}

// Barred returns a row as lines of a question. Each line begins with the bar, and bars in
// its text are escaped.
func (r Row) Barred(columns int, colours bool) []string {
	margin := Bar + " "
	if colours {
		margin = "\x1b[1m" + Bar + "\x1b[0m "
	}
	r.Text = Barless(r.Text)
	return r.lines(margin, columns, colours, nil)
}

// lines returns the lines of a row. The spans are those of its text, or nil.
func (r Row) lines(margin string, columns int, colours bool, spans []syntax.Span) []string {
	first, next := r.Mark+" ", "┆ "
	if r.Mark == About || r.Mark == Header {
		first = ""
	}
	colour := ""
	if colours {
		colour = MarkColour(r.Mark)
	}
	room := columns - Margin
	if columns > 0 {
		room = max(room, 1)
	}
	var lines []string
	at := 0
	for i, piece := range Broken(r.Text, room) {
		before := next
		if i == 0 {
			before = first
		}
		if spans == nil || !colours {
			lines = append(lines, margin+Coloured(colour, before+piece)+"\n")
			continue
		}
		line, codes, text := margin, colour, before
		for _, s := range CutSpans(spans, at, at+len(piece)) {
			if next := PaintedColour(colour, s.Kind); next != codes {
				line, codes, text = line+Coloured(codes, text), next, ""
			}
			text += s.Text
		}
		lines, at = append(lines, line+Coloured(codes, text)+"\n"), at+len(piece)
	}
	return lines
}

// A Page describes the terminal to print on. The zero page has no width limit and no
// colours.
type Page struct {
	Columns int
	Colours bool
}

// Row prints a row.
func (p Page) Row(w io.Writer, r Row) error { return p.row(w, r, nil) }

func (p Page) row(w io.Writer, r Row, spans []syntax.Span) error {
	for _, line := range r.lines("  ", p.Columns, p.Colours, spans) {
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
	return nil
}

// Diff prints the unified diff of a file, made visible, with the colours of its language.
func (p Page) Diff(w io.Writer, name, diff string) error {
	rows := DiffRows(diff)
	spans := make([][]syntax.Span, len(rows))
	if p.Colours {
		spans = Paint(name, rows)
	}
	for i, r := range rows {
		if err := p.row(w, r, spans[i]); err != nil {
			return err
		}
	}
	return nil
}

// DiffRows returns the lines of a unified diff as rows, made visible.
func DiffRows(diff string) (rows []Row) {
	for r := range Diff(diff) {
		r.Text = Text(r.Text)
		rows = append(rows, r)
	}
	return rows
}

// Line prints a line of golem that may contain untrusted text, made visible. If it wraps
// the text, each continuation begins with a special mark.
func (p Page) Line(w io.Writer, text string) error {
	const next = "  ┆ "
	for i, piece := range Broken(Text(text), p.Columns-len("  + ")-1) {
		if i > 0 {
			piece = next + piece
		}
		if _, err := io.WriteString(w, piece+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// Broken splits a text into pieces that fit the given number of columns, after a space
// unless a word is longer than that. It counts the maximum width of each character. If
// columns is not positive, the text stays whole.
func Broken(text string, columns int) []string {
	if columns <= 0 {
		return []string{text}
	}
	var pieces []string
	start, used := 0, 0
	space, after := 0, 0 // the index after the last space, and the columns used since
	for i, r := range text {
		width := 1
		switch {
		case r == '\t':
			width = 8
		case isTag(r):
			width = 0
		case r >= 0x300:
			width = 2
		}
		after += width
		if used += width; used > columns && i > start && !unicode.IsMark(r) && !isTag(r) {
			if space > start && after <= columns {
				pieces = append(pieces, text[start:space])
				start, used = space, after
			} else {
				pieces = append(pieces, text[start:i])
				start, used = i, width
			}
		}
		if r == ' ' {
			space, after = i+1, 0
		}
	}
	return append(pieces, text[start:])
}

// Diff returns the lines of a unified diff as rows, without the two lines of file names.
// It does not make their texts visible.
func Diff(diff string) iter.Seq[Row] {
	return func(yield func(Row) bool) {
		lines := diff
		if head, rest, ok := strings.Cut(diff, "\n"); ok && strings.HasPrefix(head, "--- ") && strings.HasPrefix(rest, "+++ ") {
			_, lines, _ = strings.Cut(rest, "\n")
		}
		old, new := 0, 0 // the numbers of the next line
		for line := range strings.Lines(lines) {
			line = strings.TrimSuffix(line, "\n")
			r := Row{Mark: Content, Text: line}
			if line != "" {
				switch line[0] {
				case '+':
					r = Row{Mark: Added, Text: line[1:], New: new}
				case '-':
					r = Row{Mark: Removed, Text: line[1:], Old: old}
				case '@':
					r.Mark = Hunk
					old, new = hunkStart(line, '-'), hunkStart(line, '+')
				case ' ':
					r.Text, r.Old, r.New = line[1:], old, new
				}
			}
			if r.Old > 0 {
				old++
			}
			if r.New > 0 {
				new++
			}
			if !yield(r) {
				return
			}
		}
	}
}

// hunkStart returns the number of the first line of a hunk on one side, 0 if the line that
// begins the hunk does not say it.
func hunkStart(line string, mark byte) int {
	_, numbers, _ := strings.Cut(line, " "+string(mark))
	n, err := strconv.Atoi(numbers[:len(numbers)-len(strings.TrimLeft(numbers, "0123456789"))])
	if err != nil {
		return 0
	}
	return n
}

// Bar begins each line of a question. Only golem prints it: [Barless] escapes it in all
// other text that reaches a terminal.
const Bar = "┃"

// bars are characters that look like the bar anywhere in a line: heavy vertical lines,
// and ornaments that fonts draw the same way.
const bars = "┃┇┋╏╹╻╽╿┠┡┢┣❙❚"

// thinBars are other vertical lines. They look like the bar only at the start of a line.
const thinBars = "|¦ǀ׀│┆┊╎║╵╷├┝┞┟╞╟╠∣∥⁞⎜⎟⎢⎥⎪⎮⎸⎹⏐⏽❘▏▎▍▌▋▊▉█▐▕⡇⢸ㅣ︱︳｜￨丨〡𐌠"

// LikeBar reports whether a character at the start of a line could look like the bar.
func LikeBar(r rune) bool {
	return r >= '|' && (strings.ContainsRune(bars, r) || strings.ContainsRune(thinBars, r))
}

// Barless returns text in which each bar is replaced by an escape such as \u2503.
func Barless(text string) string {
	if !strings.ContainsAny(text, bars) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if strings.ContainsRune(bars, r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Cells returns the maximum number of terminal columns of a character. It counts one for
// letters of Latin, Greek and Cyrillic, although some East Asian terminals use two.
func Cells(r rune) int {
	switch {
	case isTag(r):
		return 0
	case r < 0x530:
		return 1
	}
	return 2
}
