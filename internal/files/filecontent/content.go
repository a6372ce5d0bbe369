// Package filecontent says what the content of a file is: text or not, blank, of which type and
// version, and how it differs from another.
package filecontent

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/files/patch"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// MaxCompared is how many bytes of old and new text are compared.
const MaxCompared = 4 << 20

// Diff returns the difference of two texts in git's format. An empty name means
// that there is no file. It returns "" if the texts are larger than MaxCompared.
func Diff(from, to, old, new string) string {
	if len(old)+len(new) > MaxCompared {
		return ""
	}
	return patch.Unified(diffLabel("a", from), diffLabel("b", to), old, new)
}

// diffLabel returns a name for the header of a diff. It escapes line ends, which would
// look like lines of the diff.
func diffLabel(side, name string) string {
	if name == "" {
		return "/dev/null"
	}
	return sandbox.Shown(side + name)
}

// IsText reports whether content can be shown: it has no NUL byte.
func IsText(content []byte) bool { return bytes.IndexByte(content, 0) < 0 }

// Decode returns content as UTF-8. It reads bytes that are not UTF-8 as Latin-1. With
// exact, it writes such a byte as \xE9, and doubles a backslash that could be read as the
// start of one. Otherwise two texts that differ only in the encoding of a character would
// look the same.
func Decode(content []byte, exact bool) string {
	if !exact && utf8.Valid(content) {
		return string(content)
	}
	var b strings.Builder
	b.Grow(len(content) + len(content)/8)
	for len(content) > 0 {
		r, size := utf8.DecodeRune(content)
		odd := r == utf8.RuneError && size == 1
		switch {
		case odd && exact:
			fmt.Fprintf(&b, "\\x%02X", content[0])
		case odd:
			b.WriteRune(rune(content[0]))
		case exact && r == '\\' && len(content) > 1 && (content[1] == '\\' || content[1] == 'x' || content[1] >= utf8.RuneSelf):
			b.WriteString(`\\`)
		default:
			b.Write(content[:size])
		}
		content = content[size:]
	}
	return b.String()
}

// HasUTF8 reports whether content has a UTF-8 character of several bytes.
func HasUTF8(content []byte) bool {
	for len(content) > 0 {
		_, size := utf8.DecodeRune(content)
		if size > 1 {
			return true
		}
		content = content[size:]
	}
	return false
}

// CountLines counts the lines of a text, also a last one without a line end.
func CountLines(text []byte) int {
	n := bytes.Count(text, []byte("\n"))
	if len(text) > 0 && text[len(text)-1] != '\n' {
		n++
	}
	return n
}

// Hash returns the version of content.
func Hash(content []byte) string { return sandbox.Version{}.With(content).String() }

// CountDiffLines counts the lines that a diff adds and removes, as a person sees them.
func CountDiffLines(diff string) (added, removed int) {
	for r := range visible.Diff(diff) {
		switch r.Mark {
		case visible.Added:
			added++
		case visible.Removed:
			removed++
		}
	}
	return added, removed
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
