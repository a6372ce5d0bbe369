package egress

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"math/big"
	"net/url"
	"os"
	"slices"
	"strings"
)

// A Credential is a secret that golem adds to requests.
type Credential struct {
	Value string
	// Header is the header that carries it: "Authorization: Bearer ${value}". ${basic:USER}
	// stands for USER, a colon and the value, as HTTP's Basic authentication encodes them.
	Header string
	// Placeholder stands for the value in programs. If it is empty, the network makes one.
	Placeholder string
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
	plain       bool // it may leave without TLS
	pairs       []pair
}

// A pair is a text that must not reach programs, and one of the same length that does.
type pair struct{ hidden, shown []byte }

type secrets map[string]*secret

// minSecret is the shortest secret that can be told from other text in an answer.
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
	s := &secret{name: name, header: header, value: c.Value, plain: c.Plain}
	var err error
	if s.placeholder = c.Placeholder; len(s.placeholder) != len(c.Value) {
		if s.placeholder, err = makePlaceholder(c.Value); err != nil {
			return nil, err
		}
	}
	for _, encode := range encodings {
		s.hide(encode(s.value), encode(s.placeholder))
	}
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
		encode := func(value string) string { return base64.StdEncoding.EncodeToString([]byte(user + ":" + value)) }
		s.hide(encode(s.value), encode(s.placeholder))
		return encode(s.value)
	})
	if err == nil && !used {
		err = errors.New("header: write ${value} where the value goes")
	}
	return s, err
}

// encodings are the forms in which a server may repeat a header that it got: as it is, in
// a URL, in JSON, in HTML, in base64 and in hex.
var encodings = []func(string) string{
	func(text string) string { return text },
	url.QueryEscape,
	url.PathEscape,
	func(text string) string { return strings.ReplaceAll(text, "/", `\/`) },
	func(text string) string { return strings.NewReplacer(`"`, `\"`, `\`, `\\`).Replace(text) },
	func(text string) string {
		return strings.NewReplacer(`"`, `\"`, `\`, `\\`, "<", `\u003c`, ">", `\u003e`, "&", `\u0026`).Replace(text)
	},
	html.EscapeString,
	func(text string) string { return base64.RawStdEncoding.EncodeToString([]byte(text)) },
	func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) },
	func(text string) string { return hex.EncodeToString([]byte(text)) },
	func(text string) string { return strings.ToUpper(hex.EncodeToString([]byte(text))) },
}

// hide makes a text one that answers must not have. A placeholder of another shape may
// have another length in some encodings; then letters x take its place.
func (s *secret) hide(hidden, shown string) {
	if slices.ContainsFunc(s.pairs, func(p pair) bool { return string(p.hidden) == hidden }) {
		return
	}
	if len(shown) != len(hidden) {
		shown = strings.Repeat("x", len(hidden))
	}
	s.pairs = append(s.pairs, pair{[]byte(hidden), []byte(shown)})
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

// makePlaceholder returns a text of the same shape. It keeps a prefix by which clients
// recognise keys ("sk-ant-", "ghp_"), and ends in "placeholder" if there is room. A JSON Web
// Token keeps its claims, which clients read, and loses its signature, without which nobody
// accepts it.
func makePlaceholder(value string) (string, error) {
	const word, letters = "placeholder", 16
	keep := strings.LastIndexAny(value[:min(len(value)/2, 16)], "-_") + 1
	if strings.HasPrefix(value, "eyJ") && strings.Count(value, ".") == 2 {
		keep = strings.LastIndexByte(value, '.') + 1
	}
	text := []byte(value)
	for i := keep; i < len(text); i++ {
		class := ""
		switch c := text[i]; {
		case c >= '0' && c <= '9':
			class = "0123456789"
		case c >= 'a' && c <= 'z':
			class = "abcdefghijklmnopqrstuvwxyz"
		case c >= 'A' && c <= 'Z':
			class = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
		default:
			continue
		}
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(class))))
		if err != nil {
			return "", err
		}
		text[i] = class[n.Int64()]
	}
	if len(text)-keep >= letters+len(word) {
		copy(text[len(text)-len(word):], word)
	}
	if string(text) == value {
		return "", errors.New("its value has too few letters and digits")
	}
	return string(text), nil
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
