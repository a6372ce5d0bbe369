package acp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/program"
)

const (
	// maxOpen is the most requests of one side that wait for an answer of the other.
	maxOpen = 1000
	// maxStray is how many lines of the agent that are no messages golem prints.
	maxStray = 20
	// maxShown is the most characters that golem prints of such a line.
	maxShown = 200
	// grace is how long the agent may still run after the editor is gone.
	grace = 3 * time.Second
)

// The methods of the protocol that golem reads.
const (
	initialize   = "initialize"
	prompt       = "session/prompt"
	cancel       = "session/cancel"
	closeSession = "session/close"
	update       = "session/update"
	permission   = "session/request_permission"
)

// newest is the newest version of the protocol that golem speaks. It speaks all before, too.
const newest = 2

// A Proxy passes messages between an editor and an agent. It asks the user in the editor.
type Proxy struct {
	program.ProxyOptions

	writing sync.Mutex // held while a line for the editor is written
	sending sync.Mutex // held while a line for the agent is written
	agent   io.Writer
	own     bool // the agent is golem itself

	mu        sync.Mutex
	fromUser  map[string]request   // requests of the editor without an answer, by id
	fromAgent map[string]*question // requests of the agent and of golem without an answer, by id
	session   string               // the session that the editor used last, "" for none
	offered   int                  // the version in the editor's initialize, 0 before that
	agreed    int                  // the version of the connection, 0 before the agent's answer
	over      bool                 // the editor or the agent is gone
	strays    int
	noted     bool // the user knows about the MCP servers of the editor
}

// A request is a request of the editor.
type request struct{ method, session string }

// A question is a request for permission that waits for the editor.
type question struct {
	id      string
	session string
	options map[string]string // the kind of each option that was offered, by its id
	answer  chan string       // receives the id of the chosen option, "" for none; nil for the agent's own
}

// New returns a proxy for the editor of the options.
func New(o program.ProxyOptions) program.Proxy {
	return &Proxy{ProxyOptions: o, fromUser: make(map[string]request), fromAgent: make(map[string]*question)}
}

// Run implements program.Proxy.
func (p *Proxy) Run(ctx context.Context, agent io.WriteCloser, output io.Reader, end func()) {
	p.agent = agent
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // nothing can interrupt a read of stdin; the goroutine ends when that read returns
		p.readEditor()
		p.close()
		agent.Close()
		select {
		case <-ctx.Done():
		case <-time.After(grace):
			end()
		}
	}()
	if err := p.readAgent(output); err != nil {
		p.Tell("the agent broke the protocol: " + err.Error() + "; golem ended it")
		end()
	}
	io.Copy(io.Discard, output) // so that the agent does not wait for a reader
	p.close()
	p.failPending()
}

// close ends all questions of golem, and lets no new one begin.
func (p *Proxy) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	for id, q := range p.fromAgent {
		p.settle(id, q, "")
	}
}

// failPending answers the requests of the editor that the agent has not answered.
func (p *Proxy) failPending() {
	p.mu.Lock()
	pending := p.fromUser
	p.fromUser = nil
	p.mu.Unlock()
	for id := range pending {
		p.toEditor(refuse(id, codeEnded, "the agent has ended"))
	}
}

func (p *Proxy) toEditor(line []byte) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	_, err := p.Out.Write(append(slices.Clip(line), '\n'))
	return err
}

func (p *Proxy) toAgent(line []byte) error {
	p.sending.Lock()
	defer p.sending.Unlock()
	_, err := p.agent.Write(append(slices.Clip(line), '\n'))
	return err
}

// readEditor passes the messages of the editor on until it is gone.
func (p *Proxy) readEditor() {
	in := bufio.NewReaderSize(p.In, 64<<10)
	for {
		line, err := readLine(in)
		switch {
		case errors.Is(err, errLong):
			err = p.toEditor(refuse("", codeInvalid, err.Error()+"; send less at a time"))
		case err != nil:
			return
		case len(line) > 0:
			err = p.fromEditor(line)
		}
		if err != nil {
			return
		}
	}
}

