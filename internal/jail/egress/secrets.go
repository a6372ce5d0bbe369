package egress

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"slices"
	"strings"
	"sync"

	known "github.com/golem-forge/golem/internal/records/secret"
)

// A Credential is a secret that golem adds to requests.
type Credential struct {
	Value string
	// Header is the header that carries it: "Authorization: Bearer ${value}". ${basic:USER}
	// stands for USER, a colon and the value, as HTTP's Basic authentication encodes them.
	Header string
	// Placeholder stands for the value in programs. If it is empty, the network makes one.
	Placeholder string
	// Renew returns the value for the next request: Value, or a newer one. If it is nil, Value
	// stays valid.
	Renew func() (string, error)
	// Plain lets the value leave without TLS: the user named an address that begins with
	// http://.
	Plain bool
}

// Prepare returns a credential with a placeholder, or what is wrong with the credential.
// The error has no part of the value.
func Prepare(c Credential) (Credential, error) {
	s, err := newSecret("", c)
	if err != nil {
		return c, err
	}
	c.Placeholder = s.placeholder
	return c, nil
}

// NewPlaceholder returns a text of the same shape and length as a secret, without meaning.
func NewPlaceholder(value string) (string, error) { return makePlaceholder(value) }

// A secret is a credential with its placeholder.
type secret struct {
	name        string // of the credential
	header      string // the name of the header
	full        string // its value
	value       string
	placeholder string
	plain       bool           // it may leave without TLS
	finder      func() *finder // finds the value in answers
	folded      func() *finder // the same in lower case, for names of headers

	template string // of the header
	source   func() (string, error)
	mu       sync.Mutex
	newer    []*secret // later values of the credential, the newest last
}

// maxOld is how many values of a credential golem hides: hosts may repeat an old one.
const maxOld = 5

