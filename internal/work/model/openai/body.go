package openai

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/model/wire"
)

// A body is a request.
type body struct {
	Model         string         `json:"model"`
	Stream        bool           `json:"stream"`
	StreamOptions *streamOptions `json:"stream_options,omitempty"`
	MaxTokens     int64          `json:"max_tokens,omitempty"`
	MaxCompletion int64          `json:"max_completion_tokens,omitempty"`
	Temperature   *float64       `json:"temperature,omitempty"`
	Effort        string         `json:"reasoning_effort,omitempty"`
	Reasoning     object         `json:"reasoning,omitempty"`
	Thinking      object         `json:"thinking,omitempty"`
	Format        object         `json:"response_format,omitempty"`
	Tools         []object       `json:"tools,omitempty"`
	Messages      []object       `json:"messages"`
}

type streamOptions struct {
	Usage bool `json:"include_usage"`
}

// An object is an object of JSON.
type object = map[string]any

// body converts a request for the API.
func (m *Model) body(r model.Request, refuses wire.Refuses) (body, error) {
	b := body{Model: m.name, Stream: true, Temperature: r.Temperature, Messages: []object{}}
	if !m.dialect.NoUsage {
		b.StreamOptions = &streamOptions{true}
	}
	if Reasons(m.name) != refuses.OtherMax {
		b.MaxCompletion = r.MaxTokens
	} else {
		b.MaxTokens = r.MaxTokens
	}
	if len(r.Schema) > 0 && (m.dialect.Schema == AlwaysSchema || m.dialect.Schema == AloneSchema && len(r.Tools) == 0) {
		b.Format = object{"type": "json_schema", "json_schema": object{"name": "answer", "schema": r.Schema}}
	}
	m.think(&b, r)
	for _, t := range r.Tools {
		f := object{"name": t.Name}
		if t.Description != "" {
			f["description"] = t.Description
		}
		if len(t.Schema) > 0 {
			f["parameters"] = t.Schema
		}
		if !isSchema(t.Schema) {
			return b, badSchema(m.client, t)
		}
		b.Tools = append(b.Tools, object{"type": "function", "function": f})
	}
	if r.System != "" {
		b.Messages = append(b.Messages, object{"role": "system", "content": r.System})
	}
	working := workingTurns(r.Messages)
	for i, message := range r.Messages {
		if message.Role == model.Assistant {
			b.Messages = append(b.Messages, m.fromModel(message, working[i])...)
			continue
		}
		told, err := m.fromUser(message)
		if err != nil {
			return b, err
		}
		b.Messages = append(b.Messages, told...)
	}
	return b, nil
}

// isSchema reports whether a schema is absent or an object of JSON.
func isSchema(schema json.RawMessage) bool {
	var any map[string]json.RawMessage
	return len(schema) == 0 || json.Unmarshal(schema, &any) == nil
}

func badSchema(c *wire.Client, t model.Tool) error {
	return &model.Error{Class: model.Bad, Model: c.Model, What: "the schema of the tool " + visible.Name(t.Name) + " is not one", Hint: "a schema is a JSON object"}
}

// think sets how much the model thinks.
func (m *Model) think(b *body, r model.Request) {
	effort := string(r.Effort)
	if effort == "" {
		return
	}
	switch m.dialect.Effort {
	case EffortField:
		b.Effort = effort
	case EffortObject:
		b.Reasoning = object{"effort": effort}
	case EffortNoneHigh:
		if b.Effort = "high"; r.Effort == model.NoEffort {
			b.Effort = effort
		}
	case EffortSwitch:
		if r.Effort == model.NoEffort {
			b.Thinking = object{"type": "disabled"}
			return
		}
		b.Thinking, b.Effort = object{"type": "enabled"}, effort
	}
}

// workingTurns reports for each message whether it is of a turn with calls. A turn goes from
// one message of the user to the next; results of calls do not end it.
func workingTurns(messages []model.Message) []bool {
	working := make([]bool, len(messages))
	begin, calls := 0, false
	end := func(at int) {
		for i := begin; i < at; i++ {
			working[i] = calls
		}
		begin, calls = at, false
	}
	for i, m := range messages {
		results := false
		for _, p := range m.Parts {
			results, calls = results || p.Result != nil, calls || p.Call != nil
		}
		if m.Role == model.User && !results {
			end(i)
		}
	}
	end(len(messages))
	return working
}

