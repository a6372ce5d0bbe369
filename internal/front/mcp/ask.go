package mcp

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/tool"
)

const (
	// maxAlone limits how long a call waits for golem approve if the client has no forms.
	// Clients stop waiting for a call after a minute.
	maxAlone = 45 * time.Second
	// glance is the interval between checks for an answer from elsewhere.
	glance = 100 * time.Millisecond
	// maxFormText is how many bytes the message of a form has at most. Clients show only the
	// beginning of a longer one, some of them 2,000 characters.
	maxFormText = 2000
	// maxAsked limits how many calls wait for a person at a time. Each of them keeps its
	// resources while it waits.
	maxAsked = maxCalls
)

// The field names and the answers of a form.
const (
	question = "answer"
	digest   = "digest" // only if the form does not show everything
	yes      = "yes"
	no       = "no"
)

// A form asks for approval of one request.
type form struct {
	id     string
	params *mcp.ElicitParams
	items  []string // the items of the request that the form shows
	unseen bool     // the form does not show all items; to approve, the user types the digest
}

// newForm returns the form for a request. If the form cannot show the whole request, it
// says so and asks for the digest, as a terminal does.
func (s *server) newForm(r tool.Request, id string) form {
	ending := "\nYour answer is for exactly this call (" + r.Digest[:tool.MinDigestPrefix] + "), once. golem approve " + id + " answers it in a terminal."
	hint := "\nnot all is shown; golem approvals show " + id + " shows it\n"
	text, items := s.options.Show(r, maxFormText-len(ending)-len(hint))
	if len(text)+len(ending)+len(hint) > maxFormText {
		items = nil // the client may cut it anywhere
	}
	f := form{id: id, items: items}
	fields := map[string]any{question: map[string]any{
		"type": "string", "title": "Do it?", "description": "yes does exactly this, once", "enum": []string{no, yes},
	}}
	_, err := approval.CheckSeen(r, approval.Reply{Answer: tool.Answer{Verdict: tool.Approved}, Rendered: items})
	if f.unseen = err != nil; f.unseen {
		text += hint
		if named := r.UnseenDigest(); named != "" {
			fields[digest] = map[string]any{"type": "string", "title": "Digest",
				"description": "to approve what is not shown, type " + named + "; golem ignores a yes without it"}
		} else { // a policy forbids it
			fields[question].(map[string]any)["enum"] = []string{no}
			fields[question].(map[string]any)["description"] = "no declines it; to approve it, run golem approve " + id + " at a terminal and look at it"
		}
	}
	f.params = &mcp.ElicitParams{
		Mode:            "form",
		Message:         text + ending,
		RequestedSchema: map[string]any{"type": "object", "properties": fields, "required": []string{question}},
	}
	return f
}

// reply returns the answer in a form. Only an explicit yes or no is an answer, and
// declining the form means no. If the user cancels the form or fills in something else,
// there is no answer. The request then stays pending for golem approve.
func (f form) reply(r *mcp.ElicitResult) approval.Reply {
	if r == nil {
		return nobody
	}
	said := approval.Reply{Answer: tool.Answer{By: "user in the client", Front: "a form of the MCP client"}, Rendered: f.items}
	answer, named := r.Content[question], r.Content[digest]
	most := 1
	if f.unseen && named != nil {
		most = 2
		text, ok := named.(string)
		if said.DigestPrefix = strings.TrimSpace(text); !ok {
			return left
		}
	}
	switch {
	case r.Action == "decline":
		return said
	case r.Action != "accept" || len(r.Content) != most || answer != yes && answer != no:
		return left
	}
	if answer == yes {
		said.Verdict = tool.Approved
	}
	return said
}

// nobody means that there is no answer.
var nobody = approval.Reply{Answer: tool.Answer{By: "nobody", Unattended: true}}

// left means that somebody closed the form without an answer. It is useless to wait for
// another answer.
var left = approval.Reply{Answer: tool.Answer{By: "nobody", Note: "the form was closed without an answer", Unattended: true}}

