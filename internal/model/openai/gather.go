package openai

import (
	"encoding/json"
	"strings"

	sdk "github.com/openai/openai-go/v3"

	"github.com/golem-forge/golem/internal/model"
)

// A gathering builds an answer from the chunks of a stream. The answer is complete only
// if the server sent a reason why it finished.
type gathering struct {
	tell     func(model.Piece)
	text     strings.Builder
	thinking strings.Builder
	refused  bool
	calls    []*call
	byIndex  map[int64]*call
	finish   string
	usage    model.Usage
	model    string
}

// A call is a call whose pieces are arriving.
type call struct {
	id, tool string
	args     strings.Builder
	proof    string
}

// take processes a chunk and returns what is wrong with it.
func (g *gathering) take(c sdk.ChatCompletionChunk) (wrong string) {
	if c.Model != "" {
		g.model = c.Model
	}
	if u := c.Usage; u.PromptTokens+u.CompletionTokens > 0 {
		read := min(max(u.PromptTokensDetails.CachedTokens, 0), u.PromptTokens)
		g.usage = model.Usage{Input: u.PromptTokens - read, Output: u.CompletionTokens, CacheRead: read}
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // golem asked for only one
		}
		d := choice.Delta
		if g.finish != "" && (d.Content != "" || d.Refusal != "" || len(d.ToolCalls) > 0 || choice.FinishReason != "" && choice.FinishReason != g.finish) {
			return "more of an answer after its end"
		}
		g.say(model.Piece{Thinking: thought(d)})
		g.say(model.Piece{Text: d.Content})
		if d.Refusal != "" {
			g.refused = true
			g.say(model.Piece{Text: d.Refusal})
		}
		for _, piece := range d.ToolCalls {
			g.piece(piece)
		}
		if choice.FinishReason != "" {
			g.finish = choice.FinishReason
		}
	}
	return ""
}

// thought returns the thinking in a chunk. Servers use different names for it.
func thought(d sdk.ChatCompletionChunkChoiceDelta) string {
	for _, name := range []string{"reasoning_content", "reasoning"} {
		var text string
		if f, ok := d.JSON.ExtraFields[name]; ok && json.Unmarshal([]byte(f.Raw()), &text) == nil && text != "" {
			return text
		}
	}
	return ""
}

// piece adds a piece to its call. Some servers give all calls the same index. So a name
// with a different id, or without one, starts a new call.
func (g *gathering) piece(p sdk.ChatCompletionChunkChoiceDeltaToolCall) {
	c := g.byIndex[p.Index]
	if c == nil || p.Function.Name != "" && (p.ID == "" || p.ID != c.id) {
		c = &call{id: p.ID, tool: p.Function.Name}
		g.calls = append(g.calls, c)
		if g.byIndex == nil {
			g.byIndex = map[int64]*call{}
		}
		g.byIndex[p.Index] = c
	}
	c.args.WriteString(model.ArgsPiece(p.Function.Arguments, p.Function.JSON.Arguments.Raw()))
	if f, ok := p.JSON.ExtraFields["extra_content"]; ok && json.Valid([]byte(f.Raw())) {
		c.proof = f.Raw()
	}
}

// say keeps a piece and passes it on.
func (g *gathering) say(p model.Piece) {
	g.text.WriteString(p.Text)
	g.thinking.WriteString(p.Thinking)
	if g.tell != nil && p != (model.Piece{}) {
		g.tell(p)
	}
}

// answer returns the answer of a stream that has finished.
func (g *gathering) answer() model.Answer {
	a := model.Answer{Usage: g.usage, Model: g.model, Stop: model.Done}
	if g.thinking.Len() > 0 {
		a.Parts = append(a.Parts, model.Part{Thinking: &model.Thinking{Text: g.thinking.String()}})
	}
	if g.text.Len() > 0 {
		a.Parts = append(a.Parts, model.Part{Text: g.text.String()})
	}
	for _, c := range g.calls {
		a.Parts = append(a.Parts, model.Part{Call: &model.Call{ID: c.id, Tool: c.tool, Args: c.args.String(), Proof: json.RawMessage(c.proof)}})
		a.Stop = model.Calls // even if the server says "stop"
	}
	switch {
	case g.finish == "length":
		a.Stop = model.Length
	case g.finish == "content_filter", g.refused:
		a.Stop = model.Refused
	}
	return a
}
