package tool

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"github.com/golem-forge/golem/internal/visible"
	"github.com/golem-forge/golem/sandbox"
)

const (
	// MaxCompared is how many bytes of old and new text are compared.
	MaxCompared = 4 << 20
	maxOriginal = 100_000 // bytes of an old text that goes with a change
)

// DescribeChange describes how the content of a file changes. The base is the zero
// version where there was no file. A diff may be cut, and of what is no text
// there is none; so the change also names the version that it leads to, and
// with that an answer is bound to the exact bytes.
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
	return c
}

// UnifiedDiff returns the difference of two texts as git writes it. A name that is
// empty is that of no file. What is too much to compare has no diff.
func UnifiedDiff(from, to, old, new string) string {
	if len(old)+len(new) > MaxCompared {
		return ""
	}
	return udiff.Unified(diffLabel("a", from), diffLabel("b", to), old, new)
}

// diffLabel is a name in the head of a diff, where a line end in it would pass for
// a line of the diff.
func diffLabel(side, name string) string {
	if name == "" {
		return "/dev/null"
	}
	return sandbox.Shown(side + name)
}

// IsText reports whether content can be shown: it has no NUL.
func IsText(content []byte) bool { return bytes.IndexByte(content, 0) < 0 }

// DecodeText returns a text as it is, and one that is not UTF-8 with its odd bytes
// taken for Latin-1. With exact an odd byte is written as \xE9, and a backslash
// that could be mistaken for the start of one twice: two texts that differ only
// in how a character is encoded would look the same otherwise.
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

// hasUTF8 reports whether there is a character of several bytes in UTF-8.
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

// countLines counts the lines of a text; the last need not end.
func countLines(text []byte) int {
	n := bytes.Count(text, []byte("\n"))
	if len(text) > 0 && text[len(text)-1] != '\n' {
		n++
	}
	return n
}

// HashContent is the version of a content, wherever it stands.
func HashContent(content []byte) string { return sandbox.Version{}.With(content).String() }

// FormatSize says how many bytes something has.
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
