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
	"sync"
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
type span struct{ from, to int }

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
	spans = credentials(spans, s)
	if spans == nil {
		return s
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var b strings.Builder
	at := 0
	for i, p := range spans {
		// Merge parts that overlap or touch.
		if i == 0 || p.from > at {
			b.WriteString(s[at:p.from])
			b.WriteString(redacted)
		}
		at = max(at, p.to)
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
		spans = append(spans, span{at + i, at + i + len(value)})
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
		p := span{at + i, at + i + len(value)}
		for p.from > at && isBase64(s[p.from-1]) {
			p.from--
		}
		for p.to < len(s) && isBase64(s[p.to]) {
			p.to++
		}
		spans = append(spans, p)
		at = p.to
	}
}

func isBase64(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("+/-_=", c) >= 0
}

// A pattern finds one kind of credential.
type pattern struct {
	hints []string // every match contains one of them, in lower case
	match func() *regexp.Regexp
	group int                     // the group that is secret; 0 for the whole match
	sure  func(match string) bool // a further check; may be nil
}

// secretWord matches the name of a secret.
const secretWord = `(?:pass(?:word|wd|phrase)|pwd|secret|token|api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|credential|credentials)`

var secretNames = late(`(?i)` + secretWord + `$|^(?:proxy-)?authorization$|^(?:set-)?cookie$`)

// secretName reports whether a value with this name is a secret.
func secretName(name string) bool {
	if len(name) < len("pwd") || len(name) > maxText {
		return false
	}
	lower := strings.ToLower(name)
	return hinted(lower, nameHints) && secretNames().MatchString(name)
}

var nameHints = append([]string{"authorization", "cookie"}, wordHints...)

var wordHints = []string{"pass", "pwd", "secret", "token", "key", "credential"}

// LooksSecret reports whether an environment variable of this name probably holds a
// secret, for [Options]. If in doubt, it returns true; a variable with a path is no
// secret. golem calls it for every variable at every start, so it uses no regular
// expressions.
func LooksSecret(name string) bool {
	lower := strings.ToLower(name)
	last := lower[strings.LastIndexByte(lower, '_')+1:]
	if lower == "pwd" || lower == "oldpwd" || slices.Contains(pathVariables, last) {
		return false
	}
	if hinted(lower, secretVariables) || strings.HasSuffix(lower, "pat") || strings.HasSuffix(lower, "pin") {
		return true
	}
	for _, rest, found := strings.Cut(lower, "auth"); found; _, rest, found = strings.Cut(rest, "auth") {
		if !strings.HasPrefix(rest, "or") || strings.HasPrefix(rest, "oris") || strings.HasPrefix(rest, "oriz") { // author and its like are no secrets
			return true
		}
	}
	return false
}

var (
	secretVariables = []string{"key", "token", "secret", "pass", "pwd", "credential", "cookie", "jwt", "bearer", "dsn", "pem", "otp",
		"seed", "mnemonic", "webhook", "connectionstring", "connection_string", "private"}
	pathVariables = []string{"path", "sock", "dir", "file", "home"}
)

