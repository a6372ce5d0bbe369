package visible

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Deceit is a way in which text deceives a reader.
type Deceit string

// The deceits.
const (
	Reorders Deceit = "bidi"      // the terminal shows it in another order than programs read it
	Unseen   Deceit = "invisible" // programs read it, but it is not shown
	Commands Deceit = "control"   // a terminal interprets it as a command
	Alike    Deceit = "lookalike" // it looks like other letters
)

// A Trick is a part of a line that deceives a reader.
type Trick struct {
	Deceit  Deceit
	At, End int    // byte offsets in the line
	Says    string // describes the characters and the text hidden in them
}

// Tricks finds invisible and reordering characters in a line. Characters that living
// scripts and emoji need are not tricks: a joiner between Persian or Hindi letters, a
// selector after a pictogram, the tags of a flag.
func Tricks(line string) iter.Seq[Trick] {
	return func(yield func(Trick) bool) {
		s := tricks{line: line}
		for s.at < len(line) {
			start := s.at
			deceit := s.next()
			if deceit == "" {
				continue
			}
			for s.at < len(line) { // neighbours of one kind are one trick
				ahead := s
				if ahead.next() != deceit {
					break
				}
				s = ahead
			}
			if !yield(Trick{deceit, start, s.at, describe(line[start:s.at])}) {
				return
			}
		}
	}
}

// tricks is the state of a walk over a line.
type tricks struct {
	line    string
	at      int
	near    neighbours
	rtl     bool // the line has letters of a right-to-left script
	counted bool // rtl is set
}

// next advances by a character, or by a sequence that belongs together. It returns how it
// deceives, "" if it does not.
func (s *tricks) next() Deceit {
	r, size := utf8.DecodeRuneInString(s.line[s.at:])
	if r < utf8.RuneSelf && r >= ' ' && r != 0x7f { // most characters
		s.at++
		s.near = neighbours{before: r}
		return ""
	}
	if r == blackFlag {
		size += flagTags(s.line[s.at+size:])
	}
	s.at += size
	after, _ := utf8.DecodeRuneInString(s.line[s.at:])
	deceit := s.judge(r, after)
	s.near.add(r)
	return deceit
}

func (s *tricks) judge(r, after rune) Deceit {
	switch {
	case r == '\t', r == '\n', r == '\f', r == '\r' && (s.at == len(s.line) || after == '\n'):
		return ""
	case unicode.IsControl(r):
		return Commands
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return Reorders
	case isUnseen(r) && !s.isNeeded(r, after), unicode.Is(unicode.Co, r) && (unicode.Is(unicode.Co, s.near.before) || unicode.Is(unicode.Co, after)):
		return Unseen // a single private-use character is an icon; no font shows several
	}
	return ""
}

// isNeeded reports whether an invisible character has a proper use at its position.
func (s *tricks) isNeeded(r, after rune) bool {
	return s.near.need(r, after) || isDirectionMark(r) && s.rightToLeft()
}

// neighbours are the characters before a position in a text.
type neighbours struct {
	before rune // the last character that is not a mark, a joiner or a selector
	chosen bool // the last character was a selector
}

// add moves the position behind r.
func (n *neighbours) add(r rune) {
	n.chosen = unicode.Is(unicode.Variation_Selector, r)
	if !unicode.Is(unicode.Inherited, r) && !n.chosen {
		n.before = r
	}
}

// need reports whether a script or an emoji needs the invisible character r between the
// neighbours and the character after.
func (n neighbours) need(r, after rune) bool {
	switch {
	case r == 0x200d && isPictogram(n.before):
		return isPictogram(after)
	case r == 0x200c, r == 0x200d:
		return unicode.In(n.before, joining...) && !isUnseen(after)
	case r == 0x200b:
		return unicode.In(n.before, spaceless...) && unicode.In(after, spaceless...)
	case r == 0xfe0e, r == 0xfe0f:
		return !n.chosen && (isPictogram(n.before) || isKeycap(n.before) && after == 0x20e3)
	case r >= 0xfe00 && r <= 0xfe02, r >= 0xe0100 && r <= 0xe01ef:
		return !n.chosen && unicode.In(n.before, unicode.Han, unicode.Sm, unicode.Myanmar, unicode.Phags_Pa, eastern)
	case r >= 0x180b && r <= 0x180f:
		return !n.chosen && unicode.Is(unicode.Mongolian, n.before)
	case r == 0x2800:
		return isBraille(n.before) || isBraille(after)
	}
	return false
}

