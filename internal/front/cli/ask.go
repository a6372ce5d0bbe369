package cli

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/display"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

const (
	// patience is how long golem waits for an answer by default.
	patience = 5 * time.Minute
	// settling is how long a question is on screen before an answer is accepted.
	settling = 400 * time.Millisecond
	// maxTypos is how many lines golem reads for one question before it stops asking.
	maxTypos = 20
)

// These errors are the reasons why a question has no answer. None of them approves the
// call.
var (
	errNobody    = errors.New("nobody can be asked: the terminal is not ours to read from")
	errForeign   = errors.New("nobody was asked: the terminal belongs to another user, as after su; log in as this user, or run golem approve in a terminal of this user; tmux opens one")
	errLate      = errors.New("no answer in time")
	errEnd       = errors.New("the input ended without an answer")
	errStopped   = errors.New("stopped at the question")
	errClosed    = errors.New("no")                       // Ctrl-D
	errTypo      = errors.New("that is no answer")        // golem asks the question again
	errChanged   = errors.New("the screen has changed")   // golem draws the question again
	errSuspended = errors.New("golem is to be suspended") // golem draws the question again afterwards
	errBack      = errors.New("no rule was made")         // golem asks the question again
)

// An asker asks the person at a terminal. A question owns the terminal until it is
// answered, and other output of golem waits. The asker draws the whole question before
// the prompt, and discards keys that were pressed before the prompt. Then it reads one
// line:
//
//	y, yes      yes, once
//	y DIGEST    yes, also to the part that was not shown
//	n, n WHY    no
//	v           if not everything is shown: show it, page by page
//	e           yes, and the same call again
//	r           yes, and a rule: choose one that fits, read it, confirm it
//	a           for a host: yes, always in this project
//	s           no, and stop the run
//	?           explain the keys
//
// Capital letters count too. An empty line, Ctrl-C and Ctrl-D mean no. After any other
// line golem asks again. Ctrl-C also stops a run, and a resumed run asks again. If nobody
// answers in time, the call waits for golem approve. The By field of the answer is "user" if a person declined, and "nobody" if no one answered.
// AskOnce treats an empty line and Ctrl-D as no answer.
type asker struct {
	keys    *keyboard
	screen  screen
	console *console // its output waits while a question is open; may be nil
	wait    time.Duration
	settle  time.Duration
	// keepsRules is true if AskOnce offers to allow a host always.
	keepsRules bool
	// untilEnd is true if golem remembers an exact call until the program ends, and not
	// for a day.
	untilEnd bool
	turn     chan struct{} // holds one element while a question is open
	front    string        // where the person answers, for the journal
	shown    bool          // an answered question has shown its whole change
	// before returns the items of a request that the user has seen before the question; may
	// be nil.
	before func(tool.Request) []string
	// changed returns the paths of a request that the user has seen with other content; may
	// be nil.
	changed func(tool.Request) []string
	// repeats is true if these items are no longer on screen. The question then shows them
	// again if they fit.
	repeats bool
	printed int // lines that questions have printed
	// local returns a request with the paths as the user types them; may be nil.
	local func(tool.Request) tool.Request
	why   error // why golem could not ask the last question, if the user can fix it
}

// newAsker returns an asker that reads from in and waits at most wait for each line. It
// prints questions to out. If out is no terminal, nobody would see them, so it prints
// them to in.
func newAsker(in *os.File, out io.Writer, wait time.Duration) *asker {
	s := newScreen(out)
	if s.file == nil {
		s = newScreen(in)
	}
	s.w = s.file // write directly: the console would delay a question and escape its bars
	return &asker{keys: newKeyboard(in), screen: s, console: consoleOf(out), wait: wait, settle: settling, turn: make(chan struct{}, 1), front: "a terminal"}
}

// Ask implements approval.Asker. It asks concurrent questions one after the other, each
// with its own answer.
func (a *asker) Ask(ctx context.Context, r tool.Request) approval.Reply { return a.ask(ctx, r, true) }

// AskOnce asks without offering to remember the answer, except for a host if keepsRules is
// set.
func (a *asker) AskOnce(ctx context.Context, r tool.Request) approval.Reply {
	return a.ask(ctx, r, false)
}