// fromEditor handles a message of the editor. An error means that the agent or the editor is
// gone.
func (p *Proxy) fromEditor(line []byte) error {
	m, err := parse(line)
	if err != nil {
		return p.toEditor(refuse(m.id, codeParse, "golem: "+err.Error()))
	}
	if m.isAnswer() {
		return p.answered(m)
	}
	said, err := header{}, p.inOrder(m)
	if err == nil {
		said, err = p.check(&m)
	}
	if err != nil {
		if m.id == "" {
			return nil
		}
		return p.toEditor(refuse(m.id, codeParams, err.Error()))
	}
	p.mu.Lock()
	if _, twice := p.fromUser[m.id]; m.id != "" && (twice || p.over || len(p.fromUser) >= maxOpen) {
		p.mu.Unlock()
		return p.toEditor(refuse(m.id, codeInvalid, "golem: a request with this id, or too many, are under way"))
	}
	if m.id != "" {
		p.fromUser[m.id] = request{m.method, said.session}
	}
	if m.method == prompt {
		p.session = said.session
	}
	var ended []*question
	if m.method == cancel || m.method == closeSession {
		ended = p.cancelled(said.session)
	}
	p.mu.Unlock()
	for _, q := range ended {
		if err := p.toAgent(encode(q.id, map[string]any{"result": cancelledOutcome})); err != nil {
			return err
		}
	}
	return p.toAgent(m.line)
}

// inOrder returns an error for a message before the editor and the agent have agreed on a
// version, and for a second initialize.
func (p *Proxy) inOrder(m message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case m.method == initialize && p.offered != 0:
		return errors.New("golem: initialize begins a connection, once")
	case m.method == initialize && m.id == "", m.method != initialize && p.agreed == 0:
		return errors.New("golem: a connection begins with the request initialize and its answer")
	}
	return nil
}

// version returns the version of the connection.
func (p *Proxy) version() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.agreed, 1)
}

// cancelledOutcome is the answer to a request for permission whose turn was cancelled.
var cancelledOutcome = map[string]any{"outcome": map[string]any{"outcome": "cancelled"}}

// cancelled ends the questions of a session, and returns those of the agent. Later answers to
// them do not count. The caller holds p.mu.
func (p *Proxy) cancelled(session string) (ofAgent []*question) {
	for id, q := range p.fromAgent {
		if q.session != session {
			continue
		}
		if q.answer == nil {
			ofAgent = append(ofAgent, q)
		}
		p.settle(id, q, "")
	}
	return ofAgent
}

// settle ends a question with the id of an option, "" for none. The caller holds p.mu.
func (p *Proxy) settle(id string, q *question, option string) {
	delete(p.fromAgent, id)
	if q.answer != nil {
		q.answer <- option
	}
}

// A header is what golem reads of the parameters of the editor's requests.
type header struct{ session string }

// check reads the parameters of a request of the editor. It changes the line of one that
// begins the connection, or names a directory.
func (p *Proxy) check(m *message) (header, error) {
	fields := map[string]json.RawMessage{}
	if raw := m.params(); raw != nil {
		if json.Unmarshal(raw, &fields) != nil {
			return header{}, errors.New("golem: the parameters are an object")
		}
	}
	var h header
	if raw, ok := fields["sessionId"]; ok && json.Unmarshal(raw, &h.session) != nil {
		return h, errors.New("golem: sessionId is a text")
	}
	if m.method == initialize {
		return h, p.withoutClient(m, fields)
	}
	p.noteServers(fields["mcpServers"])
	raw, ok := fields["cwd"]
	if !ok {
		return h, nil
	}
	var dir string
	if json.Unmarshal(raw, &dir) != nil {
		return h, errors.New("golem: cwd is a text")
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || !filepath.IsAbs(dir) {
		return h, fmt.Errorf("golem: there is no directory %s here", visible.Line(dir, maxShown))
	}
	if below, err := filepath.Rel(p.Dir, real); err != nil || !filepath.IsLocal(below) {
		return h, fmt.Errorf("golem: the agent sees only %s, and not %s; let the editor start golem acp in that directory", p.Dir, visible.Line(dir, maxShown))
	}
	if real == dir {
		return h, nil
	}
	params, err := replace(m.params(), "cwd", real)
	if err != nil {
		return h, err
	}
	return h, p.rewrite(m, params)
}

// noteServers says which MCP servers the editor gives to the agent, once.
func (p *Proxy) noteServers(raw json.RawMessage) {
	var servers []struct{ Name string }
	if json.Unmarshal(raw, &servers) != nil || len(servers) == 0 || p.noted {
		return
	}
	p.noted = true
	var names []string
	for _, s := range servers[:min(len(servers), maxStray)] {
		names = append(names, visible.Line(s.Name, maxShown))
	}
	if p.own {
		p.Tell("warning: workers use the MCP servers of their files, and not those of the editor: " + strings.Join(names, ", "))
		return
	}
	p.Tell("warning: the editor gives the agent its MCP servers, " + strings.Join(names, ", ") + "; they run in the jail, and the agent can read the keys in their settings")
}

// rewrite gives a message other parameters.
func (p *Proxy) rewrite(m *message, params json.RawMessage) (err error) {
	m.line, err = replace(m.line, "params", params)
	return err
}

// withoutClient tells the agent that the editor has no files and no terminals, and offers a
// version that golem knows.
func (p *Proxy) withoutClient(m *message, fields map[string]json.RawMessage) error {
	none := map[string]any{"fs": map[string]bool{"readTextFile": false, "writeTextFile": false}, "terminal": false}
	params, err := replace(m.params(), "clientCapabilities", none)
	if _, is := fields["capabilities"]; err == nil && is { // those of version 2
		params, err = replace(params, "capabilities", map[string]any{})
	}
	var version int
	if json.Unmarshal(fields["protocolVersion"], &version) != nil || version < 1 {
		version = 1
	}
	version = min(version, newest)
	if err == nil {
		params, err = replace(params, "protocolVersion", version)
	}
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.offered = version
	p.mu.Unlock()
	return p.rewrite(m, params)
}

// agree reads the version in the agent's answer to initialize. It returns the answer for the
// editor.
func (p *Proxy) agree(m message) []byte {
	var result struct {
		Version int `json:"protocolVersion"`
	}
	raw, ok := m.fields["result"]
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !ok: // the editor may try again
		p.offered = 0
		return m.line
	case json.Unmarshal(raw, &result) != nil || result.Version < 1 || result.Version > p.offered:
		p.offered = 0
		return refuse(m.id, codeInvalid, fmt.Sprintf("golem: the agent speaks no version of the protocol up to %d", newest))
	}
	p.agreed = result.Version
	return withoutLogins(m)
}

