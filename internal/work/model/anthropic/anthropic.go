// Package anthropic implements model.Model with Anthropic's Messages API.
package anthropic

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/model/wire"
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
		var whole model.Answer
		for turn := 1; ; turn++ {
			body, err := m.body(r)
			if err != nil {
				return model.Answer{}, err
			}
			g := m.gather(tell)
			err = m.client.Stream(ctx, wire.Call{Path: "v1/messages", Header: map[string]string{"Anthropic-Version": "2023-06-01"}, Body: body, Split: splitMessage}, g.take)
			answer, err := g.finish(r, err)
			if err != nil {
				return model.Answer{}, err
			}
			part := answer.Parts
			answer.Parts, answer.Usage = slices.Concat(whole.Parts, part), whole.Usage.Add(answer.Usage)
			if whole = answer; g.stop != pauseTurn || len(part) == 0 || turn == maxTurns {
				return whole, nil
			}
			// The server pauses a long answer, and continues if it gets the beginning back.
			r.Messages = append(slices.Clip(r.Messages), model.Message{Role: model.Assistant, Parts: part})
		}
	})
}

const (
	pauseTurn = "pause_turn"
	maxTurns  = 10 // limit of the parts of a paused answer
)

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
