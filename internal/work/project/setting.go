package project

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// A Setting is a value from a flag or the environment, in the form of the file.
type Setting struct {
	Keys  []string // "delegation", "max_depth"
	Value strictyaml.Node
}

// ParseSet reads a setting such as "delegation.max_depth=3". The value is written as in
// the file and has the type of the key. Its place names the source. The error is a
// strictyaml.Problems.
func ParseSet(source, text string) (Setting, error) {
	at := strictyaml.Node{Place: strictyaml.Place{Source: source}}
	var problems strictyaml.Problems
	name, value, found := strings.Cut(text, "=")
	if !found {
		problems.Add(at, quote(text)+" has no value", "write key=value, such as delegation.max_depth=3")
		return Setting{}, problems.Err()
	}
	keys := strings.Split(name, ".")
	key, what, hint := lookUp(keys)
	if what != "" {
		problems.Add(at, what, hint)
		return Setting{}, problems.Err()
	}
	node, problems := parseValue(key, source, value)
	if len(problems) == 0 {
		node, _ = key.Respell(node)
		key.Check(node, &problems)
	}
	if len(problems) > 0 {
		return Setting{}, problems.Err()
	}
	return Setting{keys, node}, nil
}

// parseValue reads the value of a key. It takes a text literally, even if YAML would read
// ~, *.md or # differently, so that nobody has to quote twice for a shell. It removes
// quotes only if they surround the whole value.
func parseValue(key strictyaml.Key, source, value string) (strictyaml.Node, strictyaml.Problems) {
	node, problems := strictyaml.ParseValue(source, value)
	quotes := len(problems) == 0 && node.Quoted && len(value) > 1 && strings.ContainsRune(`"'`, rune(value[0])) && value[0] == value[len(value)-1]
	if key.Type == strictyaml.Text && !quotes && utf8.ValidString(value) {
		return strictyaml.Node{Place: strictyaml.Place{Source: source}, Kind: strictyaml.Scalar, Text: value, Quoted: true}, nil
	}
	return node, problems
}

// lookUp returns the key of the schema at a path, with its full name, or what is wrong
// with the path. It spells the path as the schema does.
func lookUp(path []string) (key strictyaml.Key, what, hint string) {
	key = Schema()
	for i, name := range path {
		where := strings.Join(path[:i], ".")
		switch key.Type {
		case strictyaml.Groups:
			return key, sandbox.Shown(where) + " is a list", "set all of it, such as " + where + "=" + key.Example
		case strictyaml.Named:
			if why := checkName(name); why != "" {
				return key, sandbox.Shown(where) + ": " + quote(name) + " is no name; " + why, "write " + where + ".NAME.KEY=value"
			}
			key.Type = strictyaml.Group
			continue
		case strictyaml.Group:
		default:
			return key, sandbox.Shown(where) + " has no keys of its own", "set it, such as " + where + "=" + key.Example
		}
		known := keyNames(key.Keys)
		j := slices.Index(known, name)
		if other := strictyaml.SnakeCase(name); j < 0 && strings.Contains(other, "_") {
			j = slices.Index(known, other)
		}
		if j < 0 {
			return key, unknownKey(name, where), suggest(name, known)
		}
		key = key.Keys[j]
		path[i] = key.Name
	}
	key.Name = strings.Join(path, ".")
	return key, "", ""
}

func unknownKey(name, where string) string {
	what := "unknown key " + quote(name)
	if where != "" {
		what += " in " + sandbox.Shown(where)
	}
	return what
}

// quote returns a text in quotes, safe to print.
func quote(text string) string {
	if shown := sandbox.Shown(text); strings.HasPrefix(shown, `"`) {
		return shown
	}
	return strconv.Quote(sandbox.Shown(text))
}

// suggest returns the hint for an unknown word.
func suggest(word string, known []string) string {
	hint := "known here: " + strings.Join(known, ", ")
	if near := sandbox.Nearest(word, known); len(near) > 0 {
		hint = "did you mean " + near[0] + "? " + hint
	}
	return hint
}

func keyNames(keys []strictyaml.Key) []string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.Name
	}
	return names
}

// LookupEnv returns the value of an environment variable. The last one with the name counts.
func LookupEnv(environment []string, name string) (value string, ok bool) {
	for _, one := range environment {
		if n, v, _ := strings.Cut(one, "="); n == name {
			value, ok = v, true
		}
	}
	return value, ok
}
