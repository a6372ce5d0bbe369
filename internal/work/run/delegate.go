package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/sandbox"
)

// The tools that start workers by name. Other tools start one fixed worker.
const (
	callWorker   = "call_worker"
	workerCall   = "worker_call" // llm-do's form of it
	workerCreate = "worker_create"
)

// callArgs are the arguments of a tool for one worker.
type callArgs struct {
	Input        string   `json:"input,omitempty" jsonschema:"what it is to work on"`
	Instructions string   `json:"instructions,omitempty" jsonschema:"what else it should know"`
	Attachments  []string `json:"attachments,omitempty" jsonschema:"files to attach"`
	Restrict     string   `json:"restrict,omitempty" jsonschema:"the only directory that it may see"`
	ReadOnly     bool     `json:"readonly,omitempty" jsonschema:"whether it may only read"`

	// Sandbox is another spelling of Restrict and ReadOnly.
	Sandbox sandboxArgs `json:"sandbox,omitzero" jsonschema:"restrict and readonly, as in a worker file"`
}

// sandboxArgs restrict the files of a worker for one call.
type sandboxArgs struct {
	Restrict string `json:"restrict,omitempty" jsonschema:"the only directory that it may see"`
	ReadOnly bool   `json:"readonly,omitempty" jsonschema:"whether it may only read"`
}

// narrow returns how the caller restricts the worker, in either spelling.
func (a callArgs) narrow() (Narrow, error) {
	n := Narrow{Restrict: a.Restrict, ReadOnly: a.ReadOnly || a.Sandbox.ReadOnly}
	switch inner := a.Sandbox.Restrict; {
	case n.Restrict == "":
		n.Restrict = inner
	case inner != "" && inner != n.Restrict:
		return n, &sandbox.Error{Op: "call", Code: "invalid_args", Hint: "restrict and sandbox.restrict name two directories; write one of them"}
	}
	return n, nil
}

// namedArgs are the arguments of the tool for all workers.
type namedArgs struct {
	Worker string `json:"worker" jsonschema:"its name"`
	callArgs
}

// oldCallArgs are the arguments of call_worker in llm-do, and those that it has here.
type oldCallArgs struct {
	Worker     string `json:"worker,omitempty" jsonschema:"its name"`
	WorkerName string `json:"worker_name,omitempty" jsonschema:"another spelling of worker"`
	InputData  any    `json:"input_data,omitempty" jsonschema:"what it is to work on: a text, or any JSON"`
	Input      string `json:"input,omitempty" jsonschema:"another spelling of input_data"`
	callArgs
}

// plan plans the call that the arguments mean. The journal and the approver get its
// current form.
func (a oldCallArgs) plan(t *conversation, names tool.Names) (tool.Plan, error) {
	invalid := func(hint string) (tool.Plan, error) {
		return tool.Plan{}, &sandbox.Error{Op: callWorker, Code: "invalid_args", Hint: hint}
	}
	now := namedArgs{cmp.Or(a.Worker, a.WorkerName), a.callArgs}
	now.Input = a.Input
	switch {
	case now.Worker == "":
		return invalid("worker: name the worker")
	case a.WorkerName != "" && a.WorkerName != now.Worker:
		return invalid("worker and worker_name name two workers; write one of them")
	case a.InputData != nil && a.Input != "":
		return invalid("input and input_data are two names for one argument; write one of them")
	}
	if text, ok := a.InputData.(string); ok {
		now.Input = text
	} else if a.InputData != nil {
		data, err := json.Marshal(a.InputData)
		if err != nil {
			return tool.Plan{}, err
		}
		now.Input = string(data)
	}
	plan, err := t.planCall(names, now.Worker, now.callArgs)
	plan.Args = now
	return plan, err
}

type createArgs struct {
	Name         string `json:"name" jsonschema:"letters, digits, _ and -"`
	Description  string `json:"description" jsonschema:"what it does, for those who call it"`
	Instructions string `json:"instructions" jsonschema:"its prompt"`
}

// isWorker reports whether a tool starts a worker.
func (t *conversation) isWorker(name string) bool {
	return policy.CurrentToolName(name) == callWorker || slices.ContainsFunc(t.w.Callees, func(c Callee) bool { return c.Name == name })
}

