package scan

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"html"
	"iter"
	"regexp"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// openText decodes data in a content, so that scanners examine it too: UTF-16 text,
// escaped characters, and base64 and hexadecimal runs. Each run is shown with its line,
// because the words around it say what it is.
func openText(b *box) error {
	if wideText(b.data) { // it has a byte order mark, so all scanners examine it as text
		if err := b.became("UTF-16", narrow(b.data), false); err != nil {
			return err
		}
	} else if wide := narrowed(b.data); wide != nil {
		if err := b.decoded("UTF-16", wide); err != nil {
			return err
		}
	}
	for _, f := range textForms {
		if plain := f.plain(b.data); plain != nil {
			if err := b.decoded(f.name, plain); err != nil {
				return err
			}
		}
	}
	if err := b.numbers(); err != nil {
		return err
	}
	// The text around runs is taken once, however near the runs are.
	lines := patch{data: b.data}
	var show func(r run) error
	show = func(r run) error {
		if err := b.ctx.Err(); err != nil {
			return err
		}
		plain := r.decode(b.data)
		switch {
		case plain == nil && r.lines > 1:
			// Perhaps each line is a separate run.
			for part := range r.split(b.data) {
				if err := show(part); err != nil {
					return err
				}
			}
		case plain == nil:
		case opens(plain):
			return b.decoded(r.kind(), plain)
		case isPrintable(plain):
			lines.put(r.from, r.to, plain)
		}
		return nil
	}
	for r := range runs(b.data) {
		if err := show(r); err != nil {
			return err
		}
	}
	if plain := lines.text(); plain != nil {
		return b.decoded("encoded text", plain)
	}
	return nil
}

// textForms are the ways to write a text so that its bytes differ from what a reader gets. Each
// returns the lines that it changes, or nil.
var textForms = []struct {
	name  string
	plain func(data []byte) []byte
}{
	{"escaped text", unescaped},
	{"text with invisible characters", withoutInvisible},
	{"quoted-printable text", joinedLines},
	{"text with markup in its words", withoutMarkup},
	{"text with backspaces", withoutControls},
}

// withoutInvisible returns the lines that have characters which nobody sees, such as U+200B,
// without these characters. Wide letters become plain ones. It returns nil if there are none.
func withoutInvisible(data []byte) (out []byte) {
	for line := range bytes.Lines(data) {
		plain := line
		if bytes.IndexByte(line, '&') >= 0 || bytes.IndexByte(line, 0x1b) >= 0 {
			plain = unseen().ReplaceAllFunc(line, dropInvisible)
		}
		if bytes.IndexFunc(plain, func(r rune) bool { return narrowLetter(r) != r }) >= 0 {
			plain = bytes.Map(narrowLetter, plain)
		}
		if len(plain) != len(line) {
			out = append(out, plain...)
		}
	}
	return out
}

// unseen matches entities, and sequences that a terminal obeys and does not show.
var unseen = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`&#?[0-9A-Za-z]{2,24};|\x1b(\[[0-9:;<=>?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[()][0-9A-Z]|[@-Z^_])`)
})

// dropInvisible returns an entity unless it stands for an invisible character, and nothing
// of a sequence for terminals.
func dropInvisible(found []byte) []byte {
	if r, size := utf8.DecodeRuneInString(html.UnescapeString(string(found))); found[0] == '&' && (size == 1 || !isInvisible(r)) {
		return found
	}
	return nil
}

// narrowLetter returns the plain form of a wide letter, and -1 for an invisible character.
func narrowLetter(r rune) rune {
	switch {
	case r >= 'ａ' && r <= 'ｚ', r >= 'Ａ' && r <= 'Ｚ', r >= '０' && r <= '９', r == '＿', r == '－':
		return r - 'ａ' + 'a'
	case isInvisible(r):
		return -1
	}
	return r
}

// joinedLines returns the lines that quoted-printable text continues in the next one, joined,
// or nil.
func joinedLines(data []byte) (out []byte) {
	if bytes.IndexByte(data, '=') < 0 {
		return nil
	}
	isOpen, pending := false, []byte(nil) // the text of a line that may be a setting
	for line := range bytes.Lines(data) {
		if pending != nil && bytes.ContainsAny(bytes.TrimRight(line, "= \t\r\n"), "=:") {
			isOpen = false // the next setting
		} else {
			out = append(out, pending...)
		}
		pending = nil
		text, ends := bytes.CutSuffix(bytes.TrimRight(line, " \t\r\n"), []byte("="))
		switch ends = ends && !bytes.HasSuffix(text, []byte("=")); {
		case ends && !isOpen && (isPadded(text) || settingName().Match(text)):
			pending = text
		case ends:
			out = append(out, text...)
		case isOpen:
			out = append(out, line...)
		}
		isOpen = ends
	}
	return out
}

