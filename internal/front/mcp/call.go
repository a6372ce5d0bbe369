package mcp

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/tool"
)

// multiRound is the first version of the protocol in which a server asks nothing by
// itself: it returns a form, and the client makes the call again with the answer.
const multiRound = "2026-07-28"

// A call is one of a client's calls, on its way through the door.
type call struct {
	request *mcp.CallToolRequest // that began it
	cancel  context.CancelFunc
	forms   chan form              // to be filled in, where the client brings answers
	answers chan *mcp.ElicitResult // that it has brought, nil for none
	brought *brought               // what it brings for a call that is not known any more
	done    chan tool.Result
	turn    *turn
	waits   atomic.Pointer[string] // the request that waits for consent
}

type callKey struct{}

// call does what a client asks for. The client is answered when it is done or, where it
// brings the user's answers itself, when there is a question.
func (s *server) call(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if s.options.HTTP != nil {
		s.slots.enter()
		defer s.slots.leave()
	}
	c, err := s.known(ctx, r)
	if err != nil {
		return nil, err
	}
	defer s.progress(ctx, c, r)()
	select {
	case f := <-c.forms:
		return s.park(c, f), nil
	case result := <-c.done:
		return content(result), nil
	case <-ctx.Done():
		c.cancel()
		return content(<-c.done), nil
	}
}

// known returns the call that a client has come back to, or begins one.
func (s *server) known(ctx context.Context, r *mcp.CallToolRequest) (*call, error) {
	b, err := s.bring(r)
	if err != nil {
		return nil, err
	}
	if b != nil {
		if c := s.unpark(b.id); c != nil {
			c.answers <- b.result
			return c, nil
		}
	}
	return s.begin(ctx, r, b), nil
}

// begin begins a call. It ends with the client's request, unless that brings answers:
// then it waits for the next one.
func (s *server) begin(ctx context.Context, r *mcp.CallToolRequest, b *brought) *call {
	c := &call{request: r, brought: b, done: make(chan tool.Result, 1)}
	if elicits(r) && r.ProtocolVersion() >= multiRound {
		c.forms, c.answers = make(chan form), make(chan *mcp.ElicitResult, 1)
		ctx = context.WithoutCancel(ctx)
	}
	ctx, c.cancel = context.WithCancel(context.WithValue(tool.WithMedia(ctx), callKey{}, c))
	stop := context.AfterFunc(s.ctx, c.cancel)
	args := r.Params.Arguments
	if len(args) == 0 { // there may be none
		args = json.RawMessage("{}")
	}
	s.ending.Go(func() {
		defer c.cancel()
		defer stop()
		do := tool.Call{Tool: r.Params.Name, Args: args}
		c.turn = s.turn(ctx, do)
		c.turn.enter(ctx)
		defer c.turn.leave()
		c.done <- s.door.Do(ctx, policy.Peer, do)
	})
	return c
}

// elicits reports whether a client can show a form.
func elicits(r *mcp.CallToolRequest) bool {
	can := r.ClientCapabilities()
	return can != nil && can.Elicitation != nil && (can.Elicitation.Form != nil || can.Elicitation.URL == nil)
}

// content returns a result as the protocol writes it: its text once.
func content(r tool.Result) *mcp.CallToolResult {
	result := &mcp.CallToolResult{IsError: r.Err != nil, Content: []mcp.Content{&mcp.TextContent{Text: r.String()}}}
	for _, m := range r.Media {
		if strings.HasPrefix(m.Type, "image/") {
			result.Content = append(result.Content, &mcp.ImageContent{MIMEType: m.Type, Data: m.Data})
			continue
		}
		result.Content = append(result.Content, &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: fileURI(m.Path), MIMEType: m.Type, Blob: m.Data}})
	}
	return result
}

// beat is how often a client that wants to know is told that a call is under way.
const beat = time.Second

// progress tells the client that a call goes on, until what it returns is called.
func (s *server) progress(ctx context.Context, c *call, r *mcp.CallToolRequest) (stop func()) {
	token := r.Params.GetProgressToken()
	if token == nil {
		return func() {}
	}
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(beat)
		defer tick.Stop()
		for n := 1.0; ; n++ {
			select {
			case <-ended:
				return
			case <-tick.C:
			}
			message := r.Params.Name + " is under way"
			if id := c.waits.Load(); id != nil {
				message = r.Params.Name + " waits for the user's consent; golem approve " + *id + " gives it"
			}
			if r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: n, Message: message}) != nil {
				return
			}
		}
	}()
	return func() {
		close(ended)
		<-stopped
	}
}
