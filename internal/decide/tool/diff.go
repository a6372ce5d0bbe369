package tool

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/files/patch"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

const (
	// MaxCompared is how many bytes of old and new text are compared.
	MaxCompared = 4 << 20
	maxOriginal = 100_000 // bytes of the old text that a change carries
)

// DescribeChange describes how the content of a file changes. The base is the zero
// version if there was no file. A diff may be shortened, and binary content has none. So
// the change also has the version of the new content, which binds an approval to the
// exact bytes.
func DescribeChange(name string, base sandbox.Version, old, new []byte) Change {
	c := Change{Path: name, Op: Update, Base: base.String(), Becomes: HashContent(new)}
	from := name
	if base.IsZero() {
		c.Op, from = Create, ""
	}
	c.About = fmt.Sprintf("%s → %s", FormatSize(int64(len(old))), FormatSize(int64(len(new))))
	if base.IsZero() {
		c.About = FormatSize(int64(len(new)))
	}
	recoded := len(old) > 0 && len(new) > 0 && utf8.Valid(old) != utf8.Valid(new)
	switch {
	case !base.IsZero() && bytes.Equal(old, new):
		c.About = "no change"
	case IsText(old) && IsText(new):
		exact := !utf8.Valid(old) && hasUTF8(new) || !utf8.Valid(new) && hasUTF8(old) || recoded
		c.Diff = UnifiedDiff(from, name, DecodeText(old, exact), DecodeText(new, exact))
		if c.Diff == "" && len(new) > 0 {
			c.About += fmt.Sprintf(", %d → %d lines", countLines(old), countLines(new))
		}
		if c.Diff == "" && len(old)+len(new) > 0 {
			c.Omitted = "too large to compare"
		}
	default:
		c.About += ", binary"
		c.Omitted = "binary"
	}
	if recoded && IsText(old) && IsText(new) {
		c.About += ", encoding changes"
	}
	if !base.IsZero() && len(old) <= maxOriginal && IsText(old) && utf8.Valid(old) {
		text := string(old)
		c.Original = &text
	}
	c.Flags = review.Flags(reviewContent(c, old, new))
	return c
}

// reviewContent returns a change of a content as package review reads it.
func reviewContent(c Change, old, new []byte) review.FileChange {
	const none, plain = "000000", "100644"
	r := review.FileChange{Path: c.Path, Operation: "update", OldMode: plain, Mode: plain, Old: old, New: new, OldSize: int64(len(old)), Size: int64(len(new)),
		Binary: c.Omitted == "binary", Diff: c.Diff}
	if c.Op == Create {
		r.Operation, r.OldMode = "create", none
	}
	return r
}

// UnifiedDiff returns the difference of two texts in git's format. An empty name means
// that there is no file. It returns "" if the texts are larger than MaxCompared.
func UnifiedDiff(from, to, old, new string) string {
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

// DecodeText returns content as UTF-8. It reads bytes that are not UTF-8 as Latin-1. With
// exact, it writes such a byte as \xE9, and doubles a backslash that could be read as the
// start of one. Otherwise two texts that differ only in the encoding of a character would
// look the same.
func DecodeText(content []byte, exact bool) string {
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

// hasUTF8 reports whether content has a UTF-8 character of several bytes.
func hasUTF8(content []byte) bool {
	for len(content) > 0 {
		_, size := utf8.DecodeRune(content)
		if size > 1 {
			return true
		}
		content = content[size:]
	}
	return false
}

// countLines counts the lines of a text, also a last one without a line end.
func countLines(text []byte) int {
	n := bytes.Count(text, []byte("\n"))
	if len(text) > 0 && text[len(text)-1] != '\n' {
		n++
	}
	return n
}

// HashContent returns the version of content.
func HashContent(content []byte) string { return sandbox.Version{}.With(content).String() }

// FormatSize returns a number of bytes as text.
func FormatSize(n int64) string { return visible.Amount(n) }

// CountDiffLines counts the lines that a diff adds and removes.
func CountDiffLines(diff string) (added, removed int) {
	body := false
	for line := range strings.Lines(diff) {
		switch {
		case strings.HasPrefix(line, "@@ "):
			body = true
		case body && line[0] == '+':
			added++
		case body && line[0] == '-':
			removed++
		}
	}
	return added, removed
}
