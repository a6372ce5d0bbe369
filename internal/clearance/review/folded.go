package review

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// folded returns a part of a path as the most careless of file systems compares
// it: without case, without the way in which accents are written, without what
// HFS+ does not see, without what Windows drops at the end. Bytes that are no
// characters stay as they are.
func folded(part string) string {
	if !ascii(part) && utf8.ValidString(part) {
		part = strings.Map(func(r rune) rune {
			switch {
			case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
				return -1
			}
			return r
		}, part)
		part = norm.NFD.String(strings.ToUpper(norm.NFC.String(part)))
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
