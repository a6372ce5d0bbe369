package worker

import (
	"slices"
	"strconv"
	"strings"

	"github.com/golem-forge/golem/internal/conf"
	"github.com/golem-forge/golem/sandbox"
)

// text returns the text of a key, "" where there is none.
func text(n conf.Node, key string) string {
	value, _ := n.At(key)
	return value.Text
}

// flag returns whether a key is true.
func flag(n conf.Node, key string) bool {
	value, _ := n.At(key)
	return value.Bool()
}

// shown returns a text as it may stand in a problem.
func shown(s string) string {
	if s == "" || strings.TrimSpace(s) != s {
		return strconv.Quote(sandbox.Shown(s))
	}
	return sandbox.Shown(s)
}

// without returns a map without a key.
func without(n conf.Node, key string) conf.Node {
	n.Fields = slices.DeleteFunc(slices.Clone(n.Fields), func(f conf.Field) bool { return f.Key.Text == key })
	return n
}
