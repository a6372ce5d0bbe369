package visible

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

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
