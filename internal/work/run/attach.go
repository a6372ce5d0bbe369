package run

import (
	"fmt"
	"path"
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
	return model.File{Name: path.Base(name), Type: kind, Data: data}, nil
}
