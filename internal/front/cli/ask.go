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

	"github.com/golem-forge/golem/internal/approval"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/internal/visible"
	"github.com/golem-forge/golem/sandbox"
)

const (
	// patience is how long an answer is waited for, unless the user says otherwise.
	patience = 5 * time.Minute
	// settling is how long a question is on screen before an answer is accepted.
	settling = 400 * time.Millisecond
	// maxTypos is how often a question is asked again.
	maxTypos = 20
)

// Why a question has no answer. None of them is a yes.
var (
	errNobody    = errors.New("nobody can be asked: the terminal is not ours to read from")
	errForeign   = errors.New("nobody was asked: the terminal belongs to another user, as after su; log in as this user, or run golem approve in a terminal of this user")
	errLate      = errors.New("no answer in time")
	errEnd       = errors.New("the input ended without an answer")
	errStopped   = errors.New("stopped at the question")
	errClosed    = errors.New("no")                       // Ctrl-D
	errTypo      = errors.New("that is no answer")        // the question is asked again
	errChanged   = errors.New("the screen has changed")   // the question is drawn again
	errSuspended = errors.New("golem is to be suspended") // and then drawn again
	errBack      = errors.New("no rule was made")         // the question is asked again
)

// An asker puts questions to the person at a terminal. A question owns the terminal until
// it is answered: other output of golem waits. It is drawn in full before the prompt
// appears, and what is typed before the prompt is thrown away. Then one line counts:
//
//	y, yes      yes, once
//	y DIGEST    yes, also to what was not shown
//	n, n WHY    no
//	v           if not everything is shown: show it, page by page
//	e           yes, and the same call again
//	r           yes, and a rule, chosen from those that fit, shown, and confirmed
//	s           no, and stop the run
//	?           explain the keys
//
// Capitals are the same answers. An empty line, Ctrl-C and Ctrl-D are no. After anything
// else the question is asked again. If nobody answers in time, the call waits for golem
// approve. By tells whether somebody has said no (user) or nobody has answered (nobody).
type asker struct {
	keys    *keyboard
	screen  screen
	console *console // whose output waits while a question is open; may be nil
	wait    time.Duration
	settle  time.Duration
	session bool          // there is a session that may remember
	turn    chan struct{} // holds one, while a question is open
	shown   bool          // the last question that was answered showed all of its change
	why     error         // what kept the last question from being put, where somebody can do something about it
}

// newAsker returns an asker that reads from a terminal, and waits so long for
// each line. Questions go to out; where that is no terminal they would not be
// seen, and go to the one that is read from.
func newAsker(in *os.File, out io.Writer, wait time.Duration) *asker {
	s := newScreen(out)
	if s.file == nil {
		s = newScreen(in)
	}
	s.w = s.file // no other output passes meanwhile, and no bar passes a console
	return &asker{keys: newKeyboard(in), screen: s, console: consoleOf(out), wait: wait, settle: settling, turn: make(chan struct{}, 1)}
}

// Ask implements approval.Asker. Questions that come at once are put one after
// the other, each with its own answer.
func (a *asker) Ask(ctx context.Context, r tool.Request) approval.Reply { return a.ask(ctx, r, true) }

// AskOnce asks without an offer to remember the answer.
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
	q.request, q.again = r, again
	reply, err := q.put()
	if err == nil {
		a.shown = a.shown || q.whole
		return reply
	}
	note := err.Error() + ": nothing was done"
	if errors.Is(err, errLate) && again {
		note = err.Error() + ": nothing was done; the call waits for golem approve"
	}
	q.show([]row{{Mark: about, Text: note}})
	no := tool.Answer{By: "nobody", Note: err.Error(), Unattended: errors.Is(err, errNobody) || errors.Is(err, errLate)}
	// An interrupt is meant for more than this question, whoever caught it.
	no.Stop = q.ctx.Err() != nil && (ctx.Err() == nil || context.Cause(ctx) != ctx.Err())
	switch {
	case no.Stop:
		no.By = "user"
	case errors.Is(err, errClosed) && again:
		no = tool.Answer{By: "user"}
	}
	return approval.Reply{Answer: no}
}

// confirm asks a yes-or-no question. what completes the sentence "You are about to …".
func (a *asker) confirm(ctx context.Context, what string) bool {
	q, done, err := a.open(ctx)
	if err != nil {
		if errors.Is(err, errForeign) {
			a.why = err
		}
		return false
	}
	defer done()
	q.options = func() []string { return []string{"[y]es", "[n]o", "[?]"} }
	q.redraw = func() {
		q.show([]row{{Mark: visible.Header, Text: "You are about to " + visible.Line(what, maxColumns)}})
		q.showKeys(q.options()...)
	}
	q.begin()
	for range maxTypos {
		text, err := q.read()
		switch word := strings.ToLower(text); {
		case err != nil && !errors.Is(err, errTypo), word == "" && err == nil, word == "n", word == "no":
			return false
		case word == "y", word == "yes":
			return q.failed == nil
		case word == "?":
			q.show(help([]key{{"y, yes", "yes"}, {"n, no, Enter", "no: nothing is changed"}, {"Ctrl-C, Ctrl-D", "no"}}))
			q.typo("")
		default:
			q.typo("please answer y, n or ? (help)")
		}
	}
	return false
}

// open makes a new question the owner of the terminal, until it is done.
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
	return q, func() {
		if q.suspend != nil {
			signal.Stop(q.suspend)
		}
		stop()
		q.letGo()
		release()
		<-a.turn
	}, nil
}

