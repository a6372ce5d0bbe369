package replay

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/people/visible"
)

// shown is how many characters of a value an error has.
const shown = 80

// difference describes the first difference of two JSON values.
func difference(recorded, now json.RawMessage) string {
	var a, b any
	if json.Unmarshal(recorded, &a) != nil || json.Unmarshal(now, &b) != nil {
		return "one of them is no JSON"
	}
	path, was, is, _ := first("", a, b)
	return fmt.Sprintf("%s was %s, and is %s", visible.Line(path, shown), was, is)
}

// first returns the path of the first difference, and both values.
func first(path string, a, b any) (where, was, is string, differ bool) {
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			keys := slices.Sorted(maps.Keys(x))
			for key := range y {
				if _, ok := x[key]; !ok {
					keys = append(keys, key)
				}
			}
			slices.Sort(keys)
			for _, key := range keys {
				p := key
				if path != "" {
					p = path + "." + key
				}
				if where, was, is, differ := first(p, x[key], y[key]); differ {
					return where, was, is, true
				}
			}
			return "", "", "", false
		}
	case []any:
		if y, ok := b.([]any); ok {
			for i := range max(len(x), len(y)) {
				var l, r any
				if i < len(x) {
					l = x[i]
				}
				if i < len(y) {
					r = y[i]
				}
				if where, was, is, differ := first(fmt.Sprintf("%s[%d]", path, i), l, r); differ {
					return where, was, is, true
				}
			}
			return "", "", "", false
		}
	case string:
		if y, ok := b.(string); ok && x != y {
			return path, around(x, y), around(y, x), true
		}
	}
	l, _ := json.Marshal(a)
	r, _ := json.Marshal(b)
	if string(l) == string(r) {
		return "", "", "", false
	}
	return path, value(l), value(r), true
}

func value(text []byte) string {
	if string(text) == "null" {
		return "not there"
	}
	return visible.Line(string(text), shown)
}

// around returns the part of a text around the first difference from another.
func around(text, other string) string {
	const before = 20
	at := 0
	for at < len(text) && at < len(other) && text[at] == other[at] {
		at++
	}
	for at = max(0, at-before); at > 0 && !utf8.RuneStart(text[at]); at-- {
	}
	lead := ""
	if at > 0 {
		lead = "…"
	}
	return `"` + lead + visible.Line(text[at:], shown) + `"`
}
