package file

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/sandbox"
)

const (
	maxEdits   = 200      // in one call; each edit searches the whole file
	maxEdited  = 16 << 20 // bytes of a file; it is in memory several times
	maxMatches = 20       // matches that an error names
)

// An edit replaces old with new.
type edit struct {
	Old        string `json:"old" jsonschema:"exact text"`
	New        string `json:"new" jsonschema:"text in its place"`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema:"replace every occurrence"`
}

type editArgs struct {
	Path      string `json:"path" jsonschema:"virtual path such as /dir/file"`
	Edits     []edit `json:"edits" jsonschema:"made in order, all or none"`
	IfVersion string `json:"if_version,omitempty" jsonschema:"edit only if the file is still at this version"`
}

// Edited is the result of editing a file.
type Edited struct {
	Path    string `json:"path"`
	Edits   int    `json:"edits"` // edits made: all, or 0 if together they do not change the file
	Version string `json:"version"`
}

// editFile changes parts of a file. All other bytes stay as they are, including line ends
// and a byte order mark, in any encoding.
func editFile() tool.Tool {
	t := changer("edit_file", "Replace parts of a text file. Each old text must occur exactly once, or at least once with replace_all; "+
		"omit the line numbers that read_file shows. Later edits see the result of earlier ones. Nothing is written unless all edits match.", policy.Read, policy.Write)
	t.Private = []string{"edits"}
	return tool.New(t, planEdit)
}

func planEdit(_ context.Context, names tool.Names, a editArgs) (tool.Plan, error) {
	const op = "edit"
	name, err := names.Locate(op, a.Path, sandbox.ReadWrite, false)
	if err != nil {
		return tool.Plan{}, err
	}
	wanted, err := parseVersion(op, name, a.IfVersion)
	if err != nil {
		return tool.Plan{}, err
	}
	if why := checkEdits(a.Edits); why != "" {
		return tool.Plan{}, &sandbox.Error{Op: op, Path: name, Code: sandbox.ErrInvalid, Hint: why}
	}
	prepare := func(ctx context.Context, files *sandbox.Sandbox) (tool.Preparation, error) {
		old, err := readForEdit(files, op, name)
		if err == nil {
			err = old.check(op, name, wanted)
		}
		if err != nil {
			return tool.Preparation{}, err
		}
		content, err := applyEdits(ctx, old.content, a.Edits)
		if err != nil {
			var why *sandbox.Error
			if errors.As(err, &why) {
				why.Op, why.Path = op, name
			}
			return tool.Preparation{}, err
		}
		if bytes.Equal(content, old.content) {
			return old.prepareNoChange(op, name), nil
		}
		if err := checkSize(names, op, name, len(content)); err != nil {
			return tool.Preparation{}, err
		}
		return old.prepareContent(files, op, name, content, func(_ int, version string) any {
			return Edited{name, len(a.Edits), version}
		})
	}
	return tool.NewChangePlan(prepare, policy.Effect{Verb: policy.Read, Target: name}, policy.Effect{Verb: policy.Write, Target: name}), nil
}

// readForEdit reads the file to edit. It refuses a file that is too large or not text.
func readForEdit(files *sandbox.Sandbox, op, name string) (base, error) {
	data, info, err := files.ReadRange(name, 0, maxEdited)
	if err != nil {
		return base{}, withOp(op, err)
	}
	if info.Size() > maxEdited {
		return base{}, &sandbox.Error{Op: op, Path: name, Code: sandbox.ErrTooLarge, Hint: fmt.Sprintf(
			"%d bytes, at most %d MiB can be edited; read_file its parts and write_file them as several files, or ask the user", info.Size(), maxEdited>>20)}
	}
	if kind := binaryKind(data); kind != "" || !filecontent.IsText(data) {
		return base{}, &sandbox.Error{Op: op, Path: name, Code: sandbox.ErrInvalid, Hint: fmt.Sprintf(
			"it is binary or UTF-16 (%s); only text in UTF-8 or Latin-1 can be edited; write_file can replace all of it, or ask the user to convert it", cmp.Or(kind, "not text"))}
	}
	return base{info.Version().With(data), info.Mode(), data, info.Size(), true}, nil
}

// prepareNoChange prepares edits that cancel each other out.
func (b base) prepareNoChange(op, name string) tool.Preparation {
	return tool.NewPreparation(func(_ context.Context, files *sandbox.Sandbox) (tool.Result, error) {
		if _, now, err := files.ReadVersion(name); err != nil || !now.Same(b.version) {
			return tool.Result{}, changedError(op, name)
		}
		version := b.version.String()
		return tool.Result{Text: fmt.Sprintf("nothing changed in %s: together the edits leave it as it was%s", sandbox.Shown(name), versionText(version)),
			ForModel: versionText(version), Data: Edited{Path: name, Version: version}}, nil
	}, tool.DescribeChange(name, b.version, b.content, b.content))
}

// checkEdits returns the reason why edits are invalid for any file, or "".
func checkEdits(edits []edit) string {
	switch {
	case len(edits) == 0:
		return "there are no edits; give at least one with old and new"
	case len(edits) > maxEdits:
		return fmt.Sprintf("%d edits; at most %d in one call", len(edits), maxEdits)
	}
	for i, e := range edits {
		switch {
		case e.Old == "":
			return fmt.Sprintf("edit %d: old is empty; give the text to replace, or use write_file", i+1)
		case e.Old == e.New:
			return fmt.Sprintf("edit %d: old and new are the same", i+1)
		}
	}
	return ""
}

// applyEdits makes the edits in order, each on the result of the one before.
func applyEdits(ctx context.Context, content []byte, edits []edit) ([]byte, error) {
	for i, e := range edits {
		if ctx.Err() != nil {
			return nil, &sandbox.Error{Code: errTimeout, Hint: "it was stopped; nothing was written"}
		}
		next, err := e.apply(content)
		if err != nil {
			var why *sandbox.Error
			if errors.As(err, &why) {
				why.Hint = fmt.Sprintf("edit %d of %d: %s", i+1, len(edits), why.Hint)
			}
			return nil, err
		}
		content = next
	}
	return content, nil
}

// apply makes one edit, or returns an error that says why it cannot.
func (e edit) apply(content []byte) ([]byte, error) {
	s := newSubject(content)
	places, err := s.findPlaces(e.Old)
	switch {
	case err != nil:
		return nil, err
	case len(places) == 0 && !s.utf8 && strings.ContainsRune(e.Old, utf8.RuneError):
		return nil, &sandbox.Error{Code: sandbox.ErrInvalid, Hint: "the file is not UTF-8: " + noReplacement}
	case len(places) == 0:
		return nil, &sandbox.Error{Code: sandbox.ErrInvalid, Hint: "old does not occur in the file; " + describeClosest(content, e.Old)}
	case len(places) > 1 && !e.ReplaceAll:
		return nil, &sandbox.Error{Code: sandbox.ErrInvalid, Hint: s.describeLines(places)}
	}
	next, err := s.replaceAt(dropOverlaps(places), e)
	if err == nil && bytes.Equal(next, content) {
		err = &sandbox.Error{Code: sandbox.ErrInvalid, Hint: "in the line ends and the encoding of the file, which edits keep, old and new are the same; write_file can change those"}
	}
	return next, err
}