// A question is one that is open.
type question struct {
	*asker
	ctx     context.Context
	suspend chan os.Signal
	letGo   func() // of the terminal
	partial bool   // the cursor was within a line

	request tool.Request
	again   bool     // the answer may be remembered
	whole   bool     // a plain yes is valid
	more    bool     // there are rows that were not shown
	seen    []string // the items that were shown
	failed  error    // a part of it could not be shown

	columns, height int    // of the screen that it was drawn for
	redraw          func() // draws what is asked now
	options         func() []string
}

// hold keeps other golems from the terminal, and gives it its usual modes.
func (q *question) hold(ctx context.Context) error {
	// Another golem may ask at the same terminal: one question at a time there too,
	// or an answer could reach the wrong one.
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

// draw draws what is asked now, for the screen as it is.
func (q *question) draw() {
	q.columns, q.height = q.screen.size()
	q.redraw()
}

// put shows the request and takes the answer. An error is no yes.
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

// drawRequest shows as much of the request as the screen has room for, so that the
// question and what it is about are on it together. It notes which items that are.
func (q *question) drawRequest() {
	count := func(rows ...row) (n int) {
		for _, r := range rows {
			n += len(r.Barred(q.columns, false))
		}
		return n
	}
	sheet, all := newSheet(q.request, maxColumns), newSheet(q.request, math.MaxInt).all()
	rows := sheet.all()
	room := q.height - 1 - len(q.keyLines(q.choicesIf(true, false)...)) // of the prompt and the keys
	if count(rows...) <= room && count(sheet.body...) <= maxRows && slices.Equal(rows, all) {
		q.more = false
		q.has(rendered(all, rows))
	} else {
		q.more, q.whole = true, false
	}
	if !q.whole {
		warn := row{Mark: warning, Text: q.unseen()}
		room = q.height - 1 - len(q.keyLines(q.choicesIf(false, true)...)) - count(warn)
		if q.more || count(rows...) > room {
			rows = sheet.folded(min(maxRows, room-count(sheet.head...)-count(sheet.tail...)), func(r row) int { return count(r) })
			q.more = true
		}
		onScreen := rows
		for len(onScreen) > 0 && count(onScreen...) > room {
			onScreen = onScreen[1:] // it has left the screen when the keys are there
		}
		q.has(rendered(all, onScreen))
		if q.whole {
			q.more = false
		} else {
			rows = append(slices.Clone(rows), warn)
		}
	}
	q.showHead(rows)
}

// unseen says what a person can do about what is not shown.
func (q *question) unseen() string {
	text := "not everything is shown"
	if q.more {
		text += "; v shows it"
	} else {
		text = "not everything can be shown"
	}
	if digest, ok := q.digest(); ok {
		text += "; y " + digest + " approves it unseen"
	}
	return text
}

// has notes which items were shown, with those that were shown before.
func (q *question) has(items []string) {
	for _, item := range items {
		if !slices.Contains(q.seen, item) {
			q.seen = append(q.seen, item)
		}
	}
	_, err := approval.CheckSeen(q.request, q.yes())
	q.whole = err == nil
}

// yes is a plain yes.
func (q *question) yes() approval.Reply {
	return approval.Reply{Answer: tool.Answer{Verdict: tool.Approved, By: "user"}, Rendered: q.seen}
}

// digest is the part of the request's digest that somebody types who has not
// seen all of it.
func (q *question) digest() (string, bool) {
	d := q.request.Digest
	if len(d) < approval.MinDigestPrefix || strings.Trim(d, "0123456789abcdef") != "" {
		return "", false
	}
	return d[:approval.MinDigestPrefix], true
}

// answer takes a line for an answer. An errTypo was explained, and the keys are shown
// again.
func (q *question) answer(text string) (approval.Reply, error) {
	yes := q.yes()
	word, rest, _ := strings.Cut(text, " ")
	word, rest = strings.ToLower(word), strings.Trim(rest, " ")
	digest, ok := q.digest()
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
	case word == "y" && ok && strings.ToLower(rest) == digest:
		yes.DigestPrefix = digest
		return yes, q.failed
	case rest != "":
		return again(q.please())
	case word == "?":
		q.show(help(q.explained()))
		return again("")
	case word == "s" && q.stops():
		return approval.Reply{Answer: tool.Answer{By: "user", Note: "the user stopped it", Stop: true}}, nil
	case word == "v" && q.more:
		if err := q.page(); err != nil {
			return approval.Reply{}, err
		}
		return approval.Reply{}, errTypo
	case word != "y" && word != "yes" && !(q.remembers() && word == "e") && !(q.offers() && word == "r"):
		return again(q.please())
	case !q.whole:
		return again(q.unseen())
	case word == "e":
		rule := q.exactly()
		q.rule("remembered", rule)
		yes.Remember = &rule
	case word == "r":
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

// typo says what would be an answer, and shows the keys again.
func (q *question) typo(say string) {
	if say != "" {
		q.show([]row{{Mark: about, Text: say}})
	}
	q.showKeys(q.options()...)
}

// page shows all rows, a screen at a time. Who leaves before the end has seen the pages
// that were displayed.
func (q *question) page() error {
	all := newSheet(q.request, math.MaxInt).all()
	var lines []string
	var ends []int // of each row
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
		q.has(rendered(all, all[:n]))
		q.more = n < len(all)
	}
	// The keys are on screen with what they are about.
	q.redraw = q.drawAll
	q.showHead(newSheet(q.request, maxColumns).head)
	q.showKeys(q.choices()...)
	return q.failed
}

// read takes a line. What was typed before the prompt is thrown away, and a line with
// characters that cannot be seen is a typo. If the window changes meanwhile, what is asked
// is drawn again, and the line does not count.
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
	if err != nil {
		if !errors.Is(err, errChanged) && !errors.Is(err, errSuspended) {
			q.say("\n") // nobody has pressed Enter
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

// interrupted reports why a question has to be drawn again: the window has another size,
// or golem is to be suspended.
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
