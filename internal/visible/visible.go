// Package visible makes untrusted text fit for a terminal. What a terminal
// would obey, and what an eye would not see, comes out as an escape such as
// \x1b or \u202e; [sandbox.Plain] is the table of what passes as it is. Marks
// that combine pass only on a character of the same text, and only so many. Tag
// characters pass only in the three flags that are made of them.
//
// An escape and the same letters in the text look alike: what is made visible
// is for eyes, and is not to be read back.
package visible

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/golem-forge/golem/sandbox"
)

// maxMarks is how many combining marks pass on one character. Living scripts
// need no more; a tower of them covers the lines above and below.
const maxMarks = 4

// kept is what gives a text its form.
const kept = "\n\t"

// Text returns text that may be printed. Line ends and tabs stay.
func Text(text string) string {
	s := scan{keep: kept}
	return s.escape(text)
}

// Line returns text as one line without tabs. Where it is longer than most
// characters its middle is left out; see [Cut].
func Line(text string, most int) string {
	s := scan{}
	return Cut(s.escape(text), most)
}

// Name returns a name as it stands in a sentence, never cut: in quotes where it
// could be taken for words of the sentence, or holds anything unusual.
func Name(name string) string {
	text := Line(name, math.MaxInt)
	usual := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || strings.ContainsRune("/._-+@:~*", r)
	}
	if text == name && text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !usual(r) }) {
		return text
	}
	return `"` + strings.ReplaceAll(text, `"`, `\"`) + `"`
}

// Cut returns a line of which the middle is left out, where it has more than
// most characters; how many are missing stands in their place.
func Cut(line string, most int) string {
	if len(line) <= most {
		return line
	}
	runes := []rune(line)
	if len(runes) <= most {
		return line
	}
	head := max(0, most) * 2 / 3
	tail := len(runes) - (max(0, most) - head)
	for head > 0 && isTag(runes[head]) {
		head-- // a flag stays whole
	}
	for tail < len(runes) && (unicode.IsMark(runes[tail]) || isTag(runes[tail])) {
		tail++ // its character is left out
	}
	return fmt.Sprintf("%s…(%d characters left out)…%s", string(runes[:head]), tail-head, string(runes[tail:]))
}

// Amount says how many bytes something has.
func Amount(n int64) string {
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

// Count returns a number with its noun: 1 file, 2 files.
func Count[N int | int64 | uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// JSON returns a document, indented, with a line end. What is not plain in it
// is written as JSON writes it: it reads back as the same value.
func JSON(document any) ([]byte, error) { return encoded(document, "  ") }

// JSONLine returns a document as JSON does, on one line.
func JSONLine(document any) ([]byte, error) { return encoded(document, "") }

func encoded(document any, indent string) ([]byte, error) {
	var text, out bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(document); err != nil {
		return nil, err
	}
	s := scan{keep: "\n"}
	for _, r := range text.String() {
		switch {
		case s.passes(r):
			out.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.Bytes(), nil
}

// A scan goes through a text, character by character.
type scan struct {
	keep string // passes although it is not plain
	room int    // how many marks may follow
}

// passes reports whether the next character may be printed as it is.
func (s *scan) passes(r rune) bool {
	switch {
	case strings.ContainsRune(s.keep, r):
		s.room = 0
		return true
	case !sandbox.Plain(r):
		s.room = 0
		return false
	case unicode.IsMark(r):
		s.room--
		return s.room >= 0
	}
	s.room = maxMarks
	return true
}

// escape returns text with an escape for what does not pass.
func (s *scan) escape(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			s.room = 0
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case r == blackFlag:
			s.room = maxMarks
			size += flagTags(text[size:])
			b.WriteString(text[:size])
		case s.passes(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
		text = text[size:]
	}
	return b.String()
}
