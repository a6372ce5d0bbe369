package openai

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/model/wire"
)

// A ResponsesModel is a model of a server with OpenAI's API responses. The server stores
// nothing: golem sends the whole conversation, with the model's encrypted thoughts.
type ResponsesModel struct {
	name   string
	client *wire.Client
}

// NewResponses returns a model of a server with the API responses.
func NewResponses(name string, s wire.Server) *ResponsesModel {
	return &ResponsesModel{name: name, client: wire.NewClient(s)}
}

// Answer implements [model.Model].
func (m *ResponsesModel) Answer(ctx context.Context, r model.Request, tell func(model.Piece)) (model.Answer, error) {
	return m.client.Adjust(r, tell, func(r model.Request, refuses wire.Refuses) (model.Answer, error) {
		body, err := m.body(r, refuses)
		if err != nil {
			return model.Answer{}, err
		}
		g := m.gather(tell)
		err = m.client.Stream(ctx, wire.Call{Path: "responses", Body: body, Split: splitResponse}, g.take)
		return g.finish(r, err)
	})
}

// splitResponse returns the last event of a response that came as one document. That event
// has the whole.
func splitResponse(document []byte) []wire.Event {
	var r struct{ Object, Status string }
	if json.Unmarshal(document, &r) != nil || r.Object != "response" {
		return nil
	}
	kind := "response.completed"
	if r.Status == "failed" || r.Status == "incomplete" {
		kind = "response." + r.Status
	}
	data, err := json.Marshal(map[string]any{"type": kind, "response": json.RawMessage(document)})
	if err != nil {
		return nil
	}
	return []wire.Event{{Name: kind, Data: data}}
}

// body converts a request for the API.
func (m *ResponsesModel) body(r model.Request, refuses wire.Refuses) (object, error) {
	b := object{"model": m.name, "stream": true, "store": false}
	if r.System != "" {
		b["instructions"] = r.System
	}
	if r.MaxTokens > 0 {
		b["max_output_tokens"] = max(r.MaxTokens, 16) // the API refuses less
	}
	if r.Temperature != nil {
		b["temperature"] = *r.Temperature
	}
	if Reasons(m.name) || !strings.HasPrefix(m.name, "gpt-") {
		if !refuses.Proofs {
			b["include"] = []string{"reasoning.encrypted_content"}
		}
		reasoning := object{}
		if r.Effort != "" {
			reasoning["effort"] = r.Effort
		}
		if r.Thoughts {
			reasoning["summary"] = "auto"
		}
		if len(reasoning) > 0 {
			b["reasoning"] = reasoning
		}
	}
	if len(r.Schema) > 0 {
		b["text"] = object{"format": object{"type": "json_schema", "name": "answer", "schema": r.Schema}}
	}
	var tools []object
	for _, t := range r.Tools {
		if !isSchema(t.Schema) {
			return b, badSchema(m.client, t)
		}
		f := object{"type": "function", "name": t.Name, "strict": false, "parameters": json.RawMessage(`{"type":"object","properties":{}}`)}
		if t.Description != "" {
			f["description"] = t.Description
		}
		if len(t.Schema) > 0 {
			f["parameters"] = t.Schema
		}
		tools = append(tools, f)
	}
	if len(tools) > 0 {
		b["tools"] = tools
	}
	input := []object{}
	for _, message := range r.Messages {
		if message.Role == model.Assistant {
			input = append(input, fromResponses(message)...)
			continue
		}
		told, err := m.fromUser(message)
		if err != nil {
			return b, err
		}
		input = append(input, told...)
	}
	b["input"] = input
	return b, nil
}

// An itemProof is a thought as the API wants it back.
type itemProof struct {
	Item *thoughtItem `json:"openai_item,omitempty"`
}

// A thoughtItem is a thought of the model.
type thoughtItem struct {
	Type      string            `json:"type"`
	ID        string            `json:"id"`
	Summary   []json.RawMessage `json:"summary"`
	Encrypted string            `json:"encrypted_content"`
}

// fromResponses converts a message of the model. The API refuses a thought that nothing
// follows.
func fromResponses(message model.Message) (items []object) {
	var thoughts []object
	add := func(item object) {
		items = append(append(items, thoughts...), item)
		thoughts = nil
	}
	for _, p := range message.Parts {
		switch {
		case p.Thinking != nil:
			var proof itemProof
			if json.Unmarshal(p.Thinking.Proof, &proof) == nil && proof.Item != nil && proof.Item.Encrypted != "" {
				thoughts = append(thoughts, object{"type": "reasoning", "id": proof.Item.ID, "summary": proof.Item.Summary, "encrypted_content": proof.Item.Encrypted})
			}
		case p.Call != nil:
			add(object{"type": "function_call", "call_id": fitCallID(p.Call.ID), "name": p.Call.Tool, "arguments": string(p.Call.SentArgs())})
		case p.Text != "":
			add(object{"type": "message", "role": "assistant", "content": []object{{"type": "output_text", "text": p.Text}}})
		}
	}
	return items
}

