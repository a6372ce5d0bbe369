package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/approval"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/internal/visible"
	"github.com/golem-forge/golem/sandbox"
)

// patience is how long an answer is waited for, unless the user says otherwise.
const patience = 5 * time.Minute

// Why a question has no answer. Each is a no.
var (
	errNobody  = errors.New("nobody can be asked: the terminal is not ours to read from")
	errForeign = errors.New("nobody was asked: the terminal belongs to another user, as after su; log in as this one, or answer with golem approve")
	errLate    = errors.New("no answer in time")
	errEnd     = errors.New("the input ended without an answer")
	errStopped = errors.New("stopped at the question")
	errUnclear = errors.New("that is no answer")
	errUnseen  = errors.New("not all of it was shown, so this is no answer")
)

// An asker puts questions to whoever sits at a terminal. What was typed before
// a question is thrown away; of what is typed after it, one line counts:
//
//	y, yes      once
//	e           once, and this exact call again
//	r           a rule, chosen from those that fit, shown, and confirmed
//	n, n WHY    no
//	s           no, and stop everything
//	v           where not all is shown: show it, page by page
//	y DIGEST    where not all is shown: once, unseen
//
// Capitals are the same answers. Everything else is a no: an empty line, any
// other word, control or invisible characters, the end of the input, an
// interrupt, a time-out, a terminal that is gone. By tells whether somebody has
// said no (user) or nobody has answered (nobody).
type asker struct {
	keys    *keyboard
	screen  screen
	wait    time.Duration
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
	return &asker{keys: newKeyboard(in), screen: s, wait: wait, turn: make(chan struct{}, 1)}
}

// Ask implements approval.Asker. Questions that come at once are put one after
// the other, each with its own answer.
func (a *asker) Ask(ctx context.Context, r tool.Request) approval.Reply { return a.ask(ctx, r, true) }

// AskOnce asks without an offer to remember the answer.
func (a *asker) AskOnce(ctx context.Context, r tool.Request) approval.Reply {
	return a.ask(ctx, r, false)
}

func (a *asker) ask(ctx context.Context, r tool.Request, again bool) approval.Reply {
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return approval.Reply{Answer: tool.Answer{By: "nobody", Note: errStopped.Error()}}
	}
	nobody := approval.Reply{Answer: tool.Answer{By: "nobody", Note: errNobody.Error(), Nobody: true}}
	if a.screen.file == nil {
		return nobody
	}
	// Another golem may ask at the same terminal: one question at a time there too,
	// or an answer could reach the wrong one.
	release, err := a.keys.take(ctx, a.wait)
	if err != nil {
		if errors.Is(err, errForeign) {
			a.why = err
		}
		return nobody
	}
	defer release()
	restore, err := a.keys.ready()
	if err != nil {
		return nobody
	}
	defer restore()
	open, stop := signal.NotifyContext(ctx, ends()...)
	defer stop()
	q := &question{asker: a, ctx: open, request: r, again: again}
	reply, err := q.put()
	if err == nil {
		a.shown = a.shown || q.whole
		return reply
	}
	q.say("  " + err.Error() + ": nothing was done\n")
	no := tool.Answer{By: "nobody", Note: err.Error(), Nobody: errors.Is(err, errNobody)}
	// An interrupt is meant for more than this question, whoever caught it.
	no.Stop = open.Err() != nil && (ctx.Err() == nil || context.Cause(ctx) != ctx.Err())
	if no.Stop || again && (errors.Is(err, errUnclear) || errors.Is(err, errUnseen)) {
		no.By = "user"
	}
	return approval.Reply{Answer: no}
}

// confirm asks a question that only a yes answers.
func (a *asker) confirm(ctx context.Context, prompt string) bool {
	restore, err := a.keys.ready()
	if err != nil {
		return false
	}
	defer restore()
	open, stop := signal.NotifyContext(ctx, ends()...)
	defer stop()
	text, err := (&question{asker: a, ctx: open}).read(prompt)
	text = strings.ToLower(text)
	return err == nil && (text == "y" || text == "yes")
}

