package settle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/files/undo"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// An Undoer undoes the changes that were applied last, and those that file tools made in
// directories that they write directly.
type Undoer interface {
	// Last returns the changes that were applied last. If there are none, the error is
	// fs.ErrNotExist.
	Last() (*changes.AppliedTransaction, error)
	// Undo restores the earlier state. If names have changed since, it returns them and
	// undoes nothing. back is the name of the session that has the changes again, or its id if
	// it has no name, or "" for no session.
	Undo(*changes.AppliedTransaction) (back string, conflicts []string, err error)
	// LastStep plans the undo of the last call of a file tool, if that is later than the
	// changes that were applied last. Passed are later steps that have nothing to undo.
	LastStep() (plan undo.Plan, passed []*undo.Step, ok bool, err error)
	// Forget removes steps without undoing them.
	Forget(steps ...*undo.Step) error
}

// UndoArgs are the arguments of undo.
type UndoArgs struct {
	Forget bool `json:"forget,omitempty" jsonschema:"forget the last change without undoing it, so that the one before it can be undone"`
}

// ToolName implements tool.Arguments.
func (UndoArgs) ToolName() string { return "undo" }

// undoTool returns the tool that undoes the last change.
func undoTool(u Undoer) tool.Tool {
	about := tool.Tool{Name: "undo", Toolset: "changes", Mode: policy.Manual, AlwaysAsk: true, Verbs: []policy.Verb{policy.Write, policy.Delete},
		Description: "Undo the changes of the last command or file tool. Refused if those files have changed since."}
	return tool.New(about, func(_ context.Context, _ tool.Names, a UndoArgs) (tool.Plan, error) {
		if u == nil {
			return tool.Plan{}, errors.New("undo is not available: this program runs no commands")
		}
		plan, passed, ok, err := u.LastStep()
		switch {
		case err != nil:
			return tool.Plan{}, undoError(err)
		case ok && a.Forget:
			steps := append(slices.Clone(passed), plan.Step)
			return forget("by "+plan.Step.Tool, plan.Step.Call, plan.EachSaved, func() error { return u.Forget(steps...) }), nil
		case ok:
			return undoStep(u, plan, passed)
		}
		last, err := u.Last()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return tool.Plan{}, &sandbox.Error{Op: "undo", Code: sandbox.ErrNotFound, Hint: "there is nothing to undo here; golem status shows what waits"}
		case err != nil:
			return tool.Plan{}, err
		case a.Forget:
			each := func(visit func(name string, then overlay.State)) error {
				return last.Each(func(name string, _, then overlay.State) error {
					if then.Kind != overlay.Nothing {
						visit(name, then)
					}
					return nil
				})
			}
			return forget("that were applied last", last.Name(), each, func() error { return errors.Join(last.Forget(), u.Forget(passed...)) }), nil
		}
		return undoApplied(u, last, passed), nil
	})
}

// forgetHint ends an error about a change that cannot be undone.
const forgetHint = "; nothing was undone; golem undo --forget forgets this change, and then golem undo undoes the one before it"

// undoApplied plans the undo of the changes that were applied last.
func undoApplied(u Undoer, last *changes.AppliedTransaction, passed []*undo.Step) tool.Plan {
	var effects []policy.Effect
	for _, c := range last.Changes {
		name := c.Name()
		effect := policy.Effect{Verb: policy.Write, Target: name}
		if c.OldKind == overlay.Nothing {
			effect = policy.Effect{Verb: policy.Delete, Target: name, Tree: c.Kind == overlay.Dir}
		}
		if c.NewDir == "" { // otherwise the effect on its directory covers it
			effects = append(effects, effect)
		}
	}
	run := func(context.Context, *sandbox.Sandbox) (tool.Result, error) {
		back, conflicts, err := u.Undo(last)
		var known *sandbox.Error
		switch {
		case errors.As(err, &known):
			return tool.Result{}, known
		case err != nil:
			return tool.Result{}, undoError(err)
		case len(conflicts) > 0:
			return tool.Result{}, &sandbox.Error{Op: "undo", Code: sandbox.ErrConflict, Hint: "changed since: " + changes.ListNames(conflicts) + forgetHint}
		}
		r, err := undoResult(len(effects), u.Forget(passed...))
		if id := last.LostSession(); id != "" {
			r.Notes = append(r.Notes, "session "+id+" was removed, so that the changes could not go back into it; golem keeps no other copy of them")
		} else if back != "" {
			r.Notes = append(r.Notes, "the changes are back in session "+back+"; golem diff --session "+back+" shows them")
		}
		return r, err
	}
	prepare := func(context.Context, *sandbox.Sandbox) (tool.Preparation, error) {
		rows := approval.NewReversalList()
		err := last.Each(func(name string, now, then overlay.State) error {
			rows.Add(approval.Reversal{Name: name, Now: now, Then: then, Step: last.Name()})
			return nil
		})
		if err != nil {
			return tool.Preparation{}, undoError(err)
		}
		ready := tool.NewPreparation(run, rows.Changes()...)
		if id := last.LostSession(); id != "" {
			ready.Warnings = append(ready.Warnings, "session "+id+" was removed, so that these changes cannot go back into it; golem keeps no other copy of them")
		}
		return ready, nil
	}
	return tool.NewChangePlan(prepare, effects...)
}

