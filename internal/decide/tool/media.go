package tool

import (
	"context"
)

// maxMedia is how many bytes of media a result may have. Encoded as base64, as most
// protocols do, they are as long as the longest text.
const maxMedia = MaxResult / 4 * 3

// Media is content that is not text.
type Media struct {
	Type string // the MIME type
	Path string // the file with this content, "" for none
	Data []byte
}

type mediaKey struct{}

// Accepted says which media the caller of a tool accepts.
type Accepted struct {
	Types []string // MIME types
	Bytes int      // of one file
	Names string   // names what the caller accepts, for a person; "" for a caller that accepts all types
}

// AllMedia is accepted by a caller that passes on everything that models can read.
var AllMedia = Accepted{Types: []string{"application/pdf", "image/png", "image/jpeg", "image/gif", "image/webp"}, Bytes: maxMedia}

// WithMedia returns the context for a caller that accepts media.
func WithMedia(ctx context.Context, a Accepted) context.Context {
	return context.WithValue(ctx, mediaKey{}, a)
}

// AcceptedMedia returns what media the caller of a tool accepts. It reports false for a
// caller that gets only text.
func AcceptedMedia(ctx context.Context) (Accepted, bool) {
	a, ok := ctx.Value(mediaKey{}).(Accepted)
	return a, ok
}
