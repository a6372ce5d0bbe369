package opfs

import (
	"io/fs"
	"strconv"
	"strings"
)

// The signs that separate the name from the mode of a file, and that mark a symlink. They
// cannot be part of an encoded name, where two hexadecimal digits follow each %.
const (
	modeSign = "%="
	linkSign = "%@"
)

// usualMode is the mode of files without a mode in their stored name.
const usualMode fs.FileMode = 0o644

// storedName returns the name under which the browser keeps a file, directory or symlink.
func storedName(name string, mode fs.FileMode) string {
	stored := encodeName(name)
	switch {
	case mode.IsDir():
	case mode&fs.ModeSymlink != 0:
		stored += linkSign
	case mode.Perm() != usualMode:
		stored += modeSign + strconv.FormatUint(uint64(mode.Perm()), 8)
	}
	return stored
}

// parseStored returns the name and mode of a stored name. It reports false for a name that
// storedName does not return.
func parseStored(stored string, isDir bool) (name string, mode fs.FileMode, ok bool) {
	mode = usualMode
	head, octal, hasMode := strings.Cut(stored, modeSign)
	switch {
	case isDir:
		head, mode = stored, fs.ModeDir|0o755
	case hasMode:
		bits, err := strconv.ParseUint(octal, 8, 9)
		if err != nil {
			return "", 0, false
		}
		mode = fs.FileMode(bits)
	case strings.HasSuffix(stored, linkSign):
		head, mode = strings.TrimSuffix(stored, linkSign), fs.ModeSymlink|0o777
	}
	name, ok = decodeName(head)
	return name, mode, ok && storedName(name, mode) == stored
}

// encodeName writes the characters of a name that some browser or system refuses as %XX.
func encodeName(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		atEnd := i == 0 || i == len(name)-1
		if c < ' ' || c == 0x7f || strings.IndexByte(`"%*/:<>?\|`, c) >= 0 || atEnd && (c == ' ' || c == '.') || c == '.' && browserSuffix(name[i:]) {
			b.WriteByte('%')
			const digits = "0123456789abcdef"
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// browserSuffix reports whether the end of a name is one that Chromium keeps for itself.
func browserSuffix(end string) bool { return strings.EqualFold(end, ".crswap") }

// decodeName undoes encodeName. It reports false for what is no name of one file.
func decodeName(stored string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(stored); i++ {
		c := stored[i]
		if c == '%' {
			if i+3 > len(stored) {
				return "", false
			}
			v, err := strconv.ParseUint(stored[i+1:i+3], 16, 8)
			if err != nil {
				return "", false
			}
			c, i = byte(v), i+2
		}
		b.WriteByte(c)
	}
	name := b.String()
	return name, name != "." && fs.ValidPath(name) && !strings.ContainsAny(name, "/\x00")
}