func (a *asker) ask(ctx context.Context, r tool.Request, again bool) approval.Reply {
	q, done, err := a.open(ctx)
	switch {
	case errors.Is(err, errStopped):
		return approval.Reply{Answer: tool.Answer{By: "nobody", Note: err.Error()}}
	case err != nil:
		if errors.Is(err, errForeign) {
			a.why = err
		}
		return approval.Reply{Answer: tool.Answer{By: "nobody", Note: errNobody.Error(), Unattended: true}}
	}
	defer done()
	q.request, q.display, q.again = r, r, again
	if a.local != nil {
		q.display = a.local(r)
	}
	if a.before != nil {
		q.seenBefore = a.before(r)
		q.seen = slices.Clone(q.seenBefore)
	}
	if a.changed != nil {
		q.changedSince = a.changed(r)
	}
	reply, err := q.put()
	if err == nil {
		reply.Front, reply.Display, reply.Rendered = withAccount(a.front), &q.display, q.seen
		a.shown = a.shown || q.whole
		return reply
	}
	no := tool.Answer{By: "nobody", Note: err.Error(), Unattended: errors.Is(err, errNobody) || errors.Is(err, errLate)}
	// An interrupt stops more than this question, no matter which handler caught it.
	no.Stop = q.ctx.Err() != nil && (ctx.Err() == nil || context.Cause(ctx) != ctx.Err())
	note := err.Error() + ": nothing was done"
	if errors.Is(err, errLate) && again && !r.IsCommand() {
		note += "; the call waits for golem approve"
	}
	q.show([]row{{Mark: about, Text: note}})
	switch {
	case no.Stop:
		no.By = "user"
	case errors.Is(err, errClosed) && again:
		no = tool.Answer{By: "user"}
	}
	if no.By == "user" {
		no.Front = withAccount(a.front)
	}
	return approval.Reply{Answer: no, Display: &q.display, Rendered: q.seen}
}

// open creates a question that owns the terminal until done is called.
func (a *asker) open(ctx context.Context) (q *question, done func(), err error) {
	select {
	case a.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, errStopped
	}
	if a.screen.file == nil {
		<-a.turn
		return nil, nil, errNobody
	}
	partial, release := a.console.own()
	q = &question{asker: a, partial: partial}
	if err := q.hold(ctx); err != nil {
		release()
		<-a.turn
		return nil, nil, err
	}
	open, stop := signal.NotifyContext(ctx, ends()...)
	q.ctx = open
	if s := suspends(); len(s) > 0 {
		q.suspend = make(chan os.Signal, 1)
		signal.Notify(q.suspend, s...)
	}
	answered := notifyLater(a.screen.file)
	return q, func() {
		answered()
		if q.suspend != nil {
			signal.Stop(q.suspend)
		}
		stop()
		q.letGo()
		release()
		<-a.turn
	}, nil
}

// A question is an open question of an asker.
type question struct {
	*asker
	ctx     context.Context
	suspend chan os.Signal
	letGo   func() // releases the terminal
	partial bool   // the cursor was in the middle of a line

	request tool.Request
	display tool.Request // the request as it is shown
	again   bool         // golem may remember the answer
	whole   bool         // a plain yes is valid
	more    bool         // some rows were not shown
	seen    []string     // the items that were shown so far
	failed  error        // set if a part could not be printed

	seenBefore []string // items that were shown before the question
	omits      bool     // the question omits them
	// changedSince are the paths that were shown before the question with other content.
	changedSince []string

	columns, height int    // the size of the screen when the question was drawn
	redraw          func() // draws the current step
	options         func() []string
}

// hold locks the terminal against other golem processes, and sets its usual modes.
func (q *question) hold(ctx context.Context) error {
	// Another golem process may ask at the same terminal. Only one question may be open
	// there, or an answer could reach the wrong one.
	release, err := q.keys.take(ctx, q.wait)
	if err != nil {
		return err
	}
	restore, err := q.keys.ready()
	if err != nil {
		release()
		return errNobody
	}
	q.letGo = func() {
		restore()
		release()
	}
	return nil
}

// begin draws the question for the first time.
func (q *question) begin() {
	if q.partial {
		q.say("\n")
	}
	q.say("\n")
	q.draw()
}

// draw draws the current step for the current size of the screen.
func (q *question) draw() {
	q.columns, q.height = q.screen.size()
	q.redraw()
}

// put shows the request and reads the answer. An error is never an approval.
func (q *question) put() (approval.Reply, error) {
	q.options, q.redraw = q.choices, q.drawAll
	q.begin()
	for range maxTypos {
		text, err := q.read()
		if err != nil && !errors.Is(err, errTypo) {
			return approval.Reply{}, err
		}
		if err == nil {
			reply, err := q.answer(text)
			if !errors.Is(err, errTypo) {
				return reply, err
			}
		} else {
			q.typo(q.please())
		}
	}
	return approval.Reply{}, errLate
}

