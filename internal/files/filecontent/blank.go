package filecontent

import (
	"bufio"
	"io"
	"unicode"
	"unicode/utf8"
)

// IsBlank reports whether content has no visible character: it is empty, or has only
// spaces, control characters and characters that are drawn as nothing.
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

// maxBlank is how many bytes IsBlankReader reads.
const maxBlank = 64 << 20

// IsBlankReader is IsBlank for content of any size. It stops at the first visible
// character. Content that begins with 64 MiB of invisible characters counts as blank.
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

// isInvisible reports whether a character is drawn as nothing.
func isInvisible(r rune) bool {
	switch r {
	case 0x034f, 0x115f, 0x1160, 0x2800, 0x3164, 0xffa0: // letters that are drawn as nothing
		return true
	}
	return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Variation_Selector)
}
