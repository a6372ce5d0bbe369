package changes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/approval"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/merge"
	"github.com/golem-forge/golem/internal/overlay"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/internal/transaction"
	"github.com/golem-forge/golem/internal/visible"
	"github.com/golem-forge/golem/sandbox"
)

// A Keeper has what a session has changed. See transaction.Overlays.
type Keeper interface {
	Contents
	Changes() (list []transaction.SessionChange, unfit string, err error)
	Begin(picks []transaction.Pick) (*transaction.Transaction, error)
	PlanDiscard(names []string) (list []transaction.SessionChange, unfit string, err error)
	Discard(names []string, check func([]transaction.SessionChange) error) error
}

// Contents are what a session has of files, beside what the directories have.
type Contents interface {
	Base(c transaction.SessionChange) []byte
	Texts(c transaction.SessionChange, most int64) (real, own []byte)
	States(c transaction.SessionChange) (own, real overlay.State, err error)
}

type applyArgs struct {
	Paths     []string `json:"paths,omitempty" jsonschema:"files and folders; all changes where there are none"`
	Hunks     []string `json:"hunks,omitempty" jsonschema:"parts of a file, by their numbers in golem diff: /a.txt:1,3"`
	Merge     bool     `json:"merge,omitempty" jsonschema:"where a file was changed in the folder too, bring both together"`
	Overwrite bool     `json:"overwrite,omitempty" jsonschema:"where a file was changed in the folder too, the session's replaces it"`
}

// Tools returns the tools. Without a keeper or an undoer they can only be looked at.
func Tools(k Keeper, u Undoer) []tool.Tool {
	about := tool.Tool{Name: "apply_changes", Toolset: "changes", Mode: policy.Manual, AlwaysAsk: true, Verbs: []policy.Verb{policy.Write, policy.Delete},
		Description: "Apply the changes of a session to the real directories: all changes, some paths, or some hunks of a file. " +
			"It always asks, with the diff. If a file has changed in the directory since, nothing is applied unless merge or overwrite is set."}
	apply := tool.New(about, func(_ context.Context, names tool.Names, a applyArgs) (tool.Plan, error) {
		if k == nil {
			return tool.Plan{}, noSession("apply_changes")
		}
		if a.Merge && a.Overwrite {
			return tool.Plan{}, &sandbox.Error{Op: "apply_changes", Code: "invalid_args", Hint: "merge and overwrite contradict each other; choose one"}
		}
		for i := range a.Paths {
			name, err := names.Canonical(a.Paths[i])
			if err != nil {
				return tool.Plan{}, err
			}
			a.Paths[i] = name
		}
		run := func(_ context.Context, files *sandbox.Sandbox) (tool.Result, error) {
			return application{k, names, files, a}.run()
		}
		plan := tool.NewChangePlan(func(context.Context, *sandbox.Sandbox) (tool.Preparation, error) {
			return tool.NewPreparation(run), nil
		}, names.CommandEffects()...)
		plan.Deferred = true
		return plan, nil
	})
	return []tool.Tool{apply, discardTool(k), undoTool(u)}
}

func noSession(op string) error {
	return &sandbox.Error{Op: op, Code: sandbox.ErrNotFound, Hint: "there is no session with changes: no mount of this program has mode: overlay"}
}

// An application is a call of apply_changes.
type application struct {
	keeper Keeper
	names  tool.Names
	files  *sandbox.Sandbox
	applyArgs
}

func (a application) run() (tool.Result, error) {
	list, unfit, err := a.keeper.Changes()
	if err != nil {
		return tool.Result{}, failed("apply_changes", err)
	}
	picks, err := a.picks(list)
	if err != nil {
		return tool.Result{}, err
	}
	if len(picks) == 0 {
		return tool.Result{Text: "nothing to apply: the session has changed nothing"}, nil
	}
	t, err := a.keeper.Begin(picks)
	if err != nil {
		return tool.Result{}, failed("apply_changes", err)
	}
	l := approval.Classify("apply_changes", a.files, t, a.Paths...)
	r := tool.Result{Notes: l.Notes(), Deferred: l.Deferred()}
	if unfit != "" {
		r.Notes = append(r.Notes, "left out: "+unfit)
	}
	if r.Deferred == nil {
		r.Text = "nothing to apply"
		return r, t.Discard()
	}
	return r, nil
}

func failed(op string, err error) error {
	var known *sandbox.Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, transaction.ErrBusy):
		return &sandbox.Error{Op: op, Code: sandbox.ErrConflict, Hint: "a call of another golem is at work on the session; try again when it has ended"}
	}
	return &sandbox.Error{Op: op, Code: sandbox.ErrInternal, Hint: strings.TrimPrefix(jail.Plain(err), "jail: ") + "; nothing was done"}
}

