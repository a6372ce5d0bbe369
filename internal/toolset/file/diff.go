package file

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/sandbox"
)

const (
	maxCompared = 4 << 20 // bytes of old and new text that are compared
	maxOriginal = 100_000 // bytes of an old text that goes with a change
)

// changed describes how the content of a file changes. The base is the zero
// version where there was no file. A diff may be cut, and of what is no text
// there is none; so the change also names the version that it leads to, and
// with that an answer is bound to the exact bytes.
func changed(name string, base sandbox.Version, old, new []byte) tool.Change {
	c := tool.Change{Path: name, Op: tool.Update, Base: base.String(), Becomes: hashed(new)}
	from := name
	if base.IsZero() {
		c.Op, from = tool.Create, ""
	}
	c.About = fmt.Sprintf("%s → %s", amount(int64(len(old))), amount(int64(len(new))))
	if base.IsZero() {
		c.About = amount(int64(len(new)))
	}
	if isText(old) && isText(new) {
		c.Diff = unified(from, name, legible(old), legible(new))
		if c.Diff == "" {
			c.About += fmt.Sprintf(", %d → %d lines", lines(old), lines(new))
		}
	} else {
		c.About += ", binary"
	}
	if !base.IsZero() && len(old) <= maxOriginal && isText(old) && utf8.Valid(old) {
		text := string(old)
		c.Original = &text
	}
	return c
}

// unified returns the difference of two texts as git writes it. A name that is
// empty is that of no file. What is too much to compare has no diff.
func unified(from, to, old, new string) string {
	if len(old)+len(new) > maxCompared {
		return ""
	}
	return udiff.Unified(label("a", from), label("b", to), old, new)
}

// label is a name in the head of a diff, where a line end in it would pass for
// a line of the diff.
func label(side, name string) string {
	if name == "" {
		return "/dev/null"
	}
	return sandbox.Shown(side + name)
}

// isText reports whether content can be shown: it has no NUL.
func isText(content []byte) bool { return bytes.IndexByte(content, 0) < 0 }

// legible returns a text as it is, and one that is not UTF-8 with its odd bytes
// taken for Latin-1, so that two of them do not look the same.
func legible(content []byte) string {
	if utf8.Valid(content) {
		return string(content)
	}
	var b strings.Builder
	b.Grow(len(content) + len(content)/8)
	for len(content) > 0 {
		r, size := utf8.DecodeRune(content)
		if r == utf8.RuneError && size == 1 {
			r = rune(content[0])
		}
		b.WriteRune(r)
		content = content[size:]
	}
	return b.String()
}

// lines counts the lines of a text; the last need not end.
func lines(text []byte) int {
	n := bytes.Count(text, []byte("\n"))
	if len(text) > 0 && text[len(text)-1] != '\n' {
		n++
	}
	return n
}

// hashed is the version of a content, wherever it stands.
func hashed(content []byte) string { return sandbox.Version{}.With(content).String() }

// amount says how many bytes something has.
func amount(n int64) string {
	switch {
	case n == 1:
		return "1 byte"
	case n < 10_000:
		return fmt.Sprintf("%d bytes", n)
	case n < 10_000_000:
		return fmt.Sprintf("%d KB", n/1000)
	}
	return fmt.Sprintf("%d MB", n/1_000_000)
}
