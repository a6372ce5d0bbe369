package mcp

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/golem-forge/golem/internal/approval"
	"github.com/golem-forge/golem/internal/tool"
)

const (
	// maxAlone is how long a call waits for golem approve where the client has no forms:
	// clients give up on a call after a minute.
	maxAlone = 45 * time.Second
	// glance is how often it is looked whether somebody has answered elsewhere.
	glance = 100 * time.Millisecond
	// maxAsked is how many calls wait for a person at a time, each with all that it holds.
	maxAsked = maxCalls
)

// The words of a form.
const (
	question = "answer"
	digest   = "digest" // where not all is shown
	yes      = "yes"
	no       = "no"
)

// A form asks about one request.
type form struct {
	id     string
	params *mcp.ElicitParams
	items  []string // of the request, that it shows
	unseen bool     // there are others: who says yes types the digest
}

// newForm returns the form for a request. Where it cannot show all of it, it says so and
// asks for the digest, as a terminal does.
func (s *server) newForm(r tool.Request, id string) form {
	text, items := s.options.Show(r)
	f := form{id: id, items: items}
	fields := map[string]any{question: map[string]any{
		"type": "string", "title": "Do it?", "description": "yes does exactly this, once", "enum": []string{no, yes},
	}}
	_, err := approval.CheckSeen(r, approval.Reply{Answer: tool.Answer{Verdict: tool.Approved}, Rendered: items})
	if f.unseen = err != nil; f.unseen {
		text += "\nnot all is shown; golem approvals show " + id + " shows it\n"
		fields[digest] = map[string]any{"type": "string", "title": "Digest",
			"description": "to approve what is not shown, type " + r.Digest[:approval.MinDigestPrefix] + "; a yes without it is no answer"}
	}
	f.params = &mcp.ElicitParams{
		Mode:            "form",
		Message:         text + "\nYour answer is for exactly this call (" + r.Digest[:approval.MinDigestPrefix] + "), once. golem approve " + id + " answers it in a terminal.",
		RequestedSchema: map[string]any{"type": "object", "properties": fields, "required": []string{question}},
	}
	return f
}

// reply returns what somebody has said in a form. Only an explicit yes or no is an answer,
// and to decline is a no. Whoever cancels, or fills in something else, has given none: the
// call waits for golem approve.
func (f form) reply(r *mcp.ElicitResult) approval.Reply {
	if r == nil {
		return nobody
	}
	said := approval.Reply{Answer: tool.Answer{By: "user in the client"}, Rendered: f.items}
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

// nobody is that there is no answer.
var nobody = approval.Reply{Answer: tool.Answer{By: "nobody", Unattended: true}}

// left is that somebody has closed the form without an answer. There is no use in waiting
// for another.
var left = approval.Reply{Answer: tool.Answer{By: "nobody", Note: "the form was closed without an answer", Unattended: true}}

// AskWhilePending implements approval.Beside. It asks in the client of the call, where that has
// forms, and waits for an answer there or elsewhere. Where too many wait already, as when
// a client makes one call over and over, the client is told at once that it is pending.
func (s *server) AskWhilePending(ctx context.Context, r tool.Request, id string, answered func() bool) approval.Reply {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return nobody
	}
	defer s.asked.Add(-1)
	if s.asked.Add(1) > maxAsked {
		return nobody
	}
	c.waits.Store(&id)
	defer c.waits.Store(nil)
	c.turn.leave() // who waits for a person is in nobody's way
	defer c.turn.enter(ctx)
	f := s.newForm(r, id)
	wait, cancel := context.WithTimeout(ctx, s.options.Wait)
	defer cancel()
	if c.forms != nil {
		return s.askThere(wait, c, f)
	}
	s.slots.leave()
	defer s.slots.enter()
	if elicits(c.request) && c.request.ProtocolVersion() < multiRound {
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

// askThere hands a form to the client, and waits until it comes back. What was answered
// elsewhere meanwhile counts then, and not before: nobody would be told what came of it.
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
		s.leave(f.id, c)
		return nobody
	}
}

// undelivered is the code of the library's for what did not reach a client.
const undelivered = -32005

// elicit asks the client. One that has no forms after all, or has gone, has said nothing,
// and neither has one that answers with something else than was asked for.
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

// await waits for what is said here, nil for nowhere, or elsewhere. Where the client cannot
// ask after all, somebody may still answer elsewhere.
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
