package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/naming"
)

// A list shows everything that waits for the user.
type list struct {
	items    []inbox.Item
	problems []inbox.Problem
	at, top  int
	read     bool // it was read once
	waits    bool // golem reads it again after some time
	found    string
}

// item returns the item under the cursor, nil if there is none.
func (l *list) item() *inbox.Item {
	if l.at >= len(l.items) {
		return nil
	}
	return &l.items[l.at]
}

// minRefresh is how long golem waits before it reads the list again.
const minRefresh = 2 * time.Second

// takeList shows what waits. The cursor stays at its item.
func (m *model) takeList(msg listed) tea.Cmd {
	l := m.list
	var again tea.Cmd
	if !l.waits {
		l.waits, again = true, after(max(minRefresh, 10*msg.took), refresh{})
	}
	if m.busy == "reading what waits" {
		m.busy = ""
	}
	if msg.err != nil {
		m.note = visible.Line(msg.err.Error(), maxNote)
		return again
	}
	was := l.item()
	first := !l.read
	l.items, l.problems, l.read = msg.items, msg.problems, true
	if was != nil {
		if i := slices.IndexFunc(l.items, func(it inbox.Item) bool {
			return it.Kind == was.Kind && it.Program == was.Program && it.ID == was.ID
		}); i >= 0 {
			l.at = i
		}
	}
	l.at = min(l.at, max(0, len(l.items)-1))
	if first && m.o.OpenOnly && len(l.items) == 1 {
		m.open()
	}
	return again
}

// leave goes back to the list.
func (m *model) leave() {
	m.review = nil
	if m.list != nil {
		m.readList()
	}
}

// open opens the item under the cursor.
func (m *model) open() {
	it := m.list.item()
	switch {
	case it == nil:
		m.note = "nothing waits for you"
	case m.busy != "":
		m.note = "please wait: " + m.busy
	case it.Kind == inbox.KindRun:
		m.note = "R continues the run; it has no terminal, and its calls wait here; with a terminal: golem run " + visible.CommandLine(it.Directory) + " --resume " + cmp.Or(it.Name, it.ID)
	case it.Kind == inbox.KindJob:
		m.note = "golem jobs show " + it.Job + " prints what happened; golem jobs retry " + it.Job + " runs it again, golem jobs cancel " + it.Job + " ends it"
	case it.Kind == inbox.KindFetch:
		one := *it
		m.typed = confirm("fetch the changes of the job, to review them here?", func() {
			m.busy = "fetching the changes"
			m.fetch(one)
		})
	case it.Kind == inbox.KindRunning:
		m.note = "S stops the run after its current call, E ends it now; golem attach " + it.ID + " takes the terminal of what runs in the background"
	case it.Kind == inbox.KindEnded:
		m.note = "golem attach --log " + it.ID + " prints its output; its changes are an item of their own"
	default:
		m.busy = map[inbox.Kind]string{inbox.KindChanges: "reading the changes", inbox.KindCommit: "the scanners look at the commit"}[it.Kind]
		if m.busy == "" {
			m.busy = "reading the call"
		}
		m.openItem(*it)
	}
}

// confirm returns a question that the user answers with yes or no. After a yes it calls do.
func confirm(asks string, do func()) *input {
	return &input{asks: asks + " (y or n): ", done: func(text string) {
		if isYes(text) {
			do()
		}
	}}
}

// isYes reports whether the user typed yes.
func isYes(text string) bool {
	text = strings.TrimSpace(text)
	return strings.EqualFold(text, "y") || strings.EqualFold(text, "yes")
}

// takeCall asks about a call that waits.
func (m *model) takeCall(msg opened) tea.Cmd {
	m.busy = ""
	if msg.err != nil {
		m.note = visible.Line(msg.err.Error(), maxNote)
		m.readList()
		return nil
	}
	var changed []string
	if msg.changed {
		changed = []string{msg.call.item.ID}
	}
	local := msg.request
	if msg.call.hub == nil {
		local = m.o.Local(msg.call.call.Program, msg.request)
	}
	q := newQuestion(msg.request, local, nil, changed, m.o.Front)
	if rule, ok := approval.AlwaysRule(msg.request); ok && msg.call.hub == nil && msg.request.Tool == tool.ConnectTool { // a hub keeps no rules
		q.always = &rule
	}
	q.answer = func(r approval.Reply) {
		m.busy = "recording your answer"
		m.answerCall(msg.call, msg.request, r)
	}
	return m.ask(q)
}

