package tool

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// CheckJSON returns why a JSON text holds something that is no Unicode text: bytes that
// are not UTF-8, or an escape that is half of a surrogate pair. The decoder would put
// U+FFFD in its place, so that a call would be made with another name or content than the
// caller wrote. Whether the text is JSON at all CheckJSON does not say.
func CheckJSON(text []byte) error {
	if !utf8.Valid(text) {
		return errors.New("not UTF-8")
	}
	for at := 0; ; {
		next := bytes.IndexByte(text[at:], '\\')
		if next < 0 {
			return nil
		}
		at += next
		unit, ok := escape(text[at:])
		switch {
		case !ok:
			at += 2 // another escape
		case unit < 0xd800 || unit > 0xdfff:
			at += 6
		default:
			low, pair := escape(text[min(at+6, len(text)):])
			if unit > 0xdbff || !pair || low < 0xdc00 || low > 0xdfff {
				return fmt.Errorf("%s is half of a character: write both halves, or the character itself", text[at:at+6])
			}
			at += 12
		}
		if at >= len(text) {
			return nil
		}
	}
}

// escape returns the code unit of an escape like \u00e9 that a text begins with.
func escape(text []byte) (unit uint64, ok bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return unit, err == nil
}
