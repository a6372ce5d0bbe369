package egress

import (
	"bytes"
	"cmp"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"html"
	"math"
	"math/bits"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	known "github.com/golem-forge/golem/internal/records/secret"
)

// A finder finds a secret in answers: whole or cut, at any place, and in the encodings that
// hosts use for headers they got. It replaces what it finds by the same part of the
// placeholder in the same encoding.
//
// A part counts if it has about secretBits of the secret. A shorter part must stay: if golem
// replaced it, a program could guess the secret piece by piece, by sending guesses to a host
// that echoes them. For the same reason golem holds back bytes only because of the public
// prefix, never because they match the secret.
type finder struct {
	length int // of the secret
	texts  []text
	// A part that counts has a gram, four bytes, at an index that is a multiple of four. So
	// golem looks at every fourth byte only. The bits tell most other grams at once.
	grams   []gram         // sorted
	first   map[uint32]int // the index of the first gram with these bytes
	bits    [1 << 12]uint64
	bytes   [256]bool // those of the secret
	context int       // how many bytes before an index decide what is replaced there
	publics []public
}

const secretBits = 40

// A text is one encoding of a secret.
type text struct {
	hidden, shown []byte // of the same length
	public        int    // how many bytes the public prefix takes
	least         int    // how many bytes after it count
	words         bool   // the text is not encoded, so a part of it may be a word
	before, after edge
}

// An edge is a character of base64 or base32 beside a text: some of its bits are from the
// secret.
type edge struct {
	digits              string
	mask, hidden, shown byte
}

// A gram is four bytes of a text, and their place in it.
type gram struct {
	bytes    uint32
	text, at int
}

// A public prefix in some encoding, and how many bytes after it are too few to tell a secret.
type public struct {
	prefix []byte
	few    int
}

// newFinder returns the finder of a secret. The placeholder has the same length, and the
// same public prefix, except for the claims of a JSON Web Token: they are public, because
// other tokens of the host have them, and the placeholder does not have them.
func newFinder(value, placeholder string) *finder {
	f := newTexts(value, placeholder)
	if public := known.PublicPrefix(value); !strings.HasPrefix(placeholder, public) {
		for i, t := range newTexts(value, public+placeholder[len(public):]).texts {
			f.texts[i].public, f.texts[i].least = t.public, t.least
		}
	}
	for i, t := range f.texts {
		f.context = max(f.context, t.public+t.least)
		f.addPublic(t)
		for at := 0; at+gramSize <= len(t.hidden); at++ {
			g := gram{binary.LittleEndian.Uint32(t.hidden[at:]), i, at}
			f.grams = append(f.grams, g)
			h := hash(g.bytes)
			f.bits[h/64] |= 1 << (h % 64)
		}
	}
	slices.SortFunc(f.grams, func(a, b gram) int { return cmp.Compare(a.bytes, b.bytes) })
	f.first = make(map[uint32]int, len(f.grams))
	for i, g := range slices.Backward(f.grams) {
		f.first[g.bytes] = i
	}
	for i := range len(value) {
		f.bytes[value[i]] = true
	}
	f.context = max(f.context, f.texts[0].least*numberSize, (f.texts[0].public+2*f.texts[0].least)*(maxRun+1)) // a run of blanks between all characters
	return f
}

// newTexts returns a finder with the encodings of a secret.
func newTexts(value, placeholder string) *finder {
	f := &finder{length: len(value)}
	plain, _ := f.add(value, placeholder)
	f.texts[0].words = true
	for _, change := range []func(string) string{strings.ToLower, strings.ToUpper, swapCase} {
		if t, isNew := f.add(change(value), change(placeholder)); isNew {
			added := &f.texts[len(f.texts)-1]
			added.words, added.least = true, min(leastOf(change(value[t.public:])), len(value)-t.public)
		}
	}
	f.addBase64(plain, 2)
	f.addBits(plain, base32Digits, base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString)
	f.addBits(plain, strings.ToLower(base32Digits), base32.NewEncoding(strings.ToLower(base32Digits)).WithPadding(base32.NoPadding).EncodeToString)
	f.addHex(plain, 2)
	for _, encode := range []func(string) string{url.QueryEscape, inUTF16, inUTF32} {
		if t, isNew := f.add(encode(value), encode(placeholder)); isNew {
			f.addBase64(t, 1)
		}
	}
	for _, encode := range escapes() {
		f.add(encode(value), encode(placeholder))
	}
	return f
}