// picks chooses among the changes of the session.
func (a application) picks(list []transaction.SessionChange) ([]transaction.Pick, error) {
	parts, err := a.parts()
	if err != nil {
		return nil, err
	}
	var picks []transaction.Pick
	var clash []string
	found, picked := make(map[string]bool), make(map[string]bool)
	for _, c := range list {
		name := c.Name()
		wanted := len(a.Paths) == 0 && len(parts) == 0
		for _, p := range a.Paths {
			if within(p, name) {
				wanted, found[p] = true, true
			}
		}
		numbers, hunks := parts[name]
		if hunks {
			found[name] = true
		}
		if !wanted && !hunks || c.NewDir != "" && above(picked, name) {
			continue // what is in a new directory comes with it
		}
		picked[name] = true
		pick := transaction.Pick{Name: name}
		switch {
		case hunks && c.Conflict:
			clash = append(clash, sandbox.Shown(name)) // its hunks are not the session's alone
		case hunks:
			if pick.Text, err = a.some(c, numbers); err != nil {
				return nil, err
			}
		case c.Conflict && a.Merge:
			if pick.Text, err = a.merged(c); err != nil {
				return nil, err
			}
			pick.Over, pick.Whole = true, true
		case c.Conflict && a.Overwrite:
			pick.Over = true
		case c.Conflict:
			clash = append(clash, sandbox.Shown(name))
		}
		picks = append(picks, pick)
	}
	for _, name := range append(slices.Sorted(maps.Keys(parts)), a.Paths...) {
		if !found[name] {
			return nil, &sandbox.Error{Op: "apply_changes", Path: name, Code: sandbox.ErrNotFound, Hint: "the session has not changed it; golem diff --stat lists its changes"}
		}
	}
	if len(clash) > 0 {
		return nil, &sandbox.Error{Op: "apply_changes", Code: sandbox.ErrConflict, Hint: "changed in the folder since the session began to change it: " + strings.Join(clash, ", ") +
			"; nothing was applied; --merge combines both versions, --overwrite takes the session's, golem discard deletes the session's"}
	}
	return picks, nil
}

// parts reads which hunks of which files are wanted.
func (a application) parts() (map[string][]int, error) {
	parts := make(map[string][]int)
	for _, h := range a.Hunks {
		i := strings.LastIndex(h, ":")
		wrong := &sandbox.Error{Op: "apply_changes", Code: "invalid_args", Hint: "hunks: " + sandbox.Shown(h) + " is not PATH:NUMBERS, such as /a.txt:1,3"}
		if i < 0 {
			return nil, wrong
		}
		name, err := a.names.Canonical(h[:i])
		if err != nil {
			return nil, err
		}
		for word := range strings.SplitSeq(h[i+1:], ",") {
			n, err := strconv.Atoi(strings.TrimSpace(word))
			if err != nil || n < 1 {
				return nil, wrong
			}
			parts[name] = append(parts[name], n)
		}
	}
	return parts, nil
}

// some returns a file of the directory with some of the session's hunks.
func (a application) some(c transaction.SessionChange, numbers []int) ([]byte, error) {
	real, own := a.keeper.Texts(c, tool.MaxCompared)
	no := func(why string) error {
		return &sandbox.Error{Op: "apply_changes", Path: c.Name(), Code: sandbox.ErrInvalid, Hint: why + "; apply the whole of it with --paths"}
	}
	if c.Op != overlay.Modify || c.Kind != overlay.File || c.OldKind != overlay.File || !HasHunks(real, own) {
		return nil, no("it has no hunks: only texts that were changed do, in UTF-8")
	}
	text, count, err := withHunks(string(real), string(own), numbers)
	if err != nil {
		return nil, no("its hunks cannot be told apart")
	}
	if most := slices.Max(numbers); most > count {
		return nil, no(fmt.Sprintf("it has %s, and no hunk %d", visible.Count(count, "hunk"), most))
	}
	return []byte(text), nil
}

// merged brings together what the session and somebody else have made of a file.
func (a application) merged(c transaction.SessionChange) ([]byte, error) {
	base := a.keeper.Base(c)
	real, own := a.keeper.Texts(c, tool.MaxCompared)
	no := func(why string) error {
		return &sandbox.Error{Op: "apply_changes", Path: c.Name(), Code: sandbox.ErrConflict,
			Hint: why + "; nothing was applied; --overwrite takes the session's version, golem discard deletes it"}
	}
	if base == nil || real == nil || own == nil || !tool.IsText(base) || !tool.IsText(real) || !tool.IsText(own) {
		return nil, no("the two cannot be merged: that needs three texts, and what both began from is not kept, or one is deleted, large or no text")
	}
	text, clean := merge.Texts(string(base), string(real), string(own), merge.Marks{Ours: "folder", Base: "before", Theirs: "session"})
	if !clean {
		return nil, no("both have changed the same lines:\n" + text)
	}
	return []byte(text), nil
}

// above reports whether a directory that a name is in was picked.
func above(picked map[string]bool, name string) bool {
	for name != "/" {
		if name = path.Dir(name); picked[name] {
			return true
		}
	}
	return false
}

// within reports whether a name is at or below another.
func within(above, name string) bool {
	return above == "/" || name == above || strings.HasPrefix(name, path.Clean(above)+"/")
}