// readAgent passes the messages of the agent on until it ends. The error says that it broke
// the protocol.
func (p *Proxy) readAgent(output io.Reader) error {
	in := bufio.NewReaderSize(output, 64<<10)
	for {
		line, err := readLine(in)
		switch {
		case errors.Is(err, errLong):
			return err
		case err != nil:
			return nil
		case len(line) == 0:
			continue
		}
		if err := p.ofAgent(line); err != nil {
			return nil // the editor is gone
		}
	}
}

// ofAgent handles a message of the agent. An error means that the editor or the agent is gone.
func (p *Proxy) ofAgent(line []byte) error {
	m, err := parse(line)
	if err != nil {
		p.stray(line, err)
		return nil
	}
	switch {
	case m.isAnswer():
		return p.passAnswer(m)
	case m.method == permission && m.id != "":
		return p.askFor(m)
	case m.method == update && m.id == "":
		return p.toEditor(m.line)
	case m.id != "":
		return p.toAgent(refuse(m.id, codeMethod, "golem does not let an agent use "+visible.Line(m.method, maxShown)+" of the editor; use your own tools for files and commands"))
	}
	return nil // a notification that golem does not know
}

// stray prints a line of the agent that is no message.
func (p *Proxy) stray(line []byte, err error) {
	switch p.strays++; {
	case p.strays <= maxStray:
		p.Tell("the agent printed a line that is no message (" + err.Error() + "): " + visible.Line(string(line[:min(len(line), 4*maxShown)]), maxShown))
	case p.strays == maxStray+1:
		p.Tell("the agent prints more lines that are no messages")
	}
}

// passAnswer passes an answer of the agent on if it answers a request of the editor.
func (p *Proxy) passAnswer(m message) error {
	p.mu.Lock()
	asked, ok := p.fromUser[m.id]
	delete(p.fromUser, m.id)
	p.mu.Unlock()
	if !ok {
		return nil
	}
	if asked.method == initialize {
		m.line = p.agree(m)
	}
	return p.toEditor(m.line)
}