// drawAll draws the question with its keys.
func (q *question) drawAll() {
	q.drawRequest()
	q.showKeys(q.choices()...)
}

// drawRequest shows as much of the request as fits on the screen together with the
// question. It records which items it showed.
func (q *question) drawRequest() {
	count := func(rows ...row) (n int) {
		for _, r := range rows {
			n += len(r.Barred(q.columns, false))
		}
		return n
	}
	q.omits = false
	room := q.height - 1 - len(q.keyLines(q.choicesIf(true, false)...)) // without the lines of the prompt and the keys
	q.omits = len(q.seenBefore) > 0 && (!q.repeats || count(q.sheet(maxColumns).All()...) > room)
	sheet, all := q.sheet(maxColumns), q.sheet(math.MaxInt).All()
	rows := sheet.All()
	if count(rows...) <= room && count(sheet.Body...) <= maxRows && slices.Equal(rows, all) {
		q.more = false
		q.has(display.RenderedItems(all, rows))
	} else {
		q.more, q.whole = true, false
	}
	if !q.whole {
		warn := row{Mark: warning, Text: q.unseen()}
		room = q.height - 1 - len(q.keyLines(q.choicesIf(false, true)...)) - count(warn)
		if q.more || count(rows...) > room {
			rows = sheet.Folded(min(maxRows, room-count(sheet.Head...)-count(sheet.Tail...)), func(r row) int { return count(r) })
			q.more = true
		}
		onScreen := rows
		for len(onScreen) > 0 && count(onScreen...) > room {
			onScreen = onScreen[1:] // this row has scrolled off the screen when the keys appear
		}
		q.has(display.RenderedItems(all, onScreen))
		if q.whole {
			q.more = false
		} else {
			rows = append(slices.Clone(rows), warn)
		}
	}
	q.showHead(rows)
}

// sheet returns the request as rows, without those that the question omits.
func (q *question) sheet(most int) *display.Sheet {
	s := display.NewSheet(q.display, most)
	s.Body = append(display.ChangedRows(q.changedSince), s.Body...)
	if !q.omits {
		return s
	}
	s.Body = slices.DeleteFunc(s.Body, func(r row) bool { return r.Item != "" && slices.Contains(q.seenBefore, r.Item) })
	return s
}

// unseen explains how to see or approve the part that is not shown.
func (q *question) unseen() string {
	text := "not everything is shown"
	if q.more {
		text += "; v shows it"
	} else {
		text = "not everything can be shown"
	}
	if digest := q.request.UnseenDigest(); digest != "" {
		text += "; y " + digest + " approves it unseen"
	} else if q.request.UnseenOff != "" {
		text += "; " + visible.Text(q.request.UnseenOff) + " does not allow approving it unseen"
	}
	return text
}

// has adds items to those that were shown, and checks whether that is all of the request.
func (q *question) has(items []string) {
	for _, item := range items {
		if !slices.Contains(q.seen, item) {
			q.seen = append(q.seen, item)
		}
	}
	_, err := approval.CheckSeen(q.request, q.yes())
	q.whole = err == nil
}

// yes returns a plain approval.
func (q *question) yes() approval.Reply {
	return approval.Reply{Answer: tool.Answer{Verdict: tool.Approved, By: "user"}, Rendered: q.seen}
}

// answer interprets a line. When it returns errTypo, it has explained the error and shown
// the keys again.
func (q *question) answer(text string) (approval.Reply, error) {
	yes := q.yes()
	word, rest, _ := strings.Cut(text, " ")
	word, rest = strings.ToLower(word), strings.Trim(rest, " ")
	digest := q.request.UnseenDigest()
	again := func(say string) (approval.Reply, error) {
		q.typo(say)
		return approval.Reply{}, errTypo
	}
	switch {
	case word == "n" || word == "no":
		return approval.Reply{Answer: tool.Answer{By: "user", Note: visible.Line(rest, 500)}}, nil
	case word == "" && !q.again:
		return approval.Reply{Answer: tool.Answer{By: "nobody"}}, nil
	case word == "":
		return approval.Reply{Answer: tool.Answer{By: "user"}}, nil
	case word == "y" && digest != "" && strings.ToLower(rest) == digest:
		yes.DigestPrefix = digest
		return yes, q.failed
	case rest != "":
		return again(q.please())
	case word == "?":
		q.show(help(q.explained()))
		return again("")
	case word == "never" && q.offers() && q.isHost():
		rule, _ := approval.RefusalRule(q.request, approval.Project)
		q.rule("remembered", rule)
		return approval.Reply{Answer: tool.Answer{By: "user"}, Remember: &rule}, nil
	case word == "s" && q.stops():
		return approval.Reply{Answer: tool.Answer{By: "user", Note: "stopped the run", Stop: true}}, nil
	case word == "v" && (q.more || q.omits):
		if err := q.page(); err != nil {
			return approval.Reply{}, err
		}
		return approval.Reply{}, errTypo
	case word != "y" && word != "yes" && !(q.remembers() && word == "e") && !(q.offers() && word == q.ruleKey()):
		return again(q.please())
	case !q.whole:
		return again(q.unseen())
	case word == "e":
		rule := q.exactly()
		q.rule("remembered", rule)
		yes.Remember = &rule
	case word == "a" && q.again:
		rule, _ := approval.AlwaysRule(q.request)
		q.rule("remembered", rule)
		yes.Remember = &rule
	case word == "a" || word == "r":
		rule, err := q.choose()
		if errors.Is(err, errBack) {
			q.redraw = q.drawAll
			return again(err.Error())
		} else if err != nil {
			return approval.Reply{}, err
		}
		yes.Remember = &rule
	}
	return yes, q.failed
}

