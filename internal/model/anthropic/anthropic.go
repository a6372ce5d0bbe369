// Package anthropic implements model.Model with Anthropic's Messages API.
package anthropic

import (
	"context"
	"errors"
	"io"

	"github.com/golem-forge/golem/internal/model"
	"github.com/golem-forge/golem/internal/model/wire"
)

// Header is the header for the key.
const Header = "X-Api-Key"

// A Model is a model of Anthropic.
type Model struct {
	name   string
	client *wire.Client
}

// New returns a model of a server.
func New(name string, s wire.Server) *Model {
	return &Model{name: name, client: wire.NewClient(s)}
}

// Answer implements [model.Model].
func (m *Model) Answer(ctx context.Context, r model.Request, tell func(model.Piece)) (model.Answer, error) {
	return m.client.Adjust(r, tell, func(r model.Request, _ wire.Refuses) (model.Answer, error) {
		body, err := m.body(r)
		if err != nil {
			return model.Answer{}, err
		}
		g := m.gather(tell)
		err = m.client.Stream(ctx, wire.Call{Path: "v1/messages", Header: map[string]string{"Anthropic-Version": "2023-06-01"}, Body: body}, g.take)
		return g.finish(r, err)
	})
}

// gather returns a gathering for an answer.
func (m *Model) gather(tell func(model.Piece)) *gathering {
	return &gathering{Listener: wire.Listener{Client: m.client, Tell: tell}}
}

// finish returns the answer of a stream that ended with an error, nil if it is complete.
func (g *gathering) finish(r model.Request, err error) (model.Answer, error) {
	if errors.Is(err, io.EOF) {
		err = g.Client.CutOff()
	}
	if err != nil {
		return model.Answer{}, err
	}
	answer := g.answer()
	model.Distinct(r.Messages, answer.Parts)
	return answer, nil
}