const gramSize = 4

func hash(gram uint32) uint32 { return gram * 2654435761 >> 14 }

// add adds an encoding of the secret, unless the finder has it. A placeholder may have
// another length in some encodings; then letters x take its place.
func (f *finder) add(hidden, shown string) (t text, isNew bool) {
	for _, t := range f.texts {
		if string(t.hidden) == hidden {
			return t, false
		}
	}
	t = text{hidden: []byte(hidden), shown: []byte(shown)}
	for t.public < min(len(hidden), len(shown)) && hidden[t.public] == shown[t.public] {
		t.public++
	}
	if len(shown) != len(hidden) {
		t.shown = slices.Concat(t.hidden[:t.public], bytes.Repeat([]byte("x"), len(hidden)-t.public))
	}
	least := leastOf(hidden[t.public:])
	if len(f.texts) > 0 { // the encoding adds no bits
		least = (f.texts[0].least*len(hidden) + f.length - 1) / f.length
	}
	t.least = min(least, len(hidden)-t.public)
	f.texts = append(f.texts, t)
	return t, true
}

// leastOf returns how many characters of a text have secretBits.
func leastOf(text string) int {
	return int(math.Ceil(secretBits / math.Log2(float64(len(alphabetOf(text))))))
}

// escapes returns the encodings that write a character by itself: those of URLs, JSON, HTML
// and programs. Some write all characters so, some only those that are neither letters nor
// digits.
func escapes() (all []func(string) string) {
	for _, format := range []string{"%%%02X", "%%%02x", "%%25%02X", "%%25%02x", `\u%04x`, `\u%04X`, `\\u%04x`, `\x%02x`, `\x%02X`, "&#%d;", "&#x%x;", "&#x%X;", "=%02X", "%02x ", "%02X ", "%02x:", "%02X:"} {
		for _, kept := range []string{alnum, alnum + "-_.~", ""} {
			all = append(all, func(text string) string {
				var b strings.Builder
				for i := range len(text) {
					if strings.IndexByte(kept, text[i]) >= 0 {
						b.WriteByte(text[i])
					} else {
						fmt.Fprintf(&b, format, text[i])
					}
				}
				return b.String()
			})
		}
	}
	return append(all, html.EscapeString, url.PathEscape,
		func(text string) string { return strings.ReplaceAll(text, "/", `\/`) },
		func(text string) string { return strings.NewReplacer(`"`, `\"`, `\`, `\\`).Replace(text) },
		func(text string) string {
			return strings.NewReplacer(`"`, `\"`, `\`, `\\`, "<", `\u003c`, ">", `\u003e`, "&", `\u0026`).Replace(text)
		})
}

func inUTF16(text string) string { return strings.Join(strings.Split(text, ""), "\x00") }

func inUTF32(text string) string { return strings.Join(strings.Split(text, ""), "\x00\x00\x00") }

func swapCase(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, text)
}

const alnum = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// addHex adds the hex form of a text and, with a depth above 1, the base64 form of that.
func (f *finder) addHex(t text, depth int) {
	for _, change := range []func(string) string{strings.ToLower, strings.ToUpper} {
		if t, isNew := f.add(change(hex.EncodeToString(t.hidden)), change(hex.EncodeToString(t.shown))); isNew && depth > 1 {
			f.addBase64(t, depth-1)
		}
	}
}

// addBase64 adds the base64 form of a text. With a depth above 1 it also adds what others
// make of that form.
func (f *finder) addBase64(t text, depth int) {
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for _, inner := range f.addBits(t, base64Digits, encoding.EncodeToString) {
			if depth == 1 {
				continue
			}
			f.addBase64(inner, depth-1)
			f.addHex(inner, 1)
			for _, format := range []string{"%%%02X", "%%%02x", `\u%04x`, `\u%04X`, `\%c`} {
				escape := strings.NewReplacer("/", fmt.Sprintf(format, '/'), "+", fmt.Sprintf(format, '+')).Replace
				f.add(escape(string(inner.hidden)), escape(string(inner.shown)))
			}
		}
	}
}