// workerTools returns the tools with which a worker starts others or proposes new ones.
func (t *conversation) workerTools() []tool.Tool {
	var list []tool.Tool
	about := func(name, description string) tool.Tool {
		return tool.Tool{Name: name, Toolset: "workers", Mode: policy.LLM, Description: description}
	}
	for _, c := range t.w.Callees {
		description := c.Description
		if description == "" {
			description = "Call the worker " + c.Name + "."
		}
		named := about(c.Name, description)
		named.RulesOf = callWorker // it is the same call by another name
		list = append(list, tool.New(named, func(_ context.Context, names tool.Names, a callArgs) (tool.Plan, error) {
			return t.planCall(names, c.Name, a)
		}))
	}
	if len(t.w.Callees) == 0 && !t.w.Any {
		return list
	}
	named := tool.New(about(callWorker, "Call a worker by its name."), func(_ context.Context, names tool.Names, a namedArgs) (tool.Plan, error) {
		return t.planCall(names, a.Worker, a.callArgs)
	})
	named.Unlisted = !t.w.Any
	old := tool.New(about(workerCall, "An older name of call_worker."), func(_ context.Context, names tool.Names, a oldCallArgs) (tool.Plan, error) {
		return a.plan(t, names)
	})
	list = append(list, named, old.Alias(callWorker))
	if t.w.Propose != nil {
		create := about(workerCreate, "Propose a new worker to the user. It has no files and no tools, and can be called when the user has accepted it, in a later run.")
		create.Private = []string{"instructions"}
		list = append(list, tool.New(create, t.planCreate))
	}
	return list
}

// planCall plans the start of a worker. It checks the worker's name, the depth and the
// attached files before anybody is asked for approval.
func (t *conversation) planCall(names tool.Names, name string, a callArgs) (tool.Plan, error) {
	restriction, err := a.narrow()
	if err != nil {
		return tool.Plan{}, err
	}
	chain := t.gate.Workers
	if slices.Contains(chain, name) {
		return tool.Plan{}, &sandbox.Error{Op: "call", Path: name, Code: errBlocked,
			Hint: "circular delegation detected: " + strings.Join(append(slices.Clone(chain), name), " -> ") + "; a worker cannot call one that waits for it"}
	}
	if t.gate.Grant.Depth < 1 {
		return tool.Plan{}, &sandbox.Error{Op: "call", Path: name, Code: errDepth,
			Hint: fmt.Sprintf("workers may call each other at most %d deep (delegation.max_depth): %s; do it yourself", len(chain)-1, strings.Join(chain, " -> "))}
	}
	effects := []policy.Effect{{Verb: policy.Call, Target: name}}
	var files []string
	for _, file := range a.Attachments {
		at, err := names.Locate("attach", file, sandbox.ReadOnly, false)
		if err != nil {
			return tool.Plan{}, err
		}
		files = append(files, at)
		effects = append(effects, policy.Effect{Verb: policy.Attach, Target: at}, policy.Effect{Verb: policy.Read, Target: at})
	}
	plan := tool.NewChangePlan(func(ctx context.Context, seen *sandbox.Sandbox) (tool.Preparation, error) {
		child, err := t.child(name, restriction)
		if err != nil {
			return tool.Preparation{}, err
		}
		if strings.TrimSpace(a.Input) == "" && len(files) == 0 && !child.Empty {
			return tool.Preparation{}, &sandbox.Error{Op: "call", Path: name, Code: "invalid_args", Hint: "input: it is empty, and this worker needs some"}
		}
		in := Input{Text: a.Input, Instructions: a.Instructions}
		if in.Files, err = ReadAttachments(seen, files, Attached{}, t.gate.Grant.Attachments, child.Gate.Grant.Attachments); err != nil {
			return tool.Preparation{}, err
		}
		var attached []tool.Change
		for i, f := range in.Files {
			attached = append(attached, t.gate.DescribeRead(tool.Attach, files[i], f.Data))
			if strings.HasPrefix(f.Type, "text/") {
				in.Files[i].Data = []byte(t.hide(string(f.Data)))
			}
		}
		p := tool.NewPreparation(func(ctx context.Context, _ *sandbox.Sandbox) (tool.Result, error) { return t.delegate(ctx, child, in) })
		p.Attached = attached
		return p, nil
	}, effects...)
	plan.Reach = func() (reach tool.Reach, ok bool) {
		if t.w.Reach == nil || model.AnswersInOrder(t.w.Model, t.w.Name) {
			return reach, false
		}
		reach, ok = t.w.Reach(name, restriction)
		reach.Reads = append(reach.Reads, files...)
		return reach, ok
	}
	return plan, nil
}

