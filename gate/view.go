package gate

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/golem-forge/golem/internal/decide/display"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// The limits of a view.
const (
	minWidth, maxWidth   = 40, 1000
	minHeight, maxHeight = 5, 1000
	maxLines             = 100_000
)

// A View is a request as pages of text, which fit a terminal. It remembers which pages were
// asked for. It is not safe for use by several goroutines.
type View struct {
	request Request
	rows    []visible.Row
	lines   []string
	ends    []int // for each row, the index after its last line; rows without room have none
	height  int
	shown   map[int]bool // pages
}

// Render returns a view of the request, with lines of at most width columns and pages of at
// most height lines, but no fewer than 40 columns and 5 lines. It has no control characters. Of a
// huge request it has only the first 100,000 lines, which is not enough to approve it: see
// [Request.Unseen].
func (r Request) Render(width, height int) *View {
	width, height = min(max(width, minWidth), maxWidth), min(max(height, minHeight), maxHeight)
	v := &View{request: r, rows: display.NewSheet(r.inner, math.MaxInt).All(), height: height, shown: map[int]bool{}}
	for _, row := range v.rows {
		lines := row.Lines(width, false)
		if len(v.lines)+len(lines) > maxLines {
			break
		}
		for _, line := range lines {
			v.lines = append(v.lines, strings.TrimSuffix(line, "\n"))
		}
		v.ends = append(v.ends, len(v.lines))
	}
	return v
}

// Pages returns how many pages there are.
func (v *View) Pages() int {
	if v == nil || v.height == 0 { // Render has not made it
		return 0
	}
	return (len(v.lines) + v.height - 1) / v.height
}

// Page returns a page to show, "" if there is none with that index. The first is page 0.
func (v *View) Page(i int) string {
	if i < 0 || i >= v.Pages() {
		return ""
	}
	v.shown[i] = true
	return strings.Join(v.lines[i*v.height:min((i+1)*v.height, len(v.lines))], "\n") + "\n"
}

// WriteTo writes all pages to a writer, such as a terminal or a response. Pages that could not
// be written do not count as shown.
func (v *View) WriteTo(w io.Writer) (written int64, err error) {
	if w == nil {
		return 0, &sandbox.Error{Op: "render", Code: sandbox.ErrInvalid, Hint: "there is no writer to write the pages to"}
	}
	for i := 0; i < v.Pages(); i++ {
		before, page := v.shown[i], v.Page(i)
		n, err := io.WriteString(w, page)
		written += int64(n)
		if err == nil && n < len(page) {
			err = io.ErrShortWrite
		}
		if err != nil {
			if !before {
				delete(v.shown, i)
			}
			return written, err
		}
	}
	return written, nil
}

// Seen returns what the pages that were asked for cover. It is an error if that is not all of
// the request: [ErrUnseen].
func (v *View) Seen() (Seen, error) {
	if v.Pages() == 0 {
		return Seen{}, &sandbox.Error{Op: "approve", Code: ErrUnseen, Hint: "nothing was rendered; use Request.Render"}
	}
	var shown []visible.Row
	start, missing := 0, len(v.ends) < len(v.rows)
	for i, end := range v.ends {
		whole := true
		for line := start; line < end; line++ {
			whole = whole && v.shown[line/v.height]
		}
		if whole {
			shown = append(shown, v.rows[i])
		}
		missing = missing || !whole && v.rows[i].Item == "" // a warning that belongs to all of it
		start = end
	}
	if missing {
		return Seen{}, &sandbox.Error{Op: "approve", Code: ErrUnseen, Hint: "only " + v.String() + " were shown; show all of them"}
	}
	return v.request.see(display.RenderedItems(v.rows, shown), "")
}

// String returns how much of the view was asked for.
func (v *View) String() string {
	if v == nil {
		v = &View{}
	}
	return fmt.Sprintf("%d of %d pages", len(v.shown), v.Pages())
}
