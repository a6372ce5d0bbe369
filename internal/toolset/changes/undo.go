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
		var changes []tool.Change
		for _, c := range last.Changes {
			name := jail.Outside(path.Join(c.Target, c.Path))
			effect, change := policy.Effect{Verb: policy.Write, Target: name}, tool.Change{Path: name, Op: tool.Update, Base: last.Name(), About: "as it was before"}
			switch {
			case c.Was == layer.Nothing:
				effect, change.Op = policy.Effect{Verb: policy.Delete, Target: name, Tree: c.Kind == layer.Folder}, tool.Delete
				change.About = "was not there before"
			case c.Op == layer.Delete:
				change.Op = tool.Create
			}
			if c.In == "" { // otherwise it goes with its directory
				effects = append(effects, effect)
			}
			changes = append(changes, change)
		}
		changes = landing.Carried(changes)
		run := func(context.Context, *sandbox.Sandbox) (tool.Result, error) {
			inside, err := u.Undo(last)
			var known *sandbox.Error
			if errors.As(err, &known) {
				return tool.Result{}, known
			}
			if err != nil {
				return tool.Result{}, &sandbox.Error{Op: "undo", Code: sandbox.ErrConflict, Hint: strings.TrimPrefix(jail.Plain(err), "jail: ") + "; nothing was undone"}
			}
			if len(inside) > 0 {
				return tool.Result{}, &sandbox.Error{Op: "undo", Code: sandbox.ErrConflict, Hint: "changed since: " + landing.Names(inside) + "; nothing was undone"}
			}
			return tool.Result{Text: "undone: " + landing.Count(len(effects), "change")}, nil
		}
		prepare := func(context.Context, *sandbox.Sandbox) (tool.Prepared, error) {
			return tool.Ready(run, changes...), nil
		}
		return tool.Changing(prepare, effects...), nil
	})
}
