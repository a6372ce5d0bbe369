package audit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/records/secret"
)

// Limits of a record. They also hold for the encoded line: it has at most maxBytes plus
// the few bytes of the notes about what was cut.
const (
	maxText  = 1 << 10  // bytes of one text; the middle is cut
	maxLong  = 16 << 10 // bytes of a text; a longer one is dropped, and only that is cut in a command
	maxList  = 64       // workers, effects
	maxNodes = 256      // values in the arguments
	maxDepth = 8
	maxBytes = 56 << 10
)

// record returns a record that may be written: its texts have no secrets and limited
// lengths.
func (r *redactor) record(rec Record) Record {
	k := &keeper{redactor: r, left: maxBytes, nodes: maxNodes}
	for _, text := range []*string{
		&rec.Call, &rec.Session, &rec.Origin, &rec.Tool, &rec.Decision, &rec.By,
		&rec.Seen, &rec.Front, &rec.Text, &rec.Digest, &rec.Request, &rec.Code, &rec.Note,
	} {
		*text = k.text(*text)
	}
	rec.Workers = k.list(rec.Workers)
	rec.Effects = k.list(rec.Effects)
	rec.Shown = k.list(rec.Shown)
	if rec.Args != nil {
		rec.Args, _ = k.value(rec.Args, 0).(map[string]any)
	}
	rec.Files = k.files(rec.Files)
	return rec
}

// A keeper decides what one record keeps.
type keeper struct {
	*redactor
	left  int // remaining bytes of encoded text
	nodes int
	whole bool // keep texts up to maxLong
}

// text returns a text without secrets and within the limits.
func (k *keeper) text(s string) string {
	if s == "" {
		return ""
	}
	if len(s) > maxLong {
		s = fmt.Sprintf("⟨%d bytes⟩", len(s))
	} else if s = k.redact(s); !k.whole {
		s = shorten(s)
	}
	n := encodedLen(s)
	if n > k.left {
		return "⟨cut⟩"
	}
	k.left -= n
	return s
}

// shorten cuts the middle of a text that is too long, between characters.
func shorten(s string) string {
	if len(s) <= maxText {
		return s
	}
	head, tail := maxText/2, len(s)-maxText/2
	for head > maxText/2-utf8.UTFMax && !utf8.RuneStart(s[head]) {
		head--
	}
	for tail < len(s)-maxText/2+utf8.UTFMax && !utf8.RuneStart(s[tail]) {
		tail++
	}
	return fmt.Sprintf("%s⟨%d bytes cut⟩%s", s[:head], tail-head, s[tail:])
}

// encodedLen returns at least the number of bytes that a text has as JSON, in which
// everything except printable ASCII is escaped.
func encodedLen(s string) int {
	n := len(`"",`)
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			n += 2
		case r > 0xffff:
			n += len(`\u0000\u0000`)
		case r < ' ' || r >= 0x7f:
			n += len(`\u0000`)
		default:
			n++
		}
	}
	return n
}

// list returns the first members of a list, and how many more there were.
func (k *keeper) list(texts []string) []string {
	more := 0
	if len(texts) > maxList {
		more = len(texts) - (maxList - 1)
		texts = texts[:maxList-1]
	}
	kept := make([]string, 0, len(texts)+1)
	for _, t := range texts {
		kept = append(kept, k.text(t))
	}
	if more > 0 {
		kept = append(kept, fmt.Sprintf("⟨and %d more⟩", more))
	}
	return kept
}

// value returns an argument without secrets and within the limits.
func (k *keeper) value(v any, depth int) any {
	if k.nodes--; k.nodes < 0 || depth > maxDepth {
		return "⟨cut⟩"
	}
	switch v := v.(type) {
	case nil, bool:
		return v
	case string:
		return k.text(v)
	case []byte:
		return fmt.Sprintf("⟨%d bytes⟩", len(v))
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64, json.Number:
		return k.number(v)
	case []any:
		kept := make([]any, 0, min(len(v), maxNodes))
		for i, e := range v {
			word, isWord := e.(string)
			isWord = isWord && k.whole // the words of a command are limited by their size
			if k.nodes <= 0 || isWord && encodedLen(word) > k.left {
				return append(kept, fmt.Sprintf("⟨and %d more⟩", len(v)-i))
			}
			if isWord {
				kept = append(kept, k.text(word))
				continue
			}
			kept = append(kept, k.value(e, depth+1))
		}
		return kept
	case map[string]any:
		return k.members(v, depth)
	}
	return k.other(v, depth)
}

// members returns a map without secrets and within the limits. A text under a name like
// password is a secret, whatever it looks like.
func (k *keeper) members(m map[string]any, depth int) map[string]any {
	kept := make(map[string]any, min(len(m), maxNodes))
	for i, name := range slices.Sorted(maps.Keys(m)) {
		if k.nodes <= 0 {
			kept["⟨more⟩"] = len(m) - i
			break
		}
		v := m[name]
		if s, ok := v.(string); ok && s != "" && len(name) <= maxText && secret.IsName(name) {
			v = redacted
		}
		as := k.text(name)
		k.whole = depth == 0 && name == "command"
		for n := 2; kept[as] != nil; n++ {
			as = fmt.Sprintf("%s %d", strings.TrimSuffix(as, fmt.Sprint(" ", n-1)), n)
		}
		kept[as] = k.value(v, depth+1)
		k.whole = false
	}
	return kept
}

// number returns a number unchanged, unless its digits are a secret or JSON cannot encode
// it.
func (k *keeper) number(v any) any {
	digits, err := json.Marshal(v)
	if err != nil {
		return k.text(fmt.Sprint(v))
	}
	if s := string(digits); len(s) > maxText || k.redact(s) != s {
		return k.text(s)
	}
	k.left -= len(digits)
	return v
}

// other returns a value of any other type as JSON encodes it.
func (k *keeper) other(v any, depth int) any {
	data, err := json.Marshal(v)
	var plain any
	if err == nil {
		err = json.Unmarshal(data, &plain)
	}
	if err != nil {
		return fmt.Sprintf("⟨a %T⟩", v)
	}
	return k.value(plain, depth)
}
