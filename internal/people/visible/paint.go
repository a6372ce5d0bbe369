package visible

import (
	"strings"

	"github.com/golem-forge/golem/internal/people/syntax"
)

// maxPainted is the number of bytes of the largest diff that Paint divides.
const maxPainted = 1 << 20

// Paint divides the texts of the rows of a diff of a file, for colours. The texts of the
// spans of a row are its text. A row without spans is not divided.
func Paint(name string, rows []Row) [][]syntax.Span {
	old, new := syntax.NewScanner(name), syntax.NewScanner(name)
	size := 0
	for _, r := range rows {
		size += len(r.Text)
	}
	if old == nil || size > maxPainted {
		return make([][]syntax.Span, len(rows))
	}
	list := make([][]syntax.Span, 0, len(rows))
	old.Reset(side(rows, Removed))
	new.Reset(side(rows, Added))
	for i, r := range rows {
		var spans []syntax.Span
		switch r.Mark {
		case Hunk:
			old.Reset(side(rows[i+1:], Removed))
			new.Reset(side(rows[i+1:], Added))
		case Removed:
			spans = old.Line(r.Text)
		case Added:
			spans = new.Line(r.Text)
		case Content:
			old.Line(r.Text)
			spans = new.Line(r.Text)
		}
		list = append(list, spans)
	}
	return list
}

// side returns the old or the new lines of the hunk that the rows begin with.
func side(rows []Row, mark string) string {
	var b strings.Builder
	for _, r := range rows {
		switch r.Mark {
		case Hunk:
			return b.String()
		case mark, Content:
			b.WriteString(r.Text + "\n")
		}
	}
	return b.String()
}

// CutSpans returns the spans of the bytes of a text between from and to.
func CutSpans(spans []syntax.Span, from, to int) (list []syntax.Span) {
	at := 0
	for _, s := range spans {
		a, b := max(from, at)-at, min(to, at+len(s.Text))-at
		if a < b {
			list = append(list, syntax.Span{Kind: s.Kind, Text: s.Text[a:b]})
		}
		at += len(s.Text)
	}
	return list
}

// PaintedColour returns the codes of the colour of a kind in a row with another colour.
// They are of the 16 colours that every terminal has. Red and green are for removed and
// added lines, so no kind has them.
func PaintedColour(row string, kind syntax.Kind) string {
	switch kind {
	case syntax.Comment:
		return strings.TrimSuffix("2;"+row, ";")
	case syntax.String:
		return "33"
	case syntax.Number:
		return "36"
	case syntax.Keyword:
		return "35"
	case syntax.Name:
		return "94"
	}
	return row
}