// typo prints a hint, and shows the keys again.
func (q *question) typo(say string) {
	if say != "" {
		q.show([]row{{Mark: about, Text: say}})
	}
	q.showKeys(q.options()...)
}

// page shows all rows, one screen at a time. If the person quits early, only the
// displayed pages count as seen.
func (q *question) page() error {
	q.omits = false
	all := q.sheet(math.MaxInt).All()
	var lines []string
	var ends []int // index after the last line of each row
	for _, r := range all {
		lines = append(lines, r.Barred(q.columns, !q.screen.plain)...)
		ends = append(ends, len(lines))
	}
	room := max(1, q.height-len(q.keyLines(pageKeys(len(lines), len(lines))...))-1)
	for at := 0; at < len(lines); {
		end := min(at+room, len(lines))
		q.redraw = func() {
			q.say(strings.Join(lines[at:end], ""))
			if end < len(lines) {
				q.showKeys(pageKeys(end, len(lines))...)
			}
		}
		q.redraw()
		if q.failed != nil {
			return q.failed
		}
		if end < len(lines) {
			text, err := q.read()
			if errors.Is(err, errTypo) || err == nil && text != "" {
				break
			} else if err != nil {
				return err
			}
		}
		at = end
		n := 0
		for n < len(all) && ends[n] <= end {
			n++
		}
		q.has(display.RenderedItems(all, all[:n]))
		q.more = n < len(all)
	}
	// Show the keys together with the head of the request.
	q.redraw = q.drawAll
	q.showHead(q.sheet(maxColumns).Head)
	q.showKeys(q.choices()...)
	return q.failed
}

// read reads a line. It discards input that was typed before the prompt, and returns
// errTypo for a line with invisible characters. If the window changes meanwhile, it
// discards the line and draws the question again.
func (q *question) read() (string, error) {
	for {
		text, err := q.readOnce()
		switch {
		case errors.Is(err, errChanged):
			q.say("\n")
			q.draw()
		case errors.Is(err, errSuspended):
			q.say("\n")
			q.letGo()
			q.letGo = func() {}
			suspendSelf()
			if err := q.hold(q.ctx); err != nil {
				return "", err
			}
			q.draw()
		default:
			return text, err
		}
	}
}

func (q *question) readOnce() (string, error) {
	if q.failed != nil {
		return "", q.failed
	}
	early, err := q.keys.settle(q.ctx, q.settle)
	if err != nil {
		return "", err
	}
	if early {
		q.show([]row{{Mark: about, Text: "keys that were pressed before this line were ignored"}})
	}
	q.say(q.prompt())
	if q.failed != nil {
		return "", q.failed
	}
	text, err := q.keys.line(q.ctx, q.wait, q.interrupted)
	q.printed++
	if err != nil {
		if !errors.Is(err, errChanged) && !errors.Is(err, errSuspended) {
			q.say("\n") // no one has pressed Enter
		}
		return "", err
	}
	if err := q.interrupted(); err != nil {
		return "", err
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !sandbox.Plain(r) }) {
		return "", errTypo
	}
	return strings.Trim(text, " "), nil
}

// interrupted reports why the question must be drawn again: the window size changed, or
// golem is about to be suspended.
func (q *question) interrupted() error {
	select {
	case <-q.suspend:
		return errSuspended
	default:
	}
	if columns, height := q.screen.size(); columns != q.columns || height != q.height {
		return errChanged
	}
	return nil
}