// renew returns the secret with the value for a request.
func (s *secret) renew() (*secret, error) {
	if s == nil || s.source == nil {
		return s, nil
	}
	value, err := s.source()
	if err != nil {
		return nil, refusal("the credential " + s.name + ": " + err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s
	if len(s.newer) > 0 {
		last = s.newer[len(s.newer)-1]
	}
	if last.value == value {
		return last, nil
	}
	next, err := newSecret(s.name, Credential{Value: value, Header: s.template, Placeholder: s.placeholder, Plain: s.plain})
	if err != nil {
		return nil, refusal("the credential " + s.name + ": " + err.Error())
	}
	s.newer = append(s.newer[max(0, len(s.newer)+1-maxOld):len(s.newer):len(s.newer)], next)
	return next, nil
}

// all returns the secret with all values that golem hides, the newest first: an older one
// may have a part of it.
func (s *secret) all() []*secret {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := append([]*secret{s}, s.newer...)
	slices.Reverse(list)
	return list
}

type secrets map[string]*secret

// minSecret is the shortest secret that golem can distinguish from other text in an answer.
const minSecret = 8

func newSecrets(all map[string]Credential) (secrets, error) {
	list := secrets{}
	for name, c := range all {
		s, err := newSecret(name, c)
		if err != nil {
			return nil, fmt.Errorf("credential %s: %w", name, err)
		}
		list[name] = s
	}
	return list, nil
}

func newSecret(name string, c Credential) (*secret, error) {
	header, template, ok := strings.Cut(c.Header, ":")
	template = strings.TrimSpace(template)
	switch {
	case !ok || strings.Trim(strings.ToLower(header), "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" || header == "":
		return nil, errors.New(`header: not a header; write one such as "Authorization: Bearer ${value}"`)
	case len(c.Value) < minSecret:
		return nil, fmt.Errorf("its value is shorter than %d characters", minSecret)
	case strings.ContainsFunc(c.Value+template, func(r rune) bool { return r < ' ' || r >= 0x7f }):
		return nil, errors.New("its value has a character that is not plain ASCII; check for a line end")
	}
	s := &secret{name: name, header: header, value: c.Value, plain: c.Plain, template: c.Header, source: c.Renew}
	var err error
	if s.placeholder = c.Placeholder; len(s.placeholder) != len(c.Value) {
		if s.placeholder, err = makePlaceholder(c.Value); err != nil {
			return nil, err
		}
	}
	s.finder = sync.OnceValue(func() *finder { return newFinder(s.value, s.placeholder) })
	s.folded = sync.OnceValue(func() *finder {
		public := len(known.PublicPrefix(s.value))
		return newFinder(lower(s.value), lower(s.value[:public])+strings.Repeat("*", len(s.value)-public))
	})
	used := false
	s.full = os.Expand(template, func(variable string) string {
		if variable == "value" {
			used = true
			return s.value
		}
		user, isBasic := strings.CutPrefix(variable, "basic:")
		if !isBasic {
			err = errors.New("header: no such variable: ${" + variable + "}; there are ${value} and ${basic:USER}")
			return ""
		}
		used = true
		return base64.StdEncoding.EncodeToString([]byte(user + ":" + s.value))
	})
	if err == nil && !used {
		err = errors.New("header: write ${value} where the value goes")
	}
	return s, err
}

// Placeholder returns the text that stands for a credential inside: it has the same shape
// and length, and no meaning.
func (n *Network) Placeholder(credential string) (string, bool) {
	s, ok := n.secrets[credential]
	if !ok {
		return "", false
	}
	return s.placeholder, true
}

// makePlaceholder returns a text of the same length that a client takes for such a secret.
// It keeps only a prefix that all secrets of the kind have ("sk-ant-", "ghp_"). The rest is
// random, from the same set of characters, and ends in "placeholder" if there is room. A
// JSON Web Token stays one that clients can read, without its texts and its signature.
func makePlaceholder(value string) (string, error) {
	const word, letters = "placeholder", 16
	if strings.Trim(value, "-_. ") == "" {
		return "", errors.New("its value has no letters and digits")
	}
	keep := len(known.PublicPrefix(value))
	alphabet := alphabetOf(value[keep:])
	for {
		text := maskClaims(value, keep)
		for i := keep; i < len(text); i++ {
			if isUUID(value[keep:]) && text[i] == '-' {
				continue
			}
			n, err := rand.Int(rand.Reader, big.NewInt(int64(len(alphabet))))
			if err != nil {
				return "", err
			}
			text[i] = alphabet[n.Int64()]
		}
		if len(text)-keep >= letters+len(word) && strings.Contains(alphabet, word[:1]) {
			copy(text[len(text)-len(word):], word)
		}
		// A placeholder that begins like the secret would let one character more of it pass at
		// the end of an answer: see finder.held.
		if string(text) != value && (keep == len(value) || len(alphabet) == 1 || text[keep] != value[keep]) {
			return string(text), nil
		}
	}
}

// maskClaims returns a secret. If it is a JSON Web Token, its first two parts keep only the
// names, the algorithm and the times: clients check when a token ends.
func maskClaims(value string, public int) []byte {
	parts := strings.Split(value, ".")
	if len(parts) != 3 || public != len(parts[0])+len(parts[1])+2 {
		return []byte(value)
	}
	for i, part := range parts[:2] {
		raw, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil || !json.Valid(raw) {
			parts[i] = strings.Repeat("x", len(part))
			continue
		}
		parts[i] = base64.RawURLEncoding.EncodeToString(maskJSON(raw))
	}
	return []byte(strings.Join(parts, "."))
}

// maskJSON returns a document of the same length without its texts and numbers.
func maskJSON(document []byte) []byte {
	masked, key := bytes.Clone(document), ""
	for i := 0; i < len(masked); i++ {
		isPublic := slices.Contains([]string{"alg", "typ", "exp", "iat", "nbf", "auth_time"}, key)
		switch c := masked[i]; {
		case c == '"':
			end := i + 1
			for ; masked[end] != '"'; end++ {
				if masked[end] == '\\' {
					end++
				}
			}
			if bytes.HasPrefix(bytes.TrimLeft(masked[end+1:], " \t\r\n"), []byte(":")) {
				key = string(masked[i+1 : end])
			} else if !isPublic {
				copy(masked[i+1:end], bytes.Repeat([]byte("x"), end-i-1))
			}
			i = end
		case c >= '0' && c <= '9' && !isPublic:
			masked[i] = '1'
		}
	}
	return masked
}

// alphabetOf returns the letters and digits that a placeholder for a text may have, so that
// clients which check the form of a key accept it. The order of the text's own kinds of
// characters has no influence.
func alphabetOf(text string) string {
	const digits, lower, upper = "0123456789", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for _, alphabet := range []string{digits, digits + lower[:6], digits + upper[:6], digits + lower, digits + upper} {
		if strings.Trim(text, alphabet+"-_.") == "" {
			return alphabet
		}
	}
	return digits + lower + upper
}

// isUUID reports whether a text has the form of a UUID, whose hyphens are public.
func isUUID(text string) bool {
	groups := strings.Split(text, "-")
	if len(text) != 36 || len(groups) != 5 {
		return false
	}
	for i, size := range []int{8, 4, 4, 4, 12} {
		if len(groups[i]) != size || strings.Trim(groups[i], "0123456789abcdefABCDEF") != "" {
			return false
		}
	}
	return true
}

// carries reports whether a header has the placeholder, as it is or in Basic
// authentication.
func (s *secret) carries(value string) bool {
	if strings.Contains(value, s.placeholder) {
		return true
	}
	for field := range strings.FieldsSeq(value) {
		if plain, err := base64.StdEncoding.DecodeString(field); err == nil && strings.Contains(string(plain), s.placeholder) {
			return true
		}
	}
	return false
}
