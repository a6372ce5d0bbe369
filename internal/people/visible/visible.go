// Package visible makes untrusted text safe to print on a terminal. It replaces
// characters that a terminal would interpret or a reader would not see with an escape
// such as \x1b or \u202e. [sandbox.Plain] defines which characters pass unchanged.
// Combining marks pass only on a character of the same text, and only a few of them. Tag
// characters pass only in the three flags that are made of them.
//
// The result is for people, and programs must not parse it: an escape looks the same as a
// text that contains these characters literally.
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

// maxMarks is the maximum number of combining marks on one character. Living scripts need
// no more. A stack of them would cover the lines above and below.
const maxMarks = 4

// kept are the control characters that stay in a text.
const kept = "\n\t"

// Text returns text that is safe to print. Newlines and tabs stay.
func Text(text string) string {
	s := scan{keep: kept}
	return s.escape(text)
}

// Line returns text as one line without tabs. If it has more than most characters, [Cut]
// shortens its middle.
func Line(text string, most int) string {
	s := scan{}
	return Cut(s.escape(text), most)
}

// Name returns a name for use in a sentence, never shortened. It adds quotes if the name
// could read as words of the sentence, or contains unusual characters.
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

// Cut shortens the middle of a line that has more than most characters. A note in its
// place says how many characters are missing.
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
		head-- // keep a flag whole
	}
	for tail < len(runes) && (unicode.IsMark(runes[tail]) || isTag(runes[tail])) {
		tail++ // the base character is cut
	}
	return fmt.Sprintf("%s…(%d characters omitted)…%s", string(runes[:head]), tail-head, string(runes[tail:]))
}

// Amount returns a number of bytes with its unit.
func Amount(n int64) string {
	switch {
	case n == 1:
		return "1 byte"
	case n < 10_000:
		return fmt.Sprintf("%d bytes", n)
	case n < 10_000_000:
		return fmt.Sprintf("%d KB", n/1000)
	case n < 10_000_000_000:
		return fmt.Sprintf("%d MB", n/1_000_000)
	}
	return fmt.Sprintf("%d GB", n/1_000_000_000)
}

// Number returns a number with commas: 6,003.
func Number[N int | int64 | uint64](n N) string {
	text := fmt.Sprint(n)
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign, text = "-", text[1:]
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return sign + text
}

// Count returns a number with its noun: 1 file, 2,000 files, 2 directories, 2 processes.
func Count[N int | int64 | uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "ry"); ok {
		return Number(n) + " " + stem + "ries"
	}
	if strings.HasSuffix(noun, "ss") {
		return Number(n) + " " + noun + "es"
	}
	return Number(n) + " " + noun + "s"
}

// LineCounts returns how many lines are added and removed.
func LineCounts(added, removed int) string {
	return "+" + Number(added) + " -" + Number(removed)
}

// JSON returns a document as indented JSON with a newline. Characters that are not plain
// become JSON escapes, so the result decodes to the same value.
func JSON(document any) ([]byte, error) { return encode(document, "  ") }

// JSONLine is like JSON, but on one line.
func JSONLine(document any) ([]byte, error) { return encode(document, "") }

func encode(document any, indent string) ([]byte, error) {
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

// Prose returns text in a human language that is safe to print, such as the answer of a
// model. Unlike Text it keeps what languages and emoji need: other spaces, joiners,
// selectors and directional marks. Use Text for names, commands and source code, where
// the same characters deceive.
func Prose(text string) string {
	s := scan{keep: kept, reader: person}
	return s.escape(text)
}

// Data returns text for a program that reads it from a pipe, a file or JSON. Only control
// characters and bytes that are not UTF-8 become escapes. The result can deceive a person
// at a terminal.
func Data(text string) string {
	s := scan{keep: kept, reader: machine}
	return s.escape(text)
}

// A reader says for whom a text is escaped.
type reader int

const (
	careful reader = iota // a person who must see every character
	person                // a person who reads prose
	machine               // a program
)

// A scan is the state of a walk over a text.
type scan struct {
	keep   string // characters that pass although they are not plain
	reader reader
	room   int // how many more marks may follow
	near   neighbours
	unseen bool // the last character was invisible
}

// passesBefore is like passes, for a character with another one after it.
func (s *scan) passesBefore(r, after rune) bool {
	switch s.reader {
	case machine:
		return !unicode.IsControl(r) || strings.ContainsRune(s.keep, r) || r == '\r' && after == '\n'
	case person:
		defer s.near.add(r)
		defer func() { s.unseen = isUnseen(r) }()
		switch {
		case unicode.Is(unicode.Zs, r), isPictogram(r):
			s.room = maxMarks
			return true
		case isUnseen(r):
			return s.near.need(r, after) || !s.unseen && isDirectionMark(r)
		}
	}
	return s.passes(r)
}

// passes reports whether the next character may be printed unchanged.
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

// escape returns text with escapes for the characters that do not pass.
func (s *scan) escape(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			s.room, s.near, s.unseen = 0, neighbours{}, false
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case r == blackFlag:
			s.room = maxMarks
			s.near.add(r)
			size += flagTags(text[size:])
			b.WriteString(text[:size])
		case s.passesBefore(r, firstRune(text[size:])):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
		text = text[size:]
	}
	return b.String()
}

func firstRune(text string) rune {
	r, _ := utf8.DecodeRuneInString(text)
	return r
}
