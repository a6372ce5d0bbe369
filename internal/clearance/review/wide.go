package review

import (
	"encoding/binary"
	"slices"
	"unicode/utf16"
)

// If so many bytes in a row are printable on their own, the content does not count as
// UTF-16. Chinese text has a few in a row by chance. In code fewer bytes would do harm.
const (
	ownText     = 20
	ownTextCode = 8
)

// Narrow converts UTF-16 text with a byte order mark to UTF-8, and returns the encoding.
// The conversion loses nothing. It returns "" if the content is not such text. It also
// returns "" if a part, read byte by byte, is another text. Otherwise a program that
// reads bytes would see something else than the reviewer.
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
	if _, becomes := Code(name); becomes || isCodeIf(name, becomes) {
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
		return nil, "" // half a surrogate pair
	}
	return []byte(string(letters)), encoding
}

// letterByte reports whether a byte is printable ASCII or white space.
func letterByte(c byte) bool { return c >= ' ' && c < 0x7f || c == '\n' || c == '\r' || c == '\t' }
