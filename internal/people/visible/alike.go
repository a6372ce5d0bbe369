package visible

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Alikes finds letters in a line that a reader takes for others. It finds words of Latin
// letters that contain look-alikes from another script. In code it also finds three more
// cases. The first is a word of another script that looks Latin throughout, unless a
// neighbouring word is clearly of another script. The second is letters in another style,
// which some compilers read as the plain ones. The third is signs that look like
// punctuation.
func Alikes(line string, code bool) iter.Seq[Trick] {
	return func(yield func(Trick) bool) {
		var waits Trick // a word that looks Latin, held until the next word is known; empty for none
		spoken := false // the previous word is clearly of another script
		dotless := code && hasDotless(line)
		for at := 0; at < len(line); {
			w := nextWord(line[at:], code, dotless)
			if w.length == 0 {
				r, size := utf8.DecodeRuneInString(line[at:])
				if sign, ok := signs[r]; ok && code {
					looks := string(sign)
					if sign == ' ' {
						looks = "a space"
					}
					if !yield(Trick{Alike, at, at + size, fmt.Sprintf("U+%04X looks like %s", r, looks)}) {
						return
					}
				}
				at += size
				continue
			}
			other := w.foreign > w.alike
			if waits.Says != "" && !other && !yield(waits) {
				return
			}
			waits = Trick{}
			word := line[at : at+w.length]
			t := Trick{Alike, at, at + w.length, ""}
			at += w.length
			switch {
			case w.alike == 0 || other:
			case w.latin > 0:
				t.Says = "letters of other scripts in a word that looks like " + toLatin(word)
				if !yield(t) {
					return
				}
			case code && w.alike-w.wide > 1 && !spoken:
				t.Says = "a word of another script that looks like " + toLatin(word)
				waits = t
			}
			spoken = other
		}
		if waits.Says != "" {
			yield(waits)
		}
	}
}

// A word counts the letters of a word by kind.
type word struct {
	length  int // bytes
	latin   int // Latin letters
	foreign int // letters of other scripts that have look-alikes of Latin letters
	alike   int // letters that look Latin
	wide    int // full-width letters; a word of only these is ordinary
}

// nextWord returns the word at the start of a text; its length is 0 if there is none. If
// dotless is true, a dotless i or j counts as a look-alike.
func nextWord(text string, code, dotless bool) word {
	var w word
	for w.length < len(text) {
		r, size := utf8.DecodeRuneInString(text[w.length:])
		switch {
		case r < utf8.RuneSelf:
			letter := r|0x20 >= 'a' && r|0x20 <= 'z'
			if !letter && r != '_' && (r < '0' || r > '9') {
				return w
			}
			if letter {
				w.latin++
			}
		case code && signs[r] != 0 || !unicode.In(r, unicode.L, unicode.M, unicode.Nd) && !isRomanNumeral(r):
			return w
		case isDotless(r):
			if dotless {
				w.foreign++
				w.alike++
			} else {
				w.latin++
			}
		case styled(r) != "":
			if code {
				w.foreign++
				w.alike++
			}
			if r >= 0xff00 && r < 0x10000 {
				w.wide++
			}
		case unicode.Is(unicode.Latin, r):
			if _, ok := alikes[r]; ok && code {
				w.foreign++
				w.alike++
			} else {
				w.latin++
			}
		case unicode.In(r, unicode.Cyrillic, unicode.Greek, unicode.Armenian, unicode.Cherokee, unicode.Coptic, unicode.Lisu):
			w.foreign++
			if _, ok := alikes[r]; ok {
				w.alike++
			}
		}
		w.length += size
	}
	return w
}

// toLatin returns the Latin word that a word looks like.
func toLatin(word string) string {
	const most = 60
	var b strings.Builder
	for _, r := range Cut(word, 2*most) {
		b.WriteString(latin(r))
	}
	return Name(Cut(b.String(), most))
}

// latin returns the Latin letters that a character looks like, or the character itself.
func latin(r rune) string {
	if to, ok := alikes[r]; ok {
		return string(to)
	}
	if to, ok := dotlessLetters[r]; ok {
		return string(to)
	}
	if to := styled(r); to != "" {
		return to
	}
	return string(r)
}

