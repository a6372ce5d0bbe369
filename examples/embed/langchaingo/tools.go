// Package langchaingo gives the tools of a gate to the agents of langchaingo.
package langchaingo

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/golem-forge/golem/gate"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/tools"
)

// Tools returns the tools that a model can use, for the agents of langchaingo. These agents
// know only names and descriptions, so each description ends with the schema.
//
// The approver decides at once: a call that waits has no way back into the conversation.
func Tools(g gate.Gate) ([]tools.Tool, error) {
	var list []tools.Tool
	for _, t := range g.Offer(gate.Model) {
		schema, err := t.Schema()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		list = append(list, tool{g, t.Name, t.Description + " The input is a JSON object with this schema: " + string(schema)})
	}
	return list, nil
}

// A tool implements tools.Tool.
type tool struct {
	gate              gate.Gate
	name, description string
}

func (t tool) Name() string        { return t.name }
func (t tool) Description() string { return t.description }

// Call makes the call through the gate. It returns no error if the gate refuses the call or the
// call fails: the model gets the reason, and the agent continues.
func (t tool) Call(ctx context.Context, input string) (string, error) {
	return t.gate.Do(ctx, gate.Model, gate.Call{Tool: t.name, Args: []byte(input)}).Text, nil
}

// Definitions returns the same tools for [llms.WithTools], for a program that calls the model
// without an agent. [Answer] makes the calls.
func Definitions(g gate.Gate) ([]llms.Tool, error) {
	var list []llms.Tool
	for _, t := range g.Offer(gate.Model) {
		schema, err := t.Schema()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		var parameters map[string]any // some models of langchaingo accept only this type
		if err := json.Unmarshal(schema, &parameters); err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		list = append(list, llms.Tool{Type: "function", Function: &llms.FunctionDefinition{Name: t.Name, Description: t.Description, Parameters: parameters}})
	}
	return list, nil
}

// Answer makes the calls that a model asks for, and returns the messages to send next.
func Answer(ctx context.Context, g gate.Gate, calls []llms.ToolCall) []llms.MessageContent {
	var list []llms.MessageContent
	for _, c := range calls {
		if c.FunctionCall == nil {
			continue
		}
		result := g.Do(ctx, gate.Model, gate.Call{Tool: c.FunctionCall.Name, Args: []byte(c.FunctionCall.Arguments)})
		list = append(list,
			llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{c}},
			llms.MessageContent{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{
				llms.ToolCallResponse{ToolCallID: c.ID, Name: c.FunctionCall.Name, Content: result.Text},
			}})
	}
	return list
}
