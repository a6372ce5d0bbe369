package tool

import (
	"bufio"
	"io"
	"unicode"
	"unicode/utf8"
)

// IsBlank reports whether a reader would see nothing in a content: it is empty, or holds
// only blanks, control characters and characters without a shape.
func IsBlank(content []byte) bool {
	for len(content) > 0 {
		r, n := utf8.DecodeRune(content)
		if !isInvisible(r) {
			return false
		}
		content = content[n:]
	}
	return true
}

// maxBlank is how many bytes ReadsBlank reads.
const maxBlank = 64 << 20

// IsBlankReader is IsBlank for a content of any size. It stops at the first character that
// can be seen. A content that begins with 64 MiB of blanks counts as blank.
func IsBlankReader(content io.Reader) (bool, error) {
	in := bufio.NewReaderSize(io.LimitReader(content, maxBlank), 64<<10)
	for {
		r, _, err := in.ReadRune()
		switch {
		case err == io.EOF:
			return true, nil
		case err != nil:
			return false, err
		case !isInvisible(r):
			return false, nil
		}
	}
}

// isInvisible reports whether nobody can see a character.
func isInvisible(r rune) bool {
	switch r {
	case 0x034f, 0x115f, 0x1160, 0x2800, 0x3164, 0xffa0: // letters without a shape
		return true
	}
	return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Variation_Selector)
}
