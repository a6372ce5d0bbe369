package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

type writeArgs struct {
	Path      string `json:"path" jsonschema:"virtual path such as /dir/file"`
	Content   string `json:"content" jsonschema:"its whole new text"`
	IfVersion string `json:"if_version,omitempty" jsonschema:"write only if the file is still at this version"`
}

// Written is the result of writing a file.
type Written struct {
	Path         string `json:"path"`
	IsNew        bool   `json:"isNew"`
	BytesWritten int    `json:"bytesWritten"`
	Version      string `json:"version"`
}

// changer returns a tool that changes files, without its arguments.
func changer(name, description string, verbs ...policy.Verb) tool.Tool {
	return tool.Tool{Name: name, Toolset: toolset, Mode: policy.Both, Verbs: verbs, Description: description}
}

// writeFile creates a file or replaces its content.
func writeFile() tool.Tool {
	t := changer("write_file", "Create a file, or replace a whole file. Missing parent directories are created. To change a part of a file use edit_file.", policy.Write)
	t.Private = []string{"content"}
	return tool.New(t,
		func(_ context.Context, names tool.Names, a writeArgs) (tool.Plan, error) {
			return planWrite(names, a)
		})
}

// oldWriteText is the form of writeFile that llm-do has.
func oldWriteText() tool.Tool {
	type args struct {
		Path    string `json:"path" jsonschema:"the file"`
		Content string `json:"content" jsonschema:"its whole new text"`
	}
	t := changer("sandbox_write_text", "An older name of write_file.", policy.Write)
	t.Private = []string{"content"}
	return tool.New(t,
		func(_ context.Context, names tool.Names, a args) (tool.Plan, error) {
			return planWrite(names, writeArgs{Path: a.Path, Content: a.Content})
		}).Alias("write_file")
}

// planWrite resolves the name and checks the arguments. The plan that it returns has not
// read the file: Gate.Do calls prepare after the grant has allowed the effects, and calls
// the run of the preparation after the approval.
func planWrite(names tool.Names, a writeArgs) (tool.Plan, error) {
	const op = "write"
	name, err := names.Locate(op, a.Path, sandbox.ReadWrite, false)
	if err != nil {
		return tool.Plan{}, err
	}
	wanted, err := parseVersion(op, name, a.IfVersion)
	if err != nil {
		return tool.Plan{}, err
	}
	content := []byte(a.Content)
	if err := checkSize(names, op, name, len(content)); err != nil {
		return tool.Plan{}, err
	}
	prepare := func(_ context.Context, files *sandbox.Sandbox) (tool.Preparation, error) {
		old, err := readBase(files, op, name)
		if err != nil {
			return tool.Preparation{}, err
		}
		if err := old.check(op, name, wanted); err != nil {
			return tool.Preparation{}, err
		}
		return old.prepareContent(files, op, name, content, func(n int, v string) any {
			return Written{name, old.version.IsZero(), n, v}
		})
	}
	effects := []policy.Effect{{Verb: policy.Write, Target: name}}
	if a.IfVersion != "" { // the result reveals whether the file has this content, so the call also counts as a read
		effects = append(effects, policy.Effect{Verb: policy.Read, Target: name})
	}
	return tool.NewChangePlan(prepare, effects...), nil
}

// A base is a file as it was when a change of it was planned.
type base struct {
	version sandbox.Version // zero if there is no file
	mode    fs.FileMode
	content []byte
	size    int64
	whole   bool // content is the whole file; otherwise it is too large to read
}

// readBase reads the file to change, if there is one.
func readBase(files *sandbox.Sandbox, op, name string) (base, error) {
	data, version, err := files.ReadVersion(name)
	if errors.Is(err, sandbox.ErrNotFound) {
		return base{whole: true}, nil
	}
	whole := err == nil
	if err != nil && !errors.Is(err, sandbox.ErrTooLarge) {
		return base{}, withOp(op, err)
	}
	info, err := files.Stat(name)
	if err != nil {
		return base{}, withOp(op, err)
	}
	if !whole {
		version = info.Version()
	}
	return base{version, info.Mode(), data, info.Size(), whole}, nil
}

// check compares the file with the version that the caller has seen.
func (b base) check(op, name string, wanted sandbox.Version) error {
	switch {
	case wanted.IsZero():
		return nil
	case b.version.IsZero():
		return conflictError(op, name, "there is no such file; without if_version it would be made")
	case !b.version.Same(wanted):
		return conflictError(op, name, "it is not at that version any more; read it again")
	}
	return nil
}

