package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/run"
)

const (
	// maxThreads is the most sessions that an editor has open.
	maxThreads = 20
	// maxPrompt is the most bytes of text in a prompt.
	maxPrompt = 1 << 20
	// glance is the time between checks for an answer from elsewhere.
	glance = 100 * time.Millisecond
)

// An agent runs the workers of a program for an editor. The messages of the editor pass the
// same checks as those for a foreign agent.
type agent struct {
	*Proxy
	program.AgentOptions
	ctx  context.Context
	work sync.WaitGroup // requests that are under way

	listing sync.Mutex
	over    bool               // no request begins any more
	threads map[string]*thread // the open sessions of the editor, by id
}

// A thread is an open session of the editor. A turn is a prompt, or another request that uses
// the run.
type thread struct {
	*agent
	id string

	state  sync.Mutex
	cancel context.CancelFunc // ends the turn, nil without one
	ended  chan struct{}      // closed at the end of the turn

	// The turn uses these.
	run      *program.AgentRun // nil until the next prompt opens it again
	messages int               // number of messages so far
	streamed bool              // the editor has pieces of the message
	edits    map[string]bool   // the calls whose diff the editor has
}

// Serve implements program.Proxy.
func (p *Proxy) Serve(ctx context.Context, o program.AgentOptions) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	a := &agent{Proxy: p, AgentOptions: o, ctx: ctx, threads: make(map[string]*thread)}
	p.agent, p.own = a, true
	go func() { // nothing can interrupt a read of stdin; the goroutine ends when that read returns
		defer end()
		p.readEditor()
	}()
	<-ctx.Done()
	p.close()
	a.listing.Lock()
	a.over = true
	a.listing.Unlock()
	a.work.Wait()
	for _, t := range a.threads {
		t.closeRun()
	}
}

// An ask is what the agent reads of the parameters of a request.
type ask struct {
	Session string          `json:"sessionId"`
	Prompt  json.RawMessage `json:"prompt"`
	Replay  *struct {
		Type string `json:"type"`
	} `json:"replayFrom"`
}

// Write takes a message of the editor. It implements io.Writer.
func (a *agent) Write(line []byte) (int, error) {
	m, err := parse(line)
	if err != nil {
		return 0, err
	}
	var q ask
	if m.params() != nil {
		err = json.Unmarshal(m.params(), &q)
	}
	if m.method == cancel && err == nil {
		if t := a.find(q.Session); t != nil {
			t.stop()
		}
	}
	if m.id == "" {
		return len(line), nil
	}
	a.listing.Lock()
	defer a.listing.Unlock()
	if a.over {
		return 0, context.Canceled
	}
	handle := func() (any, func(), error) { return nil, nil, invalid("golem: " + m.method + ": wrong parameters") }
	if err == nil {
		handle = a.handler(m.method, q)
	}
	a.work.Go(func() {
		result, after, err := handle()
		answer := encode(m.id, map[string]any{"result": result})
		if wrong := invalid(""); errors.As(err, &wrong) {
			answer = refuse(m.id, codeParams, visible.Text(err.Error()))
		} else if err != nil {
			answer = refuse(m.id, codeEnded, visible.Text(err.Error()))
		}
		a.ofAgent(answer)
		if after != nil {
			after()
		}
	})
	return len(line), nil
}

// An invalid is the error for a request that the editor must not make.
type invalid string

func (e invalid) Error() string { return string(e) }

// empty is a result without fields.
var empty = map[string]any{}

// handler returns what a request does. That returns the result, and what to do after the answer.
// A turn begins before handler returns, so that a later request can cancel it. The caller holds
// a.listing.
func (a *agent) handler(method string, q ask) func() (result any, after func(), err error) {
	simple := func(do func() (any, error)) func() (any, func(), error) {
		return func() (any, func(), error) {
			result, err := do()
			return result, nil, err
		}
	}
	switch method {
	case initialize:
		return simple(func() (any, error) { return a.hello(), nil })
	case "session/new":
		return simple(a.begin)
	case "session/list":
		return simple(a.list)
	case "session/load", "session/resume":
		return simple(func() (any, error) {
			replay := method == "session/load"
			if a.version() > 1 && q.Replay != nil {
				if replay = q.Replay.Type == "start"; !replay {
					return nil, invalid("golem: a conversation is replayed from its start; send replayFrom with the type start")
				}
			}
			return empty, a.load(q.Session, replay)
		})
	}
	t := a.threads[q.Session]
	fail := func(err error) func() (any, func(), error) {
		return func() (any, func(), error) { return nil, nil, err }
	}
	switch {
	case method != prompt && method != closeSession:
		return fail(invalid("golem: no method " + visible.Line(method, maxShown)))
	case t == nil:
		return fail(invalid("golem: this connection has no such session; session/load or session/resume opens it"))
	case method == closeSession:
		delete(a.threads, t.id)
		return simple(func() (any, error) {
			for {
				<-t.stop()
				if _, end, err := t.begin(); err == nil {
					defer end()
					return empty, t.closeRun()
				}
			}
		})
	}
	var blocks []block
	if err := json.Unmarshal(q.Prompt, &blocks); err != nil || len(blocks) == 0 {
		return fail(invalid("golem: a prompt is a list of content blocks"))
	}
	ctx, end, err := t.begin()
	if err != nil {
		return fail(err)
	}
	if a.version() == 1 {
		return simple(func() (any, error) {
			defer end()
			stop, err := t.turn(ctx, blocks)
			return map[string]any{"stopReason": stop}, err
		})
	}
	return func() (any, func(), error) {
		id := t.nextMessage()
		return map[string]any{"messageId": id}, func() {
			defer end()
			t.update("user_message", map[string]any{"messageId": id, "content": q.Prompt})
			t.update("state_update", map[string]any{"state": "running"})
			stop, err := t.turn(ctx, blocks)
			idle := map[string]any{"state": "idle", "stopReason": stop}
			if err != nil {
				t.say("agent_message_chunk", "golem: "+err.Error())
				idle["stopReason"], idle["error"] = "error", failure{codeEnded, visible.Text(err.Error())}
			}
			t.update("state_update", idle)
		}, nil
	}
}

