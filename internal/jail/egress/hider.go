package egress

import (
	"bytes"
	"encoding/json"
	"strings"

	known "github.com/golem-forge/golem/internal/records/secret"
)

// A Hider hides secrets in answers that golem itself gets, as the network of a jail does in
// answers to commands: whole or cut, and in the encodings that hosts use.
type Hider struct {
	values  []string
	finders []*finder
}

// hiddenText stands in the place of a whole secret.
const hiddenText = "[a secret of the user's]"

// NewHider returns the hider of some secrets.
func NewHider(values []string) Hider {
	var h Hider
	for _, value := range values {
		if value == "" {
			continue
		}
		h.values = append(h.values, value)
		if len(value) >= minSecret {
			public := len(known.PublicPrefix(value))
			h.finders = append(h.finders, newFinder(value, string(maskClaims(value, public)[:public])+strings.Repeat("*", len(value)-public)))
		}
	}
	return h
}

// Text returns a text without the secrets.
func (h Hider) Text(text string) string {
	for _, value := range h.values {
		text = strings.ReplaceAll(text, value, hiddenText)
	}
	for _, f := range h.finders {
		text = f.hideText(text)
	}
	return text
}

// HideText returns a text without the credentials of the network. A caller that takes the
// text of an answer apart, and puts it together in another way, calls it with the outcome.
func (n *Network) HideText(text string) string {
	for _, s := range n.secrets {
		for _, one := range s.all() {
			text = one.finder().hideText(text)
		}
	}
	return text
}

// JSON returns a document without the secrets in its strings and names, however these are
// escaped.
func (h Hider) JSON(document json.RawMessage) json.RawMessage {
	if len(h.values) == 0 || len(document) == 0 {
		return document
	}
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return json.RawMessage(h.Text(string(document)))
	}
	isChanged := false
	value = h.walk(value, &isChanged)
	if !isChanged {
		return h.lists(document)
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(value) != nil {
		return json.RawMessage(h.Text(string(document)))
	}
	return h.lists(bytes.TrimSpace(b.Bytes()))
}

// lists hides the secrets in lists of numbers.
func (h Hider) lists(document json.RawMessage) json.RawMessage {
	hidden := json.RawMessage(h.Text(string(document)))
	if json.Valid(hidden) {
		return hidden
	}
	text, _ := json.Marshal(string(hidden)) // a string can always be encoded
	return text
}

func (h Hider) walk(value any, isChanged *bool) any {
	hide := func(text string) string {
		hidden := h.Text(text)
		*isChanged = *isChanged || hidden != text
		return hidden
	}
	switch v := value.(type) {
	case string:
		return hide(v)
	case json.Number:
		if hidden := hide(v.String()); hidden != v.String() {
			return hidden
		}
	case []any:
		for i := range v {
			v[i] = h.walk(v[i], isChanged)
		}
	case map[string]any:
		all := make(map[string]any, len(v))
		for name, one := range v {
			all[hide(name)] = h.walk(one, isChanged)
		}
		return all
	}
	return value
}