// prepareContent returns the change for the approver to see, and the run that writes the
// content. told makes the structured result of the call. If somebody else changes the file in between, the write fails with a conflict
// and keeps that change. A file that has the content already is written all the same,
// because an answer about it would reveal the content.
func (b base) prepareContent(files *sandbox.Sandbox, op, name string, content []byte, told func(written int, version string) any) (tool.Preparation, error) {
	if rule := files.ProtectedContent(name, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }); rule != "" {
		return tool.Preparation{}, &sandbox.Error{Op: op, Path: name, Code: sandbox.ErrProtected, Hint: "only clearance can write such content here: " + rule + " protects it"}
	}
	change := tool.DescribeChange(name, b.version, b.content, content)
	if !b.whole {
		change.Diff, change.Original = "", nil
		change.About = fmt.Sprintf("%s, too large to compare, → %s", visible.Amount(b.size), visible.Amount(int64(len(content))))
	}
	change.Omitted = "" // without a diff, the arguments show the new content
	if !b.version.IsZero() {
		change.Mode = formatMode(b.mode.Perm()) // the file loses the other bits
	}
	if change.Empties = !b.version.IsZero() && b.size > 0 && filecontent.IsBlank(content) && !(b.whole && bytes.Equal(content, b.content)); change.Empties {
		change.About += "; it is left empty"
	}
	return tool.NewPreparation(func(_ context.Context, files *sandbox.Sandbox) (tool.Result, error) {
		if err := b.replace(files, op, name, content); err != nil {
			return tool.Result{}, err
		}
		verb, version := "wrote", filecontent.Hash(content)
		if b.version.IsZero() {
			verb = "created"
		}
		return tool.Result{Text: fmt.Sprintf("%s %s: %s, version %s", verb, sandbox.Shown(name), visible.Amount(int64(len(content))), version),
			ForModel: ", version " + version, Data: told(len(content), version)}, nil
	}, change).WithUndo(), nil
}

// replace writes the content if the version and the mode of the file have not changed.
func (b base) replace(files *sandbox.Sandbox, op, name string, content []byte) error {
	var err error
	if b.version.IsZero() {
		_, err = files.WriteNew(name, content)
	} else if info, there := files.Stat(name); there == nil && info.Mode() != b.mode {
		err = sandbox.ErrConflict
	} else {
		_, err = files.WriteIf(name, content, b.version)
	}
	switch sandbox.CodeOf(err) {
	case sandbox.ErrExists:
		return conflictError(op, name, "it appeared meanwhile, and nothing was written; read it first")
	case sandbox.ErrConflict, sandbox.ErrNotFound:
		return changedError(op, name)
	}
	return withOp(op, err)
}

type directoryArgs struct {
	Path string `json:"path" jsonschema:"virtual path such as /dir/new"`
}

// makeDirectory creates a directory and its missing parents.
func makeDirectory() tool.Tool {
	type made struct {
		Path  string `json:"path"`
		IsNew bool   `json:"isNew"`
	}
	const op = "make"
	return tool.New(changer("make_directory", "Create a directory and its missing parents. An existing directory is no error.", policy.Write),
		func(_ context.Context, names tool.Names, a directoryArgs) (tool.Plan, error) {
			name, err := names.Locate(op, a.Path, sandbox.ReadWrite, false)
			if err != nil {
				return tool.Plan{}, err
			}
			prepare := func(_ context.Context, files *sandbox.Sandbox) (tool.Preparation, error) {
				info, err := files.Stat(name)
				switch {
				case errors.Is(err, sandbox.ErrNotFound):
				case err != nil:
					return tool.Preparation{}, withOp(op, err)
				case !info.IsDir():
					return tool.Preparation{}, &sandbox.Error{Op: op, Path: name, Code: sandbox.ErrExists, Hint: "a file has this name; choose another"}
				default:
					return tool.NewPreparation(func(context.Context, *sandbox.Sandbox) (tool.Result, error) {
						return tool.Result{Text: "exists already: " + sandbox.Shown(name), Data: made{Path: name}}, nil
					}), nil
				}
				run := func(_ context.Context, files *sandbox.Sandbox) (tool.Result, error) {
					return tool.Result{Text: "made " + sandbox.Shown(name), Data: made{name, true}}, files.MakeDir(name)
				}
				return tool.NewPreparation(run, tool.Change{Path: name, Op: tool.Create, About: "a directory"}).WithUndo(), nil
			}
			// The result reveals whether it exists, so the call also counts as a read.
			effects := append([]policy.Effect{{Verb: policy.Write, Target: name}}, names.ReadsToApprove(name)...)
			return tool.NewChangePlan(prepare, effects...), nil
		})
}

// parseVersion parses an if_version. It returns the zero version if there is none.
func parseVersion(op, name, word string) (sandbox.Version, error) {
	if word == "" {
		return sandbox.Version{}, nil
	}
	v, err := sandbox.ParseVersion(word)
	if err != nil {
		return v, &sandbox.Error{Op: op, Path: name, Code: sandbox.ErrInvalid, Hint: "if_version is the version that read_file or file_info showed"}
	}
	return v, nil
}

// checkSize checks a size against the limit of a mount, so that golem does not ask about an
// impossible write. The sandbox checks all limits again.
func checkSize(names tool.Names, op, name string, size int) error {
	most := int64(sandbox.MaxRead)
	if limit := names.MaxBytes(name); limit > 0 {
		most = min(most, limit)
	}
	if int64(size) <= most {
		return nil
	}
	return &sandbox.Error{Op: op, Path: name, Code: sandbox.ErrTooLarge,
		Hint: fmt.Sprintf("%d bytes, at most %d; nothing was written; split it into several files", size, most)}
}
