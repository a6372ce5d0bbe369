// Package eino gives the tools of a gate to the agents of eino.
package eino

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/schema"
	"github.com/eino-contrib/jsonschema"
	"github.com/golem-forge/golem/gate"
)

// Tools returns the tools that a model can use, for the tools node of a graph or an agent of
// eino. The node makes the calls of one message at the same time, unless it is configured with
// ExecuteSequentially. So the approver of the gate must be safe for use by several goroutines.
//
// The approver decides at once: a call that waits has no way back into the conversation.
func Tools(g gate.Gate) ([]tool.BaseTool, error) {
	var list []tool.BaseTool
	for _, t := range g.Offer(gate.Model) {
		text, err := t.Schema()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		parameters := &jsonschema.Schema{}
		if err := json.Unmarshal(text, parameters); err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		info := &schema.ToolInfo{Name: t.Name, Desc: t.Description, ParamsOneOf: schema.NewParamsOneOfByJSONSchema(parameters)}
		list = append(list, gated{g, info})
	}
	return list, nil
}

// A gated tool implements tool.InvokableTool.
type gated struct {
	gate gate.Gate
	info *schema.ToolInfo
}

// Info returns the name, the description and the schema for the model.
func (t gated) Info(context.Context) (*schema.ToolInfo, error) { return t.info, nil }

// InvokableRun makes the call through the gate. It returns no error if the gate refuses the call
// or the call fails: the model gets the reason, and the agent continues.
func (t gated) InvokableRun(ctx context.Context, arguments string, _ ...tool.Option) (string, error) {
	return t.gate.Do(ctx, gate.Model, gate.Call{Tool: t.info.Name, Args: []byte(arguments)}).Text, nil
}
