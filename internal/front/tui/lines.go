package tui

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/people/syntax"
	"github.com/golem-forge/golem/internal/people/visible"
)

// A line is a line of a pane, ready to draw.
type line struct {
	row  int    // the row that it shows a part of
	item int    // the item of the file that it belongs to; -1 for none
	head bool   // the first line of the item
	text string // with colours
	find string // for searching, without colours
}

// A sheet is the lines of a pane, and which of them were on the screen.
type sheet struct {
	lines []line
	seen  []bool
	left  int // lines that were not on the screen yet
}

// newSheet returns lines of which none was on the screen.
func newSheet(lines []line) *sheet {
	return &sheet{lines: lines, seen: make([]bool, len(lines)), left: len(lines)}
}

// mark records that some lines were on the screen.
func (s *sheet) mark(from, to int) {
	for i := max(0, from); i < min(to, len(s.lines)); i++ {
		if !s.seen[i] {
			s.seen[i] = true
			s.left--
		}
	}
}

// rowsSeen returns the rows of which every line was on the screen.
func (s *sheet) rowsSeen() map[int]bool {
	whole := make(map[int]bool)
	for i, l := range s.lines {
		before, known := whole[l.row]
		whole[l.row] = s.seen[i] && (before || !known)
	}
	return whole
}

// markRows records that all lines of some rows were on the screen.
func (s *sheet) markRows(whole map[int]bool) {
	for i, l := range s.lines {
		if whole[l.row] {
			s.mark(i, i+1)
		}
	}
}

// hasSeen reports whether all lines of an item were on the screen.
func (s *sheet) hasSeen(item int) bool {
	for i, l := range s.lines {
		if l.item == item && !s.seen[i] {
			return false
		}
	}
	return true
}

// firstOf returns the index of the first line of an item.
func (s *sheet) firstOf(item int) int {
	for i, l := range s.lines {
		if l.item == item {
			return i
		}
	}
	return 0
}

// A layout turns rows into lines of a width.
type layout struct {
	width int
	wide  bool // old and new lines side by side
	paint paint
}

// minWide is the smallest width of a pane for old and new lines side by side.
const minWide = 60

// A painted row is a row with the parts of its text that are drawn differently.
type painted struct {
	visible.Row
	spans  []syntax.Span // of its text, or nil
	change span          // the changed words
}

// paintRows returns the rows of a diff of a file, with plain text.
func (l layout) paintRows(name, diff string) (list []painted) {
	rows := visible.DiffRows(diff)
	for i := range rows {
		rows[i].Text = plainText(rows[i].Text)
	}
	spans := make([][]syntax.Span, len(rows))
	if l.paint {
		spans = visible.Paint(name, rows)
	}
	for i, r := range rows {
		list = append(list, painted{Row: r, spans: spans[i]})
	}
	return list
}

// appendRow appends the lines of one row, which are wrapped behind its mark.
func (l layout) appendRow(lines []line, row, item int, r painted) []line {
	text := plainText(r.Text)
	first, next := r.Mark+" ", "┆ "
	if r.Mark == visible.About || r.Mark == visible.Header {
		first, next = "", "  "
	}
	at := 0
	for i, piece := range visible.Broken(text, max(1, l.width-4)) {
		mark := next
		if i == 0 {
			mark = first
		}
		drawn := l.paint.with(visible.MarkColour(r.Mark), mark) + l.words(r, piece, at)
		lines = append(lines, line{row: row, item: item, text: drawn, find: piece})
		at += len(piece)
	}
	return lines
}

// words returns a piece of the text of a row, which begins at an offset of it, with its
// colours and its changed words.
func (l layout) words(r painted, piece string, at int) string {
	if !l.paint {
		return piece
	}
	spans := visible.CutSpans(r.spans, at, at+len(piece))
	if spans == nil {
		spans = []syntax.Span{{Text: piece}}
	}
	var b strings.Builder
	for _, s := range spans {
		codes := visible.PaintedColour(visible.MarkColour(r.Mark), s.Kind)
		x, y := min(max(r.change.from-at, 0), len(s.Text)), min(max(r.change.to-at, 0), len(s.Text))
		b.WriteString(l.paint.with(codes, s.Text[:x]))
		if x < y {
			b.WriteString(l.paint.with(strings.TrimSuffix(strong+";"+codes, ";"), s.Text[x:y]))
		}
		b.WriteString(l.paint.with(codes, s.Text[max(x, y):]))
		at += len(s.Text)
	}
	return b.String()
}

