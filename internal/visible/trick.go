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

// A Deceit is how a text deceives an eye.
type Deceit string

// The deceits.
const (
	Reorders Deceit = "bidi"      // it is shown in another order than it is read in
	Unseen   Deceit = "invisible" // it is read, and not shown
	Commands Deceit = "control"   // a terminal obeys it
	Alike    Deceit = "lookalike" // it is taken for other letters
)

// A Trick is a part of a line that deceives.
type Trick struct {
	Deceit  Deceit
	At, End int    // bytes of the line
	Says    string // what it is, plain, and what is hidden in it
}

// Tricks looks for what an eye does not see in a line. What living scripts and
// emoji need is none: a joiner between Persian or Hindi letters, a selector after
// a pictogram, the tags of a flag.
func Tricks(line string) iter.Seq[Trick] {
	return func(yield func(Trick) bool) {
		s := tricks{line: line, before: -1}
		for s.at < len(line) {
			start := s.at
			deceit := s.next()
			if deceit == "" {
				continue
			}
			for s.at < len(line) { // what is of one kind is one trick
				ahead := s
				if ahead.next() != deceit {
					break
				}
				s = ahead
			}
			if !yield(Trick{deceit, start, s.at, says(line[start:s.at])}) {
				return
			}
		}
	}
}

// tricks goes through a line.
type tricks struct {
	line    string
	at      int
	before  rune // the last character that is not a mark, a joiner or the like
	chosen  bool // the last character was a selector
	rtl     bool // the line has letters that are written from right to left
	counted bool // that was looked at
}

// next passes a character, or a sequence that belongs together, and returns how
// it deceives, "" if it does not.
func (s *tricks) next() Deceit {
	r, size := utf8.DecodeRuneInString(s.line[s.at:])
	if r < utf8.RuneSelf && r >= ' ' && r != 0x7f { // most are
		s.at, s.before, s.chosen = s.at+1, r, false
		return ""
	}
	if r == blackFlag {
		size += flagTags(s.line[s.at+size:])
	}
	s.at += size
	after, _ := utf8.DecodeRuneInString(s.line[s.at:])
	deceit := s.judge(r, after)
	s.chosen = unicode.Is(unicode.Variation_Selector, r)
	if !unicode.Is(unicode.Inherited, r) && !s.chosen {
		s.before = r
	}
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
	case unseen(r) && !s.needed(r, after), unicode.Is(unicode.Co, r) && (unicode.Is(unicode.Co, s.before) || unicode.Is(unicode.Co, after)):
		return Unseen // one of private use alone is an icon; several are shown by no font
	}
	return ""
}

// needed reports whether a character that is not seen is needed where it stands.
func (s *tricks) needed(r, after rune) bool {
	switch {
	case r == 0x200d && pictogram(s.before):
		return pictogram(after)
	case r == 0x200c, r == 0x200d:
		return unicode.In(s.before, joining...) && !unseen(after)
	case r == 0x200b:
		return unicode.In(s.before, spaceless...) && unicode.In(after, spaceless...)
	case r == 0xfe0e, r == 0xfe0f:
		return !s.chosen && (pictogram(s.before) || keycap(s.before) && after == 0x20e3)
	case r >= 0xfe00 && r <= 0xfe02, r >= 0xe0100 && r <= 0xe01ef:
		return !s.chosen && unicode.In(s.before, unicode.Han, unicode.Sm, unicode.Myanmar, unicode.Phags_Pa, eastern)
	case r >= 0x180b && r <= 0x180f:
		return !s.chosen && unicode.Is(unicode.Mongolian, s.before)
	case r == 0x200e, r == 0x200f, r == 0x061c:
		return s.rightToLeft()
	case r == 0x2800:
		return braille(s.before) || braille(after)
	}
	return false
}

func (s *tricks) rightToLeft() bool {
	if !s.counted {
		s.counted = true
		s.rtl = strings.ContainsFunc(s.line, func(r rune) bool {
			return r >= 0x590 && unicode.IsLetter(r) && unicode.In(r, unicode.Arabic, unicode.Hebrew, unicode.Syriac, unicode.Thaana, unicode.Nko, unicode.Adlam)
		})
	}
	return s.rtl
}

// unseen reports whether a character leaves no ink where it stands, and is no
// space.
func unseen(r rune) bool {
	switch {
	case r >= 0x600 && r <= 0x605, r == 0x6dd, r == 0x70f, r == 0x890, r == 0x891, r == 0x8e2, r == 0x110bd, r == 0x110cd:
		return false // signs that stand over numbers and words
	case r == 0x2028, r == 0x2029, r == 0x2800, r == 0x34f, r >= 0xe0000 && r <= 0xe0fff:
		return true
	}
	return unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// joining are the scripts in which joiners choose between forms of letters.
var joining = []*unicode.RangeTable{
	unicode.Arabic, unicode.Syriac, unicode.Nko, unicode.Mongolian, unicode.Mandaic, unicode.Adlam, unicode.Hanifi_Rohingya,
	unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi, unicode.Gujarati, unicode.Oriya, unicode.Tamil, unicode.Telugu,
	unicode.Kannada, unicode.Malayalam, unicode.Sinhala, unicode.Khmer, unicode.Myanmar, unicode.Tibetan, unicode.Javanese, unicode.Balinese,
}

// spaceless are the scripts that write words without spaces, so that one without
// width says where a line may end.
var spaceless = []*unicode.RangeTable{unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar, unicode.Tibetan, unicode.Javanese, unicode.Balinese, unicode.Tai_Tham}

// eastern are signs of which there is a form for columns.
var eastern = &unicode.RangeTable{R16: []unicode.Range16{{Lo: 0x3001, Hi: 0x303f, Stride: 1}, {Lo: 0xff01, Hi: 0xff60, Stride: 1}}}

// pictogram reports whether a character may be an emoji, of today or to come.
func pictogram(r rune) bool {
	switch r {
	case 0x203c, 0x2049, 0x2139, 0x3030, 0x303d:
		return true
	}
	return r >= 0x1f000 && r <= 0x1faff || r >= 0x2190 && r <= 0x2bff && unicode.Is(unicode.Sm, r) || r > 0x7f && r < 0xfff0 && unicode.Is(unicode.So, r) && (r < 0x2800 || r > 0x28ff)
}

func keycap(r rune) bool { return r >= '0' && r <= '9' || r == '#' || r == '*' }

func braille(r rune) bool { return r > 0x2800 && r <= 0x28ff }

const (
	blackFlag = 0x1f3f4
	tagEnd    = 0xe007f
)

// flags are the tags of the flags of England, Scotland and Wales, which follow a black
// flag. There are no others; any more would be a place to hide a word in.
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

// flagTags returns the length of the tags that make a flag of the one before, 0 if none do.
func flagTags(rest string) int {
	for _, tags := range flags {
		if strings.HasPrefix(rest, tags) {
			return len(tags)
		}
	}
	return 0
}

// openFlag returns where a flag begins that a text ends within, or its length.
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
	maxNamed   = 4   // characters of one trick
	maxDecoded = 200 // bytes that are hidden in one
)

// says tells what is in a trick.
func says(part string) string {
	var names []string
	var tags strings.Builder
	var selected []byte
	count := 0
	for _, r := range part {
		count++
		if name := named(r); len(names) <= maxNamed && (len(names) == 0 || names[len(names)-1] != name) {
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

// named names a character.
func named(r rune) string {
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

// Revealed returns a line in which what is not plain, and what else a trick is
// about, is named where it stands, as ⟨U+202E⟩.
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
