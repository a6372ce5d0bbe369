package project

import (
	"slices"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// SetConfig returns the text of the user's configuration with another value of a key. It
// changes one line, or adds one. It knows the keys at the top that have one value. The error
// is a strictyaml.Problems, as for ParseConfig.
func SetConfig(file string, data []byte, home string, tools []string, key, value string) ([]byte, error) {
	wrong := func(what, hint string) ([]byte, error) {
		return nil, strictyaml.Problems{{Place: strictyaml.Place{Source: file}, What: what, Hint: hint}}
	}
	var names []string
	for _, k := range ConfigSchema().Keys {
		if slices.Contains([]strictyaml.Type{strictyaml.Text, strictyaml.Word, strictyaml.Bool, strictyaml.Whole, strictyaml.Money}, k.Type) {
			names = append(names, k.Name)
		}
	}
	if !slices.Contains(names, key) {
		hint := "golem config set knows " + strings.Join(names, ", ") + "; golem config edit --user changes the others"
		if near := sandbox.Nearest(key, names); len(near) > 0 {
			hint = "did you mean golem config set " + near[0] + " " + sandbox.Shown(value) + "? " + hint
		}
		return wrong("no key "+sandbox.Shown(key)+" with one value", hint)
	}
	if strings.ContainsAny(value, "\r\n") || value == "" {
		return wrong(key+": no value", "a value is one line: golem config set "+key+" VALUE")
	}
	tree, problems := strictyaml.Parse(file, data)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	line := key + ": " + plainScalar(value)
	lines := strings.SplitAfter(string(data), "\n")
	at := slices.IndexFunc(tree.Fields, func(f strictyaml.Field) bool { return f.Key.Text == key })
	switch {
	case at >= 0:
		f := tree.Fields[at]
		if f.Key.Place.Col != 1 || f.Value.Place.Line != f.Key.Place.Line || at+1 < len(tree.Fields) && tree.Fields[at+1].Key.Place.Line == f.Key.Place.Line {
			return wrong(key+" is not on a line of its own", "change it with golem config edit --user")
		}
		lines[f.Key.Place.Line-1] = line + "\n"
	case len(tree.Fields) > 0 && tree.Fields[0].Key.Place.Col != 1:
		return wrong("the keys are not on lines of their own", "change it with golem config edit --user")
	default:
		if last := len(lines) - 1; lines[last] != "" {
			lines[last] += "\n"
		}
		lines = append(lines, line+"\n")
	}
	text := []byte(strings.Join(lines, ""))
	_, err := ParseConfig(file, text, home, tools)
	return text, err
}

// plainScalar returns a value as YAML, with quotes only if it needs them.
func plainScalar(value string) string {
	tree, problems := strictyaml.Parse("", []byte("a: "+value+"\n"))
	if n, _ := tree.At("a"); len(problems) == 0 && n.Kind == strictyaml.Scalar && n.Text == value {
		return value
	}
	return strconv.Quote(value)
}
