package tool

import "context"

// MaxMedia is how many bytes of media a result has at most: written as text, as most
// protocols do, they are as long as a text may be.
const MaxMedia = MaxResult / 4 * 3

// Media is a content that is no text.
type Media struct {
	Type string // as of MIME
	Path string // the file that it is of
	Data []byte
}

type takesMedia struct{}

// WithMedia returns the context for calls whose caller takes media.
func WithMedia(ctx context.Context) context.Context {
	return context.WithValue(ctx, takesMedia{}, true)
}

// TakesMedia reports whether the caller of a tool takes media.
func TakesMedia(ctx context.Context) bool { return ctx.Value(takesMedia{}) != nil }
