package acp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
)

const (
	// ownPrefix begins the ids of golem's own requests to the editor.
	ownPrefix = "golem-"
	// maxText is the most bytes of a question. Editors show only the beginning of a longer one.
	maxText = 2000
	// maxRule is the most characters of a rule that an option names.
	maxRule = 200
)

// nobody means that the editor cannot be asked. The request waits for golem approve.
var nobody = approval.Reply{Answer: tool.Answer{By: "nobody", Note: "the editor cannot be asked", Unattended: true}}

// declined means that the editor gave no valid answer. That is a no.
var declined = approval.Reply{Answer: tool.Answer{By: "nobody", Note: "the editor chose no option that golem offered"}}

// shownBy is where the user answers, for the journal. golem cannot measure what an editor
// displays.
const shownBy = "shown by the editor"

// Ask implements approval.Asker. It asks in the editor, in the session that the editor used
// last. If there is none, or if not everything fits into the question, the request waits for
// golem approve.
func (p *Proxy) Ask(ctx context.Context, r tool.Request) approval.Reply {
	p.mu.Lock()
	session := p.session
	p.mu.Unlock()
	return p.askIn(ctx, session, r)
}

// askIn asks in a session, as Ask does.
func (p *Proxy) askIn(ctx context.Context, session string, r tool.Request) approval.Reply {
	text, items := p.Show(r, maxText)
	if _, err := approval.CheckSeen(r, approval.Reply{Answer: tool.Answer{Verdict: tool.Approved}, Rendered: items}); err != nil {
		return nobody
	}
	if session == "" {
		return nobody
	}
	name := ownPrefix + strings.ToLower(rand.Text())
	id, _ := json.Marshal(name)
	once, always, reject := name+"-once", name+"-always", name+"-reject"
	q := &question{id: string(id), session: session, options: map[string]string{once: allowOnce, reject: rejectOnce}, answer: make(chan string, 1)}
	options := []map[string]string{{"optionId": once, "name": "Allow once", "kind": allowOnce}}
	rule, hasRule := approval.AlwaysRule(r)
	if label := visible.Line(rule.String(), math.MaxInt); hasRule && len(label) <= maxRule {
		q.options[always] = allowAlways
		options = append(options, map[string]string{"optionId": always, "name": "Always: " + label, "kind": allowAlways})
	}
	options = append(options, map[string]string{"optionId": reject, "name": "Reject", "kind": rejectOnce})
	if p.open(q) != "" {
		return nobody
	}
	call := map[string]any{"toolCallId": name, "title": title(r), "kind": "other", "status": "pending", "content": []any{plain(text + "\nAllow once is for exactly this (" + r.Digest[:tool.MinDigestPrefix] + ").")}}
	params := map[string]any{"sessionId": session, "options": options, "toolCall": call}
	if p.version() > 1 {
		params = map[string]any{"sessionId": session, "options": options, "title": call["title"], "subject": map[string]any{"type": "tool_call", "toolCall": call}}
	}
	if p.toEditor(encode(q.id, map[string]any{"method": permission, "params": params})) != nil {
		p.withdraw(q)
		return nobody
	}
	late := time.NewTimer(p.Wait)
	defer late.Stop()
	var chosen string
	select {
	case chosen = <-q.answer:
	case <-ctx.Done():
		p.withdraw(q)
		p.show(session, name, "failed")
		return nobody
	case <-late.C:
		p.withdraw(q)
		p.show(session, name, "failed")
		return nobody
	}
	reply := approval.Reply{Answer: tool.Answer{By: "user", Front: shownBy}, Rendered: items}
	switch chosen {
	case once:
		reply.Verdict = tool.Approved
	case always:
		reply.Verdict, reply.Remember = tool.Approved, &rule
	case reject:
	default:
		reply = declined
	}
	status := "completed"
	if reply.Verdict != tool.Approved {
		status = "failed"
	}
	p.show(session, name, status)
	return reply
}

// withdraw ends a question of golem without an answer. A later answer does not count.
func (p *Proxy) withdraw(q *question) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.fromAgent, q.id)
}

// show tells the editor how a question of golem ended.
func (p *Proxy) show(session, call, status string) {
	p.toEditor(encode("", map[string]any{"method": update, "params": map[string]any{"sessionId": session,
		"update": map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": call, "status": status}}}))
}

// title returns the title of a question: what golem asks about if that is one effect, in
// characters that have no meaning in Markdown.
func title(r tool.Request) string {
	if len(r.ToApprove) == 1 {
		text := r.ToApprove[0].String()
		if !strings.ContainsFunc(text, func(c rune) bool {
			return !strings.ContainsRune(" .:-", c) && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9')
		}) {
			return fmt.Sprintf("golem asks: %s?", text)
		}
	}
	return "golem asks for your approval"
}

// plain returns a text as content that no editor reads as Markdown: in a fence longer than any
// in the text.
func plain(text string) map[string]any {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return map[string]any{"type": "content", "content": map[string]any{"type": "text", "text": fence + "\n" + text + "\n" + fence}}
}
