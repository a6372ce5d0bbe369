// Package anthropic implements model.Model with Anthropic's Messages API.
package anthropic

import (
	"context"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"

	"github.com/golem-forge/golem/internal/model"
	"github.com/golem-forge/golem/internal/model/wire"
)

// Header is the header for the key.
const Header = "X-Api-Key"

// A Model is a model of Anthropic.
type Model struct {
	name     string
	client   *wire.Client
	messages sdk.MessageService
}

// New returns a model of a server. It disables the defaults of the vendor's library,
// which then reads no environment variables, knows no key and repeats no request.
func New(name string, s wire.Server) *Model {
	c := wire.NewClient(s)
	return &Model{name: name, client: c, messages: sdk.NewMessageService(
		option.WithBaseURL(s.Base.String()), option.WithHTTPClient(c), option.WithMaxRetries(0))}
}

// Answer implements [model.Model].
func (m *Model) Answer(ctx context.Context, r model.Request, tell func(model.Piece)) (model.Answer, error) {
	params, err := m.params(r)
	if err != nil {
		return model.Answer{}, err
	}
	return m.gather(ctx, r, m.messages.NewStreaming(ctx, params), tell)
}

// gather reads a stream to its end.
func (m *Model) gather(ctx context.Context, r model.Request, stream *ssestream.Stream[sdk.MessageStreamEventUnion], tell func(model.Piece)) (model.Answer, error) {
	defer stream.Close()
	g := gathering{tell: tell}
	for !g.ended && stream.Next() {
		if wrong := g.take(stream.Current()); wrong != "" {
			return model.Answer{}, m.client.Bad("%s", wrong)
		}
	}
	if err := stream.Err(); err != nil {
		return model.Answer{}, m.client.Fault(ctx, err)
	}
	if !g.ended {
		return model.Answer{}, m.client.CutOff()
	}
	answer := g.answer()
	model.Distinct(r.Messages, answer.Parts)
	return answer, nil
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
