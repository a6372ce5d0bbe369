package changes

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/internal/landing"
	"github.com/golem-forge/golem/internal/layer"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/sandbox"
)

// An Undoer takes back what the last command has changed.
type Undoer interface {
	// Last returns it; without one the error is fs.ErrNotExist.
	Last() (*jail.Landed, error)
	// Undo brings back what was there before. It returns the names that have changed
	// since: then nothing has been undone.
	Undo(*jail.Landed) (clash []string, err error)
}

// undoTool returns the tool that the user takes back a command with.
func undoTool(u Undoer) tool.Tool {
	about := tool.Tool{Name: "undo", Toolset: "changes", Mode: policy.Manual, Asks: true, Verbs: []policy.Verb{policy.Write, policy.Delete},
		Description: "Take back what the last command has changed. It is refused where that has changed since."}
	return tool.New(about, func(_ context.Context, _ tool.Names, _ struct{}) (tool.Plan, error) {
		if u == nil {
			return tool.Plan{}, errors.New("nobody runs commands here")
		}
		last, err := u.Last()
		if errors.Is(err, fs.ErrNotExist) {
			return tool.Plan{}, &sandbox.Error{Op: "undo", Code: sandbox.ErrNotFound, Hint: "no command has changed anything that can be taken back"}
		}
		if err != nil {
			return tool.Plan{}, err
		}
		var effects []policy.Effect
		for _, c := range last.Changes {
			name := jail.Outside(path.Join(c.Target, c.Path))
			effect := policy.Effect{Verb: policy.Write, Target: name}
			if c.Was == layer.Nothing {
				effect = policy.Effect{Verb: policy.Delete, Target: name, Tree: c.Kind == layer.Folder}
			}
			if c.In == "" { // otherwise it goes with its directory
				effects = append(effects, effect)
			}
		}
		run := func(context.Context, *sandbox.Sandbox) (tool.Result, error) {
			inside, err := u.Undo(last)
			var known *sandbox.Error
			if errors.As(err, &known) {
				return tool.Result{}, known
			}
			if err != nil {
				return tool.Result{}, notUndone(err)
			}
			if len(inside) > 0 {
				return tool.Result{}, &sandbox.Error{Op: "undo", Code: sandbox.ErrConflict, Hint: "changed since: " + landing.Names(inside) + "; nothing was undone"}
			}
			return tool.Result{Text: "undone: " + landing.Count(len(effects), "change"), Brief: true}, nil
		}
		prepare := func(context.Context, *sandbox.Sandbox) (tool.Prepared, error) {
			rows := landing.NewRows()
			err := last.Each(func(name string, now, then layer.State) error {
				rows.Add(landing.Return{Name: name, Now: now, Then: then, Of: last.Name()})
				return nil
			})
			if err != nil {
				return tool.Prepared{}, notUndone(err)
			}
			return tool.Ready(run, rows.Changes()...), nil
		}
		return tool.Changing(prepare, effects...), nil
	})
}

func notUndone(err error) error {
	return &sandbox.Error{Op: "undo", Code: sandbox.ErrConflict, Hint: strings.TrimPrefix(jail.Plain(err), "jail: ") + "; nothing was undone"}
}
