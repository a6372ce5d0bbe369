package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/work/toolset/file"
	"github.com/golem-forge/golem/sandbox"
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
// the call would do.
func New[A any](t Tool, plan func(ctx context.Context, args A) (Plan, error)) Tool {
	t.inner = tool.New(tool.Tool{}, func(ctx context.Context, names tool.Names, args A) (tool.Plan, error) {
		p, err := plan(ctx, args)
		if err != nil {
			return tool.Plan{}, err
		}
		if p.sendsBeside() { // the diff would stand for the arguments, and does not show what is sent
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

// A Plan says what a call would do. The zero Plan is an error.
type Plan struct {
	// Effects are all effects of the call. Run gets a sandbox that allows no others. To write a
	// file is to read it, too. A call without effects is asked about every time; one with only
	// Read effects must do nothing else.
	Effects []Effect
	// Summary says in a few words what the call does, "" if its changes show it.
	Summary string
	// Changes works out the exact changes, with a sandbox that can only read. The approver
	// sees them, and Run must make exactly these or fail: the gate does not compare. It is nil
	// for a call that changes no files.
	Changes func(ctx context.Context, files *sandbox.Sandbox) ([]Change, error)
	// Run does what was planned, after the decision. Its sandbox must not be used after it
	// returns.
	Run func(ctx context.Context, files *sandbox.Sandbox) (Result, error)

	edit func(old []byte) ([]byte, error) // of Edit
}

// sendsBeside reports whether the call changes files and does something else, too.
func (p Plan) sendsBeside() bool {
	return p.Changes != nil && slices.ContainsFunc(p.Effects, func(e Effect) bool { return !e.isFile() })
}

// Edit returns the plan to change one file. Change gets the old content, nil if there is no
// file, and returns the new content. The run writes exactly what the approver saw, and fails
// if the file has changed meanwhile.
func Edit(name string, change func(old []byte) ([]byte, error)) Plan {
	return Plan{Effects: []Effect{{Write, name}}, edit: change}
}

// complete returns the plan of an edit with the functions for one call, about the file that the
// name leads to.
func (p Plan) complete(name string) Plan {
	var content []byte
	var base sandbox.Version
	p.Changes = func(ctx context.Context, files *sandbox.Sandbox) ([]Change, error) {
		old, version, err := files.ReadVersion(name)
		if err != nil && !errors.Is(err, sandbox.ErrNotFound) {
			return nil, err
		}
		new, err := p.edit(slices.Clone(old))
		if err != nil {
			return nil, err
		}
		content, base = slices.Clone(new), version
		return []Change{NewChange(name, base, old, append([]byte{}, content...))}, nil
	}
	p.Run = func(ctx context.Context, files *sandbox.Sandbox) (Result, error) {
		write := func() (sandbox.Info, error) { return files.WriteIf(name, content, base) }
		if base.IsZero() {
			write = func() (sandbox.Info, error) { return files.WriteNew(name, content) }
		}
		_, err := write()
		return Result{Text: "wrote " + sandbox.Shown(name)}, err
	}
	return p
}

// inner returns the plan as package tool has it. File names are canonical there, with symlinks
// followed.
func (p Plan) inner(names tool.Names) (tool.Plan, error) {
	var effects []policy.Effect
	reads, changes := true, false
	for _, e := range p.Effects {
		if !e.Verb.isKnown() {
			return tool.Plan{}, errors.New("a plan with an unknown verb")
		}
		if e.isFile() {
			access := sandbox.ReadWrite
			if e.Verb == Read {
				access = sandbox.ReadOnly
			}
			at, err := names.Locate(e.Verb.String(), e.Target, access, e.Verb == Delete)
			if err != nil {
				return tool.Plan{}, err
			}
			e.Target = at
		}
		if e.Verb == Write { // the run can read what it writes
			effects = append(effects, Effect{Read, e.Target}.inner())
		}
		reads, changes = reads && e.Verb == Read, changes || e.Verb == Write || e.Verb == Delete
		effects = append(effects, e.inner())
		if p.edit != nil {
			p = p.complete(e.Target)
		}
	}
	switch {
	case p.Run == nil:
		return tool.Plan{}, errors.New("a plan without Run")
	case changes && p.Changes == nil:
		return tool.Plan{}, errors.New("a plan that writes or deletes files, and does not say how; set Plan.Changes")
	}
	run := func(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) {
		r, err := p.Run(ctx, files)
		done := tool.Result{Text: r.Text, Data: r.Data, Notes: r.Notes, Err: r.Err}
		for _, c := range r.Changes {
			done.Changes = append(done.Changes, c.inner)
		}
		return done, err
	}
	if reads && p.Changes == nil && len(effects) > 0 {
		return tool.NewReadPlan(run, effects...), nil
	}
	plan := tool.NewChangePlan(func(ctx context.Context, files *sandbox.Sandbox) (tool.Preparation, error) {
		var changes []tool.Change
		if p.Changes != nil {
			list, err := p.Changes(ctx, files)
			if err != nil {
				return tool.Preparation{}, err
			}
			for _, c := range list {
				changes = append(changes, c.inner)
			}
		}
		prepared := tool.NewPreparation(run, changes...)
		prepared.Summary = p.Summary
		return prepared, nil
	}, effects...)
	plan.AlwaysAsk = len(effects) == 0
	return plan, nil
}
