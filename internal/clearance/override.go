package clearance

import (
	"slices"
	"strings"
	"unicode"

	"github.com/golem-forge/golem/sandbox"
)

// ParseOverrides parses the overrides of the user, each as PATH=REASON, for files that a
// scanner holds back. It returns the names, as held knows them. If a name contains a =,
// the longest name that is held back counts.
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
			return nil, &sandbox.Error{Op: op, Code: "invalid_args", Hint: "override: it is PATH=REASON; write why the file may pass; the journal records the reason"}
		}
		if !held(name) {
			name = "/" + strings.TrimPrefix(name, "/")
		}
		if !held(name) {
			return nil, &sandbox.Error{Op: op, Path: name, Code: "invalid_args", Hint: "no scanner holds it back; remove the override"}
		}
		given[name] = true
	}
	return given, nil
}

// isReason reports whether a text can be a reason: it has letters, and is more than the
// placeholder from the hint.
func isReason(text string) bool {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	words = slices.DeleteFunc(words, func(w string) bool { return slices.Contains([]string{"reason", "path", "your", "the"}, w) })
	return strings.ContainsFunc(strings.Join(words, ""), unicode.IsLetter)
}

// OverrideFlag returns the flag for a shell that overrides a scanner for a file.
func OverrideFlag(name string) string {
	return "--override '" + strings.ReplaceAll(sandbox.Shown(name), "'", `'\''`) + "=REASON'"
}
