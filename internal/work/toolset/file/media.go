package file

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/sandbox"
)

// readMedia returns a whole file that is an image or a PDF, if the caller accepts it. For
// any other file it returns why, the error of the read as text.
func readMedia(files *sandbox.Sandbox, at string, accepted tool.Accepted, why error) (tool.Result, error) {
	start, info, err := files.ReadRange(at, 0, sniffed)
	kind := filecontent.MediaType(start)
	if err != nil || kind == "" {
		return tool.Result{}, why
	}
	if !slices.Contains(accepted.Types, kind) {
		return tool.Result{}, &sandbox.Error{Op: "read", Path: at, Code: sandbox.ErrInvalid,
			Hint: fmt.Sprintf("%s, %d bytes; the model accepts %s; convert it with a command, or ask the user for another model", kind, info.Size(), accepted.Names)}
	}
	if info.Size() > int64(accepted.Bytes) {
		return tool.Result{}, &sandbox.Error{Op: "read", Path: at, Code: sandbox.ErrTooLarge,
			Hint: fmt.Sprintf("%s, %d bytes; a model gets at most %d; make it smaller with a command, or give it to the user", kind, info.Size(), accepted.Bytes)}
	}
	data, _, err := files.ReadRange(at, 0, accepted.Bytes)
	if err != nil {
		return tool.Result{}, err
	}
	about := struct {
		Path string `json:"path"`
		Type string `json:"type"`
		Size int    `json:"size"`
	}{at, kind, len(data)}
	return tool.Result{Text: fmt.Sprintf("%s: %s, %d bytes", sandbox.Shown(at), kind, len(data)), Data: about,
		Media:  []tool.Media{{Type: kind, Path: at, Data: data}},
		Record: fmt.Sprintf("%s, %d bytes, sha256 %x", kind, len(data), sha256.Sum256(data))}, nil
}
