package tui

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
)

// A canvas is a screen to draw on.
type canvas struct {
	paint           paint
	columns, height int
}

// An area is how the screen of a review is divided.
type area struct {
	tree, diff int // columns
	rows       int // lines of both
	below      int // lines of the findings
}

// maxFindings is how many lines the findings of a file take.
const maxFindings = 4

// area divides the screen. It must not depend on anything that changes without a new frame.
func (m *model) area() area {
	a := area{tree: min(max(m.columns/3, 24), 50)}
	a.diff = m.columns - a.tree - len(" | ")
	if m.review != nil {
		a.below = len(m.review.findings(findingsRoom(m.height), m.columns, false))
	}
	a.rows = max(1, m.height-1-a.below-2)
	return a
}

// findingsRoom returns how many lines the findings may take.
func findingsRoom(height int) int {
	if height < 16 {
		return 1
	}
	return maxFindings
}

// questionRoom returns how many lines of a question are on the screen.
func (m *model) questionRoom() int { return max(1, m.height-1-len(m.drawStatus(m.question()))) }

// arrange makes the lines that the screen needs.
func (m *model) arrange() {
	v := m.review
	if v == nil {
		return
	}
	a := m.area()
	l := layout{width: a.diff, wide: m.wide, paint: m.paint}
	if v.at == 0 {
		v.arrangeAbout(l)
	}
	if f := v.file(); f != nil {
		f.arrange(l)
		f.scroll(0, a.rows)
	}
	all := len(v.nodes) + 1
	v.top = min(max(v.top, v.at-a.rows+1), v.at, max(0, all-a.rows))
}

// View implements tea.Model.
func (m *model) View() tea.View {
	var lines []string
	switch q := m.question(); {
	case m.help:
		lines = m.drawHelp()
	case q != nil:
		lines = m.drawQuestion(q)
	case m.review != nil:
		lines = m.drawReview()
	case m.list != nil:
		lines = m.drawList()
	default:
		lines = []string{m.busy, m.note}
	}
	for len(lines) < m.height {
		lines = append(lines, "")
	}
	view := tea.NewView(strings.Join(lines[:m.height], "\n"))
	view.AltScreen = true
	return view
}

// drawReview returns the lines of a review.
func (m *model) drawReview() (lines []string) {
	v, a := m.review, m.area()
	viewed := fmt.Sprintf("%d of %d viewed", v.viewed(), len(v.files))
	head := cutLine(" "+v.title()+": "+v.total(), m.columns-len(viewed)-2)
	gap := max(1, m.columns-visible.Width(head)-len(viewed)-1)
	lines = append(lines, m.paint.with(reverse, head+strings.Repeat(" ", gap)+viewed+" "))
	right := v.drawRight(a, m.paint)
	for i := range a.rows {
		text := ""
		if i < len(right) {
			text = right[i]
		}
		lines = append(lines, v.drawTree(v.top+i, a.tree, m.paint)+m.paint.with(faint, " | ")+text)
	}
	lines = append(lines, v.findings(findingsRoom(m.height), m.columns-1, m.paint)...)
	keys := []string{"[j k] move", "[space] page", "[v]iewed"}
	if v.commit != nil {
		keys = append(keys, "[P]ush", "[X] discard")
	} else {
		keys = append(keys, "[y n a d s e] hunk", "[A]pply", "[X] discard")
	}
	quit := "[q]uit"
	if m.list != nil {
		quit = "[q] back"
	}
	return append(lines, m.drawNote(), m.drawKeys(append(keys, "[/]", "[?] help", quit)...))
}

// drawTree returns a row of the tree.
func (v *review) drawTree(i, columns int, p paint) string {
	cursor, code := " ", ""
	if i == v.at {
		cursor = ">"
		if code = reverse; v.inDiff {
			code = bold
		}
	}
	if i > len(v.nodes) {
		return strings.Repeat(" ", columns)
	}
	if i == 0 {
		return p.with(code, fit(cursor+" all files", columns))
	}
	n := v.nodes[i-1]
	indent := strings.Repeat("  ", min(n.depth, 6))
	if n.file < 0 {
		sign := ""
		if n.fold {
			sign = fmt.Sprintf(" (%d)", len(n.files()))
		}
		return p.with(code, fit(cursor+"   "+indent+n.name+"/"+sign, columns))
	}
	f := v.files[n.file]
	risk := " "
	if len(f.Flags) > 0 || f.Conflict {
		risk = "!"
	}
	counts, state := f.counts(), f.state()
	front := cursor + risk + inbox.Letter(f.Op) + " " + indent
	room := columns - fixedWidth(front) - len(counts) - len(state) - 2
	if room < 8 {
		counts, room = "", columns-fixedWidth(front)-len(state)-1
	}
	text := front + fit(n.name, room) + " "
	if counts != "" {
		text += counts + " "
	}
	text = fill(text+state, columns)
	if code == "" && risk == "!" {
		code = yellow
	}
	return p.with(code, text)
}

