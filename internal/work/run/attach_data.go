package run

import (
	"strings"

	"github.com/gabriel-vasile/mimetype"

	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/sandbox"
)

// Add returns content without a file as a file for the worker, beside the files that it
// gets already. A name that is a single word gets the suffix of its kind.
func (a Attachments) Add(name string, data []byte, before []model.File) (model.File, error) {
	if !strings.ContainsAny(name, "/.") {
		name += mimetype.Detect(data).Extension()
	}
	total := int64(len(data))
	for _, f := range before {
		total += int64(len(f.Data))
	}
	if a.Worker != nil {
		if why := a.Policy.RefusalReason(name, len(before)+1, total); why != "" {
			return model.File{}, &sandbox.Error{Op: "attach", Path: name, Code: sandbox.ErrLimit, Hint: why + " (attachment_policy of " + a.Worker.Name + ")"}
		}
	}
	return FileOf(name, data)
}
