package telemetry

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/golem-forge/golem/internal/work/run"
	"github.com/golem-forge/golem/internal/work/spending"
)

// Spans makes spans of the events of a run. Its queue has a limit: spans beyond it
// are dropped and counted, so that a slow server never delays a run.
type Spans struct {
	settings Settings
	version  string
	trace    string

	mu      sync.Mutex
	session string
	agents  []*open // open workers, the entry worker first
	calls   map[string]*open
	last    map[string]time.Time // the end of the last step, by chain
	ready   []Span
	dropped int
}

// An open is a span without an end.
type open struct {
	Span
	chain  string
	worker string // the worker that a call may start, or that works
}

// maxQueue limits the spans that wait, and maxOpen those without an end.
const (
	maxQueue = 2048
	maxOpen  = 1024
)

// NewRecorder returns a recorder for one run.
func NewRecorder(s Settings, version string) *Spans {
	trace := s.Parent.Trace
	if trace == "" {
		trace = newID(traceBytes)
	}
	return &Spans{settings: s, version: version, trace: trace, calls: make(map[string]*open), last: make(map[string]time.Time)}
}

// SetSession names the session of the run, as the id of the conversation.
func (r *Spans) SetSession(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.session = id
}

func newID(bytes int) string {
	id := make([]byte, bytes)
	rand.Read(id) // it never fails
	return hex.EncodeToString(id)
}

// Tell notes an event.
func (r *Spans) Tell(e run.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	chain := strings.Join(e.Chain, "\x00")
	switch e.Type {
	case run.RunStart, run.Started:
		r.beginAgent(e, chain)
	case run.Message:
		r.addChat(e, chain)
	case run.ToolCall:
		if len(r.calls) < maxOpen {
			r.calls[e.Call] = &open{chain: chain, worker: workerOf(e), Span: Span{ID: newID(spanBytes), Parent: r.agentID(chain), Name: "execute_tool " + e.Tool, Kind: Internal, Start: e.Time,
				Attributes: []Attribute{Text("gen_ai.operation.name", "execute_tool"), Text("gen_ai.tool.name", e.Tool), Text("gen_ai.tool.type", "function"), Text("gen_ai.tool.call.id", e.Call), Text("gen_ai.agent.name", e.Worker)}}}
		}
	case run.ToolResult:
		r.endCall(e, chain)
	case run.Pending:
		e.Code = "pending"
		r.endCall(e, chain)
	case run.RunEnd:
		r.endRun(e)
	}
	if e.Type != run.Piece && e.Type != run.Note {
		r.last[chain] = e.Time
	}
}

// beginAgent begins the span of a worker.
func (r *Spans) beginAgent(e run.Event, chain string) {
	if len(r.agents) >= maxOpen {
		return
	}
	provider, name := modelOf(e.Model)
	span := Span{ID: newID(spanBytes), Parent: r.settings.Parent.Span, Name: "invoke_agent " + e.Worker, Kind: Internal, Start: e.Time,
		Attributes: []Attribute{Text("gen_ai.operation.name", "invoke_agent"), Text("gen_ai.agent.name", e.Worker), Text("gen_ai.provider.name", provider), Text("gen_ai.request.model", name)}}
	if r.session != "" {
		span.Attributes = append(span.Attributes, Text("gen_ai.conversation.id", r.session))
	}
	if e.Type == run.Started { // below the call that started it
		caller := strings.Join(e.Chain[:max(len(e.Chain)-1, 0)], "\x00")
		span.Parent = r.agentID(caller)
		for _, c := range r.calls {
			if c.chain == caller && c.worker == e.Worker {
				span.Parent = c.ID
			}
		}
	}
	r.agents = append(r.agents, &open{Span: span, chain: chain, worker: e.Worker})
}

// AddAgent adds the span of a foreign agent that has ended, with its exit code and with what it has
// asked of models.
func (r *Spans) AddAgent(name string, start, end time.Time, code int, spent spending.Account) {
	r.mu.Lock()
	defer r.mu.Unlock()
	span := Span{ID: newID(spanBytes), Parent: r.settings.Parent.Span, Name: "invoke_agent " + name, Kind: Internal, Start: start, End: end, Error: code != 0,
		Attributes: []Attribute{Text("gen_ai.operation.name", "invoke_agent"), Text("gen_ai.agent.name", name), Text("gen_ai.conversation.id", r.session),
			Number("golem.requests", spent.Requests), Number("gen_ai.usage.input_tokens", spent.Input()), Number("gen_ai.usage.output_tokens", spent.Tokens.Output)}}
	if spent.Cost > 0 {
		span.Attributes = append(span.Attributes, Amount("golem.cost", spent.Cost))
	}
	if spent.Unpriced+spent.Unreported+spent.Uncounted > 0 {
		span.Attributes = append(span.Attributes, Number("golem.not_counted", spent.Unpriced+spent.Unreported+spent.Uncounted))
	}
	if code != 0 {
		span.Attributes = append(span.Attributes, Text("error.type", strconv.Itoa(code)))
	}
	r.add(span)
}

// agentID returns the id of the last worker with a chain that works.
func (r *Spans) agentID(chain string) string {
	for _, a := range slices.Backward(r.agents) {
		if a.chain == chain {
			return a.ID
		}
	}
	return r.settings.Parent.Span
}