// A question is one that is open.
type question struct {
	*asker
	ctx     context.Context
	request tool.Request
	again   bool     // the answer may be remembered
	whole   bool     // a plain yes is valid
	more    bool     // there are rows that were not shown
	seen    []string // the items that were shown
	failed  error    // a part of it could not be shown
}

// put shows the request and takes the answer. An error is a no.
func (q *question) put() (approval.Reply, error) {
	columns, height := q.screen.size()
	lines := func(r row) int { return len(q.screen.lines(r, columns)) }
	most := min(maxRows, max(6, height-9)) // the question has lines of its own
	rows, all := newSheet(q.request, maxColumns).folded(most, lines), newSheet(q.request, math.MaxInt).all()
	q.more = !slices.Equal(rows, all)
	q.has(rendered(all, rows))
	q.say("\n")
	q.show(rows)
	for {
		text, err := q.read(q.choices())
		if err != nil {
			return approval.Reply{}, err
		}
		if strings.ToLower(text) != "v" || !q.more {
			return q.answer(text)
		}
		if err := q.page(all); err != nil {
			return approval.Reply{}, err
		}
	}
}

// has notes which items were shown.
func (q *question) has(items []string) {
	q.seen = items
	_, err := approval.Covers(q.request, q.yes())
	q.whole = err == nil
}

// yes is a plain yes.
func (q *question) yes() approval.Reply {
	return approval.Reply{Answer: tool.Answer{Verdict: tool.Yes, By: "user"}, Rendered: q.seen}
}

// rules reports whether an answer can be remembered.
func (q *question) rules() bool { return q.again && !q.request.Clears }

// choices is the line that asks.
func (q *question) choices() string {
	once := "[y] once"
	if !q.whole {
		once = "not all is shown: [v] view it"
		if !q.more {
			once = "not all can be shown:"
		}
		if digest, ok := q.digest(); ok {
			once += "  [y " + digest + "] once, unseen"
		}
	}
	if q.whole && q.rules() {
		once += "  [e] this exact call again"
		if len(approval.Offers(q.request)) > 0 {
			once += "  [r] rule…"
		}
	}
	if !q.again {
		return "  " + once + "  [n] no, because…  [Enter] later   "
	}
	return "  " + once + "  [n] no, because…  [s] stop   "
}

// digest is the part of the request's digest that somebody types who has not
// seen all of it.
func (q *question) digest() (string, bool) {
	d := q.request.Digest
	if len(d) < 8 || strings.Trim(d, "0123456789abcdef") != "" {
		return "", false
	}
	return d[:8], true
}

// answer takes a line for an answer.
func (q *question) answer(text string) (approval.Reply, error) {
	yes := q.yes()
	word, rest, _ := strings.Cut(text, " ")
	word, rest = strings.ToLower(word), strings.Trim(rest, " ")
	digest, ok := q.digest()
	switch {
	case word == "n" || word == "no":
		why, err := q.reason(rest)
		return approval.Reply{Answer: tool.Answer{By: "user", Note: why}}, err
	case word == "y" && ok && strings.ToLower(rest) == digest:
		yes.Named = digest
		return yes, nil
	case rest != "":
		return approval.Reply{}, errUnclear
	case word == "s" && q.again:
		return approval.Reply{Answer: tool.Answer{By: "user", Note: "the user stopped it", Stop: true}}, nil
	case word != "y" && word != "yes" && !(q.rules() && (word == "e" || word == "r")):
		return approval.Reply{}, errUnclear
	case !q.whole:
		return approval.Reply{}, errUnseen
	case word == "e":
		rule := q.exactly()
		q.rule("remembered", rule)
		yes.Remember = &rule
	case word == "r":
		rule, err := q.choose()
		if err != nil {
			return approval.Reply{}, err
		}
		yes.Remember = &rule
	}
	return yes, q.failed
}

// reason returns why not, and asks for it where it was not given. Only who
// stops here has said more than no.
func (q *question) reason(given string) (string, error) {
	var err error
	if given == "" {
		given, err = q.read("  why? (Enter: no reason)   ")
	}
	if !errors.Is(err, errStopped) {
		err = nil
	}
	return visible.Line(given, 500), err
}

