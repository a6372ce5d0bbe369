package audit

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/records/secret"
)

// redacted replaces a secret.
const redacted = "⟨redacted⟩"

// minSecret is the length of the shortest value that the redactor searches for. Shorter
// values occur in many words, unless they mix digits and letters as codes do. Values
// shorter than minCode are never searched.
const (
	minSecret = 6
	minCode   = 4
)

// minFold is the length from which a value is also found in capitals, and from which a
// line of a longer value is searched by itself.
const minFold = 8

// A redactor removes secrets from texts: given values in any common encoding, and
// anything that looks like a well-known credential.
type redactor struct {
	exact  []string // values that are too short for a search without case
	folded []string // longer values and their encodings, in lower case
	base64 []string // parts of every base64 text that contains a value
}

func newRedactor(secrets []string) *redactor {
	r := &redactor{}
	for _, s := range secrets {
		r.add(s)
		r.add(strings.TrimSpace(s))
		for line := range strings.Lines(s) {
			// The first and last lines of a key in PEM are no secret.
			if line = strings.TrimSpace(line); len(line) >= minFold && !strings.HasPrefix(line, "-----") {
				r.add(line)
			}
		}
	}
	for _, list := range []*[]string{&r.exact, &r.folded, &r.base64} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return r
}

// tellable reports whether a value is rare enough to search for.
func tellable(s string) bool {
	return len(s) >= minSecret || len(s) >= minCode && strings.ContainsAny(s, digits) && strings.ContainsAny(strings.ToLower(s), letters)
}

const (
	digits  = "0123456789"
	letters = "abcdefghijklmnopqrstuvwxyz"
)

// add adds a value and its encodings.
func (r *redactor) add(s string) {
	if !tellable(s) {
		return
	}
	escaped, _ := json.Marshal(s)
	plain, _ := plainJSON(s)
	clean := path.Clean(s)
	for _, form := range []string{
		s, string(escaped[1 : len(escaped)-1]), string(plain[1 : len(plain)-1]),
		url.QueryEscape(s), url.PathEscape(s), hex.EncodeToString([]byte(s)), regexp.QuoteMeta(s),
		clean, strings.Trim(s, "/"), strings.Trim(clean, "/"),
	} {
		switch {
		case !tellable(form):
		case len(form) >= minFold:
			r.folded = append(r.folded, fold(form))
		default:
			r.exact = append(r.exact, form)
		}
	}
	// The bytes before a value shift its base64 by zero, one or two bytes. The characters
	// at both ends depend on the neighbours.
	for shift := range 3 {
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := enc.EncodeToString(append(make([]byte, shift), s...))
			r.base64 = append(r.base64, text[(shift*8+5)/6:(shift+len(s))*8/6])
		}
	}
}

// fold returns a text with the letters A-Z in lower case, at the same offsets.
func fold(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// A span is a part of a text.
type span = secret.Span

// redact returns a text without secrets.
func (r *redactor) redact(s string) string {
	if len(s) < minCode {
		return s
	}
	var spans []span
	for _, e := range r.exact {
		spans = findAll(spans, s, e)
	}
	if len(r.folded) > 0 {
		lower := fold(s)
		for _, e := range r.folded {
			spans = findAll(spans, lower, e)
		}
	}
	for _, e := range r.base64 {
		spans = findAll64(spans, s, e)
	}
	spans = secret.AppendSpans(spans, s)
	if spans == nil {
		return s
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.From, b.From) })
	var b strings.Builder
	at := 0
	for i, p := range spans {
		// Merge parts that overlap or touch.
		if i == 0 || p.From > at {
			b.WriteString(s[at:p.From])
			b.WriteString(redacted)
		}
		at = max(at, p.To)
	}
	b.WriteString(s[at:])
	return b.String()
}

// findAll adds every occurrence of a value, overlapping ones too.
func findAll(spans []span, s, value string) []span {
	for at := 0; ; {
		i := strings.Index(s[at:], value)
		if i < 0 {
			return spans
		}
		spans = append(spans, span{From: at + i, To: at + i + len(value)})
		at += i + 1
	}
}

// findAll64 is findAll for a part of a base64 text; it adds the whole base64 text.
func findAll64(spans []span, s, value string) []span {
	for at := 0; ; {
		i := strings.Index(s[at:], value)
		if i < 0 {
			return spans
		}
		p := span{From: at + i, To: at + i + len(value)}
		for p.From > at && isBase64(s[p.From-1]) {
			p.From--
		}
		for p.To < len(s) && isBase64(s[p.To]) {
			p.To++
		}
		spans = append(spans, p)
		at = p.To
	}
}

func isBase64(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("+/-_=", c) >= 0
}
