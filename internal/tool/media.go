package tool

import (
	"bytes"
	"context"
)

// MaxMedia is how many bytes of media a result may have. Encoded as base64, as most
// protocols do, they are as long as the longest text.
const MaxMedia = MaxResult / 4 * 3

// Media is content that is not text.
type Media struct {
	Type string // the MIME type
	Path string // the file with this content, "" for none
	Data []byte
}

// MediaType returns the MIME type of content that models can read, "" for other content.
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

// WithMedia returns the context for a caller that accepts media.
func WithMedia(ctx context.Context) context.Context {
	return context.WithValue(ctx, mediaKey{}, true)
}

// AcceptsMedia reports whether the caller of a tool accepts media.
func AcceptsMedia(ctx context.Context) bool { return ctx.Value(mediaKey{}) != nil }