// takeAnswer says that a call was answered, and how it continues.
func (m *model) takeAnswer(msg answered) {
	m.busy = ""
	m.readList()
	if msg.err != nil {
		m.note = visible.Line(msg.err.Error(), maxNote)
		return
	}
	m.list.items = slices.DeleteFunc(m.list.items, func(it inbox.Item) bool {
		return it.ID == msg.call.item.ID && it.Program == msg.call.item.Program && it.Job == msg.call.item.Job
	})
	m.list.at = min(m.list.at, max(0, len(m.list.items)-1))
	word := "declined"
	if msg.reply.Verdict == tool.Approved {
		word = "approved"
	}
	title := strings.Replace(msg.call.item.Title, ": ", " ", 1)
	m.note = word + ": " + visible.Cut(title, maxNote)
	switch c := msg.call.call; {
	case msg.call.hub != nil:
		m.note += "; job " + msg.call.item.Job + " continues by itself"
	case c.Program.Storage.Runs().IsPaused(c.Session):
		m.note += "; golem run --resume " + labelOf(c) + " continues the run"
		if m.o.Resume != nil {
			m.note += ", or R here"
		}
	case msg.reply.Verdict == tool.Approved:
		m.note += "; it counts once"
	}
	m.last = m.note
}

// labelOf returns the word by which to name the session of a call.
func labelOf(c inbox.Call) string {
	if one, err := c.Program.Storage.Sessions.Find(c.Session); err == nil {
		return naming.Label(one)
	}
	return c.Session
}

// pressList acts on a key of the list.
func (m *model) pressList(key string) {
	l, page := m.list, max(1, m.list.room(m.canvas)-1)
	if by, moves := motion(strings.NewReplacer("ctrl+d", "space", "ctrl+u", "b").Replace(key), page); moves {
		l.at = min(max(0, l.at+by), max(0, len(l.items)-1))
		return
	}
	switch key {
	case "enter", "l", "right", "o":
		m.open()
	case "r":
		m.busy = "reading what waits"
		m.readList()
	case "/":
		m.typed = &input{asks: "/", done: func(text string) {
			if text != "" {
				l.found = text
			}
			if l.found != "" && !l.search(l.found) {
				m.note = "not found: " + l.found
			}
		}}
	case "R", "S", "E":
		m.control(key)
	case "A", "P", "X", "y", "n", "v":
		m.note = "open the item first, with Enter"
	case "esc":
	default:
		m.note = "no such key; ? lists the keys"
	}
}

// control stops what the item under the cursor runs, or continues its run.
func (m *model) control(key string) {
	it := m.list.item()
	switch {
	case m.o.Resume == nil:
		m.note = "no such key; ? lists the keys"
	case it == nil || key == "R" && it.Kind != inbox.KindRun || key != "R" && it.Kind != inbox.KindRunning:
		m.note = "R continues a run that is paused, S and E end one that is running; move to it first"
	case key == "E":
		one := *it
		m.typed = confirm("end it now? its changes stay in the session", func() { m.backend.control(one, key) })
	default:
		m.backend.control(*it, key)
	}
}

// search moves to the next item with a text.
func (l *list) search(text string) bool {
	want := strings.ToLower(text)
	for i := range l.items {
		at := (l.at + 1 + i) % len(l.items)
		it := l.items[at]
		if strings.Contains(strings.ToLower(strings.Join([]string{string(it.Kind), it.Title, it.Who, it.Directory, it.ID, it.Name}, "\n")), want) {
			l.at = at
			return true
		}
	}
	return false
}

// aboutRows is the largest number of lines below the list about the item under the cursor.
const aboutRows = 6

