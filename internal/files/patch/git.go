//go:build !js

package patch

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// A File is the change of one file, as git sees it.
type File struct {
	Name          string // relative, with slashes
	OldMode, Mode string // as git writes them; "" for no file
	Old, New      []byte // the contents; for a symlink its target
	Numbered      bool   // each hunk has its number in its header
}

// maxText is the size up to which two texts are compared line by line. Larger ones are
// written as binary content.
const maxText = 4 << 20

// Write writes a change as git diff --binary does, with the exact bytes of both contents.
func (f File) Write(w io.Writer) error {
	if f.OldMode != "" && f.Mode != "" && f.OldMode[:3] != f.Mode[:3] { // a file and a symlink
		gone, made := f, f
		gone.Mode, gone.New = "", nil
		made.OldMode, made.Old = "", nil
		if err := gone.Write(w); err != nil {
			return err
		}
		return made.Write(w)
	}
	var b bytes.Buffer
	from, to := quoteName("a/"+f.Name), quoteName("b/"+f.Name)
	fmt.Fprintf(&b, "diff --git %s %s\n", from, to)
	switch {
	case f.OldMode == "":
		from = "/dev/null"
		fmt.Fprintf(&b, "new file mode %s\n", f.Mode)
	case f.Mode == "":
		to = "/dev/null"
		fmt.Fprintf(&b, "deleted file mode %s\n", f.OldMode)
	case f.OldMode != f.Mode:
		fmt.Fprintf(&b, "old mode %s\nnew mode %s\n", f.OldMode, f.Mode)
	}
	if bytes.Equal(f.Old, f.New) && f.OldMode != "" && f.Mode != "" {
		_, err := w.Write(b.Bytes())
		return err
	}
	if !f.isText() || len(f.Old)+len(f.New) == 0 {
		fmt.Fprintf(&b, "index %s..%s", blobHash(f.OldMode, f.Old), blobHash(f.Mode, f.New))
		if f.OldMode == f.Mode {
			b.WriteString(" " + f.Mode)
		}
		b.WriteString("\n")
	}
	switch {
	case !f.isText():
		b.WriteString("GIT binary patch\n")
		writeLiteral(&b, f.New)
		writeLiteral(&b, f.Old)
	case len(f.Old)+len(f.New) > 0:
		diff := Unified(label(from), label(to), string(f.Old), string(f.New))
		if f.Numbered {
			diff = Number(diff)
		}
		b.WriteString(diff)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// isText reports whether the contents can be compared line by line without loss.
func (f File) isText() bool {
	for _, content := range [][]byte{f.Old, f.New} {
		if bytes.IndexByte(content, 0) >= 0 || !utf8.Valid(content) {
			return false
		}
	}
	return len(f.Old)+len(f.New) <= maxText
}

// Number returns a diff with a number at the head of each hunk.
func Number(diff string) string {
	var b strings.Builder
	n := 0
	for line := range strings.Lines(diff) {
		if strings.HasPrefix(line, "@@ ") {
			n++
			line = fmt.Sprintf("%s hunk %d\n", strings.TrimSuffix(line, "\n"), n)
		}
		b.WriteString(line)
	}
	return b.String()
}

// label returns a name for a line that begins with --- or +++. Git ends a name with
// spaces in it by a tab.
func label(name string) string {
	if strings.Contains(name, " ") && !strings.HasPrefix(name, `"`) {
		return name + "\t"
	}
	return name
}

// quoteName returns a name as git writes it in a patch. Git quotes names with control
// characters, quotes, backslashes and bytes beyond ASCII.
func quoteName(name string) string {
	plain := true
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		if c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			b.WriteByte(c)
			continue
		}
		plain = false
		fmt.Fprintf(&b, `\%03o`, c)
	}
	if plain {
		return name
	}
	return `"` + b.String() + `"`
}

// blobHash returns git's name of a content, or zeros if there is no file.
func blobHash(mode string, content []byte) string {
	if mode == "" {
		return strings.Repeat("0", 40)
	}
	sum := sha1.New()
	fmt.Fprintf(sum, "blob %d\x00", len(content))
	sum.Write(content)
	return hex.EncodeToString(sum.Sum(nil))
}

// writeLiteral writes a content as the part of a binary patch.
func writeLiteral(b *bytes.Buffer, content []byte) {
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	z.Write(content) // a buffer takes every write
	z.Close()
	fmt.Fprintf(b, "literal %d\n", len(content))
	for data := packed.Bytes(); len(data) > 0; {
		n := min(len(data), maxLine)
		if n <= 26 {
			b.WriteByte(byte('A' + n - 1))
		} else {
			b.WriteByte(byte('a' + n - 27))
		}
		writeBase85(b, data[:n])
		b.WriteByte('\n')
		data = data[n:]
	}
	b.WriteByte('\n')
}

// maxLine is how many bytes a line of a binary patch holds.
const maxLine = 52

// digits are the digits of git's base 85.
const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

// writeBase85 writes bytes in base 85: five digits for each four bytes.
func writeBase85(b *bytes.Buffer, data []byte) {
	for len(data) > 0 {
		var four [4]byte
		n := copy(four[:], data)
		data = data[n:]
		value := uint32(four[0])<<24 | uint32(four[1])<<16 | uint32(four[2])<<8 | uint32(four[3])
		var five [5]byte
		for i := 4; i >= 0; i-- {
			five[i] = digits[value%85]
			value /= 85
		}
		b.Write(five[:])
	}
}
