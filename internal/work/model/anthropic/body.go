package anthropic

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/golem-forge/golem/internal/work/model"
)

// A body is a request.
type body struct {
	Model       string    `json:"model"`
	MaxTokens   int64     `json:"max_tokens"`
	Stream      bool      `json:"stream"`
	Temperature *float64  `json:"temperature,omitempty"`
	Thinking    *thinking `json:"thinking,omitempty"`
	Output      *output   `json:"output_config,omitempty"`
	System      []object  `json:"system,omitempty"`
	Tools       []object  `json:"tools,omitempty"`
	Messages    []message `json:"messages"`
}

type thinking struct {
	Type    string `json:"type"`
	Budget  int64  `json:"budget_tokens,omitempty"`
	Display string `json:"display,omitempty"`
}

type output struct {
	Effort string `json:"effort"`
}

type message struct {
	Role    model.Role `json:"role"`
	Content []object   `json:"content"`
}

// An object is a block of a message, or another object of JSON.
type object = map[string]any

// cached marks the end of what the server keeps for the next request.
var cached = object{"type": "ephemeral"}

// body converts a request for the API. Instructions, tools and conversation are each
// marked as cacheable.
func (m *Model) body(r model.Request) (body, error) {
	b := body{Model: m.name, MaxTokens: r.MaxTokens, Stream: true, Temperature: r.Temperature, Messages: []message{}}
	if b.MaxTokens == 0 {
		b.MaxTokens = room(m.name)
	}
	if r.System != "" {
		b.System = []object{{"type": "text", "text": r.System, "cache_control": cached}}
	}
	for _, t := range r.Tools {
		schema := t.Schema
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object"}`)
		}
		tool := object{"name": t.Name, "input_schema": schema}
		if t.Description != "" {
			tool["description"] = t.Description
		}
		b.Tools = append(b.Tools, tool)
	}
	if n := len(b.Tools); n > 0 {
		b.Tools[n-1]["cache_control"] = cached
	}
	for _, said := range r.Messages {
		blocks, err := m.blocks(said)
		if err != nil {
			return b, err
		}
		if len(blocks) > 0 { // the API refuses an empty message
			b.Messages = append(b.Messages, message{said.Role, blocks})
		}
	}
	if n := len(b.Messages); n > 0 {
		content := b.Messages[n-1].Content
		if last := content[len(content)-1]; last["type"] != "thinking" && last["type"] != "redacted_thinking" {
			last["cache_control"] = cached
		}
	}
	m.think(&b, r)
	return b, nil
}

// room returns the default limit of an answer's tokens. The API requires a number and
// refuses one that is too high for the model.
func room(name string) int64 {
	switch {
	case strings.HasPrefix(name, "claude-3-5-"):
		return 8192
	case strings.HasPrefix(name, "claude-3-opus"), strings.HasPrefix(name, "claude-3-haiku"):
		return 4096
	}
	return 32_000
}

// The models that think on request: with a number of tokens, or as much as they need.
var (
	budgeted = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^claude-(3-7|(opus|sonnet)-4(-[015]\b|-2025|$)|haiku-4)`)
	})
	older = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^claude-(2|3-[05]|3-(opus|sonnet|haiku)|instant)`) })
)

// think sets how much the model thinks.
func (m *Model) think(b *body, r model.Request) {
	switch {
	case r.Effort == "" || older().MatchString(m.name):
	case budgeted().MatchString(m.name):
		budget := map[model.Effort]int64{model.LowEffort: 2048, model.MediumEffort: 8192, model.HighEffort: 24_576}[r.Effort]
		budget = min(budget, b.MaxTokens/2)
		if budget >= 1024 && startsWithThought(b.Messages) { // 1024 is the least that the API allows
			b.Thinking = &thinking{Type: "enabled", Budget: budget}
		}
	case r.Effort == model.NoEffort:
		b.Output = &output{string(model.LowEffort)}
	default:
		b.Output, b.Thinking = &output{string(r.Effort)}, &thinking{Type: "adaptive"}
		if r.Thoughts {
			b.Thinking.Display = "summarized"
		}
	}
}

// startsWithThought reports whether the conversation allows thinking with a number of tokens.
// The API refuses it if the last message of the model has calls and begins without a thought.
func startsWithThought(messages []message) bool {
	for i := len(messages) - 1; i >= 0; i-- {
		m := messages[i]
		if m.Role != model.Assistant {
			continue
		}
		first := m.Content[0]["type"]
		for _, block := range m.Content {
			if block["type"] == "tool_use" {
				return first == "thinking" || first == "redacted_thinking"
			}
		}
		return true
	}
	return true
}

// blocks converts the parts of a message. Results come first, as the API requires.
func (m *Model) blocks(said model.Message) (blocks []object, err error) {
	var results []object
	for _, p := range said.Parts {
		switch {
		case p.Result != nil:
			result := object{"type": "tool_result", "tool_use_id": fitID(p.Result.ID), "is_error": p.Result.Failed}
			if strings.TrimSpace(p.Result.Text) != "" {
				result["content"] = []object{{"type": "text", "text": p.Result.Text}}
			}
			results = append(results, result)
		case p.Call != nil:
			blocks = append(blocks, object{"type": "tool_use", "id": fitID(p.Call.ID), "name": p.Call.Tool, "input": p.Call.SentArgs()})
		case p.Thinking != nil:
			blocks = append(blocks, thought(*p.Thinking)...)
		case p.File != nil:
			file, err := m.file(*p.File)
			if err != nil {
				return nil, err
			}
			blocks = append(blocks, file)
		case strings.TrimSpace(p.Text) != "": // the API refuses a blank text
			blocks = append(blocks, object{"type": "text", "text": p.Text})
		}
	}
	return append(results, blocks...), nil
}

// thought converts a thought. A thought without a proof of this vendor is dropped,
// because the vendor would refuse it.
func thought(t model.Thinking) []object {
	var p proof
	if json.Unmarshal(t.Proof, &p) != nil {
		return nil
	}
	switch {
	case p.Redacted != "":
		return []object{{"type": "redacted_thinking", "data": p.Redacted}}
	case p.Signature != "":
		return []object{{"type": "thinking", "thinking": t.Text, "signature": p.Signature}}
	}
	return nil
}

// FileTypes implements [model.FileTaker].
func (m *Model) FileTypes() []string { return model.AllFileTypes() }

func (m *Model) file(f model.File) (object, error) {
	switch {
	case slices.Contains(model.ImageTypes, f.Type):
		return object{"type": "image", "source": object{"type": "base64", "media_type": f.Type, "data": f.Data}}, nil
	case f.Type == model.PDF:
		return object{"type": "document", "title": f.Name, "source": object{"type": "base64", "media_type": f.Type, "data": f.Data}}, nil
	case strings.HasPrefix(f.Type, "text/"):
		return object{"type": "document", "title": f.Name, "source": object{"type": "text", "media_type": "text/plain", "data": string(f.Data)}}, nil
	}
	return nil, m.client.Refuse(f, m.FileTypes())
}

// fitID returns a valid id for the API.
func fitID(id string) string {
	return model.FitID(id, 64, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
}