// appendDiff appends the lines of a part of a diff. It returns the number of the next row.
func (l layout) appendDiff(lines []line, row, item int, rows []painted) ([]line, int) {
	for len(rows) > 0 {
		removed := count(rows, visible.Removed)
		added := count(rows[removed:], visible.Added)
		if removed+added == 0 {
			if l.isWide() && rows[0].Mark == visible.Content {
				lines = l.appendPair(lines, row, item, rows[0], rows[0])
			} else {
				lines = l.appendRow(lines, row, item, rows[0])
			}
			row, rows = row+1, rows[1:]
			continue
		}
		old, new := rows[:removed], rows[removed:removed+added]
		for i := range min(removed, added) {
			old[i].change, new[i].change = changedWords(old[i].Text, new[i].Text)
		}
		if l.isWide() {
			lines, row = l.appendPairs(lines, row, item, old, new)
		} else {
			for _, r := range rows[:removed+added] {
				lines, row = l.appendRow(lines, row, item, r), row+1
			}
		}
		rows = rows[removed+added:]
	}
	return lines, row
}

func (l layout) isWide() bool { return l.wide && l.width >= minWide }

// count counts the rows with a mark at the start.
func count(rows []painted, mark string) (n int) {
	for n < len(rows) && rows[n].Mark == mark {
		n++
	}
	return n
}

// appendPairs appends old and new rows next to each other.
func (l layout) appendPairs(lines []line, row, item int, old, new []painted) ([]line, int) {
	for i := range max(len(old), len(new)) {
		var a, b painted
		if i < len(old) {
			a = old[i]
		}
		if i < len(new) {
			b = new[i]
		}
		lines, row = l.appendPair(lines, row, item, a, b), row+1
	}
	return lines, row
}

// A span is a range of bytes.
type span struct{ from, to int }

// appendPair appends two rows next to each other. A row without a mark is empty.
func (l layout) appendPair(lines []line, row, item int, old, new painted) []line {
	half := (l.width - 4) / 2
	room := half - len("- ")
	side := func(r painted) (texts, finds []string) {
		if r.Mark == "" {
			return nil, nil
		}
		text := fixedText(plainText(r.Text))
		if text != plainText(r.Text) {
			r.change, r.spans = span{}, nil // the offsets are those of another text
		}
		mark := r.Mark + " "
		if r.Mark == visible.Content {
			mark = "  "
		}
		at := 0
		for first := true; first || text != ""; first = false {
			piece := text[:cutAt(text, room)]
			padding := strings.Repeat(" ", max(0, room-fixedWidth(piece)))
			texts = append(texts, l.paint.with(visible.MarkColour(r.Mark), mark)+l.words(r, piece, at)+padding)
			finds = append(finds, piece)
			at, text, mark = at+len(piece), text[len(piece):], "┆ "
		}
		return texts, finds
	}
	left, found := side(old)
	right, more := side(new)
	empty := strings.Repeat(" ", half)
	for i := range max(len(left), len(right)) {
		a, b, find := empty, "", ""
		if i < len(left) {
			a, find = left[i], found[i]
		}
		if i < len(right) {
			b, find = right[i], find+" "+more[i]
		}
		lines = append(lines, line{row: row, item: item, text: a + " " + l.paint.with(faint, "|") + " " + b, find: find})
	}
	return lines
}

// cutAt returns how many bytes of a text of fixedText fit into some columns, at least one
// character.
func cutAt(text string, columns int) int {
	used := 0
	for i, r := range text {
		if used += fixedCells(r); used > columns && i > 0 {
			return i
		}
	}
	return len(text)
}

// maxCompared is the length of the longest line in which changed words are marked.
const maxCompared = 4000

// changedWords returns which part of two lines is different, in bytes of their plain text.
// The spans are empty if the lines have little in common.
func changedWords(old, new string) (x, y span) {
	if len(old) > maxCompared || len(new) > maxCompared {
		return x, y
	}
	old, new = plainText(old), plainText(new)
	front := 0
	for front < len(old) && front < len(new) {
		r, size := utf8.DecodeRuneInString(old[front:])
		if s, _ := utf8.DecodeRuneInString(new[front:]); r != s {
			break
		}
		front += size
	}
	if isWord(firstRune(old[front:])) || isWord(firstRune(new[front:])) { // mark whole words
		for front > 0 && isWord(lastRune(old[:front])) {
			front -= utf8.RuneLen(lastRune(old[:front]))
		}
	}
	end := 0
	for end < len(old)-front && end < len(new)-front {
		r := lastRune(old[front : len(old)-end])
		if r != lastRune(new[front:len(new)-end]) {
			break
		}
		end += utf8.RuneLen(r)
	}
	if isWord(lastRune(old[front:len(old)-end])) || isWord(lastRune(new[front:len(new)-end])) {
		for end > 0 && isWord(firstRune(old[len(old)-end:])) {
			end -= utf8.RuneLen(firstRune(old[len(old)-end:]))
		}
	}
	common := len(strings.TrimSpace(old[:front])) + len(strings.TrimSpace(old[len(old)-end:]))
	if common == 0 || common*4 < min(len(strings.TrimSpace(old)), len(strings.TrimSpace(new))) {
		return x, y
	}
	return span{front, len(old) - end}, span{front, len(new) - end}
}

func firstRune(text string) rune { r, _ := utf8.DecodeRuneInString(text); return r }

func lastRune(text string) rune { r, _ := utf8.DecodeLastRuneInString(text); return r }

func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