// exactly is the rule for this exact call.
func (q *question) exactly() approval.Rule {
	rule := approval.Again(q.request)
	if q.session {
		rule.Scope = approval.Session
	} else {
		rule.Scope, rule.Expires = approval.Project, time.Now().Add(24*time.Hour)
	}
	return rule
}

// choose lets the user choose a rule and how long it holds, and confirm it as it
// will be kept.
func (q *question) choose() (approval.Rule, error) {
	offers := approval.Offers(q.request)
	if len(offers) == 0 {
		return approval.Rule{}, errUnclear
	}
	for i, offer := range offers {
		q.rule(fmt.Sprintf("[%d]", i+1), offer)
	}
	which, err := q.number("which?", len(offers))
	if err != nil {
		return approval.Rule{}, err
	}
	rule := offers[which]
	type span struct {
		text  string
		scope approval.Scope
		long  time.Duration
	}
	spans := []span{{"1 hour", approval.Project, time.Hour}, {"1 day", approval.Project, 24 * time.Hour}, {"until revoked", approval.Project, 0}}
	if q.session {
		spans = append(spans, span{"this run", approval.Run, 0}, span{"this session", approval.Session, 0})
	}
	prompt := "how long?"
	for i, s := range spans {
		prompt += fmt.Sprintf("  [%d] %s", i+1, s.text)
	}
	chosen, err := q.number(prompt, len(spans))
	if err != nil {
		return approval.Rule{}, err
	}
	rule.Scope = spans[chosen].scope
	if long := spans[chosen].long; long > 0 {
		rule.Expires = time.Now().Add(long)
	}
	q.rule("the rule", rule)
	sure, err := q.read("  remember it, and do this? [y] yes  anything else: no   ")
	if sure = strings.ToLower(sure); err == nil && sure != "y" && sure != "yes" {
		err = errUnclear
	}
	return rule, err
}

// number reads a number from 1 to most, and returns it counted from 0.
func (q *question) number(prompt string, most int) (int, error) {
	text, err := q.read(fmt.Sprintf("  %s  [1-%d]   ", prompt, most))
	if err != nil {
		return 0, err
	}
	for n := range most {
		if text == strconv.Itoa(n+1) {
			return n, nil
		}
	}
	return 0, errUnclear
}

// rule shows a rule literally.
func (q *question) rule(what string, rule approval.Rule) {
	q.show([]row{{Mark: detail, Text: what + " " + visible.Line(rule.String(), math.MaxInt)}})
}

// page shows all rows, a screen at a time. Who leaves before the end has not
// seen them.
func (q *question) page(rows []row) error {
	columns, height := q.screen.size()
	var lines []string
	for _, r := range rows {
		lines = append(lines, q.screen.lines(r, columns)...)
	}
	for at := 0; ; {
		end := min(at+height-2, len(lines))
		q.say(strings.Join(lines[at:end], ""))
		if at = end; at == len(lines) {
			q.more = false
			q.has(rendered(rows, rows))
			return q.failed
		}
		text, err := q.read(fmt.Sprintf("  %d of %d lines: [Enter] more  [q] leave   ", at, len(lines)))
		if err != nil {
			return err
		}
		if text != "" {
			return nil
		}
	}
}

// read asks for a line. What was typed before is thrown away; a line with
// characters that cannot be seen is no answer.
func (q *question) read(prompt string) (string, error) {
	if err := q.keys.flush(); err != nil {
		return "", errNobody
	}
	q.say(prompt)
	if q.failed != nil {
		return "", q.failed
	}
	text, err := q.keys.line(q.ctx, q.wait)
	if err != nil {
		q.say("\n") // nobody has pressed Enter
		return "", err
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !sandbox.Plain(r) }) {
		return "", errUnclear
	}
	return strings.Trim(text, " "), nil
}

func (q *question) show(rows []row) { q.keep(q.screen.show(rows)) }

func (q *question) say(text string) {
	_, err := io.WriteString(q.screen.w, text)
	q.keep(err)
}

func (q *question) keep(err error) {
	if err != nil {
		q.failed = errNobody
	}
}
