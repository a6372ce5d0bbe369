// Package genkit gives the tools of a gate to models of Genkit.
package genkit

import (
	"encoding/json"
	"fmt"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/core/api"
	"github.com/golem-forge/golem/gate"
)

// Tools returns the tools that a model can use, for [ai.WithTools]. Do not register other tools
// with the same names: Genkit would call those, without the gate. Genkit makes the calls of one
// message at the same time, so the approver of the gate must be safe for use by several
// goroutines.
//
// The approver decides at once: a call that waits has no way back into the conversation.
func Tools(g gate.Gate) ([]ai.ToolRef, error) {
	var list []ai.ToolRef
	for _, t := range g.Offer(gate.Model) {
		text, err := t.Schema()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		var schema map[string]any
		if err := json.Unmarshal(text, &schema); err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		// The function returns no error if the gate refuses the call or the call fails: the
		// model gets the reason, and Genkit continues.
		call := func(ctx *ai.ToolContext, input any) (string, error) {
			if input == nil {
				input = struct{}{} // a call without arguments
			}
			args, err := json.Marshal(input)
			if err != nil {
				return "", err
			}
			return g.Do(ctx, gate.Model, gate.Call{Tool: t.Name, Args: args}).Text, nil
		}
		list = append(list, tool{ai.NewTool(t.Name, t.Description, call), schema})
	}
	return list, nil
}

// A tool shows its schema to the model. Genkit does not know that schema as the one of the
// function: it would stop at the first wrong argument. So the gate checks the arguments, and the
// model can correct them.
type tool struct {
	ai.Tool
	schema map[string]any
}

// Definition returns the definition for the model.
func (t tool) Definition() *ai.ToolDefinition {
	d := t.Tool.Definition()
	d.InputSchema = t.schema
	return d
}

// Register is called by Genkit before each generation.
func (t tool) Register(r api.Registry) { t.Tool.Register(registry{r, t.schema}) }

// A registry adds the schema to the description of an action.
type registry struct {
	api.Registry
	schema map[string]any
}

func (r registry) RegisterAction(key string, a api.Action) {
	r.Registry.RegisterAction(key, action{a, r.schema})
}

type action struct {
	api.Action
	schema map[string]any
}

func (a action) Desc() api.ActionDesc {
	d := a.Action.Desc()
	d.InputSchema = a.schema
	return d
}
