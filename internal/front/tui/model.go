package tui

import (
	"context"

	tea "charm.land/bubbletea/v2"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/choice"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/toolset/git"
	"github.com/golem-forge/golem/internal/work/toolset/settle"
)

// A model is the state of the screen.
type model struct {
	backend
	canvas
	wide      bool        // old and new lines side by side
	list      *list       // everything that waits; nil if there is only one session to show
	review    *review     // nil if the list is on the screen
	questions []*question // the first one is on the screen
	typed     *input      // a line that the user types
	help      bool
	busy      string // what golem does meanwhile
	note      string // what golem has to say about the last key
	last      string // what the user should know after the end

	frame int  // counts what is on the screen
	drawn bool // the frame was on the screen long enough
	keys  []tea.KeyPressMsg
}

func newModel(ctx context.Context, o inbox.ExploreOptions) *model {
	return &model{backend: backend{o: o, ctx: ctx}, canvas: canvas{paint(o.Colours), 80, 24}}
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd {
	if m.o.Session == nil {
		m.busy, m.list = "reading what waits", &list{}
		m.readList()
		return nil
	}
	m.busy = "reading the changes"
	m.readReview(*m.o.Session, false)
	return nil
}

// Update implements tea.Model. A decision counts for the lines that were on the screen, so
// the key for one waits until the frame is drawn.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmds []tea.Cmd
	switch msg := msg.(type) {
	case drawn:
		if msg.frame != m.frame {
			return m, nil
		}
		m.drawn = true
		m.markShown()
		if len(m.keys) == 0 {
			return m, nil
		}
	case tea.KeyPressMsg:
		m.keys = append(m.keys, msg)
	default:
		cmds = append(cmds, m.handle(msg), m.changeFrame())
	}
	for len(m.keys) > 0 && (m.drawn || !m.isDecision(m.keys[0].String())) {
		key := m.keys[0]
		m.keys = m.keys[1:]
		cmds = append(cmds, m.press(key), m.changeFrame())
	}
	return m, tea.Batch(cmds...)
}

// changeFrame begins a new frame: something else is on the screen. It reads the file under
// the cursor if that was not done yet.
func (m *model) changeFrame() tea.Cmd {
	m.arrange()
	m.frame++
	m.drawn = false
	if m.review != nil {
		if f := m.review.file(); f != nil && !f.loaded && !f.loading && f.problem == "" {
			f.loading = true
			m.readFile(m.review.session, f)
		}
	}
	return after(drawTime, drawn{m.frame})
}

// isDecision reports whether a key may decide about what is on the screen.
func (m *model) isDecision(key string) bool {
	switch {
	case m.typed != nil:
		return key == "enter"
	case len(m.questions) > 0:
		return key == "y" || key == "u"
	}
	return key == "y" || key == "a" || key == "v" || key == "A" || key == "X" || key == "P"
}

// question returns the question on the screen, nil if there is none.
func (m *model) question() *question {
	if len(m.questions) == 0 {
		return nil
	}
	return m.questions[0]
}

// markShown records which lines are on the screen.
func (m *model) markShown() {
	switch q := m.question(); {
	case m.help:
	case q != nil:
		q.sheet.mark(q.top, q.top+m.questionRoom())
	case m.review != nil:
		if f := m.review.file(); f != nil && f.sheet != nil {
			f.sheet.mark(f.top, f.top+m.area().rows)
		}
	}
}