// room returns how many items are on the screen.
func (l *list) room(c canvas) int { return max(1, c.height-1-c.roomAbout()-2) }

// roomAbout returns how many lines are about the item under the cursor.
func (c canvas) roomAbout() int { return min(aboutRows, max(1, c.height/3)) }

// riskMark returns the mark of a risk.
func riskMark(r inbox.Risk) string { return [...]string{"  ", "! ", "!!"}[r] }

// drawList returns the lines of the list.
func (m *model) drawList() (lines []string) {
	l, room := m.list, m.list.room(m.canvas)
	l.top = min(max(l.top, l.at-room+1), l.at, max(0, len(l.items)-room))
	head := " nothing waits for you"
	high, running, ended := 0, 0, 0
	for _, it := range l.items {
		if it.Risk == inbox.High {
			high++
		}
		if it.Kind == inbox.KindRunning {
			running++
		}
		if it.Kind == inbox.KindEnded {
			ended++
		}
	}
	switch waiting := len(l.items) - running - ended; {
	case !l.read:
		head = " reading what waits"
	case waiting > 0:
		head = " waiting for you: " + visible.Count(waiting, "item")
		if high > 0 {
			head += fmt.Sprintf(", %d with high risk", high)
		}
	}
	if running > 0 {
		head += fmt.Sprintf("; %s running", visible.Count(running, "session"))
	}
	lines = append(lines, m.paint.with(reverse, fill(cutLine(head, m.columns), m.columns)))
	for i := l.top; i < l.top+room; i++ {
		if i >= len(l.items) {
			lines = append(lines, "")
			continue
		}
		lines = append(lines, l.drawItem(i, m.canvas, m.o.Age))
	}
	var about []string
	for _, piece := range visible.Broken(plainText(m.note), max(1, m.columns-2)) {
		if piece != "" {
			about = append(about, m.paint.with(bold, piece))
		}
	}
	about = append(append(about, l.drawAbout(m.canvas)...), make([]string, m.roomAbout())...)
	lines = append(lines, about[:m.roomAbout()]...)
	return append(lines, m.drawTyped(), m.drawKeys("[j k] move", "[Enter] open", "[/] search", "[r]ead again", "[?] help", "[q]uit"))
}

// drawItem returns the line of an item.
func (l *list) drawItem(i int, c canvas, age func(time.Time) string) string {
	it := l.items[i]
	cursor, code := " ", ""
	if it.Risk > inbox.Low {
		code = yellow
	}
	if i == l.at {
		cursor, code = ">", reverse
	}
	where, since := fixedText(plainText(it.Base())), age(it.Since)
	front := cursor + riskMark(it.Risk) + " " + fit(string(it.Kind), len("changes")) + " "
	const dirColumns, ageColumns = 14, 12
	room := c.columns - len(front) - dirColumns - ageColumns - 2
	text := front + fit(fixedText(plainText(it.Title)), room) + " " + fit(where, dirColumns) + " " + fit(since, ageColumns)
	return c.paint.with(code, fill(text, c.columns))
}

// drawAbout returns the lines about the item under the cursor.
func (l *list) drawAbout(c canvas) (lines []string) {
	say := func(code, text string) {
		for _, piece := range visible.Broken(plainText(text), max(1, c.columns-2)) {
			lines = append(lines, c.paint.with(code, piece))
		}
	}
	if it := l.item(); it != nil {
		for _, why := range it.Reasons {
			say(yellow, "! "+why)
		}
		say("", it.Title)
		by := ""
		if it.Who != "" {
			by = "by " + it.Who + ", "
		}
		if it.Kind == inbox.KindJob || it.Kind == inbox.KindFetch { // who is its input
			by = "input: " + it.Who + ", "
		}
		if it.Name != "" {
			by += "session " + it.Name + ", "
		}
		say(faint, by+"in "+it.Directory+", id "+it.ID)
	}
	for _, p := range l.problems {
		say(yellow, "! golem cannot tell what waits in "+p.Directory+": "+p.Text)
	}
	return lines
}
