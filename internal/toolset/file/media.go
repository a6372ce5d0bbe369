package file

import (
	"bytes"
	"fmt"

	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/sandbox"
)

// mediaType returns the MIME type of a content that models can look at, "" for others.
func mediaType(start []byte) string {
	for _, k := range []struct{ magic, kind string }{
		{"%PDF-", "application/pdf"},
		{"\x89PNG\r\n\x1a\n", "image/png"},
		{"\xff\xd8\xff", "image/jpeg"},
		{"GIF87a", "image/gif"},
		{"GIF89a", "image/gif"},
	} {
		if bytes.HasPrefix(start, []byte(k.magic)) {
			return k.kind
		}
	}
	if len(start) >= 12 && string(start[:4]) == "RIFF" && string(start[8:12]) == "WEBP" {
		return "image/webp"
	}
	return ""
}

// readMedia returns a file that is no text whole, if it is an image or a PDF, and why it
// could not be read otherwise.
func readMedia(files *sandbox.Sandbox, at string, why error) (tool.Result, error) {
	start, info, err := files.ReadRange(at, 0, sniffed)
	kind := mediaType(start)
	if err != nil || kind == "" {
		return tool.Result{}, why
	}
	if info.Size() > tool.MaxMedia {
		return tool.Result{}, &sandbox.Error{Op: "read", Path: at, Code: sandbox.ErrTooLarge,
			Hint: fmt.Sprintf("%s, %d bytes; at most %d can be handed over; make it smaller with a command, or hand it to the user", kind, info.Size(), tool.MaxMedia)}
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