// FileTypes implements [model.FileTaker].
func (m *ResponsesModel) FileTypes() []string { return model.AllFileTypes() }

// fromUser converts a message of the user: first the results, then the rest.
func (m *ResponsesModel) fromUser(message model.Message) (items []object, err error) {
	var parts []object
	for _, p := range message.Parts {
		switch {
		case p.Result != nil:
			items = append(items, object{"type": "function_call_output", "call_id": fitCallID(p.Result.ID), "output": p.Result.Text})
		case p.File != nil:
			inline := "data:" + p.File.Type + ";base64," + base64.StdEncoding.EncodeToString(p.File.Data)
			switch f := *p.File; {
			case slices.Contains(model.ImageTypes, f.Type):
				parts = append(parts, object{"type": "input_image", "image_url": inline, "detail": "auto"})
			case f.Type == model.PDF:
				parts = append(parts, object{"type": "input_file", "filename": f.Name, "file_data": inline})
			case strings.HasPrefix(f.Type, "text/"):
				parts = append(parts, object{"type": "input_text", "text": "The file " + f.Name + " follows."}, object{"type": "input_text", "text": string(f.Data)})
			default:
				return nil, m.client.Refuse(f, m.FileTypes())
			}
		case p.Text != "":
			parts = append(parts, object{"type": "input_text", "text": p.Text})
		}
	}
	if len(parts) > 0 {
		items = append(items, object{"type": "message", "role": "user", "content": parts})
	}
	return items, nil
}

// fitCallID returns a valid id for the API.
func fitCallID(id string) string { return model.FitID(id, 64, func(rune) bool { return false }) }

// A responding builds an answer from the events of a stream. The answer is complete only if
// the server ended it, and each of its items.
type responding struct {
	wire.Listener
	items []*item
	stop  model.Stop // "" until the server ends the answer
	why   string
	usage model.Usage
	model string
}

func (m *ResponsesModel) gather(tell func(model.Piece)) *responding {
	return &responding{Listener: wire.Listener{Client: m.client, Tell: tell}}
}

// An item is a part of the answer.
type item struct {
	index int64
	done  bool
	told  bool            // pieces of it were passed on
	args  strings.Builder // of a call that is not done
	text  strings.Builder // of a message that is not done
	outputItem
}

// An outputItem is an item as the server sends it.
type outputItem struct {
	Type      string
	ID        string
	CallID    string `json:"call_id"`
	Name      string
	Arguments json.RawMessage
	Encrypted wire.Text `json:"encrypted_content"`
	Summary   []json.RawMessage
	Content   []struct {
		Type    string
		Text    wire.Text
		Refusal wire.Text
	}
}

// A respondEvent is an event of the stream, with the fields of all types.
type respondEvent struct {
	Type  string
	Index int64 `json:"output_index"`
	Delta json.RawMessage
	Item  outputItem
	Part  struct{ Type string }

	Response struct {
		Model      string
		Status     string
		Error      json.RawMessage
		Incomplete struct{ Reason string } `json:"incomplete_details"`
		Output     []outputItem
		Usage      *respondUsage
	}
}

type respondUsage struct {
	Input  wire.Count `json:"input_tokens"`
	Output wire.Count `json:"output_tokens"`
	In     struct {
		Cached wire.Count `json:"cached_tokens"`
	} `json:"input_tokens_details"`
}

func (u *respondUsage) read() model.Usage {
	read := min(u.In.Cached, u.Input)
	return model.Usage{Input: int64(u.Input - read), Output: int64(u.Output), CacheRead: int64(read)}.Clamped()
}

// ReadResponseUsage reads the usage of a response, an object.
func ReadResponseUsage(object []byte) (model.Usage, error) {
	var u respondUsage
	err := json.Unmarshal(object, &u)
	return u.read(), err
}

// take processes an event.
func (g *responding) take(sent wire.Event) (done bool, err error) {
	if strings.TrimSpace(string(sent.Data)) == "[DONE]" {
		return true, nil
	}
	var e respondEvent
	if err := json.Unmarshal(sent.Data, &e); err != nil {
		return false, err
	}
	if e.Response.Model != "" {
		g.model = e.Response.Model
	}
	switch e.Type {
	case "error", "":
		return false, g.Client.Streamed(sent.Data)
	case "response.failed":
		return false, g.Client.Streamed(e.Response.Error)
	case "response.output_item.added":
		return false, g.start(e.Index, e.Item)
	case "response.output_item.done":
		return false, g.end(e.Index, e.Item)
	case "response.output_text.delta", "response.refusal.delta", "response.function_call_arguments.delta",
		"response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return false, g.piece(e)
	case "response.reasoning_summary_part.added":
		if i := g.at(e.Index); i != nil && i.told {
			return false, g.Say(model.Piece{Thinking: "\n\n"})
		}
	case "response.completed", "response.incomplete", "response.done":
		return true, g.close(e)
	}
	return false, nil
}

// at returns the item with an index, nil if there is none.
func (g *responding) at(index int64) *item {
	for i := len(g.items) - 1; i >= 0; i-- { // nearly always the last
		if g.items[i].index == index {
			return g.items[i]
		}
	}
	return nil
}

