package file

import (
	"bytes"

	"github.com/golem-forge/golem/internal/files/filecontent"
)

// sniffed is how many bytes at the start of a file decide whether it is text.
const sniffed = 8 << 10

// refuseBinary returns an error if the content is not text.
func refuseBinary(at string, content []byte, size int64) error {
	if kind := binaryKind(content); kind != "" {
		return binaryError(at, kind, size)
	}
	return nil
}

// binaryKind names the kind of a content that does not begin as text. It returns "" for
// text.
func binaryKind(content []byte) string {
	start := content[:min(len(content), sniffed)]
	if kind := kindOf(start); kind != "" {
		return kind
	}
	if !filecontent.IsText(start) || isMostlyControl(start) {
		return "not text"
	}
	return ""
}

// kindOf names the format of a content by its first bytes. It returns "" for an unknown
// format.
func kindOf(start []byte) string {
	for _, k := range []struct{ magic, kind string }{
		{"%PDF-", "PDF"},
		{"\x89PNG\r\n\x1a\n", "PNG image"},
		{"\xff\xd8\xff", "JPEG image"},
		{"GIF87a", "GIF image"},
		{"GIF89a", "GIF image"},
		{"PK\x03\x04", "ZIP archive or office document"},
		{"\x1f\x8b\x08", "gzip"},
		{"\x7fELF", "program"},
		{"SQLite format 3\x00", "SQLite database"},
		{"\xff\xfe", "UTF-16 text"},
		{"\xfe\xff", "UTF-16 text"},
	} {
		if bytes.HasPrefix(start, []byte(k.magic)) {
			return k.kind
		}
	}
	return ""
}

// isMostlyControl reports whether more than a third of the first bytes are control
// characters that do not occur in text.
func isMostlyControl(start []byte) bool {
	start = start[:min(len(start), 1<<10)]
	n := 0
	for _, c := range start {
		if c >= ' ' && c < 0x7f { // the common case
			continue
		}
		if (c < '\b' || c > '\r') && c != 0x1b && c <= 0x7f {
			n++
		}
	}
	return 3*n > len(start)
}
