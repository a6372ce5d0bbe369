// Package openai implements model.Model with OpenAI's APIs: chat completions, which many
// other servers offer too, and responses.
package openai

import (
	"context"
	"errors"
	"io"
	"regexp"
	"sync"

	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/model/wire"
)

// Header and Scheme are the header for the key and its prefix.
const (
	Header = "Authorization"
	Scheme = "Bearer "
)

// A Dialect says how a server's chat completions differ. The zero value is what most servers
// accept.
type Dialect struct {
	PDF      PDF
	NoImages bool
	Schema   Schema
	Effort   Effort
	Thoughts Thoughts
	// NoUsage says that the server counts tokens without being asked, and refuses to be asked.
	NoUsage bool
	// Charges says that the server reports what an answer costs, in dollars.
	Charges bool
	// Strict says that the server has rules of Mistral: ids of nine characters, and no message
	// of the user directly after a result.
	Strict bool
}

// PDF is how a server accepts PDF files.
type PDF int

// The ways.
const (
	NoPDF       PDF = iota
	FilePDF         // as a part of the type file
	DocumentPDF     // as a part of the type document_url
)

// Schema is when a server accepts a schema for its answer.
type Schema int

// The times.
const (
	AloneSchema  Schema = iota // only without tools: it would keep the model from calling them
	AlwaysSchema               // together with tools
	NoSchema
)

// Effort is the form in which a request says how much the model thinks.
type Effort int

// The ways.
const (
	EffortField    Effort = iota // reasoning_effort
	EffortObject                 // reasoning: {effort}, as at OpenRouter
	EffortSwitch                 // thinking: {type}, with reasoning_effort, as at DeepSeek
	EffortNoneHigh               // reasoning_effort is none or high
)

// Thoughts is how a server gets its thoughts back.
type Thoughts int

// The ways.
const (
	ThoughtField   Thoughts = iota // in the field that they came in, in turns with calls
	ThoughtAlways                  // in reasoning_content, also if it is empty, in turns with calls
	ThoughtDetails                 // in reasoning_details
	ThoughtChunks                  // as parts of the content
)

// A Model is a model of a server with chat completions.
type Model struct {
	name    string
	dialect Dialect
	client  *wire.Client
}

// New returns a model of a server with chat completions.
func New(name string, d Dialect, s wire.Server) *Model {
	return &Model{name: name, dialect: d, client: wire.NewClient(s)}
}

// Answer implements [model.Model].
func (m *Model) Answer(ctx context.Context, r model.Request, tell func(model.Piece)) (model.Answer, error) {
	return m.client.Adjust(r, tell, func(r model.Request, refuses wire.Refuses) (model.Answer, error) {
		body, err := m.body(r, refuses)
		if err != nil {
			return model.Answer{}, err
		}
		g := m.gather(tell)
		err = m.client.Stream(ctx, wire.Call{Path: "chat/completions", Body: body, Split: splitCompletion}, g.take)
		return g.finish(r, err)
	})
}

// gather returns a gathering for an answer.
func (m *Model) gather(tell func(model.Piece)) *gathering {
	return &gathering{Listener: wire.Listener{Client: m.client, Tell: tell}, charges: m.dialect.Charges}
}

// finish returns the answer of a stream that ended with an error, nil if the server marked
// its end.
func (g *gathering) finish(r model.Request, err error) (model.Answer, error) {
	if errors.Is(err, io.EOF) {
		err = nil // the reason why the answer ended is enough
	}
	if err == nil && (g.end == "" || g.end == "error") {
		err = g.Client.CutOff()
	}
	if err != nil {
		return model.Answer{}, err
	}
	answer := g.answer()
	model.Distinct(r.Messages, answer.Parts)
	return answer, nil
}

var reasoner = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(openai/)?(o[1-9](-|$)|gpt-([5-9]|[1-9][0-9])|codex|computer-use)`)
})

// Reasons reports whether a model of OpenAI thinks before it answers. These models need the
// API responses, which sends their thoughts back, and the new name of the limit of an answer.
func Reasons(name string) bool { return reasoner().MatchString(name) }