// addBits adds a form of a text whose digits are a few bits each. It has several, by the
// place in the whole message at which the text begins. The characters at both ends also have
// bits of their neighbours.
func (f *finder) addBits(t text, digits string, encode func([]byte) string) (added []text) {
	size := bits.Len(uint(len(digits) - 1)) // of a digit
	most := byte(len(digits) - 1)
	for offset := range map[int]int{6: 3, 5: 5}[size] {
		before := make([]byte, offset)
		hidden, shown := encode(slices.Concat(before, t.hidden)), encode(slices.Concat(before, t.shown))
		from, to := (offset*8+size-1)/size, (offset+len(t.hidden))*8/size
		inner, isNew := f.add(hidden[from:to], shown[from:to])
		if !isNew {
			continue
		}
		added = append(added, inner)
		index := func(c byte) byte { return byte(strings.IndexByte(digits, c)) }
		last := &f.texts[len(f.texts)-1]
		if n := offset * 8 % size; n > 0 { // bits of the neighbour
			last.before = edge{digits, most >> n, index(hidden[from-1]), index(shown[from-1])}
		}
		if n := (offset + len(t.hidden)) * 8 % size; n > 0 { // bits of the text
			last.after = edge{digits, most &^ (most >> n), index(hidden[to]), index(shown[to])}
		}
	}
	return added
}

// base64Digits are those of the standard encoding. The URL encoding differs in the last two.
const base64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

const base32Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"

// apply puts the placeholder's bits into a neighbour of a text, in place of the secret's.
func (e edge) apply(c *byte) {
	if i := strings.IndexByte(e.digits, *c); e.mask != 0 && i >= 0 && byte(i)&e.mask == e.hidden&e.mask {
		*c = e.digits[byte(i)&^e.mask|e.shown&e.mask]
	}
}

// A part is a part of an answer that is a part of a text.
type part struct{ from, to, text, at int }

// hide appends all[from:] to out, with the placeholder in place of the secret. The bytes
// before that index are those that came before.
func (f *finder) hide(out, all []byte, from int) []byte {
	start := len(out)
	out = f.hideParts(out, all, from)
	f.hideSplit(out[start:], all, from)
	f.hideNumbers(out[start:], all, from)
	return out
}

// hideSplit hides the secret in text that white space or invisible characters split, such as
// short lines. out has all[from:].
func (f *finder) hideSplit(out, all []byte, from int) {
	joined, n := make([]byte, len(all)), 0
	for i := 0; i < len(all); i++ {
		c := all[i]
		joined[n] = c // the next character replaces white space
		n += inWord[c]
		if c >= utf8.RuneSelf {
			if size := blankSize(all[i:]); size > 0 {
				n, i = n-1, i+size-1
			}
		}
	}
	joined = joined[:n]
	if len(joined) == len(all) {
		return
	}
	var at []int // the indexes of joined in all
	found := f.find(joined, 0, func(p part) bool {
		if f.counts(p) {
			return true
		}
		if at == nil {
			at = visibleIn(all, n)
		}
		// Nobody splits words that answers have for other reasons.
		return f.isEnough(p) && at[p.to-1]-at[p.from] >= p.to-p.from
	})
	if len(found) == 0 {
		return
	}
	if at == nil {
		at = visibleIn(all, n)
	}
	for i, c := range f.replace(nil, joined, 0, found) {
		if c != joined[i] && at[i] >= from {
			out[at[i]-from] = c
		}
	}
}

// visibleIn returns the indexes of the n bytes that hideSplit looks at.
func visibleIn(all []byte, n int) []int {
	at := make([]int, 0, n)
	for i := 0; i < len(all); i++ {
		if size := blankSize(all[i:]); size > 0 {
			i += size - 1
		} else if inWord[all[i]] == 1 {
			at = append(at, i)
		}
	}
	return at
}

// inWord is 1 for characters other than white space. UTF-16 has zeros.
var inWord = func() (table [256]int) {
	for c := range table {
		if c == 0 || c > ' ' {
			table[c] = 1
		}
	}
	return table
}()

// blankSize returns how many bytes a character of more than one byte has at the beginning of a
// text, if it is white space or invisible, as a soft hyphen. It returns 0 for others.
func blankSize(text []byte) int {
	if text[0] < utf8.RuneSelf {
		return 0
	}
	r, size := utf8.DecodeRune(text)
	if unicode.IsSpace(r) || r == 0x2800 || unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) {
		return size
	}
	return 0
}

