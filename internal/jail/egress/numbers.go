package egress

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strconv"
	"strings"
)

// A list is a list of numbers in an answer, each the code of a character: decimal, octal or
// hexadecimal, with any separators, prefixes and leading zeros. Lists of bytes in JSON,
// escapes of programs, entities of HTML and dumps are such lists.
type list struct {
	base  int
	codes []code
}

// A code is one number of a list: its digits, and its value.
type code struct {
	from, to int
	value    byte
}

// maxGap is how many bytes may be between two numbers of a list, and numberSize is how many
// bytes a number and its separators usually take.
const maxGap, numberSize = 24, 16

// Lists have many digits. Most answers have blocks with fewer, which golem skips.
const blockSize, blockDigits = 64, 7

// hideNumbers hides the secret in lists of numbers. out has all[from:], and gets other
// digits in place.
func (f *finder) hideNumbers(out, all []byte, from int) {
	end := 0 // of the part that was searched
	for at := 0; at < len(all); at += blockSize {
		if countDigits(all[at:min(len(all), at+blockSize)]) < blockDigits {
			continue
		}
		start := max(end, at-blockSize) // a list begins or ends in the blocks beside it
		for at += blockSize; at < len(all) && countDigits(all[at:min(len(all), at+blockSize)]) >= blockDigits; {
			at += blockSize
		}
		end = min(len(all), at+blockSize)
		f.hideLists(out, all, start, end, from)
	}
}

// countDigits returns how many bytes are digits.
func countDigits(text []byte) (n int) {
	const each = 0x0101010101010101
	for ; len(text) >= 8; text = text[8:] {
		x := binary.LittleEndian.Uint64(text) ^ 0x30*each // less than ten for a digit
		n += 8 - bits.OnesCount64((x&(0x7f*each)+0x76*each|x)&(0x80*each))
	}
	for _, c := range text {
		if c-'0' < 10 {
			n++
		}
	}
	return n
}

// hideLists does so in all[i:to].
func (f *finder) hideLists(out, all []byte, i, to, from int) {
	lists := [...]list{{base: 8}, {base: 10}, {base: 16}}
	end := 0 // of the last number
	for i < to {
		if all[i]-'0' > 9 { // the code of a printable character begins with a digit
			i++
			continue
		}
		start := i
		for i < to && kinds[all[i]] < 16 {
			i++
		}
		if i-start == 1 && all[start] == '0' && i < to && all[i]|0x20 == 'x' {
			continue // the beginning of 0x73
		}
		isNext := start-end <= maxGap
		for j := end; isNext && j < start; j++ {
			isNext = kinds[all[j]] == separator || all[j] == '0'
		}
		end = i
		for j := range lists {
			l := &lists[j]
			if len(l.codes) > 0 && !isNext {
				f.hideList(out, all, from, l)
			}
			if !l.add(all, start, i, &f.bytes) && len(l.codes) > 0 {
				f.hideList(out, all, from, l)
			}
		}
	}
	for j := range lists {
		f.hideList(out, all, from, &lists[j])
	}
}

// kinds has the value of each hexadecimal digit, and the kinds of other bytes. The letters of
// prefixes count as separators: 0x73, \u0073, U+0073.
var kinds = func() (kinds [256]byte) {
	for c := range kinds {
		kinds[c] = separator
	}
	for _, c := range []byte(alnum) {
		kinds[c] = word
	}
	for i, c := range []byte("0123456789abcdef") {
		kinds[c], kinds[strings.ToUpper(string(c))[0]] = byte(i), byte(i)
	}
	for _, c := range []byte("xXuU") {
		kinds[c] = separator
	}
	return kinds
}()

const separator, word = 16, 17

// add adds a number to the list. It reports whether the number is a code of characters that
// the secret has. A zero is a part of a wider character.
func (l *list) add(all []byte, start, end int, has *[256]bool) bool {
	size := end - start
	if l.base == 16 && size > 2 { // leading zeros, or several bytes in one word
		bare := start
		for bare < end-2 && all[bare] == '0' {
			bare++
		}
		if bare < end-2 {
			if size%2 != 0 {
				return false
			}
			size = 2
		}
	}
	for ; start < end; start += size {
		value := 0
		for _, c := range all[start : start+size] {
			digit := int(kinds[c])
			if value = value*l.base + digit; digit >= l.base || value > 255 {
				return false
			}
		}
		if value > 0 {
			if !has[value] {
				return false
			}
			l.codes = append(l.codes, code{start, start + size, byte(value)})
		}
	}
	return true
}

// hideList hides the secret in a list, and empties the list.
func (f *finder) hideList(out, all []byte, from int, l *list) {
	codes := l.codes
	l.codes = l.codes[:0]
	if len(codes) < f.texts[0].least {
		return
	}
	plain := make([]byte, len(codes))
	for i, c := range codes {
		plain[i] = c.value
	}
	for i, shown := range f.hideParts(nil, plain, 0) {
		c := codes[i]
		if c.from = max(c.from, from); shown == c.value || c.from >= c.to || !bytes.Equal(out[c.from-from:c.to-from], all[c.from:c.to]) {
			continue // hideParts has replaced it
		}
		digits := formatCode(shown, l.base, codes[i].to-codes[i].from)
		copy(out[c.from-from:], digits[c.from-codes[i].from:])
	}
}

// formatCode returns the number of a character, or of another one if it has not so many
// digits. A decimal number has no zeros in front, which JSON forbids.
func formatCode(c byte, base, size int) string {
	digits := strconv.FormatUint(uint64(c), base)
	if len(digits) > size || base == 10 && size == 3 && len(digits) < size {
		digits = strconv.FormatUint(uint64(map[bool]byte{true: 'x', false: '9'}[size > 2]), base)
	}
	return strings.Repeat("0", max(0, size-len(digits))) + digits
}