// AskWhilePending implements approval.PendingAsker. It asks in the client that made the
// call, if the client has forms. It waits for an answer there or elsewhere. If too many
// calls wait already, it returns at once and the client learns that the call is pending.
// This happens if a client repeats one call over and over.
func (s *server) AskWhilePending(ctx context.Context, r tool.Request, id string, answered func() bool) approval.Reply {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return nobody
	}
	defer s.asked.Add(-1)
	if s.asked.Add(1) > maxAsked {
		return nobody
	}
	weight := weigh(len(c.request.Params.Arguments))
	defer s.kept.Add(-int64(weight))
	if s.kept.Add(int64(weight)) > maxHeld && weight > 0 {
		return nobody
	}
	c.waits.Store(&id)
	defer c.waits.Store(nil)
	c.turn.leave() // a call that waits for a person must not block other calls
	defer c.turn.enter(ctx)
	f := s.newForm(r, id)
	wait, cancel := context.WithTimeout(ctx, s.options.Wait)
	defer cancel()
	if c.forms != nil {
		return s.askThere(wait, c, f)
	}
	s.slots.leave(weight)
	defer s.slots.enter(weight, s.ctx.Done())
	if canElicit(c.request) && c.request.ProtocolVersion() < multiRound {
		said, asked := make(chan approval.Reply, 1), make(chan struct{})
		go func() {
			defer close(asked)
			said <- f.elicit(wait, c.request.Session)
		}()
		defer func() { // an answer from elsewhere withdraws the question
			cancel()
			<-asked
		}()
		return await(wait, said, answered)
	}
	wait, end := context.WithTimeout(wait, maxAlone)
	defer end()
	return await(wait, nil, answered)
}

// askThere gives a form to the client and waits until the client returns it. An answer
// from elsewhere counts only then. Before that, no request is open to carry the result to
// the client.
func (s *server) askThere(ctx context.Context, c *call, f form) approval.Reply {
	if b := c.brought; b != nil && b.id == f.id {
		c.brought = nil
		return f.reply(b.result)
	}
	select {
	case c.forms <- f:
	case <-ctx.Done():
		return nobody
	}
	select {
	case r := <-c.answers:
		return f.reply(r)
	case <-ctx.Done():
		s.removeParked(f.id, c)
		return nobody
	}
}

// undelivered is the library's error code for a message that did not reach a client.
const undelivered = -32005

// elicit asks the client. If the client has no forms or is gone, or if ctx ends, it
// returns nobody. After any other error the form counts as closed without an answer.
func (f form) elicit(ctx context.Context, session *mcp.ServerSession) approval.Reply {
	r, err := session.Elicit(ctx, f.params)
	var refused *jsonrpc.Error
	switch {
	case err == nil:
		return f.reply(r)
	case ctx.Err() != nil, errors.Is(err, mcp.ErrConnectionClosed),
		errors.As(err, &refused) && (refused.Code == jsonrpc.CodeMethodNotFound || refused.Code == undelivered):
		return nobody
	}
	return left
}

// await waits for an answer from said or from elsewhere. A nil said means that only
// elsewhere can answer. If the client turns out not to have forms, await still waits for
// an answer from elsewhere.
func await(ctx context.Context, said <-chan approval.Reply, answered func() bool) approval.Reply {
	tick := time.NewTicker(glance)
	defer tick.Stop()
	for {
		select {
		case r := <-said:
			if !r.Unattended || r.Note != "" {
				return r
			}
		case <-tick.C:
			if answered() {
				return nobody
			}
		case <-ctx.Done():
			return nobody
		}
	}
}

// canElicit reports whether a client can show a form.
func canElicit(r *mcp.CallToolRequest) bool {
	can := r.ClientCapabilities()
	return can != nil && can.Elicitation != nil && (can.Elicitation.Form != nil || can.Elicitation.URL == nil)
}
