package tui

import (
	"cmp"
	"math"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/choice"
)

// motion returns by how many lines a key moves. moves is false for other keys.
func motion(key string, page int) (by int, moves bool) {
	const far = 1 << 30
	by, moves = map[string]int{"j": 1, "down": 1, "k": -1, "up": -1, "space": page, "pgdown": page, "f": page, "b": -page, "pgup": -page,
		"g": -far, "home": -far, "G": far, "end": far}[key]
	return by, moves
}

// press acts on a key.
func (m *model) press(key tea.KeyPressMsg) tea.Cmd {
	name := key.String()
	switch {
	case name == "ctrl+c":
		return m.quit()
	case m.help:
		m.help = false
	case m.typed != nil:
		m.typeKey(m.typed, key)
	case m.question() != nil:
		m.answer(name)
	case name == "q" && (m.list == nil || m.review == nil):
		return m.quit()
	case name == "?":
		m.help = true
	case m.review != nil:
		m.note = ""
		return m.pressReview(name)
	case m.list != nil:
		m.note = ""
		m.pressList(name)
	}
	return nil
}

// quit ends the program. An open question is declined, but a call of another process
// waits further.
func (m *model) quit() tea.Cmd {
	for _, q := range m.questions {
		if q.answer != nil {
			continue
		}
		q.end(approval.Reply{Answer: tool.Answer{Note: "the program was ended at the question"}})
		m.last = cmp.Or(m.last, "stopped at the question: nothing was done")
	}
	m.questions = nil
	return tea.Quit
}

// typeKey adds a key to a line that the user types.
func (m *model) typeKey(in *input, key tea.KeyPressMsg) {
	switch key.String() {
	case "enter":
		m.typed = nil
		in.done(in.text)
	case "esc":
		m.typed = nil
	case "backspace":
		if runes := []rune(in.text); len(runes) > 0 {
			in.text = string(runes[:len(runes)-1])
		}
	case "ctrl+u":
		in.text = ""
	default:
		if text := visible.Line(key.Text, maxNote); len(in.text)+len(text) <= maxNote {
			in.text += text
		}
	}
}

// answer acts on a key of a question.
func (m *model) answer(key string) {
	q, room := m.question(), m.questionRoom()
	most := max(0, len(q.sheet.lines)-room)
	m.note = ""
	if by, moves := motion(strings.Replace(key, "enter", "space", 1), max(1, room-1)); moves {
		q.top = min(max(0, q.top+by), most)
		return
	}
	switch key {
	case "y", "n", "u", "a", "esc", "s":
		if !q.open {
			m.note = "keys that were pressed before the question are ignored"
			return
		}
		m.decide(key)
	case "?":
		m.help = true
	default:
		m.note = "please answer y, n or ? (help)"
	}
}