func (g *responding) start(index int64, o outputItem) error {
	if g.at(index) != nil {
		return g.Client.Bad("a second item %d", index)
	}
	g.items = append(g.items, &item{index: index, outputItem: o})
	return g.Keep(0, 1)
}

func (g *responding) piece(e respondEvent) error {
	i := g.at(e.Index)
	if i == nil || i.done {
		return g.Client.Bad("a piece of item %d, which is not open", e.Index)
	}
	if e.Type == "response.function_call_arguments.delta" {
		args := wire.Args(e.Delta)
		i.args.WriteString(args)
		return g.Keep(len(args), 0)
	}
	var text wire.Text
	json.Unmarshal(e.Delta, &text) // reading a Text never fails
	i.told = true
	if strings.HasPrefix(e.Type, "response.reasoning") {
		return g.Say(model.Piece{Thinking: string(text)})
	}
	i.text.WriteString(string(text))
	return g.Say(model.Piece{Text: string(text)})
}

// end replaces the pieces of an item with the whole.
func (g *responding) end(index int64, o outputItem) error {
	i := g.at(index)
	if i == nil {
		if err := g.start(index, o); err != nil {
			return err
		}
		i = g.at(index)
	}
	if i.done {
		return g.Client.Bad("a second end of item %d", index)
	}
	if o.Type == "" {
		o.Type = i.Type
	}
	i.outputItem, i.done = o, true
	if err := g.Keep(len(o.Encrypted), 0); err != nil || i.told {
		return err
	}
	return g.Say(model.Piece{Text: i.said()}) // the server sent no pieces
}

// said returns the text of a message.
func (i *item) said() (text string) {
	for _, c := range i.Content {
		if i.Type == "message" {
			text += string(c.Text + c.Refusal)
		}
	}
	return text
}

// close processes the last event.
func (g *responding) close(e respondEvent) error {
	if u := e.Response.Usage; u != nil {
		g.usage = u.read()
	}
	g.stop = model.Done
	if e.Type == "response.incomplete" || e.Response.Status == "incomplete" {
		if g.stop, g.why = model.Length, e.Response.Incomplete.Reason; g.why == "content_filter" {
			g.stop = model.Refused
		}
	}
	if len(g.items) == 0 { // the server sent only the whole
		for n, o := range e.Response.Output {
			if err := g.end(int64(n), o); err != nil {
				return err
			}
		}
	}
	if g.stop != model.Done {
		return nil
	}
	if slices.ContainsFunc(g.items, func(i *item) bool { return !i.done }) {
		return g.Client.Bad("the end of an answer that is not finished")
	}
	return nil
}

// finish returns the answer of a stream that ended with an error, nil if the server ended it.
func (g *responding) finish(r model.Request, err error) (model.Answer, error) {
	if errors.Is(err, io.EOF) || err == nil && g.stop == "" {
		err = g.Client.CutOff()
	}
	if err != nil {
		return model.Answer{}, err
	}
	a := model.Answer{Usage: g.usage, Model: g.model, Stop: g.stop, Why: g.why}
	slices.SortStableFunc(g.items, func(a, b *item) int { return int(a.index - b.index) })
	for _, i := range g.items {
		switch i.Type {
		case "reasoning":
			a.Parts = append(a.Parts, i.thought())
		case "message":
			text := i.said()
			if !i.done {
				text = i.text.String()
			}
			if text != "" {
				a.Parts = append(a.Parts, model.Part{Text: text})
			}
			for _, c := range i.Content {
				if c.Type == "refusal" && a.Stop == model.Done || c.Type == "refusal" && a.Stop == model.Calls {
					a.Stop = model.Refused
				}
			}
		case "function_call":
			args := wire.Args(i.Arguments)
			if args == "" {
				args = i.args.String()
			}
			a.Parts = append(a.Parts, model.Part{Call: &model.Call{ID: i.CallID, Tool: i.Name, Args: args}})
			if a.Stop == model.Done {
				a.Stop = model.Calls
			}
		}
	}
	model.Distinct(r.Messages, a.Parts)
	return a, nil
}

// thought returns a thought with what the API wants back.
func (i *item) thought() model.Part {
	var texts []string
	for _, raw := range i.Summary {
		var s struct{ Text wire.Text }
		if json.Unmarshal(raw, &s) == nil && s.Text != "" {
			texts = append(texts, string(s.Text))
		}
	}
	for _, c := range i.Content {
		if c.Text != "" {
			texts = append(texts, string(c.Text))
		}
	}
	t := model.Thinking{Text: strings.Join(texts, "\n\n")}
	if i.Encrypted != "" {
		summary := i.Summary
		if summary == nil {
			summary = []json.RawMessage{}
		}
		t.Proof, _ = json.Marshal(itemProof{&thoughtItem{"reasoning", i.ID, summary, string(i.Encrypted)}}) // it was JSON before
	}
	return model.Part{Thinking: &t}
}
