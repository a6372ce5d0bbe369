package tui

import (
	"context"
	"math"
	"strings"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/display"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
)

// A question asks the user about a request. It shows the rows of display.Sheet, without
// the contents that were on the screen before. It
// records which rows were on the screen.
type question struct {
	request tool.Request
	always  *approval.Rule // the rule that allows a host always; nil if golem offers none
	shows   tool.Request   // with the paths as the user types them
	before  []string       // items that were on the screen before the question
	changed []string       // paths that were on the screen with other content
	reply   chan<- approval.Reply
	front   string
	answer  func(approval.Reply) // used in place of reply, if set

	all   []visible.Row // every row
	rows  []visible.Row // the rows to show
	sheet *sheet
	top   int
	open  bool // it was on the screen long enough for an answer
}

// An input is a line that the user types.
type input struct {
	asks string
	text string
	done func(text string) // called with Enter
}

// newQuestion returns a question about a request.
func newQuestion(r, shows tool.Request, before, changed []string, front string) *question {
	q := &question{request: r, shows: shows, before: before, changed: changed, front: front}
	s := display.NewSheet(shows, math.MaxInt)
	q.all = s.All()
	q.rows = display.ChangedRows(changed)
	seen, contents, omitted := setOf(before), make(map[string]bool), make(map[string]bool)
	for i := range shows.Changes {
		contents[tool.ItemContent(i)] = true
	}
	for _, row := range q.all {
		if seen[row.Item] && contents[row.Item] {
			omitted[row.Item] = true
			continue
		}
		q.rows = append(q.rows, row)
	}
	if n := len(omitted); n > 0 {
		q.rows = append(q.rows, visible.Row{Mark: visible.Hidden, Text: "you have seen the content of " + visible.Count(n, "file") + " before this question"})
	}
	return q
}

// paintRows returns the rows with plain text, those of diffs with their colours.
func (q *question) paintRows(l layout) []painted {
	rows := make([]painted, len(q.rows))
	of := make(map[string][]int) // the rows of each content
	for i, r := range q.rows {
		r.Text = plainText(r.Text)
		rows[i].Row = r
		of[r.Item] = append(of[r.Item], i)
	}
	for i, c := range q.request.Changes {
		if !l.paint {
			break
		}
		var diff []visible.Row
		for _, k := range of[tool.ItemContent(i)] {
			diff = append(diff, rows[k].Row)
		}
		for n, spans := range visible.Paint(c.Path, diff) {
			rows[of[tool.ItemContent(i)][n]].spans = spans
		}
	}
	return rows
}

// arrange makes the lines for a width.
func (q *question) arrange(l layout) {
	var lines []line
	l.width -= len("  ") // the bar
	rows := q.paintRows(l)
	for i, r := range rows {
		if i == len(q.changed) && r.Mark == visible.About {
			r.Mark = visible.Header
		}
		lines = l.appendRow(lines, i, 0, r)
	}
	old := q.sheet
	q.sheet = newSheet(lines)
	if old != nil {
		q.sheet.markRows(old.rowsSeen())
	}
}

// rendered returns the items of the request that were on the screen completely.
func (q *question) rendered() []string {
	whole := q.sheet.rowsSeen()
	var shown []visible.Row
	for i, r := range q.rows {
		if whole[i] {
			shown = append(shown, r)
		}
	}
	before := setOf(q.before)
	for _, r := range q.all {
		if before[r.Item] {
			shown = append(shown, r)
		}
	}
	return display.RenderedItems(q.all, shown)
}

func setOf(list []string) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, each := range list {
		set[each] = true
	}
	return set
}

// yes returns an approval.
func (q *question) yes() approval.Reply {
	return approval.Reply{Answer: tool.Answer{Verdict: tool.Approved, By: "user", Front: q.front}, Rendered: q.rendered()}
}

// isWhole reports whether a plain yes is valid.
func (q *question) isWhole() bool {
	_, err := approval.CheckSeen(q.request, q.yes())
	return err == nil
}

// unseen names what was not on the screen.
func (q *question) unseen() (files, others []string) {
	seen := setOf(q.rendered())
	for _, item := range q.request.Omitted() {
		delete(seen, item)
	}
	content := make(map[string]int)
	for i := range q.shows.Changes {
		content[tool.ItemContent(i)] = i
	}
	for _, item := range q.request.Items() {
		i, ok := content[item]
		switch {
		case seen[item]:
		case ok:
			files = append(files, visible.Name(q.shows.Changes[i].Path))
		default:
			others = append(others, item)
		}
	}
	return files, others
}

// describeUnseen says what was not on the screen.
func (q *question) describeUnseen() string {
	files, others := q.unseen()
	var parts []string
	if n := len(files); n > 0 {
		const most = 12
		text := visible.Count(n, "file") + " not viewed: " + strings.Join(files[:min(n, most)], ", ")
		if n > most {
			text += " and " + visible.Count(n-most, "more file")
		}
		parts = append(parts, text)
	}
	if n := len(others); n > 0 {
		parts = append(parts, visible.Count(n, "other item")+" not on the screen yet")
	}
	return strings.Join(parts, "; ")
}

// end answers the question.
func (q *question) end(r approval.Reply) {
	r.Front, r.By = q.front, "user"
	if r.Rendered == nil && q.sheet != nil {
		r.Rendered = q.rendered()
	}
	r.Display = &q.shows
	if q.answer != nil {
		q.answer(r)
		return
	}
	q.reply <- r
}

// isWorkers reports whether a worker made the call, and not the user.
func (q *question) isWorkers() bool { return q.request.Origin != policy.User }

// An asker asks the user through a running program.
type asker struct {
	ask    func(ctx context.Context, r tool.Request, reply chan<- approval.Reply)
	closed <-chan struct{}
}

// Ask implements approval.Asker.
func (a asker) Ask(ctx context.Context, r tool.Request) approval.Reply {
	reply := make(chan approval.Reply, 1)
	a.ask(ctx, r, reply)
	select {
	case answer := <-reply:
		return answer
	case <-a.closed:
	case <-ctx.Done():
	}
	return approval.Reply{Answer: tool.Answer{By: "nobody", Note: "the program was ended at the question"}}
}