// styled returns the plain letters or digits of a character in another style, "" if it is
// not such a character. These are mathematical and full-width letters, letter-like
// symbols such as the Kelvin sign, Roman numerals, ligatures and the long s. Some
// compilers read them as the plain ones.
func styled(r rune) string {
	switch {
	case r == 0x17f, r >= 0x2100 && r <= 0x214f, isRomanNumeral(r), r >= 0xfb00 && r <= 0xfb06,
		r >= 0xff21 && r <= 0xff3a, r >= 0xff41 && r <= 0xff5a, r >= 0x1d400 && r <= 0x1d7ff:
	default:
		return ""
	}
	plain := decompose(r)
	if plain == "" || strings.ContainsFunc(plain, func(r rune) bool { return !isASCIILetter(r) && (r < '0' || r > '9') }) {
		return ""
	}
	return plain
}

func isASCIILetter(r rune) bool { return r|0x20 >= 'a' && r|0x20 <= 'z' }

func isRomanNumeral(r rune) bool { return r >= 0x2160 && r <= 0x217f }

// dotlessLetters are letters of Turkish and related languages. They count as look-alikes
// if nothing else in the line is written in these languages.
var dotlessLetters = map[rune]rune{0x131: 'i', 0x237: 'j'}

func isDotless(r rune) bool { return dotlessLetters[r] != 0 }

// hasDotless reports whether a line has a dotless letter and no other non-ASCII Latin
// letter of a written language.
func hasDotless(line string) bool {
	found := false
	for _, r := range line {
		switch {
		case r < utf8.RuneSelf:
		case isDotless(r):
			found = true
		case unicode.Is(unicode.Latin, r) && alikes[r] == 0 && styled(r) == "":
			return false
		}
	}
	return found
}

// signs look like punctuation or a space, but are other characters.
var signs = map[rune]rune{
	0x1c3: '!', 0x37e: ';', 0xa789: ':', 0x2215: '/', 0x29f8: '/', 0x2044: '/', 0x1c0: '|', 0x2223: '|', 0x2d0: ':', 0x589: ':', 0x2236: ':', 0x2024: '.',
	0x2b9: '\'', 0x2bc: '\'', 0x2c8: '\'', 0xa78c: '\'', 0xa4f8: '.', 0xa4f9: ',', 0xa4fc: ';', 0xa4fd: ':', 0xa60e: '.',
	0xa0: ' ', 0x1680: ' ', 0x2000: ' ', 0x2001: ' ', 0x2002: ' ', 0x2003: ' ', 0x2004: ' ', 0x2005: ' ', 0x2006: ' ', 0x2007: ' ', 0x2008: ' ', 0x2009: ' ', 0x200a: ' ', 0x202f: ' ', 0x205f: ' ',
}