// hello returns the answer to initialize, in the version that the editor and golem speak.
func (a *agent) hello() any {
	info := map[string]any{"name": "golem", "title": "Golem Forge", "version": a.Version}
	a.mu.Lock()
	version := a.offered
	a.mu.Unlock()
	if version == 1 {
		return map[string]any{"protocolVersion": 1, "agentInfo": info, "authMethods": []any{}, "agentCapabilities": map[string]any{"loadSession": true,
			"promptCapabilities":  map[string]any{"image": true, "audio": false, "embeddedContext": true},
			"sessionCapabilities": map[string]any{"list": empty, "resume": empty, "close": empty}}}
	}
	return map[string]any{"protocolVersion": version, "info": info, "authMethods": []any{},
		"capabilities": map[string]any{"session": map[string]any{"prompt": map[string]any{"image": empty, "embeddedContext": empty}}}}
}

// list returns the sessions that the editor can open.
func (a *agent) list() (any, error) {
	list, err := a.List()
	sessions := []any{}
	for _, s := range list {
		sessions = append(sessions, map[string]any{"sessionId": s.ID, "cwd": a.Dir, "title": visible.Line(s.Title, maxShown), "updatedAt": s.Used.UTC().Format(time.RFC3339)})
	}
	return map[string]any{"sessions": sessions}, err
}

// begin opens a new session.
func (a *agent) begin() (any, error) {
	t := &thread{agent: a}
	if err := t.open(""); err != nil {
		return nil, err
	}
	if err := a.add(t); err != nil {
		return nil, errors.Join(err, t.closeRun())
	}
	return map[string]any{"sessionId": t.id}, nil
}

// load opens an earlier session. With replay, the editor gets its conversation.
func (a *agent) load(session string, replay bool) error {
	if session == "" {
		return invalid("golem: sessionId is missing")
	}
	t := a.find(session)
	if t == nil {
		t = &thread{agent: a, id: session}
		if err := a.add(t); err != nil {
			return err
		}
	}
	_, end, err := t.begin()
	if err != nil {
		return err
	}
	defer end()
	if a.find(session) != t {
		return invalid("golem: this session was closed")
	}
	if err = t.closeRun(); err == nil {
		err = t.open(session)
	}
	if err != nil {
		a.listing.Lock()
		delete(a.threads, session)
		a.listing.Unlock()
		return err
	}
	if replay {
		t.replay()
	}
	if a.version() > 1 {
		t.update("state_update", map[string]any{"state": "idle"})
	}
	return nil
}

func (a *agent) find(session string) *thread {
	a.listing.Lock()
	defer a.listing.Unlock()
	return a.threads[session]
}

func (a *agent) add(t *thread) error {
	a.listing.Lock()
	defer a.listing.Unlock()
	switch {
	case a.threads[t.id] != nil:
		return invalid("golem: this session is open")
	case len(a.threads) >= maxThreads:
		return invalid(fmt.Sprintf("golem: %d sessions are open; close one with session/close", maxThreads))
	}
	a.threads[t.id] = t
	return nil
}

// open opens a run: a new one for "", or that of a session.
func (t *thread) open(session string) error {
	r, err := t.Open(session, t, t.tell)
	if err != nil {
		return err
	}
	t.run, t.id = r, r.ID
	return nil
}

// closeRun closes the run until the next prompt.
func (t *thread) closeRun() error {
	r := t.run
	if t.run = nil; r == nil {
		return nil
	}
	return r.Close()
}

// begin begins a turn.
func (t *thread) begin() (ctx context.Context, end func(), err error) {
	t.state.Lock()
	defer t.state.Unlock()
	if t.cancel != nil {
		return nil, nil, invalid("golem: this session works; wait for its end, or cancel it")
	}
	ctx, t.cancel = context.WithCancel(t.ctx)
	ended := make(chan struct{})
	t.ended = ended
	return ctx, func() {
		t.state.Lock()
		defer t.state.Unlock()
		t.cancel()
		t.cancel = nil
		close(ended)
	}, nil
}

