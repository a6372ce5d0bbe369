package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/sandbox"
)

// multiRound is the first version of the protocol in which a server asks nothing by
// itself: it returns a form, and the client makes the call again with the answer.
const multiRound = "2026-07-28"

// newestAsked is the last version in which a server asks.
const newestAsked = "2025-11-25"

// A call is one of a client's calls, on its way through the door.
type call struct {
	request *mcp.CallToolRequest   // that began it
	turn    *turn                  // nil until it is taken through the door, where none was given
	waits   atomic.Pointer[string] // the request that waits for consent

	// Where the client brings answers:
	forms   chan form              // to be filled in
	answers chan *mcp.ElicitResult // that it has brought, nil for none
	brought *brought               // what it brings for a call that is not known any more
	done    chan tool.Result
	cancel  context.CancelFunc
}

type callKey struct{}

// call does what a client asks for. The client is answered when it is done or, where it
// brings the user's answers itself, when there is a question.
func (s *server) call(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if elicits(r) && r.ProtocolVersion() >= multiRound {
		return s.callAgain(ctx, r)
	}
	return s.callOnce(ctx, r)
}

// callOnce does what a client asks for, and answers when it is done.
func (s *server) callOnce(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	c := &call{request: r}
	defer s.progress(ctx, c, r)()
	ctx, cancel := s.within(ctx, r.Session.ID())
	defer cancel()
	free, refused := s.limit(ctx, r.Params)
	if refused != nil {
		return content(tool.Result{Err: refused}), nil
	}
	defer free()
	c.turn = claim(r)
	return content(s.do(ctx, c)), nil
}

// callDirect does what a client asks for in a direct call, and returns when it is done.
func (s *server) callDirect(ctx context.Context, r *mcp.CallToolRequest, t *turn) *mcp.CallToolResult {
	return content(s.do(ctx, &call{request: r, turn: t}))
}

// aCall is how many bytes a call takes at least that waits for a slot.
const aCall = 64 << 10

// limit waits for a slot, where the connection does not, and returns what frees it. Who
// waits may have gone, so there are only so many.
func (s *server) limit(ctx context.Context, p *mcp.CallToolParamsRaw) (free func(), refused *sandbox.Error) {
	if s.options.HTTP == nil {
		return func() {}, nil
	}
	select {
	case <-s.slots.free:
		return s.slots.leave, nil
	default:
	}
	size := int64(len(p.Arguments) + aCall)
	defer s.held.Add(-size)
	if s.held.Add(size) > maxHeld {
		return nil, &sandbox.Error{Op: p.Name, Code: sandbox.ErrLimit, Hint: "too many calls wait for others to end; nothing was done, make it again later"}
	}
	select {
	case <-s.slots.free:
		return s.slots.leave, nil
	case <-ctx.Done():
		return nil, neverBegun(p.Name)
	}
}

// neverBegun is the error of a call that was ended while it waited for others.
func neverBegun(tool string) *sandbox.Error {
	return &sandbox.Error{Op: tool, Code: "stopped", Hint: "it was ended before it began; nothing was done"}
}

// callAgain begins a call or, where the client comes back with an answer, continues with it.
// It waits for the next one when the client's request has ended.
func (s *server) callAgain(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if _, err := s.key(); err != nil {
		fmt.Fprintln(s.options.Errs, "golem: "+err.Error())
		return nil, errors.New("what a client carries between two requests cannot be signed; the user's terminal says why")
	}
	b, err := s.bring(r)
	if err != nil {
		return nil, err
	}
	free, refused := s.limit(ctx, r.Params)
	if refused != nil {
		return content(tool.Result{Err: refused}), nil
	}
	defer free()
	var c *call
	if b != nil {
		c = s.unpark(b.id)
	}
	if t := claim(r); c != nil {
		if t != nil { // the call has one of its own
			t.leave()
		}
		c.answers <- b.result
	} else {
		c = &call{request: r, turn: t, brought: b, forms: make(chan form), answers: make(chan *mcp.ElicitResult, 1), done: make(chan tool.Result, 1)}
		var lasting context.Context
		lasting, c.cancel = s.within(context.WithoutCancel(ctx), "")
		go func() {
			defer c.cancel()
			c.done <- s.do(lasting, c)
		}()
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

// do takes a call through the door, until it is done or ctx ends.
func (s *server) do(ctx context.Context, c *call) tool.Result {
	do := tool.Call{Tool: c.request.Params.Name, Args: c.request.Params.Arguments}
	if len(do.Args) == 0 { // there may be none
		do.Args = []byte("{}")
	}
	if c.turn == nil {
		c.turn = s.turn(do)
	}
	defer c.turn.leave()
	if !s.enter() {
		return tool.Result{Err: &sandbox.Error{Op: do.Tool, Code: "timeout", Hint: "the server ends; nothing was done"}}
	}
	defer s.ending.Done()
	defer s.tidy.Reset(quiet)
	ctx = context.WithValue(tool.WithMedia(ctx), callKey{}, c)
	if c.turn.enter(ctx); ctx.Err() != nil {
		return tool.Result{Err: neverBegun(do.Tool)}
	}
	return s.door.Do(ctx, policy.Peer, do)
}

// An under is a call that is under way, or waits for that.
type under struct {
	session string // "" where there is only one, or none
	cancel  context.CancelFunc
}

// within returns a context that ends when the server does, too, or the session.
func (s *server) within(ctx context.Context, session string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	u := &under{session, cancel}
	s.under.Store(u, nil)
	return ctx, func() {
		stop()
		cancel()
		s.under.Delete(u)
	}
}

// enter reports whether a call may begin: when the server ends, none does, and the door
// stays open until the last has left.
func (s *server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.ending.Add(1)
	return true
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

// progress tells the client that a call continues, until what it returns is called.
func (s *server) progress(ctx context.Context, c *call, r *mcp.CallToolRequest) (stop func()) {
	token := r.Params.GetProgressToken()
	if text, ok := token.(string); token == nil || ok && len(text) > maxName { // each notice has it
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
				message = r.Params.Name + " waits for the user's approval; golem approve " + *id + " approves it"
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
