package scan

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// rulesFrom names the source of the rules. Their license is in rules.LICENSE.
const rulesFrom = "gitleaks v8.30.1"

//go:embed rules.json
var rulesJSON []byte

// ownJSON are rules of ours, for what gitleaks has none: secrets in addresses, in .netrc,
// in XML and in JSON Web Keys, and some more tokens that are known by their looks.
//
//go:embed own.json
var ownJSON []byte

// rulesVersion changes when any rule changes.
var rulesVersion = sync.OnceValue(func() string {
	h := sha256.New()
	h.Write(rulesJSON)
	h.Write(ownJSON)
	return hex.EncodeToString(h.Sum(nil)[:8])
})

// A rule describes one kind of secret, as gitleaks does.
type rule struct {
	ID       string   `json:"id"`
	Path     string   `json:"path"`     // pattern of the files it applies to; empty: all
	Regex    string   `json:"regex"`    // empty: the path itself is the finding
	Group    int      `json:"group"`    // group with the secret; 0: the first that is not empty
	Entropy  float64  `json:"entropy"`  // minimum entropy of the secret
	Keywords []string `json:"keywords"` // one of them must be in the text
	At       bool     `json:"at"`       // a match begins at a keyword, except the name before it
	Near     bool     `json:"near"`     // a match contains a keyword
	Allow    []allow  `json:"allow"`

	given       bool // a match is the value of a name that contains a keyword
	path, regex func() *regexp.Regexp
}

// An allow describes what looks like a secret and is none.
type allow struct {
	All     bool     `json:"all"`    // every part must match; otherwise one is enough
	Target  string   `json:"target"` // what the expressions apply to: match, line, or the secret
	Paths   []string `json:"paths"`
	Regexes []string `json:"regexes"`
	Words   []string `json:"words"` // in the secret

	paths, regexes func() *regexp.Regexp
}

// A rulebook holds all rules, ready to use. A regular expression is compiled when it is
// first needed: compiling all takes longer than starting golem.
type rulebook struct {
	Allow []allow `json:"allow"`
	Rules []*rule `json:"rules"`

	values   []allow // the parts of Allow about secrets, not paths
	keywords *keywords
	by       [][]*rule // rules by keyword
	named    []*rule   // rules for which the path itself is the finding
}

var book = sync.OnceValue(func() *rulebook {
	var b rulebook
	var own rulebook
	if err := errors.Join(json.Unmarshal(rulesJSON, &b), json.Unmarshal(ownJSON, &own)); err != nil {
		panic(err) // a test parses them
	}
	b.Rules = append(b.Rules, own.Rules...)
	late(b.Allow)
	for _, a := range b.Allow {
		a.paths = nil
		b.values = append(b.values, a)
	}
	number := map[string]int{}
	var words []string
	for _, r := range b.Rules {
		r.given = r.At && strings.Contains(r.Regex, assignment) && !strings.Contains(r.Regex, `|\b(`)
		r.path, r.regex = lateRegexp(r.Path), lateRegexp(r.expression())
		if !r.generic() {
			// A secret with a known form is a secret in every file.
			r.Allow = slices.DeleteFunc(r.Allow, func(a allow) bool { return len(a.Paths) > 0 })
		}
		late(r.Allow)
		if r.Regex == "" {
			b.named = append(b.named, r)
			continue
		}
		for _, k := range r.Keywords {
			i, ok := number[k]
			if !ok {
				i = len(words)
				number[k] = i
				words = append(words, k)
				b.by = append(b.by, nil)
			}
			b.by[i] = append(b.by[i], r)
		}
	}
	b.keywords = newKeywords(words)
	return &b
})

// anyName is the part of a rule that matches the name before the keyword.
const anyName = `[\w.-]{0,50}?`

// expression returns the regular expression that is used. If a match begins at a keyword,
// it is tried only there, with the letter before. That takes a hundredth of the time.
func (r *rule) expression() string {
	if !r.At {
		return r.Regex
	}
	return `\A(?s:.)(?:` + strings.ReplaceAll(r.Regex, anyName, "") + `)`
}

// late prepares lists, so that their expressions are compiled on first use.
func late(all []allow) {
	for i := range all {
		a := &all[i]
		a.paths, a.regexes = lateRegexp(a.Paths...), lateRegexp(a.Regexes...)
	}
}

// lateRegexp returns a function that compiles the alternatives on its first call, or nil
// if there are none.
func lateRegexp(any ...string) func() *regexp.Regexp {
	if len(any) == 0 || any[0] == "" {
		return nil
	}
	return sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile("(?:" + strings.Join(any, ")|(?:") + ")")
	})
}

// aboutPath reports whether a list allows a whole file by its path.
func (a *allow) aboutPath(path string) bool {
	return a.paths != nil && a.paths().MatchString(path) && (!a.All || a.regexes == nil && len(a.Words) == 0)
}

// about reports whether a list allows a secret.
func (a *allow) about(path string, secret, match, line string) bool {
	target := secret
	switch a.Target {
	case "match":
		target = match
	case "line":
		target = line
	}
	var parts []bool
	if a.paths != nil {
		parts = append(parts, a.paths().MatchString(path))
	}
	if a.regexes != nil {
		parts = append(parts, a.regexes().MatchString(target))
	}
	if len(a.Words) > 0 {
		parts = append(parts, a.word(secret))
	}
	for _, yes := range parts {
		if yes != a.All {
			return yes
		}
	}
	return a.All
}

func (a *allow) word(secret string) bool {
	secret = strings.ToLower(secret)
	for _, w := range a.Words {
		if strings.Contains(secret, strings.ToLower(w)) {
			return true
		}
	}
	return false
}