// addChat adds the span of an answer. It begins when the step before it ended.
func (r *Spans) addChat(e run.Event, chain string) {
	start, ok := r.last[chain]
	if !ok {
		start = e.Time
	}
	provider, name := "", e.Model
	for _, a := range r.agents {
		if a.chain == chain {
			provider = valueOf(a.Attributes, "gen_ai.provider.name")
			if asked := valueOf(a.Attributes, "gen_ai.request.model"); asked != "" {
				name = asked
			}
		}
	}
	span := Span{ID: newID(spanBytes), Parent: r.agentID(chain), Name: "chat " + name, Kind: Client, Start: start, End: e.Time,
		Attributes: []Attribute{Text("gen_ai.operation.name", "chat"), Text("gen_ai.provider.name", provider), Text("gen_ai.request.model", name), Text("gen_ai.agent.name", e.Worker)}}
	if e.Model != "" && !strings.Contains(e.Model, ":") { // a script names its file
		span.Attributes = append(span.Attributes, Text("gen_ai.response.model", e.Model))
	}
	if u := e.Usage; u != nil {
		span.Attributes = append(span.Attributes, Number("gen_ai.usage.input_tokens", u.Input+u.CacheRead+u.CacheWrite), Number("gen_ai.usage.output_tokens", u.Output))
		if u.CacheRead > 0 {
			span.Attributes = append(span.Attributes, Number("gen_ai.usage.cache_read.input_tokens", u.CacheRead))
		}
		if u.CacheWrite > 0 {
			span.Attributes = append(span.Attributes, Number("gen_ai.usage.cache_creation.input_tokens", u.CacheWrite))
		}
	}
	r.add(span)
}

// endCall ends the span of a call, and of the worker that it started.
func (r *Spans) endCall(e run.Event, chain string) {
	call := r.calls[e.Call]
	if call == nil {
		return
	}
	delete(r.calls, e.Call)
	failed := e.OK == nil || !*e.OK
	for i, a := range slices.Backward(r.agents) {
		if a.Parent == call.ID {
			r.agents = slices.Delete(r.agents, i, i+1)
			delete(r.last, a.chain)
			r.end(a, e.Time, failed, string(e.Code))
			break
		}
	}
	r.end(call, e.Time, failed, string(e.Code))
}

// endRun ends all spans.
func (r *Spans) endRun(e run.Event) {
	failed := e.OK == nil || !*e.OK
	for id, c := range r.calls {
		r.end(c, e.Time, failed, string(e.End))
		delete(r.calls, id)
	}
	for i, a := range slices.Backward(r.agents) {
		if i == 0 && e.Sum != nil {
			a.Attributes = append(a.Attributes, Number("golem.turns", e.Sum.Turns), Number("golem.calls", int64(e.Sum.Calls)), Number("golem.refused", int64(e.Sum.Refused)),
				Number("gen_ai.usage.input_tokens", e.Sum.Tokens.Input+e.Sum.Tokens.CacheRead+e.Sum.Tokens.CacheWrite), Number("gen_ai.usage.output_tokens", e.Sum.Tokens.Output))
		}
		r.end(a, e.Time, failed, string(e.End))
	}
	r.agents = nil
	clear(r.last)
}

func (r *Spans) end(o *open, at time.Time, failed bool, code string) {
	o.End, o.Error = at, failed
	if failed {
		if code == "" {
			code = "_OTHER"
		}
		o.Attributes = append(o.Attributes, Text("error.type", code))
	}
	r.add(o.Span)
}

func (r *Spans) add(s Span) {
	if len(r.ready) >= maxQueue {
		r.dropped++
		return
	}
	r.ready = append(r.ready, s)
}

// Take returns the spans that are complete as a request of OTLP, and removes them. It is
// nil if there are none.
func (r *Spans) Take() (body []byte, spans int, err error) {
	r.mu.Lock()
	list := r.ready
	r.ready = nil
	r.mu.Unlock()
	if len(list) == 0 {
		return nil, 0, nil
	}
	body, err = encode(r.settings, r.version, r.trace, list)
	return body, len(list), err
}

// Drop counts spans that could not be sent.
func (r *Spans) Drop(spans int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropped += spans
}

// Dropped returns how many spans were dropped.
func (r *Spans) Dropped() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dropped
}

// workerOf returns the worker that a call may start: the one in its arguments, or the one
// with the name of the tool.
func workerOf(e run.Event) string {
	var args struct {
		Worker string `json:"worker"`
	}
	if json.Unmarshal(e.Args, &args) == nil && args.Worker != "" {
		return args.Worker
	}
	return e.Tool
}

func valueOf(list []Attribute, key string) string {
	for _, a := range list {
		if a.key == key {
			return a.text
		}
	}
	return ""
}

// providers are the names of the conventions for vendors that golem names otherwise.
var providers = map[string]string{"gemini": "gcp.gemini", "google": "gcp.gemini", "mistral": "mistral_ai", "xai": "x_ai", "bedrock": "aws.bedrock", "vertex": "gcp.vertex_ai"}

// modelOf splits a model as the user writes it. The file of a script or a record is a path
// of the user, which no span has.
func modelOf(spec string) (provider, name string) {
	vendor, name, ok := strings.Cut(spec, ":")
	switch {
	case !ok:
		return "_OTHER", spec
	case vendor == "scripted" || vendor == "replay":
		return vendor, vendor
	}
	if other := providers[vendor]; other != "" {
		vendor = other
	}
	return vendor, name
}
