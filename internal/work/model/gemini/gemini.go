// Package gemini implements model.Model with the Gemini API of Google.
package gemini

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/model/wire"
)

// Header is the header for the key.
const Header = "X-Goog-Api-Key"

// A Model is a model of Google.
type Model struct {
	name   string
	client *wire.Client
}

// New returns a model of a server.
func New(name string, s wire.Server) *Model {
	return &Model{name: strings.TrimPrefix(name, "models/"), client: wire.NewClient(s)}
}

// Answer implements [model.Model].
func (m *Model) Answer(ctx context.Context, r model.Request, tell func(model.Piece)) (model.Answer, error) {
	return m.client.Adjust(r, tell, func(r model.Request, _ wire.Refuses) (model.Answer, error) {
		body, err := m.body(r)
		if err != nil {
			return model.Answer{}, err
		}
		g := m.gather(tell)
		err = m.client.Stream(ctx, wire.Call{Path: "models/" + m.name + ":streamGenerateContent", Query: "alt=sse", Body: body, Split: splitDocument}, g.take)
		return g.finish(r, err)
	})
}

// A body is a request.
type body struct {
	System   *content  `json:"systemInstruction,omitempty"`
	Contents []content `json:"contents"`
	Tools    []object  `json:"tools,omitempty"`
	Config   object    `json:"generationConfig,omitempty"`
}

type content struct {
	Role  string   `json:"role,omitempty"`
	Parts []object `json:"parts"`
}

// An object is an object of JSON.
type object = map[string]any

// body converts a request for the API.
func (m *Model) body(r model.Request) (body, error) {
	b := body{Contents: []content{}, Config: object{}}
	if r.System != "" {
		b.System = &content{Parts: []object{{"text": r.System}}}
	}
	var tools []object
	for _, t := range r.Tools {
		f := object{"name": t.Name}
		if t.Description != "" {
			f["description"] = t.Description
		}
		if len(t.Schema) > 0 {
			f["parametersJsonSchema"] = t.Schema
		}
		tools = append(tools, f)
	}
	if len(tools) > 0 {
		b.Tools = []object{{"functionDeclarations": tools}}
	}
	if r.MaxTokens > 0 {
		b.Config["maxOutputTokens"] = r.MaxTokens
	}
	if r.Temperature != nil {
		b.Config["temperature"] = *r.Temperature
	}
	if thinking := m.think(r); len(thinking) > 0 {
		b.Config["thinkingConfig"] = thinking
	}
	if len(r.Schema) > 0 && (len(tools) == 0 || m.signs()) { // older models accept one or the other
		b.Config["responseMimeType"], b.Config["responseJsonSchema"] = "application/json", r.Schema
	}
	names := map[string]string{} // of the tools, by the ids of the calls
	for _, message := range r.Messages {
		parts, err := m.parts(message, names)
		if err != nil {
			return b, err
		}
		role := "user"
		if message.Role == model.Assistant {
			role = "model"
		}
		if len(parts) > 0 { // the API refuses an empty message
			b.Contents = append(b.Contents, content{role, parts})
		}
	}
	return b, nil
}

var (
	older    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(gemini-[12]\b|gemma|learnlm)`) })
	budgeted = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^gemini-2\.5`) })
)

// signs reports whether a model refuses its own calls without their signatures.
func (m *Model) signs() bool { return !older().MatchString(m.name) }

// think returns how much the model thinks.
func (m *Model) think(r model.Request) object {
	thinking := object{}
	budget := budgeted().MatchString(m.name)
	switch {
	case budget && r.Effort == model.NoEffort && strings.Contains(m.name, "pro"):
		thinking["thinkingBudget"] = 128 // this model cannot do without
	case budget && r.Effort != "":
		thinking["thinkingBudget"] = map[model.Effort]int{model.LowEffort: 1024, model.MediumEffort: 8192, model.HighEffort: 24_576}[r.Effort]
	case !budget && !m.signs(): // these models do not think
		return nil
	case r.Effort == model.NoEffort:
		thinking["thinkingLevel"] = "minimal"
	case r.Effort != "":
		thinking["thinkingLevel"] = string(r.Effort)
	}
	if r.Thoughts {
		thinking["includeThoughts"] = true
	}
	return thinking
}

// A proof is the signature that the vendor requires back with a call or a text.
type proof struct {
	Signature string `json:"gemini_signature,omitempty"`
	Google    struct {
		Signature string `json:"thought_signature,omitempty"`
	} `json:"google"` // from the API that is compatible with OpenAI's
}

func signatureOf(raw json.RawMessage) string {
	var p proof
	if json.Unmarshal(raw, &p) != nil {
		return ""
	}
	if p.Signature == "" {
		return p.Google.Signature
	}
	return p.Signature
}

// unsigned is the signature that the API accepts for a call that another model made.
const unsigned = "skip_thought_signature_validator"

// parts converts the parts of a message. Results come first, directly after their calls.
// names has the tools of the calls so far.
func (m *Model) parts(message model.Message, names map[string]string) (parts []object, err error) {
	var results []object
	first, signed := -1, false // the first call, and whether a call has a signature
	for _, p := range message.Parts {
		switch {
		case p.Call != nil:
			names[p.Call.ID] = p.Call.Tool
			part := object{"functionCall": object{"id": p.Call.ID, "name": p.Call.Tool, "args": p.Call.SentArgs()}}
			if signature := signatureOf(p.Call.Proof); signature != "" {
				part["thoughtSignature"], signed = signature, true
			}
			if first < 0 {
				first = len(parts)
			}
			parts = append(parts, part)
		case p.Result != nil:
			key := "output"
			if p.Result.Failed {
				key = "error"
			}
			results = append(results, object{"functionResponse": object{"id": p.Result.ID, "name": names[p.Result.ID], "response": object{key: p.Result.Text}}})
		case p.Thinking != nil:
			// A thought goes back as its signature, with the text before it.
			if signature, n := signatureOf(p.Thinking.Proof), len(parts); signature != "" && n > 0 && parts[n-1]["text"] != nil {
				parts[n-1]["thoughtSignature"] = signature
			}
		case p.File != nil:
			file, err := m.file(*p.File)
			if err != nil {
				return nil, err
			}
			parts = append(parts, file...)
		case p.Text != "":
			parts = append(parts, object{"text": p.Text})
		}
	}
	if first >= 0 && !signed && m.signs() {
		parts[first]["thoughtSignature"] = unsigned
	}
	return append(results, parts...), nil
}

// FileTypes implements [model.FileTaker].
func (m *Model) FileTypes() []string {
	return []string{"image/png", "image/jpeg", "image/webp", model.PDF}
}

func (m *Model) file(f model.File) ([]object, error) {
	switch {
	case slices.Contains(m.FileTypes(), f.Type):
		return []object{{"inlineData": object{"mimeType": f.Type, "data": f.Data}}}, nil
	case strings.HasPrefix(f.Type, "text/"):
		return []object{{"text": "The file " + f.Name + " follows."}, {"text": string(f.Data)}}, nil
	}
	return nil, m.client.Refuse(f, m.FileTypes())
}
