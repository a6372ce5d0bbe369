package anthropic

import (
	"encoding/json"
	"strings"

	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/model/wire"
)

// A gathering builds an answer from the events of a stream. It accepts events only in
// their proper order. An answer is complete only if the server sent its beginning and its
// end.
type gathering struct {
	wire.Listener
	begun  bool
	blocks []*block
	open   *block // the block that receives pieces
	stop   string
	usage  model.Usage
	model  string
}

// A block is a part of the answer.
type block struct {
	index     int64
	kind      string
	id, tool  string
	text      strings.Builder // text, thinking or arguments
	start     string          // the arguments in the first event
	signature strings.Builder
	redacted  string
}

// An event is an event of the stream, with the fields of all types.
type event struct {
	Type    string
	Index   int64
	Message struct {
		Model string
		Usage usage
	}
	ContentBlock struct {
		Type, ID, Name, Text, Thinking, Signature, Data string
		Input                                           json.RawMessage
	} `json:"content_block"`
	Delta struct {
		Type, Text, Thinking, Signature string
		PartialJSON                     json.RawMessage `json:"partial_json"`
		StopReason                      wire.Text       `json:"stop_reason"`
	}
	Usage usage
}

type usage struct {
	Input      wire.Count `json:"input_tokens"`
	Output     wire.Count `json:"output_tokens"`
	CacheRead  wire.Count `json:"cache_read_input_tokens"`
	CacheWrite wire.Count `json:"cache_creation_input_tokens"`
	Written    struct {
		Hour wire.Count `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`
}

// ReadUsage reads the usage in an event or a message, an object.
func ReadUsage(object []byte) (model.Usage, error) {
	var u usage
	err := json.Unmarshal(object, &u)
	return u.read(), err
}

func (u usage) read() model.Usage {
	return model.Usage{Input: int64(u.Input), Output: int64(u.Output), CacheRead: int64(u.CacheRead), CacheWrite: int64(u.CacheWrite), CacheHour: int64(u.Written.Hour)}
}

// take processes an event.
func (g *gathering) take(sent wire.Event) (done bool, err error) {
	if sent.Name == "error" {
		return false, g.Client.Streamed(sent.Data)
	}
	var e event
	if err := json.Unmarshal(sent.Data, &e); err != nil {
		return false, err
	}
	if e.Type == "error" {
		return false, g.Client.Streamed(sent.Data)
	}
	if !g.begun && e.Type != "message_start" {
		if e.Type == "ping" {
			return false, nil
		}
		return false, g.Client.Bad("the stream begins with %s", e.Type)
	}
	switch e.Type {
	case "message_start":
		if g.begun {
			return false, g.Client.Bad("a second answer in one stream")
		}
		g.begun, g.model = true, e.Message.Model
		g.count(e.Message.Usage)
	case "content_block_start":
		return false, g.start(e)
	case "content_block_delta":
		if g.open == nil || g.open.index != e.Index {
			return false, g.Client.Bad("a piece of block %d, which is not open", e.Index)
		}
		return false, g.piece(e)
	case "content_block_stop":
		if g.open == nil || g.open.index != e.Index {
			return false, g.Client.Bad("the end of block %d, which is not open", e.Index)
		}
		g.open = nil
	case "message_delta":
		if e.Delta.StopReason != "" {
			g.stop = string(e.Delta.StopReason)
		}
		g.count(e.Usage)
	case "message_stop":
		if g.open != nil || g.stop == "" {
			return false, g.Client.Bad("the end of an answer that is not finished")
		}
		return true, nil
	}
	return false, nil
}

func (g *gathering) start(e event) error {
	if g.open != nil {
		return g.Client.Bad("block %d begins before block %d ends", e.Index, g.open.index)
	}
	b := e.ContentBlock
	g.open = &block{index: e.Index, kind: b.Type, id: b.ID, tool: b.Name, redacted: b.Data}
	g.open.signature.WriteString(b.Signature)
	g.blocks = append(g.blocks, g.open)
	switch b.Type {
	case "text":
		return g.say(model.Piece{Text: b.Text})
	case "thinking":
		return g.say(model.Piece{Thinking: b.Thinking})
	case "tool_use":
		g.open.start = string(b.Input)
	}
	return g.Keep(len(b.Data)+len(b.Input), 1)
}

func (g *gathering) piece(e event) error {
	kind, d := "", e.Delta
	switch d.Type {
	case "text_delta":
		kind = "text"
	case "thinking_delta", "signature_delta":
		kind = "thinking"
	case "input_json_delta":
		kind = "tool_use"
	default: // something that golem did not ask for, such as citations
		return nil
	}
	if kind != g.open.kind && (kind != "tool_use" || g.open.kind != "server_tool_use") {
		return g.Client.Bad("a %s in a block of %s", d.Type, g.open.kind)
	}
	switch d.Type {
	case "text_delta":
		return g.say(model.Piece{Text: d.Text})
	case "thinking_delta":
		return g.say(model.Piece{Thinking: d.Thinking})
	case "signature_delta":
		g.open.signature.WriteString(d.Signature)
		return g.Keep(len(d.Signature), 0)
	}
	args := wire.Args(d.PartialJSON)
	g.open.text.WriteString(args)
	return g.Keep(len(args), 0)
}

// say keeps a piece and passes it on.
func (g *gathering) say(p model.Piece) error {
	g.open.text.WriteString(p.Text + p.Thinking)
	return g.Say(p)
}

// count records tokens. The server sends running totals. An event without a number keeps
// the last one.
func (g *gathering) count(u usage) { g.usage = g.usage.Max(u.read()) }

// splitMessage returns the events of a message that came as one document.
func splitMessage(document []byte) []wire.Event {
	var m struct {
		Type    string
		Model   json.RawMessage   `json:"model,omitempty"`
		Usage   json.RawMessage   `json:"usage,omitempty"`
		Content []json.RawMessage `json:"content"`
		Stop    json.RawMessage   `json:"stop_reason"`
	}
	if json.Unmarshal(document, &m) != nil || m.Type != "message" {
		return nil
	}
	var list []wire.Event
	add := func(kind string, e map[string]any) {
		e["type"] = kind
		if data, err := json.Marshal(e); err == nil {
			list = append(list, wire.Event{Name: kind, Data: data})
		}
	}
	start := map[string]json.RawMessage{}
	for name, value := range map[string]json.RawMessage{"model": m.Model, "usage": m.Usage} {
		if value != nil {
			start[name] = value
		}
	}
	add("message_start", map[string]any{"message": start})
	for i, block := range m.Content {
		add("content_block_start", map[string]any{"index": i, "content_block": block})
		add("content_block_stop", map[string]any{"index": i})
	}
	add("message_delta", map[string]any{"delta": map[string]any{"stop_reason": m.Stop}})
	add("message_stop", map[string]any{})
	return list
}

// A proof is the signature that the vendor requires back with a thought.
type proof struct {
	Signature string `json:"anthropic_signature,omitempty"`
	Redacted  string `json:"anthropic_redacted,omitempty"`
}

// answer returns the answer of a stream that has ended.
func (g *gathering) answer() model.Answer {
	a := model.Answer{Usage: g.usage.Clamped(), Model: g.model, Stop: model.Done}
	for _, b := range g.blocks {
		switch b.kind {
		case "text":
			if b.text.Len() > 0 {
				a.Parts = append(a.Parts, model.Part{Text: b.text.String()})
			}
		case "thinking", "redacted_thinking":
			p, _ := json.Marshal(proof{b.signature.String(), b.redacted}) // strings can always be encoded
			a.Parts = append(a.Parts, model.Part{Thinking: &model.Thinking{Text: b.text.String(), Proof: p}})
		case "tool_use":
			args := b.text.String()
			if args == "" { // a call without arguments is complete at its first event
				args = b.start
			}
			a.Parts = append(a.Parts, model.Part{Call: &model.Call{ID: b.id, Tool: b.tool, Args: args}})
			a.Stop = model.Calls
		}
	}
	switch g.stop {
	case "max_tokens", "model_context_window_exceeded":
		a.Stop = model.Length
	case "refusal":
		a.Stop, a.Why = model.Refused, g.stop
	}
	return a
}
