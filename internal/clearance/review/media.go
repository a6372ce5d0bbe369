//go:build !js

package review

import (
	"strings"

	"github.com/gabriel-vasile/mimetype"
)

// mediaType returns the type of a content, such as image/png.
func mediaType(content []byte) string {
	kind, _, _ := strings.Cut(mimetype.Detect(content).String(), ";")
	return kind
}
