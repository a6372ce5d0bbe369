package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
)

// A key is an answer and its explanation.
type key struct{ name, does string }

// remembers reports whether golem can remember the answer.
func (q *question) remembers() bool { return q.again && !q.request.OnlyUser }

// offers reports whether there are rules to choose from.
func (q *question) offers() bool {
	if !q.again && q.isHost() {
		_, ok := approval.AlwaysRule(q.request)
		return ok && q.keepsRules
	}
	return q.remembers() && len(approval.OfferRules(q.request)) > 0
}

// stops reports whether there is a run to stop. A call of the user's own is no run.
func (q *question) stops() bool { return q.again && q.request.Origin != policy.User }

// isHost reports whether the question is about a host.
func (q *question) isHost() bool { return q.request.Tool == tool.ConnectTool }

// ruleKey returns the key that makes a rule.
func (q *question) ruleKey() string {
	if q.isHost() {
		return "a"
	}
	return "r"
}

// exactTime says how long golem remembers an exact call.
func (q *question) exactTime() string {
	if q.untilEnd {
		return "until the command ends"
	}
	return "for a day"
}

// An answerKey is an answer that the question accepts now.
type answerKey struct {
	typed string // in the list after a typo; "" if it is not there
	label string // in the line of keys; "" if it is not there
	key          // for help
}

// answers returns the answers to the question, if all of it was shown or not, and if there is
// more to show.
func (q *question) answers(whole, more bool) (list []answerKey) {
	add := func(is bool, typed, label, name, does string) {
		if is {
			list = append(list, answerKey{typed, label, key{name, does}})
		}
	}
	digest, isHost := q.request.UnseenDigest(), q.isHost()
	view := ""
	switch {
	case whole && q.omits && q.repeats:
		view = "[v]iew it again"
	case !whole && more:
		view = "[v]iew all " + visible.Count(q.lines(), "line")
	}
	no := "no; the worker gets the reason"
	switch {
	case isHost:
		no = "no, also to later connections in this session; the journal records the reason"
	case q.request.Origin == policy.User:
		no = "no; the journal records the reason"
	}
	add(whole, "y", "[y]es", "y, yes", "yes, this once")
	add(true, "n", "[n]o", "n, n REASON", no)
	add(more || q.omits, "v", view, "v", "view everything, page by page")
	add(!whole && digest != "", "", "[y "+digest+"] yes, unseen", "y "+digest, "yes, this once, also to the part that was not shown")
	exact, rules := whole && q.remembers(), whole && q.offers()
	add(exact && isHost, "e", "[e] yes, "+q.exactTime(), "e", "yes, and further connections to the same host and ports, "+q.exactTime())
	add(exact && !isHost, "e", "[e]xact call again", "e", "yes, and the same call with the same arguments again, "+q.exactTime())
	add(rules && isHost, "a", "[a]lways in this project", "a", "yes, and always in this project; golem approvals revoke removes the rule")
	add(rules && isHost, "never", "[never]", "never", "no, and never in this project; golem approvals revoke removes the rule")
	add(rules && !isHost, "r", "[r]ule…", "r", "yes, and choose a rule for calls like this one")
	add(q.stops() && isHost, "s", "[s]top asking", "s", "no, and do not ask again: golem refuses other hosts, and golem approvals lists them")
	add(q.stops() && !isHost, "s", "[s]top the run", "s", "no, and stop the run; golem run --resume asks again")
	add(!q.again, "", "[Enter] later", "Enter", "decide later; the call still waits")
	add(q.again, "", "", "Enter, Ctrl-D", "no")
	add(q.again && q.stops() && !isHost, "", "", "Ctrl-C", "no, and stop the run; golem run --resume asks again")
	add(q.again && (!q.stops() || isHost), "", "", "Ctrl-C", "no, and stop")
	return list
}

// choices returns the keys of the question.
func (q *question) choices() []string { return q.choicesIf(q.whole, q.more) }

func (q *question) choicesIf(whole, more bool) (labels []string) {
	for _, a := range q.answers(whole, more) {
		if a.label != "" {
			labels = append(labels, a.label)
		}
	}
	return append(labels, "[?]")
}

