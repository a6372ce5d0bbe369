package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/sandbox"
)

// multiRound is the first version of the protocol in which a server does not send
// questions. The server returns a form instead, and the client repeats the call with the
// answer.
const multiRound = "2026-07-28"

// newestAsked is the last version in which a server sends questions.
const newestAsked = "2025-11-25"

// A call is a call of a client on its way through the gate.
type call struct {
	request *mcp.CallToolRequest   // the request that started the call
	turn    *turn                  // nil until do sets it, if the request carried none
	waits   atomic.Pointer[string] // the id of the request that waits for approval

	// Set only if the client repeats the call with answers:
	forms   chan form              // forms for the client to fill in
	answers chan *mcp.ElicitResult // answers from the client, nil for none
	brought *returnedAnswer        // the answer for a call that is no longer parked
	done    chan tool.Result
	cancel  context.CancelFunc
}

type callKey struct{}

// call runs a call of a client. It returns when the call is done. If the client repeats
// calls with answers, it also returns when there is a question.
func (s *server) call(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if canElicit(r) && r.ProtocolVersion() >= multiRound {
		return s.callAgain(ctx, r)
	}
	return s.callOnce(ctx, r)
}

// callOnce runs a call of a client and returns when the call is done.
func (s *server) callOnce(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	c := &call{request: r}
	defer s.sendProgress(ctx, c, r)()
	ctx, cancel := s.joinContext(ctx, r.Session.ID())
	defer cancel()
	free, refused := s.limit(ctx, r.Params)
	if refused != nil {
		return encodeResult(tool.Result{Err: refused}), nil
	}
	defer free()
	c.turn = claim(r)
	return encodeResult(s.do(ctx, c)), nil
}

// callDirect runs a direct call of a client and returns when the call is done.
func (s *server) callDirect(ctx context.Context, r *mcp.CallToolRequest, t *turn) *mcp.CallToolResult {
	return encodeResult(s.do(ctx, &call{request: r, turn: t}))
}

// aCall is the least number of bytes that limit counts for a call that waits for a slot.
const aCall = 64 << 10

// limit waits for a slot and returns a function that frees it. On streams the connection
// takes the slot, and limit does nothing. The number of waiting calls is limited, because
// their clients may be gone.
func (s *server) limit(ctx context.Context, p *mcp.CallToolParamsRaw) (free func(), refused *sandbox.Error) {
	if s.options.HTTP == nil {
		return func() {}, nil
	}
	weight := weigh(len(p.Arguments))
	leave := func() { s.slots.leave(weight) }
	if s.slots.tryEnter(weight) {
		return leave, nil
	}
	size := int64(len(p.Arguments) + aCall)
	defer s.held.Add(-size)
	if s.held.Add(size) > maxHeld {
		return nil, &sandbox.Error{Op: p.Name, Code: sandbox.ErrLimit, Hint: "too many calls wait for others to end; nothing was done, make it again later"}
	}
	t := s.slots.ask(weight)
	select {
	case <-t.ready:
		return leave, nil
	case <-ctx.Done():
		s.slots.giveUp(t)
		return nil, canceledError(p.Name)
	}
}

// canceledError returns the error of a call that was canceled while it waited for others.
func canceledError(tool string) *sandbox.Error {
	return &sandbox.Error{Op: tool, Code: "stopped", Hint: "it was ended before it began; nothing was done"}
}

// callAgain starts a call. If the client returns with an answer, callAgain continues the
// parked call with it. The call outlives the client's request if it waits for an answer.
func (s *server) callAgain(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if _, err := s.key(); err != nil {
		fmt.Fprintln(s.options.Errs, "golem: "+err.Error())
		return nil, errors.New("what a client carries between two requests cannot be signed; the user's terminal says why")
	}
	b, err := s.parseAnswer(r)
	if err != nil {
		return nil, err
	}
	free, refused := s.limit(ctx, r.Params)
	if refused != nil {
		return encodeResult(tool.Result{Err: refused}), nil
	}
	defer free()
	var c *call
	if b != nil {
		c = s.unpark(b.id)
	}
	if t := claim(r); c != nil {
		if t != nil { // the parked call has its own turn
			t.leave()
		}
		c.answers <- b.result
	} else {
		c = &call{request: r, turn: t, brought: b, forms: make(chan form), answers: make(chan *mcp.ElicitResult, 1), done: make(chan tool.Result, 1)}
		var lasting context.Context
		lasting, c.cancel = s.joinContext(context.WithoutCancel(ctx), "")
		go func() {
			defer c.cancel()
			c.done <- s.do(lasting, c)
		}()
	}
	defer s.sendProgress(ctx, c, r)()
	select {
	case f := <-c.forms:
		return s.park(c, f), nil
	case result := <-c.done:
		return encodeResult(result), nil
	case <-ctx.Done():
		c.cancel()
		return encodeResult(<-c.done), nil
	}
}

// do passes a call through the gate. It returns when the call is done or ctx ends.
func (s *server) do(ctx context.Context, c *call) tool.Result {
	do := tool.Call{Tool: c.request.Params.Name, Args: c.request.Params.Arguments}
	if len(do.Args) == 0 { // arguments are optional
		do.Args = []byte("{}")
	}
	if c.turn == nil {
		c.turn = s.newTurn(do)
	}
	defer c.turn.leave()
	if !s.enter() {
		return tool.Result{Err: &sandbox.Error{Op: do.Tool, Code: "timeout", Hint: "the server ends; nothing was done"}}
	}
	defer s.ending.Done()
	defer s.tidy.Reset(quiet)
	ctx = context.WithValue(tool.WithMedia(ctx, tool.AllMedia), callKey{}, c)
	if c.turn.enter(ctx); ctx.Err() != nil {
		return tool.Result{Err: canceledError(do.Tool)}
	}
	r := s.gate.Do(ctx, policy.Peer, do)
	s.follow(do.Tool, r)
	return r
}

// An under is a call that runs or waits to run.
type under struct {
	session string // "" if there is only one session or none
	cancel  context.CancelFunc
}

// joinContext returns a context that also ends when the server or the session ends.
func (s *server) joinContext(ctx context.Context, session string) (context.Context, context.CancelFunc) {
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

// enter reports whether a call may start. No call starts after the server begins to end.
// The gate stays open until the last call has returned.
func (s *server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.ending.Add(1)
	return true
}

// encodeResult returns a result in the form of the protocol, with its text once.
func encodeResult(r tool.Result) *mcp.CallToolResult {
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

// beat is the interval of progress notifications.
const beat = time.Second

// sendProgress sends progress notifications for a call to the client. It sends them until
// stop is called.
func (s *server) sendProgress(ctx context.Context, c *call, r *mcp.CallToolRequest) (stop func()) {
	token := r.Params.GetProgressToken()
	if text, ok := token.(string); token == nil || ok && len(text) > maxName { // each notification repeats the token
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
