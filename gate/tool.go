package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/work/toolset/file"
)

// A Tool can be called by its name. [New] and [FileTools] make tools.
type Tool struct {
	Name        string
	Description string   // for a model
	UserOnly    bool     // neither a model nor a peer may call it
	AlwaysAsk   bool     // no rule approves a call in advance
	Private     []string // arguments of which the journal gets only the size

	inner tool.Tool
}

// New returns a tool whose arguments are the fields of A. A field has a JSON name,
// `jsonschema:"what it is"`, and may have `default:"…"`, `enum:"a,b"` and `minimum:"…"`. A
// field with omitempty is optional. The function plan must have no effect: it only says what
// the call would do. The caller reads the text of an error only if it is a *sandbox.Error: others
// may name files of the host.
func New[A any](t Tool, plan func(ctx context.Context, args A) (Plan, error)) Tool {
	t.inner = tool.New(tool.Tool{}, func(ctx context.Context, names tool.Names, args A) (tool.Plan, error) {
		if plan == nil {
			return tool.Plan{}, wrongPlan("gate.New got no function")
		}
		p, err := plan(ctx, args)
		if err != nil {
			return tool.Plan{}, err
		}
		if p.hidesArguments() { // the diff would stand for the arguments, and does not show what is sent
			text, err := json.Marshal(args)
			if err != nil {
				return tool.Plan{}, err
			}
			p.Summary = strings.TrimSpace(p.Summary + " with the arguments " + string(text))
		}
		return p.inner(names)
	})
	t.inner.Mode = policy.Both
	return t
}

// FileTools returns the tools that read, list, find, search, write, edit, move, copy and
// delete files.
func FileTools() []Tool {
	var list []Tool
	for _, t := range file.Tools() {
		if !t.Unlisted {
			list = append(list, Tool{Name: t.Name, Description: t.Description, Private: t.Private, inner: t})
		}
	}
	return list
}

// Schema returns the JSON schema of the tool's arguments.
func (t Tool) Schema() (schema json.RawMessage, err error) {
	made, ok := t.made()
	if !ok {
		return nil, errors.New("the tool " + t.Name + " was not made by gate.New")
	}
	defer func() {
		if v := recover(); v != nil {
			schema, err = nil, fmt.Errorf("the arguments of the tool %s have no schema: %v", t.Name, v)
		}
	}()
	return json.Marshal(made.Schema())
}

// made returns the tool as package tool has it, unless New has not made it.
func (t Tool) made() (tool.Tool, bool) {
	made := t.inner
	if made.Mode == policy.Closed {
		return made, false
	}
	made.Name, made.Toolset, made.Description, made.Private = t.Name, t.Name, t.Description, t.Private
	made.AlwaysAsk = made.AlwaysAsk || t.AlwaysAsk
	if t.UserOnly {
		made.Mode = policy.Manual
	}
	return made, true
}
