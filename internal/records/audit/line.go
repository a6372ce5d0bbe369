package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf16"
)

// The layout of a line. The middle, between its number and its hashes, does not depend on
// the record's position.
const (
	numberText = `{"n":`
	timeText   = `,"time":"`
	kindText   = `","kind":"`
	callText   = `","call":"`
	prevText   = `,"prev":"`
	sealText   = `,"seal":"`
	endText    = `"}`

	hexSize  = 2 * sumSize
	sealSize = len(sealText) + hexSize + len(endText) // the part after the sealed part
	prevSize = len(prevText) + hexSize + len(`"`)     // the end of the sealed part
)

// middle encodes a record without its number and hashes, in the order of its fields. It
// writes the same bytes as encode, but faster, because every call has two records.
func middle(r Record) (b []byte, err error) {
	b = append(make([]byte, 0, 512), timeText...)
	b = r.Time.AppendFormat(b, time.RFC3339Nano)
	b = append(append(append(b, kindText...), r.Kind...), '"')
	text := func(name, value string) {
		if value != "" {
			b = appendText(append(b, name...), value)
		}
	}
	list := func(name string, values []string) {
		for i, value := range values {
			if i == 0 {
				b = append(b, name...)
			} else {
				b = append(b, ',')
			}
			b = appendText(b, value)
		}
		if len(values) > 0 {
			b = append(b, ']')
		}
	}
	text(`,"call":`, r.Call)
	text(`,"session":`, r.Session)
	text(`,"origin":`, r.Origin)
	list(`,"workers":[`, r.Workers)
	text(`,"tool":`, r.Tool)
	if len(r.Args) > 0 {
		args, err := encode(r.Args)
		if err != nil {
			return nil, err
		}
		b = append(append(b, `,"args":`...), args...)
	}
	list(`,"effects":[`, r.Effects)
	text(`,"decision":`, r.Decision)
	text(`,"by":`, r.By)
	text(`,"seen":`, r.Seen)
	text(`,"front":`, r.Front)
	list(`,"shown":[`, r.Shown)
	text(`,"text":`, r.Text)
	text(`,"digest":`, r.Digest)
	text(`,"request":`, r.Request)
	text(`,"code":`, r.Code)
	text(`,"note":`, r.Note)
	if r.Files != nil {
		files, err := encode(r.Files)
		if err != nil {
			return nil, err
		}
		b = append(append(b, `,"files":`...), files...)
	}
	return b, nil
}

// appendText appends a text as encode writes it.
func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			data, _ := encode(text) // a string can always be encoded
			return append(b, data...)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}

// encode returns v as JSON on one line. It keeps &, < and >, and escapes everything that
// is not printable ASCII. So a line passes any terminal or log unchanged, and an export
// has exactly the bytes of the chain.
func encode(v any) ([]byte, error) {
	data, err := plainJSON(v)
	return ascii(data), err
}

// plainJSON returns v as JSON on one line, with other scripts unescaped.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes()[:b.Len()-1], nil
}

// ascii escapes every character of JSON that is not ASCII. They occur only in strings.
func ascii(data []byte) []byte {
	if bytes.IndexFunc(data, func(r rune) bool { return r >= 0x7f }) < 0 {
		return data
	}
	var out []byte
	for _, r := range string(data) {
		switch {
		case r < 0x7f:
			out = append(out, byte(r))
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// appendLine appends the line of a record after another one to dst, and returns its link.
func (s *sealer) appendLine(dst, middle []byte, after link) ([]byte, link) {
	start := len(dst)
	dst = append(dst, numberText...)
	dst = strconv.AppendUint(dst, after.number+1, 10)
	dst = append(dst, middle...)
	dst = append(dst, prevText...)
	dst = hex.AppendEncode(dst, after.hash[:])
	dst = append(dst, '"')
	seal := s.seal(dst[start:])
	dst = append(dst, sealText...)
	dst = hex.AppendEncode(dst, seal[:])
	dst = append(dst, endText...)
	return dst, link{after.number + 1, sha256.Sum256(dst[start:])}
}

// A place is the position in the chain that a line claims.
type place struct {
	link
	prev   sum
	sealed bool // the line has this package's layout and a valid seal
}

// place reads the position of a line. For an unsealed line, only the hash is set.
func (s *sealer) place(line []byte) place {
	p, ok := claim(line)
	if !ok {
		return p
	}
	cut := len(line) - sealSize
	seal := s.seal(line[:cut])
	var want [sealSize]byte
	copy(want[:], sealText)
	hex.Encode(want[len(sealText):], seal[:])
	copy(want[len(sealText)+hexSize:], endText)
	if !bytes.Equal(line[cut:], want[:]) {
		return place{link: link{hash: p.hash}}
	}
	p.sealed = true
	return p
}

// claim reads the position of a line without a look at its seal. For a line without this
// package's layout, only the hash is set.
func claim(line []byte) (p place, ok bool) {
	p = place{link: link{hash: sha256.Sum256(line)}}
	cut := len(line) - sealSize
	if cut < prevSize {
		return p, false
	}
	prev, okPrev := bytes.CutPrefix(line[cut-prevSize:cut], []byte(prevText))
	number, okNumber := bytes.CutPrefix(line[:cut], []byte(numberText))
	if !okPrev || !okNumber {
		return p, false
	}
	number, _, _ = bytes.Cut(number, []byte(","))
	n, err := strconv.ParseUint(string(number), 10, 64)
	if err != nil {
		return p, false
	}
	before := sum{}
	if _, err := hex.Decode(before[:], prev[:hexSize]); err != nil {
		return p, false
	}
	p.number, p.prev = n, before
	return p, true
}

// follows reports whether the line comes right after another one.
func (p place) follows(l link) bool { return p.sealed && p.number == l.number+1 && p.prev == l.hash }

// kindOf returns the kind of a sealed line, and bytes that identify its call: the members
// call and session as they are written.
func kindOf(line []byte) (kind Kind, call []byte) {
	// Neither the time nor a kind has quotes or escapes.
	_, rest, _ := bytes.Cut(line, []byte(kindText))
	k, _, _ := bytes.Cut(rest, []byte(`"`))
	rest, ok := bytes.CutPrefix(rest[len(k):], []byte(callText))
	if !ok {
		return Kind(k), nil
	}
	end := stringEnd(rest)
	if session, ok := bytes.CutPrefix(rest[end:], []byte(`","session":"`)); ok {
		end = len(rest) - len(session) + stringEnd(session)
	}
	return Kind(k), rest[:end]
}

// timeOf returns the time of a line, if it is in the layout of this package.
func timeOf(line []byte) (time.Time, bool) {
	rest, ok := bytes.CutPrefix(line, []byte(numberText))
	rest = bytes.TrimLeft(rest, "0123456789")
	rest, okTime := bytes.CutPrefix(rest, []byte(timeText))
	text, _, _ := bytes.Cut(rest, []byte(`"`))
	t, err := time.Parse(time.RFC3339Nano, string(text))
	return t, ok && okTime && err == nil
}

// stringEnd returns the end of a JSON string whose beginning is cut off.
func stringEnd(s []byte) int {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(s)
}
