package file

import (
	"bytes"
	"context"
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

// readMedia returns an image or a PDF whole, where the caller takes media; is says
// whether the file is one.
func readMedia(ctx context.Context, files *sandbox.Sandbox, at string) (r tool.Result, is bool, err error) {
	if !tool.TakesMedia(ctx) {
		return r, false, nil
	}
	start, info, err := files.ReadRange(at, 0, sniffed)
	kind := mediaType(start)
	if err != nil || kind == "" {
		return r, false, err
	}
	if info.Size() > tool.MaxMedia {
		return r, true, &sandbox.Error{Op: "read", Path: at, Code: sandbox.ErrTooLarge,
			Hint: fmt.Sprintf("%s, %d bytes; at most %d can be handed over; make it smaller with a command, or hand it to the user", kind, info.Size(), tool.MaxMedia)}
	}
	data, info, err := files.ReadRange(at, 0, tool.MaxMedia)
	if err != nil {
		return r, true, err
	}
	about := struct {
		Path string `json:"path"`
		Type string `json:"type"`
		Size int64  `json:"size"`
	}{at, kind, info.Size()}
	return tool.Result{Text: fmt.Sprintf("%s: %s, %d bytes", sandbox.Shown(at), kind, len(data)), Data: about,
		Media: []tool.Media{{Type: kind, Path: at, Data: data}}}, true, nil
}
