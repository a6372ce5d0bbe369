package scan

import (
	"bytes"
	"iter"
	"strconv"
	"strings"
)

// escapes are the ways to write a character as a number: the text before it, the number
// of digits (0 for any), the base, and the text after it.
var escapes = []struct {
	before string
	digits int
	base   int
	behind string
}{
	{"%", 2, 16, ""}, {`\x`, 2, 16, ""}, {`\u00`, 2, 16, ""}, {`\u{`, 0, 16, "}"}, {"&#x", 0, 16, ";"}, {"&#X", 0, 16, ";"}, {"&#", 0, 10, ";"}, {`\`, 3, 8, ""},
}

// unescaped returns the lines with escaped characters, with the characters decoded, or
// nil.
func unescaped(data []byte) (out []byte) {
	for l := range bytes.Lines(data) {
		if !bytes.ContainsAny(l, `%\&`) {
			continue
		}
		start, changed := len(out), false
		for i := 0; i < len(l); {
			c, length := escape(l[i:])
			changed = changed || length > 1 && c != ' '
			out = append(out, c)
			i += length
		}
		if !changed {
			out = out[:start]
		}
	}
	return out
}

func isDigit(c byte, base int) bool {
	_, err := strconv.ParseUint(string(c), base, 8)
	return err == nil
}

// escape reads an escaped character, and returns it with the number of bytes read.
func escape(text []byte) (c byte, length int) {
	const most = 8 // digits, with leading zeros
	if text[0] != '%' && text[0] != '\\' && text[0] != '&' {
		return text[0], 1
	}
	for _, e := range escapes {
		if !bytes.HasPrefix(text, []byte(e.before)) {
			continue
		}
		rest := text[len(e.before):]
		n, behind := e.digits, len(e.behind)
		switch {
		case n == 0 && e.behind == ";": // browsers also read a character of HTML without it
			for n < min(len(rest), most) && isDigit(rest[n], e.base) {
				n++
			}
			if n == len(rest) || rest[n] != ';' {
				behind = 0
			}
		case n == 0:
			n = bytes.IndexByte(rest[:min(len(rest), most+1)], e.behind[0])
		}
		if n < 1 || n > len(rest) {
			continue
		}
		if v, err := strconv.ParseUint(string(rest[:n]), e.base, 8); err == nil && letter(byte(v)) {
			return byte(v), len(e.before) + n + behind
		}
	}
	return text[0], 1
}

// numbers shows data written as lists of numbers, as programs do that embed files: 80,
// 75, 3, 4 or 0x50, 0x4b or 50 4b.
func (b *box) numbers() error {
	var lines []byte
	for i := 0; i < len(b.data); {
		from, to, count := listAt(b.data, i)
		i = to + 1
		if count < leastRun {
			continue
		}
		if err := b.ctx.Err(); err != nil {
			return err
		}
		for _, base := range []int{10, 16} {
			for plain := range bytesOf(b.data[from:to], base) {
				switch {
				case opens(plain):
					if err := b.decoded("numbers", plain); err != nil {
						return err
					}
				case isPrintable(plain):
					lines = append(append(lines, plain...), '\n')
				}
			}
		}
	}
	if lines == nil {
		return nil
	}
	return b.decoded("numbers", lines)
}

// commas are the characters between the numbers of a list.
const commas = " \t\r\n,;"

// listAt returns the next list of possible numbers from a position on, and how many
// numbers it has.
func listAt(data []byte, i int) (from, to, count int) {
	const longest = 4 // 0x50
	for i < len(data) && alphabet[data[i]]&inHex == 0 {
		i++
	}
	for from, to = i, i; i < len(data); count++ {
		start := i
		for i < len(data) && (alphabet[data[i]]&inHex != 0 || data[i]|0x20 == 'x' && i == start+1 && data[start] == '0') {
			i++
		}
		if word := i < len(data) && alphabet[data[i]] != 0; i == start || i-start > longest || word {
			for i < len(data) && alphabet[data[i]] != 0 {
				i++
			}
			return from, max(to, i), count
		}
		to = i
		for i < len(data) && strings.IndexByte(commas, data[i]) >= 0 {
			i++
		}
	}
	return from, to, count
}

// bytesOf returns the runs of valid bytes in a list. In base 16 each number has two
// digits. It reads the list as it goes, so that a list of millions of numbers needs no
// more memory than its bytes.
func bytesOf(list []byte, base int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var out []byte
		for i := 0; i < len(list); {
			for i < len(list) && strings.IndexByte(commas, list[i]) >= 0 {
				i++
			}
			from := i
			for i < len(list) && strings.IndexByte(commas, list[i]) < 0 {
				i++
			}
			if from == i {
				break
			}
			if v, ok := byteOf(list[from:i], base); ok {
				out = append(out, v)
				continue
			}
			if len(out) >= leastRun && !yield(out) {
				return
			}
			out = nil
		}
		if len(out) >= leastRun {
			yield(out)
		}
	}
}

// byteOf reads one number of a list.
func byteOf(text []byte, base int) (byte, bool) {
	switch {
	case len(text) > 2 && text[1]|0x20 == 'x' && base == 10:
		text, base = text[2:], 16
	case base == 16 && len(text) != 2:
		return 0, false
	}
	v, err := strconv.ParseUint(string(text), base, 8)
	return byte(v), err == nil
}
