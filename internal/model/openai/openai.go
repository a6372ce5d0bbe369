// Package openai implements model.Model with OpenAI's chat completions API, which many
// other servers offer too.
package openai

import (
	"context"
	"net/http"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/golem-forge/golem/internal/model"
	"github.com/golem-forge/golem/internal/model/wire"
)

// Header and Scheme are the header for the key and its prefix.
const (
	Header = "Authorization"
	Scheme = "Bearer "
)

// Able lists the optional abilities of a server.
type Able struct {
	PDF    bool // accepts PDF files
	Schema bool // accepts a schema for its answer together with tools
	NewMax bool // accepts the limit of an answer only under its new name, max_completion_tokens
}

// A Model is a model of such a server.
type Model struct {
	name   string
	able   Able
	client *wire.Client
	api    sdk.Client
}

// New returns a model of a server. It disables the defaults of the vendor's library,
// which then reads no environment variables, knows no key and repeats no request.
func New(name string, able Able, s wire.Server) *Model {
	c := wire.NewClient(s)
	return &Model{name: name, able: able, client: c, api: sdk.Client{Options: []option.RequestOption{
		option.WithBaseURL(s.Base.String()), option.WithHTTPClient(c), option.WithMaxRetries(0),
	}}}
}

// Answer implements [model.Model].
func (m *Model) Answer(ctx context.Context, r model.Request, tell func(model.Piece)) (model.Answer, error) {
	params, err := m.params(r)
	if err != nil {
		return model.Answer{}, err
	}
	var response *http.Response
	if err := m.api.Post(ctx, "chat/completions", params, &response, option.WithJSONSet("stream", true)); err != nil {
		return model.Answer{}, m.client.Fault(ctx, err)
	}
	return m.gather(ctx, r, response, tell)
}

// gather reads a stream to its end.
func (m *Model) gather(ctx context.Context, r model.Request, response *http.Response, tell func(model.Piece)) (model.Answer, error) {
	stream := ssestream.NewStream[sdk.ChatCompletionChunk](events{ssestream.NewDecoder(response)}, nil)
	defer stream.Close()
	g := gathering{tell: tell}
	for stream.Next() {
		if wrong := g.take(stream.Current()); wrong != "" {
			return model.Answer{}, m.client.Bad("%s", wrong)
		}
	}
	if err := stream.Err(); err != nil {
		return model.Answer{}, m.client.Fault(ctx, err)
	}
	if g.finish == "" || g.finish == "error" {
		return model.Answer{}, m.client.CutOff()
	}
	answer := g.answer()
	model.Distinct(r.Messages, answer.Parts)
	return answer, nil
}

// events drops events without data. Servers send them as comments to keep a connection
// alive, and the library fails on them.
type events struct{ ssestream.Decoder }

func (e events) Next() bool {
	for e.Decoder.Next() {
		if len(e.Event().Data) > 0 {
			return true
		}
	}
	return false
}