// patterns are credentials with a known form. For a new kind, add a line here and one in
// the table of the test.
var patterns = []pattern{
	// Anthropic, OpenAI and vendors with the same form. Many names end in "sk-".
	{hints: []string{"sk-"}, match: late(`sk-(?:ant|proj|svcacct|admin|or-v1)-[A-Za-z0-9_-]{16,}|\bsk-[A-Za-z0-9]{20,}`), sure: random},
	{hints: []string{"gh", "github_pat_"}, match: late(`gh[a-z]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}`)},
	{hints: []string{"glpat-"}, match: late(`glpat-[A-Za-z0-9_.-]{16,}`)},
	{hints: []string{"akia", "asia"}, match: late(`A(?:KI|SI)A[A-Z0-9]{16,}`)},                                                              // Amazon
	{hints: []string{"aiza", "ya29.", "gocspx-"}, match: late(`AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}`)}, // Google
	{hints: []string{"xox", "xapp-"}, match: late(`(?:xox[a-z]|xapp)-[A-Za-z0-9-]{10,}`)},                                                   // Slack
	{hints: []string{"hooks.slack.com"}, match: late(`hooks\.slack\.com/services/(\S+)`), group: 1},
	{hints: []string{"k_live_", "k_test_", "whsec_"}, match: late(`[srp]k_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{16,}`)}, // Stripe
	{hints: []string{"npm_", "pypi-", "hf_"}, match: late(`npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{50,}|hf_[A-Za-z0-9]{30,}`)},
	{hints: []string{"eyj"}, match: late(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)*`)}, // JSON Web Token
	{hints: []string{"private key"}, match: late(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?:.*-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|.*)`)},
	{hints: []string{"age-secret-key-"}, match: late(`AGE-SECRET-KEY-1[A-Z0-9]{20,}`)},
	{hints: []string{"://"}, match: late(`://[^\s/?#:@]*:([^\s/?#]+)@`), group: 1},
	{hints: []string{"://"}, match: late(`://([^\s/?#:@]{20,})@`), group: 1},
	{hints: []string{"authorization"}, match: late(`(?i)authorization["']?\s*[:=]\s*["']?((?:(?:bearer|basic|token|digest|negotiate)\s+)?[^\s"']+)`), group: 1},
	{hints: []string{"bearer"}, match: late(`(?i)\bbearer\s+([A-Za-z0-9._~+/=-]{8,})`), group: 1},
	{hints: []string{"cookie"}, match: late(`(?i)cookie["']?\s*:\s*["']?([^\r\n"']+)`), group: 1},
	{hints: wordHints, match: late(`(?i)` + secretWord + `\\?["']?\s*(?:=>|:=|=|:)\s*("(?:[^"\\]|\\.)*"?|'[^']*'?|\\"[^"]*"?|[^\s"'&,;]+)`), group: 1},
	{hints: wordHints, match: late(`(?i)(?:^|\s)--?[a-z0-9-]*` + secretWord + `\s+("[^"]*"?|'[^']*'?|[^\s"'-][^\s"']*)`), group: 1},
}

// random reports whether a text has as many digits as random strings have. Names have
// fewer.
func random(s string) bool {
	n := 0
	for i := range len(s) {
		if s[i] >= '0' && s[i] <= '9' {
			n++
		}
	}
	return n >= 3 || n > 0 && strings.ToLower(s) != s
}

// credentials adds the parts of a text that look like a credential.
func credentials(spans []span, s string) []span {
	lower := strings.ToLower(s)
	if pairs := hintPairs(); !pairs.first.in(lower) || !pairs.last.in(lower) {
		return spans
	}
	for i := range patterns {
		p := &patterns[i]
		if !hinted(lower, p.hints) {
			continue
		}
		for _, m := range p.match().FindAllStringSubmatchIndex(s, -1) {
			from, to := m[2*p.group], m[2*p.group+1]
			if p.sure == nil || p.sure(s[from:to]) {
				spans = append(spans, span{from, to})
			}
		}
	}
	return spans
}

// pairs is a set of pairs of bytes: for each first byte, one bit for four second bytes.
type pairs [256]uint64

// hintPairs are the pairs with which hints begin and end. Most texts contain none of the
// first or none of the last, and need no closer look.
var hintPairs = sync.OnceValue(func() *struct{ first, last pairs } {
	var sets struct{ first, last pairs }
	for _, p := range patterns {
		for _, h := range p.hints {
			sets.first.add(h[0], h[1])
			sets.last.add(h[len(h)-2], h[len(h)-1])
		}
	}
	return &sets
})

func (p *pairs) add(a, b byte) { p[a] |= uint64(1) << (b % 64) }

// in reports whether a text may contain one of the pairs.
func (p *pairs) in(text string) bool {
	for i := 1; i < len(text); i++ {
		if p[text[i-1]]&(1<<(text[i]%64)) != 0 {
			return true
		}
	}
	return false
}

// hinted reports whether a text contains one of the hints.
func hinted(lower string, hints []string) bool {
	for _, h := range hints {
		if strings.Contains(lower, h) {
			return true
		}
	}
	return false
}

// late returns an expression that is compiled when it is first used. Most records need
// none.
func late(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