// alikes are letters that look like Latin ones in most fonts. Of Greek it has only
// letters that nobody can tell apart, because formulas contain many of the others.
var alikes = map[rune]rune{
	// Cyrillic
	0x430: 'a', 0x441: 'c', 0x435: 'e', 0x43e: 'o', 0x440: 'p', 0x445: 'x', 0x443: 'y', 0x456: 'i', 0x458: 'j', 0x455: 's', 0x501: 'd', 0x4bb: 'h',
	0x51b: 'q', 0x51d: 'w', 0x4cf: 'l', 0x4bd: 'e', 0x50d: 'G', 0x475: 'v', 0x410: 'A', 0x412: 'B', 0x415: 'E', 0x41a: 'K', 0x41c: 'M', 0x41d: 'H',
	0x41e: 'O', 0x420: 'P', 0x421: 'C', 0x422: 'T', 0x425: 'X', 0x423: 'Y', 0x406: 'I', 0x408: 'J', 0x405: 'S', 0x50c: 'G', 0x51a: 'Q', 0x51c: 'W',
	0x4c0: 'I', 0x4ae: 'Y', 0x4ba: 'H', 0x474: 'V', 0x510: 'E', 0x4e8: 'O',
	// Greek
	0x3bf: 'o', 0x3bd: 'v', 0x3c1: 'p', 0x3f1: 'p', 0x3b9: 'i', 0x3f2: 'c', 0x3f3: 'j', 0x391: 'A', 0x392: 'B', 0x395: 'E', 0x396: 'Z', 0x397: 'H', 0x399: 'I', 0x39a: 'K', 0x39c: 'M',
	0x39d: 'N', 0x39f: 'O', 0x3a1: 'P', 0x3a4: 'T', 0x3a5: 'Y', 0x3a7: 'X', 0x3f9: 'C', 0x37f: 'J',
	// Armenian
	0x585: 'o', 0x570: 'h', 0x57d: 'u', 0x566: 'q', 0x581: 'g', 0x555: 'O', 0x54d: 'U', 0x54f: 'S',
	// Cherokee
	0x13a0: 'D', 0x13a1: 'R', 0x13a2: 'T', 0x13a9: 'Y', 0x13aa: 'A', 0x13ab: 'J', 0x13ac: 'E', 0x13b3: 'W', 0x13b7: 'M', 0x13bb: 'H', 0x13c0: 'G', 0x13c3: 'Z',
	0x13ce: 'S', 0x13d4: 'W', 0x13d5: 'S', 0x13d9: 'V', 0x13da: 'S', 0x13de: 'L', 0x13df: 'C', 0x13e2: 'P', 0x13e6: 'K', 0x13f4: 'B',
	// Coptic
	0x2c9f: 'o', 0x2c9e: 'O', 0x2ca2: 'P', 0x2ca3: 'p', 0x2ca4: 'C', 0x2ca5: 'c', 0x2ca6: 'T', 0x2ca8: 'Y', 0x2cac: 'X', 0x2c8e: 'H', 0x2c94: 'K', 0x2c98: 'M',
	0x2c9a: 'N',
	// Lisu
	0xa4d0: 'B', 0xa4d1: 'P', 0xa4d3: 'D', 0xa4d4: 'T', 0xa4d6: 'G', 0xa4d7: 'K', 0xa4d9: 'J', 0xa4da: 'C', 0xa4dc: 'Z', 0xa4dd: 'F', 0xa4df: 'M', 0xa4e0: 'N',
	0xa4e1: 'L', 0xa4e2: 'S', 0xa4e3: 'R', 0xa4e6: 'V', 0xa4e7: 'H', 0xa4ea: 'W', 0xa4eb: 'X', 0xa4ec: 'Y', 0xa4ee: 'A', 0xa4f0: 'E', 0xa4f2: 'I', 0xa4f3: 'O',
	0xa4f4: 'U',
	// phonetic letters, including small capitals
	0x251: 'a', 0x261: 'g', 0x269: 'i', 0x28b: 'u', 0x299: 'B', 0x262: 'G', 0x29c: 'H', 0x26a: 'I', 0x29f: 'L', 0x274: 'N', 0x280: 'R', 0x28f: 'Y',
	0x1d00: 'A', 0x1d04: 'C', 0x1d05: 'D', 0x1d07: 'E', 0x1d0a: 'J', 0x1d0b: 'K', 0x1d0d: 'M', 0x1d0f: 'O', 0x1d18: 'P', 0x1d1b: 'T', 0x1d1c: 'U', 0x1d20: 'V',
	0x1d21: 'W', 0x1d22: 'Z', 0xa730: 'F', 0xa731: 'S', 0xa7af: 'Q', 0xab75: 'i', 0x1d26: 'r',
}

// maxPoints is the maximum number of characters that a trick lists.
const maxPoints = 4

