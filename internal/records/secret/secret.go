// Package secret recognizes credentials by their form, and variables that hold credentials by
// their names. The journal and the errors of models use it to leave secrets out. Hiding a
// text that is no secret does no harm there. The scanners in package clearance/scan have a larger
// table of their own, from gitleaks, because what they find holds results back.
package secret

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

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

// IsName reports whether a value with this name is a secret, as in password=….
func IsName(name string) bool {
	if len(name) < len("pwd") {
		return false
	}
	lower := strings.ToLower(name)
	return hinted(lower, nameHints) && secretNames().MatchString(name)
}

var nameHints = append([]string{"authorization", "cookie"}, wordHints...)

var wordHints = []string{"pass", "pwd", "secret", "token", "key", "credential"}

// IsVariable reports whether an environment variable of this name probably holds a
// secret. If in doubt, it returns true; a variable with a path is no secret. golem calls
// it for every variable at every start, so it uses no regular expressions.
func IsVariable(name string) bool {
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
// the table of the test of package audit.
var patterns = []pattern{
	// Anthropic, OpenAI and vendors with the same form. Many names end in "sk-".
	{hints: []string{"sk-"}, match: late(`sk-(?:ant|proj|svcacct|admin|or-v1)-[A-Za-z0-9_-]{16,}|\bsk-[A-Za-z0-9]{20,}`), sure: random},
	{hints: []string{"gh", "github_pat_"}, match: late(`gh[a-z]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}`)},
	{hints: []string{"glpat-"}, match: late(`glpat-[A-Za-z0-9_.-]{16,}`)},
	{hints: []string{"a3t", "akia", "asia", "abia", "acca"}, match: late(`A(?:3T[A-Z0-9]|KIA|SIA|BIA|CCA)[A-Z0-9]{16,}`)},                   // Amazon
	{hints: []string{"aiza", "ya29.", "gocspx-"}, match: late(`AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}`)}, // Google
	{hints: []string{"xox", "xapp-"}, match: late(`(?:xox[a-z]|xapp)-[A-Za-z0-9-]{10,}`)},                                                   // Slack
	{hints: []string{"hooks.slack.com"}, match: late(`hooks\.slack\.com/services/(\S+)`), group: 1},
	{hints: []string{"k_live_", "k_test_", "k_prod_", "whsec_"}, match: late(`[srp]k_(?:live|test|prod)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{16,}`)}, // Stripe
	{hints: []string{"npm_", "pypi-", "hf_"}, match: late(`npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{50,}|hf_[A-Za-z0-9]{30,}`)},
	{hints: []string{"eyj"}, match: late(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)*`)}, // JSON Web Token
	{hints: []string{"private key"}, match: late(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?:.*-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|.*)`)},
	{hints: tokenPrefixes, match: sync.OnceValue(compileTokens), sure: random},
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

// A Span is a part of a text.
type Span struct{ From, To int }

// AppendSpans adds the parts of a text that look like a credential.
func AppendSpans(spans []Span, s string) []Span {
	found := hintTable().find(strings.ToLower(s))
	for i := 0; found != 0; i, found = i+1, found>>1 {
		if found&1 == 0 {
			continue
		}
		p := &patterns[i]
		for _, m := range p.match().FindAllStringSubmatchIndex(s, -1) {
			from, to := m[2*p.group], m[2*p.group+1]
			if p.sure == nil || p.sure(s[from:to]) {
				spans = append(spans, Span{from, to})
			}
		}
	}
	return spans
}

// A table finds the hints of all patterns in one pass.
type table struct {
	pairs [256]uint64 // the first two bytes of hints: for each first byte, one bit for four second bytes
	hints [256][]hint // by their first byte
}

type hint struct {
	text    string
	pattern int
}

var hintTable = sync.OnceValue(func() *table {
	var t table
	for i, p := range patterns {
		for _, h := range p.hints {
			t.pairs[h[0]] |= 1 << (h[1] % 64)
			t.hints[h[0]] = append(t.hints[h[0]], hint{h, i})
		}
	}
	return &t
})

// find returns the patterns whose hints are in a text, one bit for each.
func (t *table) find(lower string) (found uint64) {
	for i := 1; i < len(lower); i++ {
		if t.pairs[lower[i-1]]&(1<<(lower[i]%64)) == 0 {
			continue
		}
		for _, h := range t.hints[lower[i-1]] {
			if strings.HasPrefix(lower[i-1:], h.text) {
				found |= 1 << h.pattern
			}
		}
	}
	return found
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

// modelKeys matches words that begin like a key for a model. Servers repeat a part of a
// key in their errors, with stars for the rest, so a few characters are enough.
var modelKeys = late(`\b(sk-|AIza)[\w*-]{4,}`)

// HideModelKeys returns a text with a mask in place of keys for models.
func HideModelKeys(text, mask string) string {
	return modelKeys().ReplaceAllLiteralString(text, mask)
}