// isPadded reports whether a text ends in base64 to which one = belongs, as in go.sum.
func isPadded(text []byte) bool {
	n := len(text) - 1 - bytes.LastIndexFunc(text, func(r rune) bool { return r > 0x7f || alphabet[byte(r)] == 0 })
	return n >= leastRun && n%4 == 3
}

// settingName matches the name of a setting without a value, NAME=, in place of text.
var settingName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s*((export|set|ENV|ARG)\s+)?[\w.-]+\s*$`)
})

// isInvisible reports whether programs show nothing for a character, so that it can hide
// inside a word.
func isInvisible(r rune) bool {
	return r >= 0x80 && (unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Variation_Selector, r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r))
}

// decoded shows decoded data. It counts toward the limits like a file of an archive.
func (b *box) decoded(name string, data []byte) error { return b.became(name, data, true) }

// became shows data that a content was converted to. It is either decoded data, or the
// whole file in another encoding.
func (b *box) became(name string, data []byte, text bool) error {
	if err := b.count(len(data)); err != nil {
		return err
	}
	return b.show(name, data, text)
}

// narrow converts UTF-16 text to UTF-8, without the byte order mark.
func narrow(data []byte) (out []byte) {
	var order binary.ByteOrder = binary.LittleEndian
	if data[0] == 0xfe {
		order = binary.BigEndian
	}
	for i := 2; i < len(data); i += 2 {
		r := rune(order.Uint16(data[i:]))
		if utf16.IsSurrogate(r) && i+2 < len(data) {
			if pair := utf16.DecodeRune(r, rune(order.Uint16(data[i+2:]))); pair != utf8.RuneError {
				r = pair
				i += 2
			}
		}
		out = utf8.AppendRune(out, r)
	}
	return out
}

// opens reports whether decoded data may contain something.
func opens(data []byte) bool {
	if plainKind(data) != "" {
		return true
	}
	for _, o := range openers() {
		if o.kind != "text" && o.is(data) {
			return true
		}
	}
	return false
}

// around returns the bounds of the line of a run, or of the text near it in a long line.
func around(data []byte, from, to int) (int, int) {
	const near = 200
	start, end := max(0, from-near), min(len(data), to+near)
	if i := bytes.LastIndexByte(data[start:from], '\n'); i >= 0 {
		start += i + 1
	}
	if i := bytes.IndexByte(data[to:end], '\n'); i >= 0 {
		end = to + i
	}
	return start, end
}

// shortest is the minimum length of UTF-16 text.
const shortest = 8

// narrowed returns the runs of text with a zero byte between the letters, one line each,
// or nil.
func narrowed(data []byte) (out []byte) {
	if bytes.IndexByte(data, 0) < 0 {
		return nil
	}
	for i := 0; i+1 < len(data); {
		end := i
		for end+1 < len(data) && data[end+1] == 0 && letter(data[end]) {
			end += 2
		}
		if end-i < 2*shortest {
			i = max(i+1, end)
			continue
		}
		zeroFirst := i > 0 && data[i-1] == 0
		for ; i < end; i += 2 {
			out = append(out, data[i])
		}
		if zeroFirst && i < len(data) && letter(data[i]) {
			out = append(out, data[i]) // the zero byte before belongs to it
		}
		out = append(out, '\n')
	}
	return out
}

// letter reports whether a byte is printable ASCII or white space.
func letter(c byte) bool { return c >= ' ' && c < 0x7f || c == '\n' || c == '\r' || c == '\t' }

// isPrintable reports whether data is text in any language. It accepts a few other bytes,
// so that inserted bytes do not hide a text.
func isPrintable(data []byte) bool {
	odd := 0
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r < utf8.RuneSelf && !letter(byte(r)) || r == utf8.RuneError {
			odd++
		}
		i += size
	}
	return len(data) > 0 && odd <= len(data)/3
}

// A run is a part of a text that may be encoded data. It can continue over lines that
// contain nothing else.
type run struct {
	from, to int
	hex      bool // it has only hexadecimal digits
	lines    int
}

// The characters of encodings, as bits.
const (
	inHex = 1 << iota
	inBase64
)

var alphabet = func() (table [256]byte) {
	for c := range 256 {
		b := byte(c)
		switch {
		case b >= '0' && b <= '9', b >= 'a' && b <= 'f', b >= 'A' && b <= 'F':
			table[c] = inHex | inBase64
		case b >= 'g' && b <= 'z', b >= 'G' && b <= 'Z', b == '+', b == '/', b == '-', b == '_':
			table[c] = inBase64
		}
	}
	return table
}()

// The minimum length of a run, and of a line that continues one.
const (
	leastRun  = 16
	leastLine = 40
)

// runs returns the runs of a text one at a time, because there may be millions.
func runs(data []byte) iter.Seq[run] {
	return func(yield func(run) bool) { eachRun(data, yield) }
}

func eachRun(data []byte, yield func(run) bool) {
	for i := 0; i < len(data); {
		if alphabet[data[i]] == 0 {
			i++
			continue
		}
		r := run{from: i, lines: 1}
		only := byte(inHex)
		start := i // start of the line
		for {
			for i < len(data) && alphabet[data[i]] != 0 {
				only &= alphabet[data[i]]
				i++
			}
			r.to = i
			next := nextLine(data, i)
			if next < 0 || i-start < leastLine || !fillsLine(data, start) {
				break
			}
			// The next line continues the run if it contains nothing else either.
			end := next
			for end < len(data) && alphabet[data[end]] != 0 {
				end++
			}
			if rest := bytes.TrimLeft(data[end:min(len(data), end+3)], "="); end == next || len(rest) > 0 && rest[0] != '\n' && rest[0] != '\r' {
				break
			}
			r.lines++
			i, start = next, next
		}
		for range 2 {
			if i < len(data) && data[i] == '=' && i-r.from >= leastRun {
				i++
				r.to = i
			}
		}
		if r.to-r.from >= leastRun {
			r.hex = only != 0
			if !yield(r) {
				return
			}
		}
	}
}

// nextLine returns where the next line begins if this one ends here, or -1.
func nextLine(data []byte, i int) int {
	if i < len(data) && data[i] == '\r' {
		i++
	}
	if i == len(data) || data[i] != '\n' {
		return -1
	}
	for i++; i < len(data) && (data[i] == ' ' || data[i] == '\t'); i++ {
	}
	if i == len(data) || alphabet[data[i]] == 0 {
		return -1
	}
	return i
}

// fillsLine reports whether a run begins at the start of its line, except for white
// space, quotes, and a name with a sign.
func fillsLine(data []byte, start int) bool {
	return start == 0 || data[start-1] == '\n' || bytes.IndexByte([]byte(" \t\"'`=:,>"), data[start-1]) >= 0
}

