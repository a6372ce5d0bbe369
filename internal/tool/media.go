package tool

import (
	"bytes"
	"context"
)

// MaxMedia is how many bytes of media a result has at most: written as text, as most
// protocols do, they are as long as a text may be.
const MaxMedia = MaxResult / 4 * 3

// Media is a content that is no text.
type Media struct {
	Type string // as of MIME
	Path string // the file that it is of, "" for none
	Data []byte
}

// MediaType returns the MIME type of a content that models can look at, "" for others.
func MediaType(start []byte) string {
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

type mediaKey struct{}

// WithMedia returns the context for calls whose caller takes media.
func WithMedia(ctx context.Context) context.Context {
	return context.WithValue(ctx, mediaKey{}, true)
}

// AcceptsMedia reports whether the caller of a tool takes media.
func AcceptsMedia(ctx context.Context) bool { return ctx.Value(mediaKey{}) != nil }