// decide answers a question.
func (m *model) decide(key string) {
	q := m.question()
	switch {
	case key == "y" && q.isWhole():
		m.close(q.yes())
	case key == "y":
		m.note = q.describeUnseen() + "; space shows the next page"
		if q.request.UnseenDigest() != "" {
			m.note += ", u approves it unseen"
		}
	case key == "a" && q.always == nil:
		m.note = "please answer y, n or ? (help)"
	case key == "a" && !q.isWhole():
		m.note = q.describeUnseen() + "; space shows the next page"
	case key == "a":
		asks := "remember this rule, and approve? " + visible.Line(q.always.String(), math.MaxInt) + " (y or n): "
		fits := func() bool { // with the answer
			lines, most := breakStatus(plainText(asks)+"yes_", m.columns, m.height)
			return len(lines) <= most
		}
		const tooLong = "the rule does not fit on the screen, so golem does not remember it; y approves this call, a larger window may show the rule"
		if !fits() {
			m.note = tooLong
			break
		}
		m.typed = &input{asks: asks, done: func(text string) {
			if !fits() { // the window is smaller now
				m.note = tooLong
			} else if isYes(text) {
				reply := q.yes()
				reply.Remember = q.always
				m.close(reply)
			}
		}}
	case key == "u" && q.isWhole():
		m.note = "everything was on the screen; y approves it"
	case key == "u" && q.request.UnseenOff != "":
		m.note = visible.Line(q.request.UnseenOff, maxNote) + " does not allow approving it unseen; space shows the next page"
	case key == "u" && q.request.UnseenDigest() == "":
		m.note = "this call cannot be approved unseen"
	case key == "u":
		digest := q.request.UnseenDigest()
		m.typed = &input{asks: q.describeUnseen() + "; type " + digest + " to approve it unseen: ", done: func(text string) {
			reply := q.yes()
			if reply.DigestPrefix = strings.ToLower(strings.TrimSpace(text)); reply.DigestPrefix == "" {
				m.note = "not approved: you typed nothing"
				return
			}
			if _, err := approval.CheckSeen(q.request, reply); err != nil {
				m.note = "not approved: type exactly " + digest
				return
			}
			m.close(reply)
		}}
	case key == "n" && q.isWorkers():
		m.typed = &input{asks: "the reason for the worker, or Enter: ", done: func(text string) {
			m.close(approval.Reply{Answer: tool.Answer{Note: visible.Line(strings.TrimSpace(text), maxNote)}})
		}}
	case key == "s" && !q.isWorkers():
		m.note = "please answer y, n or ? (help)"
	case key == "s":
		m.close(approval.Reply{Answer: tool.Answer{Note: "stopped the run", Stop: true}})
	case key == "esc" && q.answer != nil:
		m.questions = m.questions[1:] // it still waits
		m.readList()
	default:
		m.close(approval.Reply{})
	}
}

// close answers the question on the screen.
func (m *model) close(r approval.Reply) {
	q := m.question()
	m.questions = m.questions[1:]
	q.end(r)
}

// pressReview acts on a key of a review.
func (m *model) pressReview(key string) tea.Cmd {
	v, room := m.review, m.area().rows
	f := v.file()
	if by, moves := motion(key, max(1, room-1)); moves {
		isPage := slices.Contains([]string{"space", "pgdown", "f", "b", "pgup"}, key)
		v.scroll(by, !v.inDiff && !isPage, room) // there is a page only of the diff
		return nil
	}
	switch key {
	case "ctrl+d":
		v.scroll(max(1, room/2), false, room)
	case "ctrl+u":
		v.scroll(-max(1, room/2), false, room)
	case "tab":
		v.inDiff = !v.inDiff
	case "l", "right", "enter":
		if v.inDiff = f != nil; f == nil {
			v.toggle()
		}
	case "q":
		m.leave()
	case "esc":
		if !v.inDiff && m.list != nil {
			m.leave()
		}
		v.inDiff = false
	case "h", "left":
		v.inDiff = false
	case "]", "J", "[", "K":
		if f != nil {
			by := 1
			if key == "[" || key == "K" {
				by = -1
			}
			f.moveTo(f.at+by, room)
		}
	case "w":
		if m.wide = !m.wide; m.wide && m.area().diff < minWide {
			m.note = "side by side needs a wider terminal: 100 columns"
		}
	case "v":
		m.note = v.view(room)
	case "y", "n", "a", "d", "s", "e":
		return m.chooseItem(key)
	case "/":
		m.typed = &input{asks: "/", done: func(text string) {
			if text != "" {
				v.found = text
			}
			if v.found == "" {
				return
			}
			if !v.search(v.found, m.area().rows) {
				m.note = "not found: " + v.found + " (golem searches all names, and the files that you opened)"
			}
		}}
	case "r":
		if v.commit != nil {
			m.note = "a staged commit does not change"
			return nil
		}
		m.busy = "reading the changes"
		m.readReview(v.session, true)
	case "A", "X", "P":
		m.begin(key)
	default:
		m.note = "no such key; ? lists the keys"
	}
	return nil
}