// drawRight returns the lines right of the tree.
func (v *review) drawRight(a area, p paint) (lines []string) {
	f := v.file()
	switch {
	case f == nil && v.at == 0 && v.about != nil:
		for _, l := range v.about.lines[min(v.aboutAt, len(v.about.lines)):min(v.aboutAt+a.rows, len(v.about.lines))] {
			lines = append(lines, l.text)
		}
		return lines
	case f == nil:
		if n := v.node(); n != nil {
			return []string{cutLine(n.path+"/: "+visible.Count(len(n.files()), "changed file"), a.diff-1), "", cutLine("Enter shows or hides them", a.diff-1)}
		}
		return nil
	case f.problem != "":
		return visible.Broken(plainText(f.problem), a.diff-1)
	case f.sheet == nil:
		return []string{"reading…"}
	}
	for i := f.top; i < min(f.top+a.rows, len(f.sheet.lines)); i++ {
		l := f.sheet.lines[i]
		if l.head {
			head, name := f.headOf(l.item), ""
			if l.item == 0 {
				name = cutLine("  "+plainText(visible.Name(f.path)), a.diff-len(head)-3)
			}
			if l.item == f.at {
				lines = append(lines, p.with(reverse, "> "+head)+name)
			} else {
				lines = append(lines, p.with(bold, "  "+head)+name)
			}
			continue
		}
		lines = append(lines, l.text)
	}
	return lines
}

// drawNote returns the line with what golem has to say, or with what the user types.
func (m *model) drawNote() string {
	switch {
	case m.typed == nil && m.note != "":
		return m.paint.with(yellow, cutLine(plainText(m.note), m.columns-1))
	case m.typed == nil && m.busy == "" && m.review != nil && m.question() == nil:
		if f := m.review.file(); f != nil && f.sheet != nil && f.sheet.left > 0 {
			return m.paint.with(faint, fmt.Sprintf("%s of this file not shown yet", visible.Count(f.sheet.left, "line")))
		}
	}
	return m.drawTyped()
}

// drawTyped returns the line with what the user types, or what golem does meanwhile.
func (m *model) drawTyped() string {
	switch {
	case m.typed != nil:
		text := m.typed.asks + m.typed.text
		if over := visible.Width(text) - (m.columns - 2); over > 0 { // the end is what the user looks at
			runes := []rune(text)
			for over > 0 && len(runes) > 0 {
				over -= visible.Cells(runes[0])
				runes = runes[1:]
			}
			text = string(runes)
		}
		return text + "_"
	case m.busy != "":
		return m.paint.with(faint, cutLine(m.busy+"…", m.columns-1))
	}
	return ""
}

// guessable are keys that the line of the keys omits first if it is too long.
var guessable = []string{"[/]", "[/] search", "[j k] move", "[r]ead again", "[space] page", "[v]iewed"}

// drawKeys returns the line of the keys. If not all of them fit, it omits some that ? lists.
// If that does not help, it has only their names.
func (c canvas) drawKeys(keys ...string) string {
	line := strings.Join(keys, "  ")
	for _, one := range guessable {
		if fewer := strings.Replace(line, one+"  ", "", 1); len(line) > c.columns-1 {
			line = fewer
		}
	}
	if len(line) > c.columns-1 {
		var names []string
		for _, k := range keys {
			name, _, _ := strings.Cut(k, "]")
			names = append(names, name+"]")
		}
		line = strings.Join(names, " ")
	}
	return c.paint.with(bold, cutLine(line, c.columns-1))
}

// maxStatus is how many lines the status of a question takes.
const maxStatus = 6

// drawStatus returns the lines between a question and its keys: what was not on the screen,
// what golem has to say, or what the user types.
func (m *model) drawStatus(q *question) (lines []string) {
	text, code := "", yellow
	switch {
	case m.typed != nil:
		text, code = plainText(m.typed.asks+m.typed.text)+"_", ""
	case m.note != "":
		text = plainText(m.note)
	case q.sheet != nil && !q.isWhole():
		text = "! " + plainText(q.describeUnseen())
	}
	pieces, most := breakStatus(text, m.columns, m.height)
	if len(pieces) > most {
		pieces = pieces[len(pieces)-most:]
	}
	for _, piece := range pieces {
		lines = append(lines, m.paint.with(code, piece))
	}
	return lines
}

// drawQuestion returns the lines of a question. Each begins with the bar.
func (m *model) drawQuestion(q *question) (lines []string) {
	bar := m.paint.with(bold, visible.Bar) + " "
	status := m.drawStatus(q)
	room := max(1, m.height-1-len(status))
	for i := q.top; i < min(q.top+room, len(q.sheet.lines)); i++ {
		lines = append(lines, bar+q.sheet.lines[i].text)
	}
	for len(lines) < room {
		lines = append(lines, bar)
	}
	for _, text := range status {
		lines = append(lines, bar+text)
	}
	if !q.open {
		return append(lines, bar)
	}
	keys := []string{"[y]es", "[n]o"}
	if q.always != nil {
		keys = append(keys, "[a]lways…")
	}
	if !q.isWhole() {
		keys = []string{"[n]o", "[u]nseen yes"}
	}
	if len(q.sheet.lines) > room {
		keys = append(keys, fmt.Sprintf("[space] page, %d of %d lines", min(q.top+room, len(q.sheet.lines)), len(q.sheet.lines)))
	}
	if q.isWorkers() && q.answer == nil {
		keys = append(keys, "[s]top the run")
	}
	if q.answer != nil {
		keys = append(keys, "[esc] later")
	}
	return append(lines, bar+m.drawKeys(append(keys, "[?] help")...))
}

// breakStatus returns the lines of a text below a question, and how many lines a screen of
// this size has for it.
func breakStatus(text string, columns, height int) (lines []string, most int) {
	return visible.Broken(text, max(1, columns-6)), min(maxStatus, max(1, height/3))
}
