package shell

import (
	"context"
	"fmt"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/sandbox"
)

// An Execer runs a program on the streams of the user. It sees what the sandbox shows.
type Execer interface {
	Able() error
	Layered() bool
	Exec(ctx context.Context, files *sandbox.Sandbox, command []string) (changes.Result, error)
}

// ExecArgs are the arguments of exec.
type ExecArgs struct {
	Command []string `json:"command" jsonschema:"the program and its arguments"`
}

// ToolName implements tool.Arguments.
func (ExecArgs) ToolName() string { return "exec" }

// Exec returns the tool with which the user runs any program in the jail. The user typed
// the command, so neither the program nor its network needs approval, unless a rule says
// otherwise. Changes in directories without a session overlay do.
func Exec(x Execer) tool.Tool {
	about := tool.Tool{Name: "exec", Toolset: "shell", Mode: policy.Manual, Unlisted: true, Verbs: []policy.Verb{policy.Read},
		Description: "Run any program in the sandbox, on the user's own terminal or streams."}
	return tool.New(about, func(_ context.Context, names tool.Names, a ExecArgs) (tool.Plan, error) {
		if len(a.Command) == 0 {
			return tool.Plan{}, &sandbox.Error{Op: "exec", Code: "invalid_args", Hint: "command: it is empty; golem exec -- CMD ARGS…"}
		}
		effects := names.CommandEffects()
		layered := x.Layered()
		run := func(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) {
			result, err := x.Exec(ctx, files, a.Command)
			if err != nil {
				return tool.Result{}, err
			}
			r := tool.Result{Data: result.Result, Record: fmt.Sprintf("exit %d (%s)", result.Code, result.Level)}
			if result.NoSockets != "" && result.Code != 0 {
				r.Notes = append(r.Notes, "it had no Unix sockets: "+result.NoSockets)
			}
			if result.NoNetwork != "" {
				r.Notes = append(r.Notes, "it had no network: "+result.NoNetwork)
			}
			if result.NoRunsc {
				r.Notes = append(r.Notes, noRunsc)
			}
			if result.Changed != nil {
				l := approval.Classify("exec", files, result.Changed)
				r.Deferred, r.Notes = l.Deferred(), append(r.Notes, l.Notes()...)
				if r.Deferred == nil {
					return r, result.Changed.Discard()
				}
			}
			return r, nil
		}
		plan := tool.NewChangePlan(func(context.Context, *sandbox.Sandbox) (tool.Preparation, error) {
			return tool.NewPreparation(run), x.Able()
		}, effects...)
		plan.Deferred, plan.AlwaysAsk = layered, !layered
		plan.Rules = []policy.Rule{{Verb: policy.Connect, Target: "*", Approval: policy.PreApproved, From: "golem exec"}}
		return plan, nil
	})
}
