package openai

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/model/wire"
)

// A gathering builds an answer from the chunks of a stream. The answer is complete only
// if the server sent a reason why it finished, and no more of it after that.
type gathering struct {
	wire.Listener
	charges  bool // of the dialect
	text     strings.Builder
	thinking strings.Builder
	field    string // the field in which the thoughts came
	chunk    bool   // the thoughts came as parts of the content
	details  []detail
	refused  bool
	calls    []*call
	byIndex  map[int64]*call
	end      string // the reason
	usage    model.Usage
	model    string
}

// A call is a call whose pieces are arriving.
type call struct {
	id, tool string
	args     strings.Builder
	proof    json.RawMessage
}

// A proof says how a thought came, and so how it goes back.
type proof struct {
	From    string            `json:"chat_from,omitempty"` // the server
	Field   string            `json:"chat_field,omitempty"`
	Chunk   bool              `json:"chat_chunk,omitempty"`
	Details []json.RawMessage `json:"openrouter_details,omitempty"`
}

// contentField is the name of thoughts at DeepSeek, which many servers have taken over.
const contentField = "reasoning_content"

// A chunk is an event of the stream.
type chunk struct {
	Model   wire.Text
	Choices []struct {
		Index  wire.Count
		Delta  delta
		Finish wire.Text `json:"finish_reason"`
	}
	Usage *usage
	Groq  struct{ Usage *usage } `json:"x_groq"`
	Error json.RawMessage
}

type delta struct {
	Content   json.RawMessage
	Refusal   wire.Text
	Thoughts  wire.Text `json:"reasoning_content"`
	Reasoning wire.Text
	Details   []json.RawMessage `json:"reasoning_details"`
	Calls     []piece           `json:"tool_calls"`
}

// A piece is a piece of a call.
type piece struct {
	Index    *int64
	ID       wire.Text
	Function struct {
		Name      wire.Text
		Arguments json.RawMessage
	}
	Extra json.RawMessage `json:"extra_content"`
}

type usage struct {
	Input  wire.Count `json:"prompt_tokens"`
	Output wire.Count `json:"completion_tokens"`
	Total  wire.Count `json:"total_tokens"`
	Hit    wire.Count `json:"prompt_cache_hit_tokens"`
	Cached wire.Count `json:"cached_tokens"`
	Cost   wire.Amount
	In     struct {
		Cached wire.Count `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	Out struct {
		Reasoning wire.Count `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// take processes an event.
func (g *gathering) take(sent wire.Event) (done bool, err error) {
	if text := strings.TrimSpace(string(sent.Data)); text == "" || text == "[DONE]" {
		return text != "", nil
	}
	var c chunk
	if err := json.Unmarshal(sent.Data, &c); err != nil {
		return false, err
	}
	if sent.Name == "error" || len(c.Error) > 0 && string(c.Error) != "null" {
		return false, g.Client.Streamed(sent.Data)
	}
	if c.Model != "" {
		g.model = string(c.Model)
	}
	g.count(c.Usage)
	g.count(c.Groq.Usage)
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // golem asked for only one
		}
		some, err := g.add(choice.Delta)
		if err != nil {
			return false, err
		}
		if some {
			g.end = "" // an end before this was none
		}
		g.end = last(g.end, string(choice.Finish))
	}
	return false, nil
}

// splitCompletion returns the events of a completion that came as one document: a chunk with
// the whole message, and the end.
func splitCompletion(document []byte) []wire.Event {
	in := json.NewDecoder(bytes.NewReader(document))
	in.UseNumber()
	var c map[string]any
	if in.Decode(&c) != nil {
		return nil
	}
	choices, _ := c["choices"].([]any)
	for _, each := range choices {
		choice, _ := each.(map[string]any)
		message, ok := choice["message"].(map[string]any)
		if !ok {
			return nil
		}
		choice["delta"] = message
		calls, _ := message["tool_calls"].([]any)
		for i, call := range calls {
			if call, ok := call.(map[string]any); ok {
				call["index"] = i
			}
		}
	}
	data, err := json.Marshal(c)
	if err != nil || len(choices) == 0 {
		return nil
	}
	return []wire.Event{{Data: data}, {Data: []byte("[DONE]")}}
}

// last returns the more careful of two reasons: some servers send a second one.
func last(one, other string) string {
	for _, reason := range []string{"error", "length", "content_filter"} {
		if one == reason || other == reason {
			return reason
		}
	}
	if one == "" {
		return other
	}
	return one
}

// add adds what a chunk has of the answer, and reports whether it has some.
func (g *gathering) add(d delta) (some bool, err error) {
	text, thought := g.content(d.Content)
	for _, f := range []struct {
		name string
		text wire.Text
	}{{contentField, d.Thoughts}, {"reasoning", d.Reasoning}} { // some servers send the same thoughts in both
		if f.text != "" && (g.field == "" || g.field == f.name) && thought == "" {
			g.field, thought = f.name, string(f.text)
		}
	}
	if d.Refusal != "" {
		g.refused = true
		text += string(d.Refusal)
	}
	for _, raw := range d.Details {
		g.detail(raw)
		if err := g.Keep(len(raw), 0); err != nil {
			return true, err
		}
	}
	for _, p := range []model.Piece{{Thinking: thought}, {Text: text}} {
		g.thinking.WriteString(p.Thinking)
		g.text.WriteString(p.Text)
		if err := g.Say(p); err != nil {
			return true, err
		}
	}
	for _, p := range d.Calls {
		if err := g.piece(p); err != nil {
			return true, err
		}
	}
	return text != "" || len(d.Calls) > 0, nil
}