// stop cancels the turn, if there is one. The returned channel is closed at its end.
func (t *thread) stop() <-chan struct{} {
	t.state.Lock()
	defer t.state.Unlock()
	if t.cancel == nil {
		ended := make(chan struct{})
		close(ended)
		return ended
	}
	t.cancel()
	return t.ended
}

// turn lets the worker work on a prompt, and returns why it stopped. If the run did not finish,
// the next prompt continues it from its log.
func (t *thread) turn(ctx context.Context, blocks []block) (stop string, err error) {
	if t.run == nil {
		if err := t.open(t.id); err != nil {
			return "", err
		}
	}
	in, err := t.input(blocks)
	if err != nil {
		return "", err
	}
	t.messages, t.streamed, t.edits = t.messages+1, false, make(map[string]bool)
	o, err := t.run.Do(ctx, in)
	if err != nil || o.End != run.Finished && o.End != run.Declined {
		err = errors.Join(err, t.closeRun())
	}
	if err != nil {
		return "", err
	}
	stop = "end_turn"
	switch {
	case ctx.Err() != nil:
		return "cancelled", nil
	case o.End == run.Paused:
		t.say("agent_message_chunk", "\n\ngolem: a call waits for your approval. Run `golem approve "+strings.Join(o.Pending, " ")+"` in a terminal, then send a message to continue.")
		return stop, nil
	case o.End == run.Spent, o.End == run.Looping:
		stop = "max_turn_requests"
	}
	if o.Why != "" {
		t.say("agent_message_chunk", "\n\ngolem: "+o.Why)
	}
	return stop, nil
}

// A block is a part of a prompt.
type block struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     []byte `json:"data"`
	URI      string `json:"uri"`
	Resource struct {
		URI  string `json:"uri"`
		Text string `json:"text"`
		Blob []byte `json:"blob"`
	} `json:"resource"`
}

// input returns a prompt as the input of the worker. Files of the worker have the names that
// the worker knows.
func (t *thread) input(blocks []block) (in run.Input, err error) {
	var text strings.Builder
	add := func(kind, uri string, data []byte) {
		var f model.File
		var name string
		if err == nil {
			name, err = t.handOver(kind, uri)
		}
		if err == nil {
			f, err = t.run.Add(name, data, in.Files)
			in.Files = append(in.Files, f)
		}
	}
	for _, b := range blocks {
		switch b.Type {
		case "text":
			text.WriteString(b.Text)
		case "image":
			add("image", b.URI, b.Data)
		case "resource_link":
			text.WriteString(t.nameOf(b.URI))
		case "resource":
			data := b.Resource.Blob
			if len(data) == 0 {
				data = []byte(b.Resource.Text)
				text.WriteString(" " + t.nameOf(b.Resource.URI) + " ")
			}
			add("resource", b.Resource.URI, data)
		default:
			return in, invalid("golem: a prompt has text, images, links and resources, and no " + visible.Line(b.Type, maxShown))
		}
	}
	if in.Text = text.String(); len(in.Text) > maxPrompt {
		return in, invalid("golem: a prompt has at most " + visible.Amount(maxPrompt) + " of text")
	}
	if err == nil && strings.TrimSpace(in.Text) == "" && len(in.Files) == 0 {
		err = invalid("golem: the prompt is empty")
	}
	return in, err
}

// handOver returns the name of an attached file, of a kind, that has the content of a URI. The
// content of an untrusted file taints the worker.
func (t *thread) handOver(kind, uri string) (string, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme == "file" && !path.IsAbs(u.Path) {
		return "", invalid("golem: " + visible.Line(uri, maxShown) + " names no file")
	}
	if u.Path == "" {
		return kind, nil
	}
	file := filepath.FromSlash(u.Path)
	t.run.MarkTainted([]string{file})
	if u.Scheme != "file" && path.Ext(u.Path) == "" {
		return kind, nil
	}
	if name := t.run.Name(file); name != "" {
		return name, nil
	}
	return "/" + path.Base(u.Path), nil
}

// nameOf returns the worker's name for the file of a URI, and other URIs as they are.
func (t *thread) nameOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" {
		return uri
	}
	if name := t.run.Name(filepath.FromSlash(u.Path)); name != "" {
		return name
	}
	return filepath.Base(u.Path) + " (a file that you cannot read)"
}

// AskWhilePending implements approval.PendingAsker. It asks in the session of the run.
func (t *thread) AskWhilePending(ctx context.Context, r tool.Request, _ string, answered func() bool) approval.Reply {
	ctx, cancel := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		tick := time.NewTicker(glance)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if answered() {
					cancel()
				}
			}
		}
	}()
	if t.version() > 1 {
		t.update("state_update", map[string]any{"state": "requires_action"})
		defer t.update("state_update", map[string]any{"state": "running"})
	}
	reply := t.askIn(ctx, t.id, r)
	cancel()
	<-watched
	return reply
}

// update tells the editor about the session.
func (t *thread) update(kind string, fields map[string]any) {
	fields["sessionUpdate"] = kind
	t.toEditor(encode("", map[string]any{"method": update, "params": map[string]any{"sessionId": t.id, "update": fields}}))
}
