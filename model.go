package golem

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/golem-forge/golem/internal/work/model"
)

// A Model answers conversations. It may be used by many goroutines at once.
type Model interface {
	// Name returns the name of the model, for the journal and for policies.
	Name() string
	// Answer returns the answer to a prompt. It may call tell with pieces of text as they
	// arrive.
	Answer(ctx context.Context, p Prompt, tell func(text string)) (Message, error)
}

// A Prompt is a conversation and the tools that the model may call.
type Prompt struct {
	Worker   string // who asks
	System   string
	Messages []Message
	Tools    []ToolInfo
}

// ToolInfo describes a tool to a model.
type ToolInfo struct {
	Name, Description string
	Schema            json.RawMessage // of its arguments
}

// A Message is what one side said. The worker's side has the results of tools.
type Message struct {
	FromModel bool
	Text      string
	Calls     []ToolCall
	Results   []ToolResult
}

// A ToolCall is a model's wish to call a tool.
type ToolCall struct {
	ID   string // unique in the conversation
	Tool string
	Args json.RawMessage
}

// A ToolResult is the result of a call.
type ToolResult struct {
	ID     string // of the call
	Text   string
	Failed bool
}

// ownModel is a model of the program, as package model has it.
type ownModel struct{ Model }

// name returns the model's name. A model that panics has none.
func (m ownModel) name() (name string, err error) {
	defer caught("the model", &err)
	return m.Name(), nil
}

// caught turns a panic of something that the program gave into an error.
func caught(what string, err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("%s broke: %v", what, v)
	}
}

// Answer implements model.Model.
func (m ownModel) Answer(ctx context.Context, r model.Request, tell func(model.Piece)) (answer model.Answer, err error) {
	defer caught("the model", &err)
	p := Prompt{Worker: r.Worker, System: r.System}
	for _, t := range r.Tools {
		p.Tools = append(p.Tools, ToolInfo{t.Name, t.Description, t.Schema})
	}
	for _, said := range r.Messages {
		one := Message{FromModel: said.Role == model.Assistant}
		for _, part := range said.Parts {
			one.Text += part.Text
			if part.Call != nil {
				one.Calls = append(one.Calls, ToolCall{part.Call.ID, part.Call.Tool, part.Call.SentArgs()})
			}
			if part.Result != nil {
				one.Results = append(one.Results, ToolResult{part.Result.ID, part.Result.Text, part.Result.Failed})
			}
		}
		p.Messages = append(p.Messages, one)
	}
	said, err := m.Model.Answer(ctx, p, func(text string) {
		if tell != nil {
			tell(model.Piece{Text: text})
		}
	})
	if err != nil {
		return model.Answer{}, err
	}
	answer = model.Answer{Stop: model.Done, Model: m.Name()}
	if said.Text != "" {
		answer.Parts = append(answer.Parts, model.Part{Text: said.Text})
	}
	for _, c := range said.Calls {
		answer.Stop = model.Calls
		answer.Parts = append(answer.Parts, model.Part{Call: &model.Call{ID: c.ID, Tool: c.Tool, Args: string(c.Args)}})
	}
	return answer, nil
}