// forget plans to remove the saved content of changes. what completes "the changes …", step
// identifies them, and each calls visit for everything that golem saved of them.
func forget(what, step string, each func(visit func(name string, then overlay.State)) error, remove func() error) tool.Plan {
	return tool.NewChangePlan(func(context.Context, *sandbox.Sandbox) (tool.Preparation, error) {
		rows := approval.NewReversalList()
		err := each(func(name string, then overlay.State) {
			rows.Add(approval.Reversal{Name: name, Now: then, Step: step, About: "golem forgets this old content; the file stays as it is now"})
		})
		if err != nil && !errors.Is(err, overlay.ErrCannotUndo) {
			return tool.Preparation{}, undoError(err)
		}
		return tool.NewPreparation(func(context.Context, *sandbox.Sandbox) (tool.Result, error) {
			if err := remove(); err != nil {
				return tool.Result{}, undoError(err)
			}
			return tool.Result{Text: "forgotten: the changes " + what + " can no longer be undone", Brief: true}, nil
		}, rows.Changes()...), nil
	})
}

func undoResult(n int, err error) (tool.Result, error) {
	r := tool.Result{Done: &tool.Done{Undone: true, Count: n}, Brief: true}
	if err != nil {
		r.Notes = append(r.Notes, "golem could not remove the content that it saved for this undo")
	}
	return r, nil
}

func undoError(err error) error {
	return &sandbox.Error{Op: "undo", Code: sandbox.ErrConflict, Hint: strings.TrimPrefix(jail.Plain(err), "jail: ") + "; nothing was undone"}
}

// undoStep plans the undo of a call of a file tool.
func undoStep(u Undoer, plan undo.Plan, passed []*undo.Step) (tool.Plan, error) {
	if err := checkUndo(plan); err != nil {
		return tool.Plan{}, err
	}
	run := func(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) {
		var known *sandbox.Error
		switch err := plan.Run(ctx, files); {
		case errors.As(err, &known):
			return tool.Result{}, known
		case err != nil:
			return tool.Result{}, &sandbox.Error{Op: "undo", Code: sandbox.ErrInternal, Hint: jail.Plain(err) + "; a part of it may be undone; golem undo continues with the rest"}
		}
		return undoResult(count(plan), u.Forget(append(slices.Clone(passed), plan.Step)...))
	}
	prepare := func(_ context.Context, files *sandbox.Sandbox) (tool.Preparation, error) {
		rows := approval.NewReversalList()
		plan.Each(files, func(name string, now, then overlay.State) {
			rows.Add(approval.Reversal{Name: name, Now: now, Then: then})
		})
		changes := rows.Changes()
		if m := plan.Step.Rename; plan.MoveBack {
			changes = append(changes, tool.Change{Path: m.To, Op: tool.Move, To: m.From, Base: m.Node.Sum, About: "back to where it was"})
		} else if plan.DeleteCopy {
			changes = append(changes, tool.Change{Path: m.To, Op: tool.Delete, Base: m.Node.Sum, About: "a copy of " + sandbox.Shown(m.From) + ", left by an interrupted move"})
		}
		return tool.NewPreparation(run, changes...), nil
	}
	return tool.NewChangePlan(prepare, effectsOf(plan)...), nil
}

// checkUndo returns an error if the undo of a step is not possible.
func checkUndo(plan undo.Plan) error {
	s := plan.Step
	what := fmt.Sprintf("the last change, by %s at %s", s.Tool, s.Time.Local().Format("15:04:05"))
	switch {
	case s.Impossible != "":
		return &sandbox.Error{Op: "undo", Code: sandbox.ErrInvalid, Hint: what + ", cannot be undone: " + s.Impossible + forgetHint}
	case plan.Elsewhere != "":
		return &sandbox.Error{Op: "undo", Path: plan.Elsewhere, Code: sandbox.ErrConflict, Hint: what + ", was made in another directory than the one that is mounted there now" + forgetHint}
	case len(plan.Conflicts) > 0:
		names := visible.Each(plan.Conflicts, sandbox.Shown)
		if len(names) > 10 {
			names = append(names[:10], fmt.Sprintf("%d more", len(names)-10))
		}
		return &sandbox.Error{Op: "undo", Code: sandbox.ErrConflict, Hint: "changed since " + what + ": " + strings.Join(names, ", ") + forgetHint}
	}
	return nil
}

// count returns the number of changes as a person counts them: a directory and its
// content are one.
func count(plan undo.Plan) int {
	n := 0
	for _, list := range [][]undo.Entry{plan.Remove, plan.Restore, plan.Modes} {
		n += len(undo.Topmost(undo.Names(list)))
	}
	if plan.MoveBack || plan.DeleteCopy {
		n++
	}
	return n
}

// effectsOf returns the effects of undoing a step.
func effectsOf(plan undo.Plan) []policy.Effect {
	effects := []policy.Effect{}
	add := func(verb policy.Verb, list []undo.Entry) {
		names := undo.Names(list)
		for _, name := range undo.Topmost(names) {
			tree := slices.ContainsFunc(names, func(other string) bool { return other != name && Within(name, other) })
			effects = append(effects, policy.Effect{Verb: verb, Target: name, Tree: tree})
		}
	}
	add(policy.Delete, plan.Remove)
	add(policy.Write, slices.Concat(plan.Restore, plan.Modes))
	if m := plan.Step.Rename; m != nil {
		effects = append(effects, policy.Effect{Verb: policy.Read, Target: m.From, Tree: true}, policy.Effect{Verb: policy.Read, Target: m.To, Tree: true})
		if plan.MoveBack {
			effects = append(effects, policy.Effect{Verb: policy.Write, Target: m.From, Tree: true})
		}
		if plan.MoveBack || plan.DeleteCopy {
			effects = append(effects, policy.Effect{Verb: policy.Delete, Target: m.To, Tree: true})
		}
	}
	add(policy.Read, plan.Step.Entries) // entries that need no change are read too
	return effects
}
