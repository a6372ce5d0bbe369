package worker

import (
	"slices"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// textOf returns the text of a key, "" if it is missing.
func textOf(n strictyaml.Node, key string) string {
	value, _ := n.At(key)
	return value.Text
}

// isTrue reports whether a key is true.
func isTrue(n strictyaml.Node, key string) bool {
	value, _ := n.At(key)
	return value.Bool()
}

// shown returns a text that is safe to print in a problem.
func shown(s string) string {
	if s == "" || strings.TrimSpace(s) != s {
		return strconv.Quote(sandbox.Shown(s))
	}
	return sandbox.Shown(s)
}

// removeKey returns a map without a key.
func removeKey(n strictyaml.Node, key string) strictyaml.Node {
	n.Fields = slices.DeleteFunc(slices.Clone(n.Fields), func(f strictyaml.Field) bool { return f.Key.Text == key })
	return n
}
