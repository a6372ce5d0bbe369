package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/golem-forge/golem/internal/model"
)

// A gathering builds an answer from the events of a stream. It accepts events only in
// their proper order. An answer is complete only if the server sent its beginning and its
// end.
type gathering struct {
	tell   func(model.Piece)
	begun  bool
	blocks []*block
	open   *block // the block that receives pieces
	stop   sdk.StopReason
	usage  model.Usage
	model  string
	ended  bool
}

// A block is a part of the answer.
type block struct {
	index     int64
	kind      string
	id, tool  string
	text      strings.Builder // text, thinking or arguments
	start     string          // the arguments in the first event
	signature string
	redacted  string
}

// take processes an event and returns what is wrong with it.
func (g *gathering) take(e sdk.MessageStreamEventUnion) (wrong string) {
	if !g.begun && e.Type != "message_start" {
		return "the stream begins with " + e.Type
	}
	switch e.Type {
	case "message_start":
		if g.begun {
			return "a second answer in one stream"
		}
		g.begun, g.model = true, string(e.Message.Model)
		u := e.Message.Usage
		g.count(u.InputTokens, u.OutputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens)
	case "content_block_start":
		return g.start(e)
	case "content_block_delta":
		if g.open == nil || g.open.index != e.Index {
			return fmt.Sprintf("a piece of block %d, which is not open", e.Index)
		}
		return g.piece(e.Delta)
	case "content_block_stop":
		if g.open == nil || g.open.index != e.Index {
			return fmt.Sprintf("the end of block %d, which is not open", e.Index)
		}
		g.open = nil
	case "message_delta":
		g.stop = e.Delta.StopReason
		u := e.Usage
		g.count(u.InputTokens, u.OutputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens)
	case "message_stop":
		if g.open != nil || g.stop == "" {
			return "the end of an answer that is not finished"
		}
		g.ended = true
	}
	return ""
}

func (g *gathering) start(e sdk.MessageStreamEventUnion) (wrong string) {
	if g.open != nil {
		return fmt.Sprintf("block %d begins before block %d ends", e.Index, g.open.index)
	}
	b := e.ContentBlock
	g.open = &block{index: e.Index, kind: b.Type, id: b.ID, tool: b.Name, signature: b.Signature, redacted: b.Data}
	g.blocks = append(g.blocks, g.open)
	switch b.Type {
	case "text":
		g.say(model.Piece{Text: b.Text})
	case "thinking":
		g.say(model.Piece{Thinking: b.Thinking})
	case "tool_use":
		g.open.start = b.JSON.Input.Raw()
	}
	return ""
}

func (g *gathering) piece(d sdk.MessageStreamEventUnionDelta) (wrong string) {
	kind := ""
	switch d.Type {
	case "text_delta":
		kind = "text"
		g.say(model.Piece{Text: d.Text})
	case "thinking_delta":
		kind = "thinking"
		g.say(model.Piece{Thinking: d.Thinking})
	case "signature_delta":
		kind = "thinking"
		g.open.signature += d.Signature
	case "input_json_delta":
		kind = "tool_use"
		g.open.text.WriteString(model.ArgsPiece(d.PartialJSON, d.JSON.PartialJSON.Raw()))
	default: // something that golem did not ask for, such as citations
		return ""
	}
	if kind != g.open.kind && (kind != "tool_use" || g.open.kind != "server_tool_use") {
		return fmt.Sprintf("a %s in a block of %s", d.Type, g.open.kind)
	}
	return ""
}

// say keeps a piece and passes it on.
func (g *gathering) say(p model.Piece) {
	g.open.text.WriteString(p.Text + p.Thinking)
	if g.tell != nil && p != (model.Piece{}) {
		g.tell(p)
	}
}

// count records tokens. The server sends running totals. An event without a number keeps
// the last one.
func (g *gathering) count(input, output, read, write int64) {
	u := &g.usage
	u.Input, u.Output, u.CacheRead, u.CacheWrite = max(u.Input, input), max(u.Output, output), max(u.CacheRead, read), max(u.CacheWrite, write)
}

// A proof is the signature that the vendor requires back with a thought.
type proof struct {
	Signature string `json:"anthropic_signature,omitempty"`
	Redacted  string `json:"anthropic_redacted,omitempty"`
}

// answer returns the answer of a stream that has ended.
func (g *gathering) answer() model.Answer {
	a := model.Answer{Usage: g.usage, Model: g.model, Stop: model.Done}
	for _, b := range g.blocks {
		switch b.kind {
		case "text":
			if b.text.Len() > 0 {
				a.Parts = append(a.Parts, model.Part{Text: b.text.String()})
			}
		case "thinking", "redacted_thinking":
			p, _ := json.Marshal(proof{b.signature, b.redacted}) // strings can always be encoded
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
		a.Stop = model.Refused
	}
	return a
}
