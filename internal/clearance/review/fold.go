package review

import (
	"strings"
	"unicode/utf8"
)

// fold returns a part of a path as the most lenient file systems compare it. It ignores
// case, the encoding of accents, characters that HFS+ ignores, and what Windows drops at
// the end. It keeps bytes that are not valid UTF-8.
func fold(part string) string {
	if !ascii(part) && utf8.ValidString(part) {
		part = strings.Map(func(r rune) rune {
			switch {
			case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
				return -1
			}
			return r
		}, part)
		part = decompose(strings.ToUpper(compose(part)))
	}
	if stem, _, ok := strings.Cut(part, ":"); ok && stem != "" {
		part = stem
	}
	part = strings.TrimRight(part, " .")
	if !utf8.ValidString(part) {
		return part
	}
	return strings.ToLower(part)
}

func ascii(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
