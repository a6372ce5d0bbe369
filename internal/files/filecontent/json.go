package filecontent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/golem-forge/golem/sandbox"
)

// CheckJSON returns an error if a JSON text from outside is ambiguous. Every answer and
// every argument passes it before it is decoded.
//
// It refuses a key that occurs twice in one object. Decoders differ in which of the two
// they use, so the value that was shown might not be the one that counts. It refuses
// bytes that are not UTF-8, and an escape that is half of a surrogate pair. The decoder
// would replace them by U+FFFD, so the call would have another name or content than the
// caller wrote. It does not check that the text is JSON.
func CheckJSON(text []byte) error {
	if !utf8.Valid(text) {
		return errors.New("not UTF-8")
	}
	if err := checkEscapes(text); err != nil {
		return err
	}
	return checkKeys(text)
}

// checkKeys refuses a key that occurs twice in one object, however it is escaped.
func checkKeys(text []byte) error {
	var stack []*object // nil for a list
	for at := 0; at < len(text); at++ {
		switch text[at] {
		case '{':
			stack = append(stack, &object{next: true})
		case '[':
			stack = append(stack, nil)
		case '}', ']':
			stack = stack[:max(0, len(stack)-1)]
		case ',', ':':
			if n := len(stack); n > 0 && stack[n-1] != nil {
				stack[n-1].next = text[at] == ','
			}
		case '"':
			end := at + 1
			for end < len(text) && text[end] != '"' {
				if text[end] == '\\' {
					end++
				}
				end++
			}
			if end >= len(text) {
				return nil // not JSON
			}
			if n := len(stack); n > 0 && stack[n-1] != nil && stack[n-1].next {
				if key, twice := stack[n-1].add(text[at : end+1]); twice {
					return fmt.Errorf("%s appears twice", sandbox.Shown(key))
				}
			}
			at = end
		}
	}
	return nil
}

// An object holds the keys read so far of one JSON object.
type object struct {
	next bool // a key comes next
	few  []string
	many map[string]bool // used in place of few from the ninth key on
}

// add adds a key, given as a JSON string, and reports whether it was there already.
func (o *object) add(quoted []byte) (key string, twice bool) {
	key = string(quoted[1 : len(quoted)-1])
	if bytes.IndexByte(quoted, '\\') >= 0 && json.Unmarshal(quoted, &key) != nil {
		return "", false // not JSON
	}
	if o.many[key] || o.many == nil && slices.Contains(o.few, key) {
		return key, true
	}
	switch {
	case o.many != nil:
		o.many[key] = true
	case len(o.few) < 8:
		o.few = append(o.few, key)
	default:
		o.many = map[string]bool{key: true}
		for _, k := range o.few {
			o.many[k] = true
		}
	}
	return key, false
}

// checkEscapes refuses an escape that is half of a surrogate pair.
func checkEscapes(text []byte) error {
	for at := 0; ; {
		next := bytes.IndexByte(text[at:], '\\')
		if next < 0 {
			return nil
		}
		at += next
		unit, ok := parseEscape(text[at:])
		switch {
		case !ok:
			at += 2 // another escape
		case unit < 0xd800 || unit > 0xdfff:
			at += 6
		default:
			low, pair := parseEscape(text[min(at+6, len(text)):])
			if unit > 0xdbff || !pair || low < 0xdc00 || low > 0xdfff {
				return fmt.Errorf("%s is half of a character: write both halves, or the character itself", text[at:at+6])
			}
			at += 12
		}
		if at >= len(text) {
			return nil
		}
	}
}

// parseEscape returns the code unit of an escape like \u00e9 at the start of a text.
func parseEscape(text []byte) (unit uint64, ok bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return unit, err == nil
}
