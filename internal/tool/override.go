package tool

import (
	"slices"
	"strings"
	"unicode"

	"github.com/golem-forge/golem/sandbox"
)

// ParseOverrides reads what the user lets pass although a scanner holds it back: PATH=REASON
// each. It returns the names that are meant, as held knows them. Where a name has a = in
// it too, the longest that is held is meant.
func ParseOverrides(op string, list []string, held func(name string) bool) (map[string]bool, error) {
	given := make(map[string]bool)
	for _, one := range list {
		name, reason := "", ""
		for i := range len(one) {
			if one[i] != '=' {
				continue
			}
			if held(one[:i]) || held("/"+strings.TrimPrefix(one[:i], "/")) || name == "" {
				name, reason = one[:i], one[i+1:]
			}
		}
		if name == "" || !isReason(reason) {
			return nil, &sandbox.Error{Op: op, Code: errArgs, Hint: "override: PATH=REASON; in place of REASON say why it may pass; the journal keeps it"}
		}
		if !held(name) {
			name = "/" + strings.TrimPrefix(name, "/")
		}
		if !held(name) {
			return nil, &sandbox.Error{Op: op, Path: name, Code: errArgs, Hint: "no scanner holds it back; take the override away"}
		}
		given[name] = true
	}
	return given, nil
}

// isReason reports whether a text says something: it has letters, and is not the word that
// stands for a reason in a hint.
func isReason(text string) bool {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	words = slices.DeleteFunc(words, func(w string) bool { return slices.Contains([]string{"reason", "path", "your", "the"}, w) })
	return strings.ContainsFunc(strings.Join(words, ""), unicode.IsLetter)
}

// OverrideFlag returns the words by which a user lets a file pass, to be given to a shell.
func OverrideFlag(name string) string {
	return "--override '" + strings.ReplaceAll(sandbox.Shown(name), "'", `'\''`) + "=REASON'"
}
