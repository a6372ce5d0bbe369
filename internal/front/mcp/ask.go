package mcp

import (
	"context"
	"errors"
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
	yes      = "yes"
	no       = "no"
)

// A form asks about one request.
type form struct {
	id     string
	params *mcp.ElicitParams
	yes    string   // the one answer that is a yes
	items  []string // what it shows
	named  string   // what of the digest a yes names, "" for nothing
}

// newForm returns the form for a request. Where not all of it can be shown, who says yes
// says so, as at a terminal.
func (s *server) newForm(r tool.Request, id string) form {
	text, items := s.options.Show(r)
	f := form{id: id, yes: yes, items: items}
	if _, err := approval.Covers(r, approval.Reply{Answer: tool.Answer{Verdict: tool.Yes}, Rendered: items}); err != nil {
		f.named = r.Digest[:approval.MinNamed]
		f.yes = "yes, unseen: " + f.named
		text += "\nnot all is shown; golem approvals show " + id + " shows it\n"
	}
	f.params = &mcp.ElicitParams{
		Mode:    "form",
		Message: text + "\nYour answer is for exactly this call (" + r.Digest[:8] + "), once. golem approve " + id + " answers it in a terminal.",
		RequestedSchema: map[string]any{
			"type": "object",
			"properties": map[string]any{question: map[string]any{
				"type": "string", "title": "Do it?", "description": "anything but " + f.yes + " is no", "enum": []string{no, f.yes},
			}},
			"required": []string{question},
		},
	}
	return f
}

// reply returns what somebody has said in a form. Anything but the one yes is no;
// nil is nothing.
func (f form) reply(r *mcp.ElicitResult) approval.Reply {
	if r == nil {
		return nobody
	}
	a := tool.Answer{By: "user in the client"}
	if r.Action == "accept" && len(r.Content) == 1 && r.Content[question] == f.yes {
		a.Verdict = tool.Yes
	}
	return approval.Reply{Answer: a, Rendered: f.items, Named: f.named}
}

// nobody is that there is no answer.
var nobody = approval.Reply{Answer: tool.Answer{By: "nobody", Nobody: true}}

// AskBeside implements approval.Beside. It asks in the client of the call, where that has
// forms, and waits for an answer there or elsewhere. Where too many wait already, as when
// a client makes one call over and over, the client is told at once that it is pending.
func (s *server) AskBeside(ctx context.Context, r tool.Request, id string, answered func() bool) approval.Reply {
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

// elicit asks the client. One that has no forms after all, or has gone, has said nothing;
// one that answers with something else than was asked for has said no.
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
	return f.reply(&mcp.ElicitResult{Action: "decline"})
}

// await waits for what is said here, nil for nowhere, or elsewhere. Where the client cannot
// ask after all, somebody may still answer elsewhere.
func await(ctx context.Context, said <-chan approval.Reply, answered func() bool) approval.Reply {
	tick := time.NewTicker(glance)
	defer tick.Stop()
	for {
		select {
		case r := <-said:
			if !r.Nobody {
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
