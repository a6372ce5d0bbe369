package gemini

import (
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/model/wire"
)

// A gathering builds an answer from the chunks of a stream. The answer is complete only if
// the server sent a reason why it finished.
type gathering struct {
	wire.Listener
	parts []model.Part
	text  strings.Builder // of the part that is open
	kind  kind            // of the part that is open
	proof string          // signature of a text
	end   string
	block string // why the server refuses the request
	usage model.Usage
	model string
}

type kind int

const (
	noText kind = iota
	plainText
	thoughtText
)

// gather returns a gathering for an answer.
func (m *Model) gather(tell func(model.Piece)) *gathering {
	return &gathering{Listener: wire.Listener{Client: m.client, Tell: tell}}
}

// A chunk is an event of the stream.
type chunk struct {
	Candidates []struct {
		Index   wire.Count
		Content struct {
			Parts []part
		}
		Finish  wire.Text `json:"finishReason"`
		Message wire.Text `json:"finishMessage"`
	}
	Feedback struct {
		Reason wire.Text `json:"blockReason"`
	} `json:"promptFeedback"`
	Usage *usage    `json:"usageMetadata"`
	Model wire.Text `json:"modelVersion"`
	Error json.RawMessage
}

type usage struct {
	Input    wire.Count `json:"promptTokenCount"`
	ToolUse  wire.Count `json:"toolUsePromptTokenCount"`
	Cached   wire.Count `json:"cachedContentTokenCount"`
	Output   wire.Count `json:"candidatesTokenCount"`
	Thoughts wire.Count `json:"thoughtsTokenCount"`
}

func (u *usage) read() model.Usage {
	input := u.Input + u.ToolUse
	read := min(u.Cached, input)
	return model.Usage{Input: int64(input - read), Output: int64(u.Output + u.Thoughts), CacheRead: int64(read)}.Clamped()
}

// ReadUsage reads the usageMetadata of a chunk, an object.
func ReadUsage(object []byte) (model.Usage, error) {
	var u usage
	err := json.Unmarshal(object, &u)
	return u.read(), err
}

type part struct {
	Text      wire.Text
	Thought   bool
	Signature wire.Text `json:"thoughtSignature"`
	Call      *struct {
		ID   wire.Text
		Name wire.Text
		Args json.RawMessage
	} `json:"functionCall"`
}

// splitDocument returns the events of an answer that came as one document, or as a list of
// chunks.
func splitDocument(document []byte) (events []wire.Event) {
	var list []json.RawMessage
	if json.Unmarshal(document, &list) != nil {
		list = []json.RawMessage{document}
	}
	for _, data := range list {
		var c struct{ Candidates, PromptFeedback json.RawMessage }
		if json.Unmarshal(data, &c) != nil || len(events) == 0 && c.Candidates == nil && c.PromptFeedback == nil {
			return nil
		}
		events = append(events, wire.Event{Data: data})
	}
	return events
}

// take processes an event.
func (g *gathering) take(sent wire.Event) (done bool, err error) {
	var c chunk
	if err := json.Unmarshal(sent.Data, &c); err != nil {
		return false, err
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return false, g.Client.Streamed(sent.Data)
	}
	if c.Model != "" {
		g.model = string(c.Model)
	}
	if u := c.Usage; u != nil {
		g.usage = u.read()
	}
	if c.Feedback.Reason != "" {
		g.block = string(c.Feedback.Reason)
	}
	for _, candidate := range c.Candidates {
		if candidate.Index != 0 {
			continue // golem asked for only one
		}
		for _, p := range candidate.Content.Parts {
			if err := g.add(p); err != nil {
				return false, err
			}
		}
		if candidate.Finish == "" {
			continue
		}
		g.end = string(candidate.Finish)
		switch g.end {
		case "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "OTHER":
			return false, g.Client.Failed("the model broke off its answer: %s", strings.TrimSpace(g.end+" "+string(candidate.Message)))
		case "MISSING_THOUGHT_SIGNATURE":
			return false, g.Client.Bad("the model broke off its answer: %s", strings.TrimSpace(g.end+" "+string(candidate.Message)))
		}
	}
	return false, nil
}

// add adds a part of the answer. The server sends texts in pieces, and calls as a whole.
func (g *gathering) add(p part) error {
	if g.end != "" && (p.Text != "" || p.Call != nil) {
		g.end = "" // an end before this was none
	}
	if p.Call != nil {
		g.closeText()
		call := model.Call{ID: string(p.Call.ID), Tool: string(p.Call.Name), Args: wire.Args(p.Call.Args)}
		if call.Args == "" {
			call.Args = "{}" // the API leaves out an empty object
		}
		if p.Signature != "" {
			call.Proof, _ = json.Marshal(map[string]string{"gemini_signature": string(p.Signature)}) // a string can always be encoded
		}
		g.parts = append(g.parts, model.Part{Call: &call})
		return g.Keep(len(call.Args)+len(p.Signature), 1)
	}
	said := plainText
	if p.Thought {
		said = thoughtText
	}
	if said != g.kind && p.Text != "" {
		g.closeText()
		g.kind = said
	}
	g.text.WriteString(string(p.Text))
	if p.Signature != "" {
		g.proof = string(p.Signature)
	}
	if err := g.Keep(len(p.Signature), 0); err != nil {
		return err
	}
	if p.Thought {
		return g.Say(model.Piece{Thinking: string(p.Text)})
	}
	return g.Say(model.Piece{Text: string(p.Text)})
}

// closeText ends the text that is open.
func (g *gathering) closeText() {
	text := g.text.String()
	switch {
	case g.kind == plainText && text != "":
		g.parts = append(g.parts, model.Part{Text: text})
	case g.kind == thoughtText:
		g.parts = append(g.parts, model.Part{Thinking: &model.Thinking{Text: text}})
	}
	if g.proof != "" && g.kind == plainText {
		signed, _ := json.Marshal(map[string]string{"gemini_signature": g.proof}) // a string can always be encoded
		g.parts = append(g.parts, model.Part{Thinking: &model.Thinking{Proof: signed}})
	}
	g.text.Reset()
	g.kind, g.proof = noText, ""
}

// finish returns the answer of a stream that ended with an error; io.EOF is its end.
func (g *gathering) finish(r model.Request, err error) (model.Answer, error) {
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err == nil && g.end == "" && g.block == "" {
		err = g.Client.CutOff()
	}
	if err != nil {
		return model.Answer{}, err
	}
	g.closeText()
	a := model.Answer{Parts: g.parts, Usage: g.usage, Model: g.model, Stop: model.Done}
	for _, p := range g.parts {
		if p.Call != nil {
			a.Stop = model.Calls
		}
	}
	switch {
	case g.block != "":
		a.Stop, a.Why = model.Refused, g.block
	case g.end == "MAX_TOKENS":
		a.Stop = model.Length
	case g.end != "STOP": // SAFETY, RECITATION, BLOCKLIST, PROHIBITED_CONTENT, SPII and others
		a.Stop, a.Why = model.Refused, g.end
	}
	model.Distinct(r.Messages, a.Parts)
	return a, nil
}