func (r run) kind() string {
	if r.hex {
		return "hexadecimal"
	}
	return "base64"
}

// split returns a run for each line.
func (r run) split(data []byte) iter.Seq[run] {
	return func(yield func(run) bool) {
		from := r.from
		for text := range bytes.Lines(data[r.from:r.to]) {
			bare := bytes.TrimSpace(text)
			if start := from + bytes.Index(text, bare); len(bare) >= leastRun {
				if !yield(run{from: start, to: start + len(bare), hex: r.hex, lines: 1}) {
					return
				}
			}
			from += len(text)
		}
	}
}

// decode returns the decoded data, or nil.
func (r run) decode(data []byte) []byte {
	text := data[r.from:r.to]
	if r.lines > 1 {
		text = withoutSpace(text)
	}
	if r.hex && len(text)%2 == 0 && len(text) >= 2*leastRun {
		out := make([]byte, len(text)/2)
		if _, err := hex.Decode(out, text); err == nil && (isPrintable(out) || opens(out)) {
			return out
		}
	}
	bare := bytes.TrimRight(text, "=")
	encoding := base64.RawStdEncoding
	if bytes.IndexByte(bare, '-') >= 0 || bytes.IndexByte(bare, '_') >= 0 {
		encoding = base64.RawURLEncoding
	}
	// Decoding the start is enough to reject a long word.
	var head [12]byte
	n, err := encoding.Decode(head[:], bare[:min(16, len(bare)/4*4)])
	if err != nil || !isPrintable(head[:n]) && !likely(head[:n]) {
		return nil
	}
	out := make([]byte, encoding.DecodedLen(len(bare)))
	if n, err = encoding.Decode(out, bare); err != nil {
		return nil
	}
	return out[:n]
}

// withoutSpace returns a copy of a text without white space.
func withoutSpace(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, c := range text {
		if c != ' ' && (c < '\t' || c > '\r') {
			out = append(out, c)
		}
	}
	return out
}

// likely reports whether data that begins like this may be something to open.
func likely(head []byte) bool {
	for _, magic := range []string{"PK\x03\x04", "\x1f\x8b\x08", "BZh", "%PDF-", "\x89PNG", "x\x01", "x\x9c", "x\xda", "7z\xbc\xaf", "\xfd7zXZ", "Rar!", "MSCF", "\x89LZO", "MSWIM"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return true
		}
	}
	return false
}