// lines counts the rows of the whole request.
func (q *question) lines() int { return len(q.sheet(maxColumns).All()) }

// please lists the valid answers after a typo.
func (q *question) please() string {
	var typed []string
	for _, a := range q.answers(q.whole, q.more) {
		if a.typed != "" {
			typed = append(typed, a.typed)
		}
	}
	text := "please answer " + strings.Join(typed, ", ") + " or ? (help)"
	if !q.whole {
		text += "; " + q.unseen()
	}
	return text
}

// explained returns the explanation of each key of the question.
func (q *question) explained() (keys []key) {
	for _, a := range q.answers(q.whole, q.more) {
		keys = append(keys, a.key)
	}
	return keys
}

// help returns rows that explain keys.
func help(keys []key) []row {
	var rows []row
	for _, k := range keys {
		rows = append(rows, row{Mark: about, Text: fmt.Sprintf("%-14s %s", k.name, k.does)})
	}
	return rows
}

// pageKeys returns the keys below a page that ends at line end.
func pageKeys(end, all int) []string {
	return []string{fmt.Sprintf("%d of %d lines", end, all), "[Enter] next page", "[q]uit viewing"}
}

// prompt returns the text before the answer.
func (q *question) prompt() string {
	return bar(!q.screen.plain) + " > "
}

func bar(colours bool) string {
	if colours {
		return "\x1b[1m" + visible.Bar + "\x1b[0m"
	}
	return visible.Bar
}

// keyLines returns keys as lines, with line breaks between keys where possible.
func (q *question) keyLines(keys ...string) []string {
	columns, _ := q.screen.size()
	room := max(columns-len("   ")-1, 1) // the bar may be wide
	var lines []string
	line := ""
	for _, k := range keys {
		if line != "" && cells(line)+cells(k)+2 > room {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			k = "  " + k
		}
		line += k
		if pieces := visible.Broken(line, room); len(pieces) > 1 {
			lines = append(lines, pieces[:len(pieces)-1]...)
			line = pieces[len(pieces)-1]
		}
	}
	return append(lines, line)
}

// showKeys prints keys.
func (q *question) showKeys(keys ...string) {
	for _, line := range q.keyLines(keys...) {
		q.say(bar(!q.screen.plain) + " " + line + "\n")
	}
}

// showHead prints the rows of a request. The first row states the question. The second
// row is printed on the same line if it fits.
func (q *question) showHead(rows []row) {
	switch {
	case len(rows) > 0 && rows[0].Mark == about && (len(rows) == 1 || rows[1].Mark != about):
		rows = append([]row{{Mark: visible.Header, Text: rows[0].Text}}, rows[1:]...)
	case len(rows) > 1 && rows[0].Mark == about:
		first, second := visible.Barless(rows[0].Text), visible.Barless(rows[1].Text)
		used := cells(first) + cells(second)
		if gap := min(q.columns, maxHeader) - used - visible.Margin; gap >= 2 {
			rows = append([]row{{Mark: visible.Header, Text: first + strings.Repeat(" ", gap) + second}}, rows[2:]...)
		} else {
			rows = append([]row{{Mark: visible.Header, Text: first}}, rows[1:]...)
		}
	}
	q.show(rows)
}

// maxHeader is the maximum width of the first line of a question.
const maxHeader = 130

// cells returns an upper limit for the columns of a text, as visible.Broken counts them.
func cells(text string) (n int) {
	for _, r := range text {
		if n++; r >= 0x300 {
			n++
		}
	}
	return n
}

// show prints rows.
func (q *question) show(rows []row) {
	columns, _ := q.screen.size()
	var b strings.Builder
	for _, r := range rows {
		for _, line := range r.Barred(columns, !q.screen.plain) {
			b.WriteString(line)
		}
	}
	q.say(b.String())
}

func (q *question) say(text string) {
	q.printed += strings.Count(text, "\n")
	if _, err := io.WriteString(q.screen.w, text); err != nil {
		q.failed = errNobody
	}
}
