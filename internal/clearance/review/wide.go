package review

import (
	"encoding/binary"
	"slices"
	"unicode/utf16"
)

// How many bytes in a row that are a text by themselves are none of UTF-16. Chinese has
// some in a row by chance; in code fewer would do harm.
const (
	ownText     = 20
	ownTextCode = 8
)

// Narrow returns the text of a file whose first two bytes say that it has two for each
// letter, in UTF-8 and without these, and how it is encoded. Nothing is lost by that. It
// returns "" where the content is no such text, or where a part of it, read byte by byte,
// is another one: who reads it so must not see something else than the reviewer.
func Narrow(name string, content []byte) (text []byte, encoding string) {
	if len(content) < 2 || len(content)%2 != 0 {
		return nil, ""
	}
	var order binary.ByteOrder
	switch string(content[:2]) {
	case "\xff\xfe":
		order, encoding = binary.LittleEndian, "UTF-16LE"
	case "\xfe\xff":
		order, encoding = binary.BigEndian, "UTF-16BE"
	default:
		return nil, ""
	}
	most := ownText
	if _, becomes := Code(name); becomes || isCode(name) {
		most = ownTextCode
	}
	units := make([]uint16, 0, len(content)/2-1)
	own := 0
	for i := 2; i < len(content); i += 2 {
		if own += 2; !letterByte(content[i]) || !letterByte(content[i+1]) {
			own = 0
		}
		unit := order.Uint16(content[i:])
		if unit == 0 || own >= most {
			return nil, ""
		}
		units = append(units, unit)
	}
	letters := utf16.Decode(units)
	if !slices.Equal(utf16.Encode(letters), units) {
		return nil, "" // half a letter
	}
	return []byte(string(letters)), encoding
}

// letterByte reports whether a byte is text by itself.
func letterByte(c byte) bool { return c >= ' ' && c < 0x7f || c == '\n' || c == '\r' || c == '\t' }
