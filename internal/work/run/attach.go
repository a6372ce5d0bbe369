package run

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/gabriel-vasile/mimetype"

	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/sandbox"
)

// MaxFile is the size of the largest file that a model gets.
const MaxFile = 11 << 20

// FileOf returns a file for a model. It returns an error if the content does not match
// the name's extension, because such a file is disguised.
func FileOf(name string, data []byte) (model.File, error) {
	if len(data) > MaxFile {
		return model.File{}, &sandbox.Error{Op: "attach", Path: name, Code: sandbox.ErrTooLarge, Hint: fmt.Sprintf("a model gets at most %d bytes at once", MaxFile)}
	}
	found := mimetype.Detect(data)
	kind, _, _ := strings.Cut(found.String(), ";")
	suffix := strings.ToLower(path.Ext(name))
	for said, want := range map[string]string{".pdf": "application/pdf", ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp"} {
		if suffix == said && !found.Is(want) {
			return model.File{}, &sandbox.Error{Op: "attach", Path: name, Code: sandbox.ErrInvalid, Hint: "it is called " + said + ", and holds " + kind}
		}
	}
	for at := found; at != nil; at = at.Parent() {
		if at.Is("text/plain") {
			kind = "text/plain"
		}
	}
	return model.File{Name: path.Base(name), Type: kind, Data: data, From: name}, nil
}

// Attached is how many files the user has attached to the messages of a run, and their bytes
// in all. The limits of attachments hold for all messages together.
type Attached struct {
	Files int
	Bytes int64
}

// With returns the same with one more file.
func (a Attached) With(f model.File) Attached {
	return Attached{a.Files + 1, a.Bytes + int64(max(len(f.Data), f.Size))}
}

// countAttached counts the files that the user has attached to messages. Other files came with
// the results of calls.
func countAttached(messages []model.Message) (a Attached) {
	for _, m := range messages {
		isResult := func(p model.Part) bool { return p.Result != nil }
		if m.Role != model.User || slices.ContainsFunc(m.Parts, isResult) {
			continue
		}
		for _, p := range m.Parts {
			if p.File != nil {
				a = a.With(*p.File)
			}
		}
	}
	return a
}