// isDirectionMark reports whether r is an invisible letter with a direction. Unlike an
// override it does not reorder letters.
func isDirectionMark(r rune) bool { return r == 0x200e || r == 0x200f || r == 0x061c }

func (s *tricks) rightToLeft() bool {
	if !s.counted {
		s.counted = true
		s.rtl = strings.ContainsFunc(s.line, func(r rune) bool {
			return r >= 0x590 && unicode.IsLetter(r) && unicode.In(r, unicode.Arabic, unicode.Hebrew, unicode.Syriac, unicode.Thaana, unicode.Nko, unicode.Adlam)
		})
	}
	return s.rtl
}

// isUnseen reports whether a character is invisible and is not a space.
func isUnseen(r rune) bool {
	switch {
	case r >= 0x600 && r <= 0x605, r == 0x6dd, r == 0x70f, r == 0x890, r == 0x891, r == 0x8e2, r == 0x110bd, r == 0x110cd:
		return false // signs over numbers and words
	case r == 0x2028, r == 0x2029, r == 0x2800, r == 0x34f, r >= 0xe0000 && r <= 0xe0fff:
		return true
	}
	return unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// joining are the scripts in which joiners select forms of letters.
var joining = []*unicode.RangeTable{
	unicode.Arabic, unicode.Syriac, unicode.Nko, unicode.Mongolian, unicode.Mandaic, unicode.Adlam, unicode.Hanifi_Rohingya,
	unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi, unicode.Gujarati, unicode.Oriya, unicode.Tamil, unicode.Telugu,
	unicode.Kannada, unicode.Malayalam, unicode.Sinhala, unicode.Khmer, unicode.Myanmar, unicode.Tibetan, unicode.Javanese, unicode.Balinese,
}

// spaceless are the scripts that write words without spaces. There a zero width space
// marks where a line may break.
var spaceless = []*unicode.RangeTable{unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar, unicode.Tibetan, unicode.Javanese, unicode.Balinese, unicode.Tai_Tham}

// eastern are signs that have a form for vertical text.
var eastern = &unicode.RangeTable{R16: []unicode.Range16{{Lo: 0x3001, Hi: 0x303f, Stride: 1}, {Lo: 0xff01, Hi: 0xff60, Stride: 1}}}

// isPictogram reports whether a character may be an emoji, now or in a later version of
// Unicode.
func isPictogram(r rune) bool {
	switch r {
	case 0x203c, 0x2049, 0x2139, 0x3030, 0x303d:
		return true
	}
	return r >= 0x1f000 && r <= 0x1faff || r >= 0x2190 && r <= 0x2bff && unicode.Is(unicode.Sm, r) || r > 0x7f && r < 0xfff0 && unicode.Is(unicode.So, r) && (r < 0x2800 || r > 0x28ff)
}

func isKeycap(r rune) bool { return r >= '0' && r <= '9' || r == '#' || r == '*' }

func isBraille(r rune) bool { return r > 0x2800 && r <= 0x28ff }

const (
	blackFlag = 0x1f3f4
	tagEnd    = 0xe007f
)

// flags are the tag sequences of the flags of England, Scotland and Wales, which follow a
// black flag. Other sequences could hide text, so they do not count as flags.
var flags = func() (list []string) {
	for _, place := range []string{"gbeng", "gbsct", "gbwls"} {
		var tags strings.Builder
		for _, letter := range place {
			tags.WriteRune(0xe0000 + letter)
		}
		tags.WriteRune(tagEnd)
		list = append(list, tags.String())
	}
	return list
}()

// flagTags returns the length of the tags of a flag at the start of rest, 0 if there is
// none.
func flagTags(rest string) int {
	for _, tags := range flags {
		if strings.HasPrefix(rest, tags) {
			return len(tags)
		}
	}
	return 0
}

// openFlag returns the offset of an incomplete flag at the end of a text, or the length
// of the text.
func openFlag(text []byte) int {
	at := bytes.LastIndex(text, []byte(string(rune(blackFlag))))
	if at < 0 {
		return len(text)
	}
	rest := string(text[at+utf8.RuneLen(blackFlag):])
	for _, tags := range flags {
		if len(rest) < len(tags) && strings.HasPrefix(tags, rest) {
			return at
		}
	}
	return len(text)
}

func isTag(r rune) bool { return r > 0xe0000 && r <= tagEnd }

const (
	maxNamed   = 4   // characters named in one trick
	maxDecoded = 200 // bytes decoded from one trick
)

// describe describes the characters of a trick.
func describe(part string) string {
	var names []string
	var tags strings.Builder
	var selected []byte
	count := 0
	for _, r := range part {
		count++
		if name := describeRune(r); len(names) <= maxNamed && (len(names) == 0 || names[len(names)-1] != name) {
			names = append(names, name)
		}
		switch {
		case tags.Len() > maxDecoded || len(selected) > maxDecoded:
		case r > 0xe0000 && r < tagEnd:
			tags.WriteRune(r - 0xe0000)
		case r >= 0xfe00 && r <= 0xfe0f:
			selected = append(selected, byte(r-0xfe00))
		case r >= 0xe0100 && r <= 0xe01ef:
			selected = append(selected, byte(r-0xe0100+16))
		}
	}
	hides := ""
	switch {
	case tags.Len() > 0:
		return fmt.Sprintf("%d tag characters hide the text %q", count, Line(tags.String(), maxDecoded))
	case len(selected) > 1:
		hides = fmt.Sprintf(", which as bytes are %q", Line(string(selected), maxDecoded))
	}
	if len(names) > maxNamed {
		names[maxNamed] = "more"
	}
	text := strings.Join(names, ", ")
	if count > len(names) || count > maxNamed {
		text = fmt.Sprintf("%d characters, %s", count, text)
	}
	return text + hides
}

// describeRune returns the code point of a character, and its name if it is in tricky.
func describeRune(r rune) string {
	name := fmt.Sprintf("U+%04X", r)
	if known, ok := tricky[r]; ok {
		name += " " + known
	}
	return name
}

var tricky = map[rune]string{
	0x1b: "escape", 0x7f: "delete", '\r': "carriage return", '\b': "backspace", 0x9b: "control sequence",
	0xad: "soft hyphen", 0x34f: "grapheme joiner", 0x61c: "Arabic letter mark",
	0x115f: "Hangul filler", 0x1160: "Hangul filler", 0x3164: "Hangul filler", 0xffa0: "Hangul filler",
	0x200b: "zero width space", 0x200c: "zero width non-joiner", 0x200d: "zero width joiner",
	0x200e: "left-to-right mark", 0x200f: "right-to-left mark", 0x2028: "line separator", 0x2029: "paragraph separator",
	0x202a: "left-to-right embedding", 0x202b: "right-to-left embedding", 0x202c: "end of embedding",
	0x202d: "left-to-right override", 0x202e: "right-to-left override",
	0x2060: "word joiner", 0x2061: "invisible function", 0x2062: "invisible times", 0x2063: "invisible separator", 0x2064: "invisible plus",
	0x2066: "left-to-right isolate", 0x2067: "right-to-left isolate", 0x2068: "first strong isolate", 0x2069: "end of isolate",
	0x2800: "blank braille pattern", 0xfe0e: "text selector", 0xfe0f: "emoji selector", 0xfeff: "byte order mark",
	0xfff9: "annotation", 0xfffa: "annotation", 0xfffb: "end of annotation",
}

// Revealed returns a line in which each character that is not plain, or is part of a
// trick, is replaced by its code point, such as ⟨U+202E⟩.
func Revealed(line string, tricks ...Trick) string {
	var b strings.Builder
	s := scan{}
	for i, r := range line {
		alike := alikes[r] != 0 || signs[r] != 0 || styled(r) != "" || isDotless(r)
		trick := slices.ContainsFunc(tricks, func(t Trick) bool { return i >= t.At && i < t.End && (t.Deceit != Alike || alike) })
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(line[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, line[i])
		case trick || !s.passes(r) && r != '\t':
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
		case r == '\t':
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