// withoutLogins returns the answer to initialize with only those ways to log in that the agent
// does itself. An editor runs the command of another one on the host.
func withoutLogins(m message) []byte {
	var result map[string]json.RawMessage
	raw, ok := m.fields["result"]
	if !ok {
		return m.line
	}
	var ways []map[string]any
	if json.Unmarshal(raw, &result) != nil {
		return refuse(m.id, codeInvalid, "golem: the result of initialize is an object")
	}
	if json.Unmarshal(result["authMethods"], &ways) != nil {
		ways = nil
	}
	kept := []map[string]any{}
	for _, way := range ways {
		if kind := way["type"]; kind != nil && kind != "agent" {
			continue
		}
		plain := map[string]any{}
		for _, key := range []string{"id", "methodId", "name", "description", "type"} {
			if text, is := way[key].(string); is {
				plain[key] = text
			}
		}
		kept = append(kept, plain)
	}
	changed, err := replace(raw, "authMethods", kept)
	if err == nil {
		raw, err = replace(m.line, "result", changed)
	}
	if err != nil {
		return refuse(m.id, codeInvalid, "golem: the result of initialize cannot be read")
	}
	return raw
}

// A permissionRequest is what golem reads of a request for permission.
type permissionRequest struct {
	Session string `json:"sessionId"`
	Options []struct {
		ID   string `json:"optionId"`
		Kind string `json:"kind"`
	} `json:"options"`
}

// The kinds of options.
const (
	allowOnce    = "allow_once"
	allowAlways  = "allow_always"
	rejectOnce   = "reject_once"
	rejectAlways = "reject_always"
)

// askFor passes a request of the agent for permission to the editor, unless the approval mode
// answers it.
func (p *Proxy) askFor(m message) error {
	var r permissionRequest
	if json.Unmarshal(m.params(), &r) != nil || len(r.Options) == 0 {
		return p.toAgent(refuse(m.id, codeParams, "golem: the request needs a sessionId and options"))
	}
	q := &question{id: m.id, session: r.Session, options: make(map[string]string)}
	for _, o := range r.Options {
		known := slices.Contains([]string{allowOnce, allowAlways, rejectOnce, rejectAlways}, o.Kind)
		if q.options[o.ID] != "" || !known && (o.Kind == "" || p.version() == 1) {
			return p.toAgent(refuse(m.id, codeParams, "golem: each option has an id of its own and a kind of the protocol"))
		}
		q.options[o.ID] = o.Kind
	}
	if kinds := p.decided(); kinds != nil {
		outcome := cancelledOutcome
		for _, kind := range kinds {
			if i := slices.IndexFunc(r.Options, func(o struct {
				ID   string `json:"optionId"`
				Kind string `json:"kind"`
			}) bool {
				return o.Kind == kind
			}); i >= 0 {
				outcome = map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": r.Options[i].ID}}
				break
			}
		}
		return p.toAgent(encode(m.id, map[string]any{"result": outcome}))
	}
	if why := p.open(q); why != "" {
		return p.toAgent(refuse(m.id, codeInvalid, why))
	}
	return p.toEditor(m.line)
}

// decided returns the kinds of options that the approval mode chooses, the best first; nil if
// the editor is asked.
func (p *Proxy) decided() []string {
	switch p.Approval {
	case approval.ApproveAll:
		return []string{allowOnce, allowAlways}
	case approval.AutoDeny:
		return []string{rejectOnce, rejectAlways}
	}
	return nil
}

// open adds a question that waits for the editor, or returns why it cannot.
func (p *Proxy) open(q *question) (why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, twice := p.fromAgent[q.id]
	switch {
	case p.over:
		return "golem: the editor is gone"
	case twice:
		return "golem: a request with this id is under way"
	case q.answer == nil && strings.HasPrefix(q.id, `"`+ownPrefix):
		return "golem: ids that begin with " + ownPrefix + " are golem's"
	case len(p.fromAgent) >= maxOpen:
		return "golem: too many requests are under way"
	}
	p.fromAgent[q.id] = q
	return ""
}

// answered handles an answer of the editor. An answer to no open question is dropped. An
// answer that chooses no offered option is a no.
func (p *Proxy) answered(m message) error {
	var result struct {
		Outcome struct {
			Outcome string `json:"outcome"`
			Option  string `json:"optionId"`
		} `json:"outcome"`
	}
	p.mu.Lock()
	q := p.fromAgent[m.id]
	if q == nil {
		p.mu.Unlock()
		return nil
	}
	chosen := ""
	if raw, ok := m.fields["result"]; ok && json.Unmarshal(raw, &result) == nil && result.Outcome.Outcome == "selected" && q.options[result.Outcome.Option] != "" {
		chosen = result.Outcome.Option
	}
	p.settle(m.id, q, chosen)
	p.mu.Unlock()
	if q.answer != nil {
		return nil
	}
	if chosen == "" {
		return p.toAgent(encode(m.id, map[string]any{"result": cancelledOutcome}))
	}
	return p.toAgent(m.line)
}