// begin begins a decision about the session.
func (m *model) begin(key string) {
	switch {
	case m.busy != "":
		m.note = "please wait: " + m.busy
	case key == "P" && m.review.commit != nil:
		m.push()
	case key == "P":
		m.note = "only staged commits can be pushed; golem review -i shows them"
	case key == "X" && m.review.commit != nil:
		m.discard()
	case m.review.commit != nil:
		m.note = "a staged commit is pushed, not applied: P pushes it"
	case len(m.review.files) == 0 && m.review.list.Git == 0 && m.review.list.Unfit == "":
		m.note = "the session has no changes"
	case key == "A":
		m.apply()
	case key == "X":
		m.discard()
	}
}

// scroll moves in the tree or in the diff.
func (v *review) scroll(by int, inTree bool, room int) {
	f := v.file()
	switch {
	case inTree:
		v.move(by)
	case f != nil:
		f.scroll(by, room)
	case v.at == 0 && v.about != nil:
		v.aboutAt = min(max(0, v.aboutAt+by), max(0, len(v.about.lines)-room))
	}
}

// view shows the next page of the file. If all of it was on the screen, view moves to the
// next file that was not viewed. It returns what to say.
func (v *review) view(room int) string {
	if f := v.file(); f != nil && f.loaded && f.sheet != nil && !f.isViewed() {
		next := slices.Index(f.sheet.seen, false)
		f.top = min(next, max(0, len(f.sheet.lines)-room))
		f.scroll(0, room)
		return ""
	}
	if !v.moveToFile(func(f *file) bool { return !f.isViewed() && f.problem == "" }) {
		return "all files are viewed"
	}
	return ""
}

// chooseItem acts on a key about the current item.
func (m *model) chooseItem(key string) tea.Cmd {
	v, room := m.review, m.area().rows
	f := v.file()
	switch {
	case v.commit != nil:
		m.note = "golem pushes a commit as a whole: P pushes it"
		return nil
	case f == nil:
		m.note = "this key is about a hunk; move to a file first"
		return nil
	case !f.loaded || f.sheet == nil:
		m.note = "the file is not read yet"
		return nil
	case (key == "y" || key == "a") && f.obstacle == choice.Conflict:
		m.note = "it changed in your directory too; quit, and run golem apply --merge or --overwrite"
		return nil
	case (key == "y" || key == "a") && f.obstacle == choice.Holds:
		m.note = choice.Stays(f.FileChange)
		return nil
	case (key == "y" || key == "a") && f.obstacle == choice.Special:
		m.note = "golem never applies pipes, sockets and devices"
		return nil
	}
	it := f.items[f.at]
	switch key {
	case "y":
		if !f.sheet.hasSeen(f.at) {
			m.note = "this is not shown completely; space shows the next page"
			return nil
		}
		f.decided[f.at] = chosen
		m.note = v.next(f, room)
	case "n":
		f.decided[f.at] = declined
		m.note = v.next(f, room)
	case "a", "d":
		for i := f.at; i < len(f.items); i++ {
			f.decided[i] = map[string]decision{"a": chosen, "d": declined}[key]
		}
		f.at = len(f.items) - 1
		m.note = v.next(f, room)
	case "s":
		parts := it.Split()
		if len(parts) == 0 {
			m.note = "this cannot be split further"
			return nil
		}
		f.replace(parts...)
		m.note = "split into " + visible.Count(len(parts), "hunk")
	case "e":
		if it.Hunk == nil {
			m.note = "only a hunk of a text can be edited"
			return nil
		}
		return edit(m.o.Terminal, m.o.Environ, f, it)
	}
	return nil
}

// next moves to the next item of a file, or to the next file that is not decided. It
// returns what to say.
func (v *review) next(f *file, room int) string {
	if f.at+1 < len(f.items) {
		f.moveTo(f.at+1, room)
		return ""
	}
	if !v.moveToFile(func(f *file) bool { return !f.loaded || slices.Contains(f.decided, undecided) }) {
		return "you have decided about every file; A applies what you chose"
	}
	return ""
}