// handle acts on a message that is no key.
func (m *model) handle(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.columns, m.height = max(msg.Width, 20), max(msg.Height, 8)
		for _, q := range m.questions {
			q.arrange(layout{width: m.columns, paint: m.paint})
			q.top = min(q.top, max(0, len(q.sheet.lines)-1))
		}
	case reviewed:
		m.busy = ""
		if msg.err != nil {
			m.note = visible.Line(msg.err.Error(), maxNote)
			return nil
		}
		old := m.review
		if old != nil && (old.commit != nil || old.session.ID != msg.session.ID) {
			old = nil
		}
		if msg.again && old == nil { // the user has left it meanwhile
			return nil
		}
		m.review = newReview(msg.session, msg.list, m.o.Path, old)
		m.review.holder = msg.holder
		if m.readAgain(m.review) {
			m.busy = "reading the files again"
		}
	case loaded:
		msg.file.take(msg)
	case reloaded:
		if m.review == msg.review {
			m.busy = ""
		}
		for _, one := range msg.files {
			one.file.take(one)
		}
	case asked:
		q := newQuestion(msg.request, m.o.Local(msg.program, msg.request), msg.shown.Items(msg.request), m.localPaths(msg.program, msg.shown.Changed(msg.request)), m.o.Front)
		q.reply = msg.reply
		return m.ask(q)
	case edited:
		m.note = msg.file.takeEdited(msg)
	case settled:
		msg.question.open = true
	case called:
		m.end(msg)
	case listed:
		return m.takeList(msg)
	case refresh:
		m.list.waits = false
		if m.review == nil && m.question() == nil { // otherwise the list is read when it is on the screen again
			m.readList()
		}
	case heard:
		if m.review == nil && m.question() == nil {
			m.readList()
		}
	case opened:
		return m.takeCall(msg)
	case answered:
		m.takeAnswer(msg)
	case controlled:
		m.busy = ""
		if m.note = msg.note; msg.err != nil {
			m.note = visible.Line(msg.err.Error(), maxNote)
		}
		m.last = m.note
		m.readList()
	case examined:
		m.busy = ""
		if msg.err != nil {
			m.note = visible.Line(msg.err.Error(), maxNote)
			return nil
		}
		m.review = newCommitReview(msg.program, msg.look, m.o.Path)
	}
	return nil
}

// maxNote is how many characters of a note are shown.
const maxNote = 500

// localPaths returns the paths of some files as the user types them.
func (b *backend) localPaths(p *program.Program, names []string) []string {
	return visible.Each(names, func(name string) string { return b.o.Path(p, name) })
}

// ask shows a question.
func (m *model) ask(q *question) tea.Cmd {
	q.arrange(layout{width: m.columns, paint: m.paint})
	m.questions = append(m.questions, q)
	m.note = ""
	return after(m.o.Settle, settled{q})
}

// end shows the result of a call, and reads the changes again.
func (m *model) end(msg called) {
	m.busy = ""
	switch {
	case msg.result.Err != nil && msg.result.Err.Code == "declined":
		m.note = "not done: you declined it"
	case msg.result.Err != nil:
		m.note = visible.Line(msg.result.Err.Error(), maxNote)
	case msg.err != nil:
		m.note = visible.Line(msg.err.Error(), maxNote)
	default:
		r := m.o.Result(msg.program, msg.result)
		m.note = visible.Line(r.Words(), maxNote)
		if r.Done != nil && !r.Done.Undone {
			m.note += "; " + visible.UndoNote(r.Final)
		}
		m.last = m.note
		if m.review != nil && m.review.commit != nil { // it was pushed or discarded
			m.leave()
			return
		}
	}
	if m.review != nil && m.review.commit == nil {
		m.readReview(m.review.session, true)
	}
}

// apply asks to apply what the user chose.
func (m *model) apply() {
	items, what := m.review.pick()
	parts, shown, err := choice.Parts(items)
	switch {
	case err != nil:
		m.note = visible.Line(err.Error(), maxNote)
	case len(parts) == 0:
		m.note = "nothing to apply: choose a hunk with y, or a file with a"
	default:
		m.callTool("applying "+what, settle.ApplyArgs{Parts: parts}, shown)
	}
}

// discard asks to discard the changes at the cursor, or the commit.
func (m *model) discard() {
	if c := m.review.commit; c != nil {
		m.callTool("discarding the commit", git.DiscardArgs{CommitID: c.look.CommitID}, nil)
		return
	}
	names, what := m.review.names()
	m.callTool("discarding "+what, settle.DiscardArgs{Paths: names}, nil)
}

func (m *model) callTool(what string, args tool.Arguments, shown choice.Shown) {
	call, err := tool.NewCall(args)
	if err != nil {
		m.note = visible.Line(err.Error(), maxNote)
		return
	}
	m.busy = what
	m.call(m.review.session.Program, m.review.sessionID(), call, shown)
}
