package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/sandbox"
)

const (
	maxEdits   = 200 // in one call: each looks through the whole file
	maxMatches = 20  // that an error names
)

// An edit puts new in the place of old.
type edit struct {
	Old        string `json:"old" jsonschema:"exact text; must occur once"`
	New        string `json:"new" jsonschema:"text in its place"`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema:"replace every occurrence"`
}

type editArgs struct {
	Path      string `json:"path" jsonschema:"the file"`
	Edits     []edit `json:"edits" jsonschema:"made in order, all or none"`
	IfVersion string `json:"if_version,omitempty" jsonschema:"edit only if the file is still at this version"`
}

// Edited is what came of editing a file.
type Edited struct {
	Path    string `json:"path"`
	Edits   int    `json:"edits"` // 0 where they change nothing together
	Version string `json:"version"`
}

// editFile changes parts of a file. All that is not in an edit stays as it is,
// byte by byte: line ends, a byte order mark, whatever the encoding.
func editFile() tool.Tool {
	t := changer("edit_file", "Replace parts of a file. Each old text must occur exactly once, "+
		"without the line numbers that read_file shows; nothing is written unless all edits fit.", policy.Read, policy.Write)
	t.Private = []string{"edits"}
	return tool.New(t, planEdit)
}

func planEdit(_ context.Context, names tool.Names, a editArgs) (tool.Plan, error) {
	const op = "edit"
	name, err := names.Locate(op, a.Path, sandbox.ReadWrite, false)
	if err != nil {
		return tool.Plan{}, err
	}
	wanted, err := wantedVersion(op, name, a.IfVersion)
	if err != nil {
		return tool.Plan{}, err
	}
	if why := unfit(a.Edits); why != "" {
		return tool.Plan{}, &sandbox.Error{Op: op, Path: name, Code: sandbox.ErrInvalid, Hint: why}
	}
	prepare := func(ctx context.Context, files *sandbox.Sandbox) (tool.Prepared, error) {
		data, version, err := files.ReadVersion(name)
		if err != nil {
			return tool.Prepared{}, as(op, err)
		}
		old := base{version, data, int64(len(data)), true}
		if err := old.check(op, name, wanted); err != nil {
			return tool.Prepared{}, err
		}
		content, err := applied(ctx, data, a.Edits)
		if err != nil {
			var why *sandbox.Error
			if errors.As(err, &why) {
				why.Op, why.Path = op, name
			}
			return tool.Prepared{}, err
		}
		if err := fits(names, op, name, len(content)); err != nil {
			return tool.Prepared{}, err
		}
		return old.becomes(op, name, content, func(written int, version string) any {
			made := len(a.Edits)
			if written == 0 && len(content) > 0 {
				made = 0
			}
			return Edited{name, made, version}
		}), nil
	}
	return tool.Changing(prepare, policy.Effect{Verb: policy.Read, Target: name}, policy.Effect{Verb: policy.Write, Target: name}), nil
}

// unfit says what is wrong with edits, whatever the file.
func unfit(edits []edit) string {
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

// applied makes the edits one after the other, each on what the former left.
func applied(ctx context.Context, content []byte, edits []edit) ([]byte, error) {
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

// apply makes one edit, or says why it cannot be made.
func (e edit) apply(content []byte) ([]byte, error) {
	for _, w := range e.ways(content) {
		first, count := find(content, w.old)
		if count == 0 {
			continue
		}
		if w.why != "" {
			return nil, &sandbox.Error{Code: sandbox.ErrInvalid, Hint: w.why}
		}
		if count > 1 && !e.ReplaceAll {
			return nil, &sandbox.Error{Code: sandbox.ErrInvalid, Hint: ambiguous(content, w.old)}
		}
		if !e.ReplaceAll {
			return bytes.Join([][]byte{content[:first], w.new, content[first+len(w.old):]}, nil), nil
		}
		if size := len(content) + bytes.Count(content, w.old)*(len(w.new)-len(w.old)); size > sandbox.MaxRead {
			return nil, &sandbox.Error{Code: sandbox.ErrTooLarge, Hint: fmt.Sprintf("the file would have %d bytes, at most %d", size, sandbox.MaxRead)}
		}
		return bytes.ReplaceAll(content, w.old, w.new), nil
	}
	return nil, &sandbox.Error{Code: sandbox.ErrInvalid, Hint: "old does not occur in the file; " + closest(content, e.Old)}
}

// A way is one way to read an edit: the bytes to look for and to put there.
type way struct {
	old, new []byte
	why      string // why new cannot be put there
}

// ways returns how an edit may be meant, the exact bytes first. A caller writes
// LF and UTF-8 where the file has CRLF or Latin-1: what it says is then taken
// in the file's own terms, and the file keeps to them.
func (e edit) ways(content []byte) []way {
	ends := bytes.Contains(content, []byte("\r\n"))
	exact := way{old: []byte(e.Old), new: []byte(e.New)}
	// An old text within a line says nothing of line ends, nor an ASCII one of
	// the encoding: there the new text follows the file.
	if ends && !strings.ContainsAny(e.Old, "\r\n") && allCRLF(content) {
		exact.new = []byte(crlf(e.New))
	}
	latin := !isASCII(e.Old+e.New) && !utf8.Valid(content)
	if latin && isASCII(e.Old) && !hasUTF8(content) {
		exact.new, exact.why = latin1(string(exact.new))
	}
	list := []way{exact}
	if ends && strings.Contains(e.Old, "\n") {
		list = append(list, way{old: []byte(crlf(e.Old)), new: []byte(crlf(e.New))})
	}
	if latin && !isASCII(e.Old) {
		for _, w := range list {
			old, why := latin1(string(w.old))
			if why != "" {
				continue // it cannot be in there
			}
			w.old = old
			w.new, w.why = latin1(string(w.new))
			list = append(list, w)
		}
	}
	return list
}

// find returns where old first is and how often, twice if only by overlapping:
// which of the two is meant nobody knows.
func find(content, old []byte) (first, count int) {
	first = bytes.Index(content, old)
	if first < 0 {
		return first, 0
	}
	count = bytes.Count(content, old)
	if count == 1 && bytes.Contains(content[first+1:], old) {
		count = 2
	}
	return first, count
}

// ambiguous names the lines in which old begins.
func ambiguous(content, old []byte) string {
	var at []string
	line, from := 1, 0
	for len(at) < maxMatches {
		i := bytes.Index(content[from:], old)
		if i < 0 {
			break
		}
		line += bytes.Count(content[from:from+i], []byte("\n"))
		at = append(at, fmt.Sprint(line))
		if old[0] == '\n' {
			line++
		}
		from += i + 1
	}
	text := "old occurs at lines " + strings.Join(at, ", ")
	if more := bytes.Count(content, old) - len(at); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + "; add context so that it occurs once, or set replace_all"
}

// crlf returns the text with CRLF for every line end.
func crlf(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", "\r\n")
}

// allCRLF reports whether no line ends in anything but CRLF.
func allCRLF(content []byte) bool {
	return bytes.Count(content, []byte("\n")) == bytes.Count(content, []byte("\r\n"))
}

func isASCII(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

// hasUTF8 reports whether there is a character of several bytes in UTF-8.
func hasUTF8(content []byte) bool {
	for len(content) > 0 {
		r, size := utf8.DecodeRune(content)
		if size > 1 && r != utf8.RuneError {
			return true
		}
		content = content[size:]
	}
	return false
}

// latin1 returns the text in Latin-1, or why that cannot be.
func latin1(text string) (encoded []byte, why string) {
	for _, r := range text {
		if r > 0xff {
			return nil, fmt.Sprintf("the file is not UTF-8 and cannot hold %s; use plain characters", sandbox.Shown(string(r)))
		}
		encoded = append(encoded, byte(r))
	}
	return encoded, ""
}
