package model

import (
	"slices"
	"strings"
)

// ImageTypes are the MIME types of images that models take. PDF is that of documents.
var ImageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// PDF is the MIME type of PDF files.
const PDF = "application/pdf"

// AllFileTypes returns the MIME types of all files that any model takes, besides text.
func AllFileTypes() []string { return append(slices.Clone(ImageTypes), PDF) }

// A FileTaker is a model that knows which files it takes.
type FileTaker interface {
	// FileTypes returns the MIME types of the files that the model takes, besides text.
	FileTypes() []string
}

// FileTypes returns the MIME types of the files that a model takes, besides text. A model
// that does not say so takes none.
func FileTypes(m Model) []string {
	if t, ok := m.(FileTaker); ok {
		return t.FileTypes()
	}
	return nil
}

// FileTypes implements FileTaker.
func (r *retrying) FileTypes() []string { return FileTypes(r.model) }

// ListFileTypes names file types for a reader, such as "text, PDF, and images as PNG and
// JPEG".
func ListFileTypes(types []string) string {
	list := "text"
	var images []string
	for _, t := range types {
		switch kind, is := strings.CutPrefix(t, "image/"); {
		case is && kind == "webp":
			images = append(images, "WebP")
		case is:
			images = append(images, strings.ToUpper(kind))
		case t == PDF:
			list += ", PDF"
		}
	}
	switch n := len(images); n {
	case 0:
		return list
	case 1:
		return list + ", and images as " + images[0]
	default:
		return list + ", and images as " + strings.Join(images[:n-1], ", ") + " and " + images[n-1]
	}
}