// Error codes of the gate that this package uses too.
const (
	errBlocked  sandbox.Code = "blocked"
	errDepth    sandbox.Code = "depth"
	errPaused   sandbox.Code = "paused"
	errDeclined sandbox.Code = "declined"
	errStopped  sandbox.Code = "stopped"
)

// child returns the worker with a name, narrowed by n.
func (t *conversation) child(name string, n Narrow) (*Worker, error) {
	if t.w.Child == nil {
		return nil, &sandbox.Error{Op: "call", Path: name, Code: sandbox.ErrNotFound, Hint: "there are no workers to call"}
	}
	child, err := t.w.Child(name, n)
	var known *sandbox.Error
	if err != nil && !errors.As(err, &known) {
		// Errors of the host are for the user, not for a model.
		t.teller.say(Event{Type: Note, Worker: t.w.Name, Chain: t.gate.Workers, Text: name + " could not be started: " + err.Error()})
		err = &sandbox.Error{Op: "call", Path: name, Code: sandbox.ErrInternal, Hint: "golem could not start it, and has told the user why; continue without it"}
	}
	return child, err
}

// delegate lets a child work and returns its answer. A child that failed is a result, not
// an error.
func (t *conversation) delegate(ctx context.Context, child *Worker, in Input) (tool.Result, error) {
	call, ok := ctx.Value(callKey{}).(*inCall)
	if !ok {
		return tool.Result{}, errors.New("a worker is called by a worker")
	}
	child.Exposure.MarkTainted(t.w.Exposure.Source()) // its input may contain what the caller has read
	child.Exposure.AddBytes(in.size())                // the input counts as read by the child
	call.started = true
	o, err := t.converse(ctx, child, call.conversation, call.id, in, call.turn)
	t.w.Exposure.Merge(child.Exposure)
	if child.Close != nil {
		err = errors.Join(err, child.Close())
	}
	if err != nil {
		return tool.Result{}, err
	}
	r := tool.Result{Text: o.Text, Record: string(o.End)}
	if o.Data != nil {
		r.Data = o.Data
	}
	switch o.End {
	case Finished:
		return r, nil
	case Paused:
		call.cut = &o
		r.Err = &sandbox.Error{Op: child.Name, Code: errPaused, Hint: o.Why}
	case Spent, Stopped:
		if !o.Own { // the caller of a worker with a budget of its own continues
			call.cut = &o
		}
		r.Err = &sandbox.Error{Op: child.Name, Code: sandbox.ErrLimit, Hint: o.Why}
	default:
		why := o.Why
		if o.Model != "" { // the error names files and servers of the user
			t.teller.say(Event{Type: Note, Worker: child.Name, Chain: child.Gate.Workers, Text: o.Why})
			why = "its model did not answer (" + string(o.Model) + ")"
		}
		r.Err = &sandbox.Error{Op: child.Name, Code: sandbox.ErrInternal, Hint: "the worker did not finish: " + why}
	}
	return r, nil
}

// planCreate plans the proposal of a new worker.
func (t *conversation) planCreate(_ context.Context, _ tool.Names, a createArgs) (tool.Plan, error) {
	return tool.NewChangePlan(func(context.Context, *sandbox.Sandbox) (tool.Preparation, error) {
		return tool.NewPreparation(func(context.Context, *sandbox.Sandbox) (tool.Result, error) {
			told, err := t.w.Propose(a.Name, a.Description, a.Instructions)
			return tool.Result{Text: told}, err
		}), nil
	}, policy.Effect{Verb: policy.Use, Target: "workers"}), nil
}

func refuses(name string, count int, total int64, policies []policy.Attachments) error {
	for _, p := range policies {
		if why := p.RefusalReason(name, count, total); why != "" {
			return &sandbox.Error{Op: "attach", Path: name, Code: sandbox.ErrLimit, Hint: why}
		}
	}
	return nil
}

// ReadAttachments reads files of a sandbox that are attached for a worker. All policies must
// allow them.
func ReadAttachments(files *sandbox.Sandbox, names []string, before Attached, policies ...policy.Attachments) ([]model.File, error) {
	var list []model.File
	for _, name := range names {
		info, err := files.Stat(name)
		if err != nil {
			return nil, err
		}
		if err := refuses(name, before.Files+1, before.Bytes+info.Size(), policies); err != nil {
			return nil, err
		}
		data, err := files.Read(name)
		if err != nil {
			return nil, err
		}
		f, err := FileOf(name, data)
		if err != nil {
			return nil, err
		}
		before = before.With(f) // the file may have grown since the check
		if err := refuses(name, before.Files, before.Bytes, policies); err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return list, nil
}