// hideParts does so for the texts of the secret.
func (f *finder) hideParts(out, all []byte, from int) []byte {
	return f.replace(out, all, from, f.find(all, from, f.counts))
}

// replace appends all[from:] to out, with the parts of placeholders in place of those found.
func (f *finder) replace(out, all []byte, from int, found []part) []byte {
	start := len(out)
	out = append(out, all[from:]...)
	slices.SortFunc(found, func(a, b part) int { return cmp.Compare(a.to-a.from, b.to-b.from) }) // the longest wins
	for _, p := range found {
		t := f.texts[p.text]
		skip := max(0, from-p.from)
		copy(out[start+p.from+skip-from:], t.shown[p.at+skip:p.at+p.to-p.from])
		if p.at == 0 && p.from > from {
			t.before.apply(&out[start+p.from-1-from])
		}
		if p.at+p.to-p.from == len(t.hidden) && p.to < len(all) {
			t.after.apply(&out[start+p.to-from])
		}
	}
	return out
}

// find returns the parts in all that count and end after an index.
func (f *finder) find(all []byte, from int, counts func(part) bool) (found []part) {
	for i := 0; i+gramSize <= len(all); i += gramSize {
		g := binary.LittleEndian.Uint32(all[i:])
		if h := hash(g); f.bits[h/64]&(1<<(h%64)) == 0 {
			continue
		}
		at, ok := f.first[g]
		for ; ok && at < len(f.grams) && f.grams[at].bytes == g; at++ {
			if p := f.extend(all, i, f.grams[at]); p.to > from && counts(p) {
				found = append(found, p)
			}
		}
	}
	return found
}

// extend returns the longest part around a gram.
func (f *finder) extend(all []byte, i int, at gram) part {
	t := f.texts[at.text].hidden
	from, to := 0, gramSize
	for i+from > 0 && at.at+from > 0 && all[i+from-1] == t[at.at+from-1] {
		from--
	}
	for i+to < len(all) && at.at+to < len(t) && all[i+to] == t[at.at+to] {
		to++
	}
	return part{i + from, i + to, at.text, at.at + from}
}

// counts reports whether a part has enough of the secret. Words that the user chose as a
// part of a secret do not: answers have them for other reasons.
func (f *finder) counts(p part) bool {
	if !f.isEnough(p) {
		return false
	}
	t := f.texts[p.text]
	from, to := max(p.at, t.public), p.at+p.to-p.from
	if isWhole := to-from == len(t.hidden)-t.public; isWhole || !t.words || to-from >= 2*t.least {
		return true
	}
	piece := string(t.hidden[from:to])
	return strings.ContainsAny(piece, "0123456789") || strings.ToLower(piece) != piece && strings.ToUpper(piece) != piece
}

// isEnough reports whether a part has secretBits of the secret.
func (f *finder) isEnough(p part) bool {
	t := f.texts[p.text]
	return p.at+p.to-p.from-max(p.at, t.public) >= t.least
}

// addPublic adds the public prefix of a text.
func (f *finder) addPublic(t text) {
	const shortest = 3
	if t.public < shortest {
		return
	}
	new := public{t.hidden[:t.public], t.least - 1}
	if t.words {
		new.few = min(2*t.least, len(t.hidden)-t.public) - 1 // counts wants so many of a word
	}
	for i, p := range f.publics {
		if bytes.Equal(p.prefix, new.prefix) {
			f.publics[i].few = max(p.few, new.few)
			return
		}
	}
	f.publics = append(f.publics, new)
}

// held returns how many bytes at the end may be the beginning of a secret: they follow its
// public prefix, and are too few to tell.
func (f *finder) held(all []byte) int {
	most := 0
	for _, p := range f.publics {
		window := all[max(0, len(all)-len(p.prefix)-p.few):]
		at := bytes.LastIndex(window, p.prefix)
		if at < 0 {
			continue
		}
		if rest := window[at+len(p.prefix):]; !bytes.ContainsFunc(rest, endsWord) {
			most = max(most, len(rest))
		}
	}
	return most
}

func endsWord(r rune) bool { return r <= ' ' && r != 0 || r == '"' }

// hideText returns a text without the secret.
func (f *finder) hideText(text string) string { return string(f.hide(nil, []byte(text), 0)) }