// fromModel converts a message of the model. The API accepts no empty message.
func (m *Model) fromModel(message model.Message, working bool) []object {
	var text strings.Builder
	var calls, chunks []object
	var details []json.RawMessage
	fields := map[string]string{}
	for _, p := range message.Parts {
		switch {
		case p.Call != nil:
			c := object{"id": m.fitID(p.Call.ID), "type": "function", "function": object{"name": p.Call.Tool, "arguments": string(p.Call.SentArgs())}}
			if extra := extraOf(p.Call.Proof); extra != nil {
				c["extra_content"] = extra
			}
			calls = append(calls, c)
		case p.Thinking != nil:
			var proof proof
			if json.Unmarshal(p.Thinking.Proof, &proof) != nil || proof.From != m.client.Base.Host {
				continue // another vendor's
			}
			details = append(details, proof.Details...)
			if proof.Field != "" {
				fields[proof.Field] += p.Thinking.Text
			}
			if proof.Chunk {
				chunks = append(chunks, object{"type": "thinking", "thinking": []object{{"type": "text", "text": p.Thinking.Text}}})
			}
		case p.Text != "":
			text.WriteString(p.Text)
			chunks = append(chunks, object{"type": "text", "text": p.Text})
		}
	}
	if text.Len() == 0 && len(calls) == 0 {
		return nil
	}
	a := object{"role": "assistant"}
	if text.Len() > 0 {
		a["content"] = text.String()
	}
	if len(calls) > 0 {
		a["tool_calls"] = calls
	}
	switch m.dialect.Thoughts {
	case ThoughtField:
		for name, thought := range fields {
			if working {
				a[name] = thought
			}
		}
	case ThoughtAlways:
		if working {
			a[contentField] = fields[contentField]
		}
	case ThoughtDetails:
		if len(details) > 0 {
			a["reasoning_details"] = details
		}
	case ThoughtChunks:
		if len(chunks) > 0 && chunks[0]["type"] == "thinking" {
			a["content"] = chunks
		}
	}
	return []object{a}
}

// extraOf returns the signature of a call that a server sent as extra_content, nil if another
// vendor signed it.
func extraOf(proof json.RawMessage) any {
	var fields map[string]json.RawMessage
	if json.Unmarshal(proof, &fields) != nil || len(fields) == 0 || fields["gemini_signature"] != nil {
		return nil
	}
	return proof
}

// fromUser converts a message of the user: first the results, each as its own message,
// then the rest.
func (m *Model) fromUser(message model.Message) (list []object, err error) {
	var parts []object
	onlyText := true
	for _, p := range message.Parts {
		switch {
		case p.Result != nil:
			list = append(list, object{"role": "tool", "tool_call_id": m.fitID(p.Result.ID), "content": p.Result.Text})
		case p.File != nil:
			file, err := m.file(*p.File)
			if err != nil {
				return nil, err
			}
			parts, onlyText = append(parts, file...), false
		case p.Text != "":
			parts = append(parts, object{"type": "text", "text": p.Text})
		}
	}
	if len(list) > 0 && len(parts) > 0 && m.dialect.Strict {
		list = append(list, object{"role": "assistant", "content": "I have the results."})
	}
	switch {
	case len(parts) == 1 && onlyText: // the form that every server accepts
		list = append(list, object{"role": "user", "content": parts[0]["text"]})
	case len(parts) > 0:
		list = append(list, object{"role": "user", "content": parts})
	}
	return list, nil
}

func (m *Model) file(f model.File) ([]object, error) {
	inline := "data:" + f.Type + ";base64," + base64.StdEncoding.EncodeToString(f.Data)
	switch {
	case slices.Contains(model.ImageTypes, f.Type) && !m.dialect.NoImages:
		return []object{{"type": "image_url", "image_url": object{"url": inline}}}, nil
	case f.Type == model.PDF && m.dialect.PDF == FilePDF:
		return []object{{"type": "file", "file": object{"filename": f.Name, "file_data": inline}}}, nil
	case f.Type == model.PDF && m.dialect.PDF == DocumentPDF:
		return []object{{"type": "document_url", "document_url": inline, "document_name": f.Name}}, nil
	case strings.HasPrefix(f.Type, "text/"):
		return []object{{"type": "text", "text": "The file " + f.Name + " follows."}, {"type": "text", "text": string(f.Data)}}, nil
	}
	return nil, m.client.Refuse(f, m.FileTypes())
}

// FileTypes implements [model.FileTaker].
func (m *Model) FileTypes() (types []string) {
	if !m.dialect.NoImages {
		types = append(types, model.ImageTypes...)
	}
	if m.dialect.PDF != NoPDF {
		types = append(types, model.PDF)
	}
	return types
}

// fitID returns a valid id for the server.
func (m *Model) fitID(id string) string {
	if !m.dialect.Strict {
		return id
	}
	odd := func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') }
	if len(id) == 9 && !strings.ContainsFunc(id, odd) {
		return id
	}
	return model.FitID(id, 0, odd)[len("call_"):][:9]
}
