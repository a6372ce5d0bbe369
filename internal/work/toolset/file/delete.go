package file

import (
	"context"
	"errors"
	"fmt"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/sandbox"
)

// maxMourned is the largest size of a text that an approval to delete it shows.
const maxMourned = 64 << 10

type deleteArgs struct {
	Path      string `json:"path" jsonschema:"virtual path such as /dir/file: a file, symlink or directory"`
	Recursive bool   `json:"recursive,omitempty" jsonschema:"delete a directory with its contents"`
}

// Deleted is the result of a deletion.
type Deleted struct {
	Path  string `json:"path"`
	Files int    `json:"files"`
	Dirs  int    `json:"folders"`
}

// deleteFile removes a file, a symlink or an empty directory. With recursive it also
// removes a directory that is not empty. It removes a symlink and not its target.
func deleteFile() tool.Tool {
	return tool.New(changer("delete_file", "Delete a file or an empty directory; with recursive, a directory and everything in it.", policy.Delete),
		func(_ context.Context, names tool.Names, a deleteArgs) (tool.Plan, error) {
			name, err := names.Locate("delete", a.Path, sandbox.ReadWrite, true)
			if err != nil {
				return tool.Plan{}, err
			}
			if err := checkMovable(names, "delete", name); err != nil {
				return tool.Plan{}, err
			}
			prepare := func(ctx context.Context, files *sandbox.Sandbox) (tool.Preparation, error) {
				return prepareDelete(ctx, files, name, a.Recursive)
			}
			// The result reveals whether the name exists, so the call also counts as a
			// read.
			effects := append([]policy.Effect{{Verb: policy.Delete, Target: name, Tree: a.Recursive}}, names.ReadsToApprove(name)...)
			return tool.NewChangePlan(prepare, effects...), nil
		})
}

func prepareDelete(ctx context.Context, files *sandbox.Sandbox, name string, recursive bool) (tool.Preparation, error) {
	const op = "delete"
	seen, err := examine(ctx, files, op, name)
	if err != nil {
		return tool.Preparation{}, err
	}
	if n := seen.files + seen.dirs + seen.unread; n > 0 && !recursive {
		return tool.Preparation{}, notEmptyError(name, fmt.Sprintf("it holds %d entries in all", n))
	}
	gone := Deleted{name, seen.files, seen.dirs + 1}
	change := tool.Change{Path: name, Op: tool.Delete, Base: seen.version, About: seen.describe(), Tree: seen.names, Omitted: seen.describeOmitted()}
	if !seen.mode.IsDir() {
		gone.Files, gone.Dirs = 1, 0
		if len(seen.content) <= maxMourned && filecontent.IsText(seen.content) {
			change.Diff = filecontent.Diff(name, "", filecontent.Decode(seen.content, false), "")
		}
	}
	run := func(ctx context.Context, files *sandbox.Sandbox) (tool.Result, error) {
		if err := seen.checkUnchanged(ctx, files, op, name); err != nil {
			return tool.Result{}, err
		}
		var err error
		if recursive {
			err = files.DeleteAll(ctx, name)
		} else {
			err = files.Delete(name)
		}
		if errors.Is(err, sandbox.ErrNotEmpty) {
			err = notEmptyError(name, "something is in it now")
		}
		if err != nil {
			return tool.Result{}, err
		}
		return tool.Result{Text: fmt.Sprintf("deleted %s: %s", sandbox.Shown(name), seen.describe()), Data: gone}, nil
	}
	return tool.NewPreparation(run, change).WithUndo(), nil
}