// content returns the text and the thoughts of a content: a string, or a list of parts.
func (g *gathering) content(raw json.RawMessage) (text, thought string) {
	if len(raw) == 0 || raw[0] != '[' {
		json.Unmarshal(raw, &text) // null and other values are empty
		return text, ""
	}
	var parts []struct {
		Type     string
		Text     wire.Text
		Thinking json.RawMessage
	}
	if json.Unmarshal(raw, &parts) != nil {
		return "", ""
	}
	for _, p := range parts {
		if p.Type != "thinking" {
			text += string(p.Text)
			continue
		}
		g.chunk = true
		more, _ := g.content(p.Thinking) // a string, or a list of texts
		thought += more
	}
	return text, thought
}

// A detail is a piece of thinking from OpenRouter, which wants it back with the pieces put
// together.
type detail map[string]any

// detail adds a piece of thinking to the one that it continues.
func (g *gathering) detail(raw json.RawMessage) {
	var d detail
	if json.Unmarshal(raw, &d) != nil || len(d) == 0 {
		return
	}
	if n := len(g.details); n > 0 {
		before := g.details[n-1]
		if before["type"] == d["type"] && before["index"] == d["index"] && (d["id"] == nil || before["id"] == nil || before["id"] == d["id"]) {
			for key, value := range d {
				old, _ := before[key].(string)
				if more, ok := value.(string); ok && (key == "text" || key == "summary" || key == "data" && old != more) {
					before[key] = old + more
				} else if value != nil {
					before[key] = value
				}
			}
			return
		}
	}
	g.details = append(g.details, d)
}

// piece adds a piece to its call. Some servers give all calls the same index, or none. So a
// name with a different id starts a new call, and so does a name without an id if the call
// before is complete.
func (g *gathering) piece(p piece) error {
	var c *call
	if n := len(g.calls); p.Index != nil {
		c = g.byIndex[*p.Index]
	} else if n > 0 {
		c = g.calls[n-1]
	}
	id, name := string(p.ID), string(p.Function.Name)
	if c != nil && name != "" && (id != "" && id != c.id || id == "" && (name != c.tool || c.isWhole())) {
		c = nil
	}
	if c != nil && name == "" && id != "" && id != c.id && p.Index == nil {
		for _, known := range g.calls {
			if known.id == id {
				c = known
			}
		}
	}
	started := 0
	if c == nil {
		c, started = &call{id: id, tool: name}, 1
		g.calls = append(g.calls, c)
		if p.Index != nil {
			if g.byIndex == nil {
				g.byIndex = map[int64]*call{}
			}
			g.byIndex[*p.Index] = c
		}
	}
	args := wire.Args(p.Function.Arguments)
	c.args.WriteString(args)
	if len(p.Extra) > 0 && string(p.Extra) != "null" {
		c.proof = append(json.RawMessage{}, p.Extra...)
	}
	return g.Keep(len(args)+len(p.Extra)+len(id)+len(name), started)
}

// isWhole reports whether the arguments so far are complete. It looks only at short ones: a
// server that sends long ones in pieces gives them an id.
func (c *call) isWhole() bool {
	return c.args.Len() == 0 || c.args.Len() < 4<<10 && json.Valid([]byte(c.args.String()))
}

// count records the tokens that a chunk reports. The last report counts.
func (g *gathering) count(u *usage) {
	if u == nil || u.Input+u.Output == 0 {
		return
	}
	g.usage = u.read(g.charges)
}

func (u *usage) read(charges bool) model.Usage {
	read := min(max(u.In.Cached, u.Hit, u.Cached), u.Input)
	output := u.Output
	if more := u.Out.Reasoning; more > 0 && u.Total == u.Input+output+more {
		output += more // this server counts thoughts apart
	}
	all := model.Usage{Input: int64(u.Input - read), Output: int64(output), CacheRead: int64(read)}.Clamped()
	if charges {
		all.Charged = int64(u.Cost)
	}
	return all
}

// ReadUsage reads the usage in a chunk or a completion, an object. If the server charges, it
// says there what an answer costs.
func ReadUsage(object []byte, charges bool) (model.Usage, error) {
	var u usage
	err := json.Unmarshal(object, &u)
	return u.read(charges), err
}

// answer returns the answer of a stream that has finished.
func (g *gathering) answer() model.Answer {
	a := model.Answer{Usage: g.usage, Model: g.model, Stop: model.Done}
	if g.thinking.Len() > 0 || len(g.details) > 0 {
		p := proof{From: g.Client.Base.Host, Field: g.field, Chunk: g.chunk}
		for _, d := range g.details {
			raw, _ := json.Marshal(d) // it was JSON before
			p.Details = append(p.Details, raw)
		}
		text, _ := json.Marshal(p) // it has only JSON and strings
		a.Parts = append(a.Parts, model.Part{Thinking: &model.Thinking{Text: g.thinking.String(), Proof: text}})
	}
	if g.text.Len() > 0 {
		a.Parts = append(a.Parts, model.Part{Text: g.text.String()})
	}
	for _, c := range g.calls {
		a.Parts = append(a.Parts, model.Part{Call: &model.Call{ID: c.id, Tool: c.tool, Args: c.args.String(), Proof: c.proof}})
		a.Stop = model.Calls // even if the server says "stop"
	}
	switch {
	case g.end == "length":
		a.Stop = model.Length
	case g.end == "content_filter":
		a.Stop, a.Why = model.Refused, g.end
	case g.refused:
		a.Stop = model.Refused
	}
	return a
}
