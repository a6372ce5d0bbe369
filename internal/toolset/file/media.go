package file

import (
	"fmt"

	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/sandbox"
)

// readMedia returns a whole file that is an image or a PDF. For any other file it returns
// why, the error of the read as text.
func readMedia(files *sandbox.Sandbox, at string, why error) (tool.Result, error) {
	start, info, err := files.ReadRange(at, 0, sniffed)
	kind := tool.MediaType(start)
	if err != nil || kind == "" {
		return tool.Result{}, why
	}
	if info.Size() > tool.MaxMedia {
		return tool.Result{}, &sandbox.Error{Op: "read", Path: at, Code: sandbox.ErrTooLarge,
			Hint: fmt.Sprintf("%s, %d bytes; a model gets at most %d; make it smaller with a command, or give it to the user", kind, info.Size(), tool.MaxMedia)}
	}
	data, _, err := files.ReadRange(at, 0, tool.MaxMedia)
	if err != nil {
		return tool.Result{}, err
	}
	about := struct {
		Path string `json:"path"`
		Type string `json:"type"`
		Size int    `json:"size"`
	}{at, kind, len(data)}
	return tool.Result{Text: fmt.Sprintf("%s: %s, %d bytes", sandbox.Shown(at), kind, len(data)), Data: about,
		Media: []tool.Media{{Type: kind, Path: at, Data: data}}}, nil
}
