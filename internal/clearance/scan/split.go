package scan

import (
	"bytes"
	"regexp"
	"strconv"
	"sync"
	"unicode/utf8"
)

// A patch collects the lines of a text in which parts have other content.
type patch struct {
	data, out  []byte
	done, tail int
}

// put replaces data[from:to], which is behind the parts before.
func (p *patch) put(from, to int, plain []byte) {
	start, end := around(p.data, from, to)
	if start > p.tail {
		p.out = append(append(p.out, p.data[p.done:p.tail]...), '\n')
		p.done = start
	}
	p.out = append(append(p.out, p.data[p.done:from]...), plain...)
	p.done, p.tail = to, end
}

// text returns the lines, nil if nothing was replaced.
func (p *patch) text() []byte {
	if p.tail == 0 {
		return nil
	}
	return append(p.out, p.data[p.done:max(p.done, p.tail)]...)
}

// isWordAt reports whether a token can have the byte at an index.
func isWordAt(data []byte, i int) bool {
	return i >= 0 && i < len(data) && alphabet[data[i]] != 0 && data[i] != '/'
}

// withoutMarkup returns the lines in which a word has something that no reader sees: tags,
// comments, or the end of a line that continues. It also decodes the escapes of CSS, Markdown
// and quoted-printable text there.
func withoutMarkup(data []byte) []byte {
	p := patch{data: data}
	last := -1 // the end of the escape before
	for i := 0; i < len(data); i++ {
		next := bytes.IndexAny(data[i:], "</\\=")
		if next < 0 {
			break
		}
		i += next
		end := i
		for n := 1; n > 0 && isWordAt(data, i-1); end += n {
			n = markupSize(data[end:])
		}
		c, size := styleEscape(data[i:])
		switch isNext := i == last || isWordAt(data, i-1) || isWordAt(data, i+size) || data[min(i+size, len(data)-1)] == data[i]; {
		case end > i && isWordAt(data, end):
			p.put(i, end, nil)
			i = end - 1
		case size > 0 && isNext:
			p.put(i, i+size, []byte{c})
			i += size - 1
			last = i + 1
		}
	}
	return p.text()
}

// maxMarkup is how long a tag or a comment in a word may be.
const maxMarkup = 1 << 10

// markupSize returns how many bytes the tag, comment or end of a line at the beginning of a text
// has, 0 if none is there.
func markupSize(text []byte) int {
	until := func(begin, end string) int {
		if !bytes.HasPrefix(text, []byte(begin)) {
			return 0
		}
		rest := text[len(begin):min(len(text), maxMarkup)]
		if at := bytes.Index(rest, []byte(end)); at >= 0 {
			return len(begin) + at + len(end)
		}
		return 0
	}
	switch {
	case len(text) < 3:
		return 0
	case text[0] == '/':
		return until("/*", "*/")
	case text[0] == '\\' && (text[1] == '\n' || text[1] == '\r' && text[2] == '\n'):
		return len(text) - len(bytes.TrimLeft(text[1:], " \t\r\n"))
	case text[0] != '<':
		return 0
	case text[1] == '!' && text[2] == '-':
		return until("<!--", "-->")
	case text[1] == '?':
		return until("<?", "?>")
	case text[1] == '!', text[1] == '/', text[1]|0x20 >= 'a' && text[1]|0x20 <= 'z':
		if n := until("<", ">"); n > 0 && bytes.IndexByte(text[1:n], '<') < 0 {
			return n
		}
	}
	return 0
}

// styleEscape returns the character for an escape at the beginning of a text, and how many bytes
// it has: \67 of CSS, \_ of Markdown, =67 of quoted-printable text.
func styleEscape(text []byte) (c byte, size int) {
	most := 6
	switch {
	case len(text) < 2:
		return 0, 0
	case text[0] == '=':
		most = 2
	case text[0] == '\\' && (text[1] == '_' || text[1] == '-'):
		return text[1], 2
	case text[0] != '\\':
		return 0, 0
	}
	n := 1
	for n < len(text) && n <= most && alphabet[text[n]]&inHex != 0 {
		n++
	}
	v, err := strconv.ParseUint(string(text[1:n]), 16, 32)
	if err != nil || v >= 0x7f || n < 3 || !isWordAt([]byte{byte(v)}, 0) {
		return 0, 0
	}
	if text[0] == '\\' && n < len(text) && isSpace(text[n]) {
		n++
	}
	return byte(v), n
}

// withoutControls returns the lines of a text in which a word has control characters: once with
// what a printer leaves, which goes back for a backspace, and once without these characters.
func withoutControls(data []byte) []byte {
	if !control().Match(data) || !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return nil
	}
	var out []byte
	for line := range bytes.Lines(data) {
		if !control().Match(line) {
			continue
		}
		var printed []byte
		for _, c := range line {
			if c != '\b' {
				printed = append(printed, c)
			} else {
				_, size := utf8.DecodeLastRune(printed)
				printed = printed[:len(printed)-size]
			}
		}
		out = append(append(out, control().ReplaceAll(printed, nil)...), '\n')
		out = append(append(out, control().ReplaceAll(line, nil)...), '\n')
	}
	return out
}

// control matches control characters of a text, other than white space and the beginning of a
// sequence for terminals.
var control = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f]+`) })