// NameAlikes finds deceptive parts of a path, a host or another short name. These are
// words that mix Latin letters with a script that has look-alikes, words of such a script
// that look Latin throughout, letters in another style, and signs that look like
// punctuation. It describes each by its code points. A word that looks Latin is not a
// trick if the name has another word that is clearly in its script.
func NameAlikes(name string) iter.Seq[Trick] {
	return func(yield func(Trick) bool) {
		dotless := hasDotless(name)
		spoken := spokenScripts(name)
		for at := 0; at < len(name); {
			r, size := utf8.DecodeRuneInString(name[at:])
			if sign, ok := signs[r]; ok && Text(string(r)) == string(r) {
				if !yield(Trick{Alike, at, at + size, fmt.Sprintf("U+%04X looks like %s", r, string(sign))}) {
					return
				}
			}
			length := wordOfName(name[at:])
			if length == 0 {
				at += size
				continue
			}
			if says := judgeWord(name[at:at+length], dotless, spoken); says != "" && !yield(Trick{Alike, at, at + length, says}) {
				return
			}
			at += length
		}
	}
}

// wordOfName returns the number of bytes of letters, marks and digits at the start of a
// name.
func wordOfName(name string) int {
	for i, r := range name {
		if signs[r] != 0 || !unicode.In(r, unicode.L, unicode.M, unicode.Nd) && !isRomanNumeral(r) {
			return i
		}
	}
	return len(name)
}

// mixers are scripts that real words do not mix with Latin letters. Each has letters that
// look like Latin ones.
var mixers = []string{"Cyrillic", "Greek", "Armenian", "Cherokee", "Coptic", "Lisu", "Georgian", "Deseret", "Glagolitic", "Tifinagh", "Vai", "Osage", "Warang_Citi"}

// scriptOf returns the script among the mixers that a letter belongs to, "" if there is
// none.
func scriptOf(r rune) string {
	if r < 0x370 || !unicode.IsLetter(r) {
		return ""
	}
	for _, script := range mixers {
		if unicode.Is(unicode.Scripts[script], r) {
			return script
		}
	}
	return ""
}

// spokenScripts returns the scripts in which a name has a word that does not look Latin.
func spokenScripts(name string) []string {
	var list []string
	for at := 0; at < len(name); {
		length := max(wordOfName(name[at:]), 1)
		word := name[at : at+length]
		at += length
		script, plain := "", false
		for _, r := range word {
			switch s := scriptOf(r); {
			case s != "":
				script = s
				plain = plain || alikes[r] == 0
			case unicode.IsLetter(r):
				script, plain = "", false
			}
		}
		if plain && script != "" && !strings.ContainsFunc(word, isASCIILetter) {
			list = append(list, script)
		}
	}
	return list
}

// judgeWord describes what is deceptive in a word, "" if nothing is.
func judgeWord(word string, dotless bool, spoken []string) string {
	latinLetters, foreign, alike := 0, 0, 0
	var points []string
	known := true // the rest of the name uses the script
	note := func(r rune, what string) {
		text := fmt.Sprintf("U+%04X", r)
		if what != "" {
			text += " (" + what + ")"
		}
		if !slices.Contains(points, text) {
			points = append(points, text)
		}
	}
	styles := false
	for _, r := range word {
		script := scriptOf(r)
		switch {
		case r < utf8.RuneSelf:
			if isASCIILetter(r) {
				latinLetters++
			}
		case script != "":
			foreign++
			if alikes[r] != 0 {
				alike++
			}
			known = known && slices.Contains(spoken, script)
			note(r, script)
		case isDotless(r) && !dotless:
			latinLetters++
		case styled(r) != "" || alikes[r] != 0 || isDotless(r):
			styles = true
			note(r, "looks like "+latin(r))
		case unicode.Is(unicode.Latin, r):
			latinLetters++
		}
	}
	switch {
	case styles, foreign > 0 && latinLetters > 0, foreign > 0 && alike == foreign && !known:
	default:
		return ""
	}
	if len(points) > maxPoints {
		points = append(points[:maxPoints], "more")
	}
	text := "has " + strings.Join(points, ", ")
	if looks := toLatin(word); looks != Name(word) {
		text = "looks like " + looks + ", but " + text
	} else if foreign > 0 {
		text = "mixes scripts: it " + text
	}
	return Name(Line(Cut(word, 60), 60)) + " " + text
}
