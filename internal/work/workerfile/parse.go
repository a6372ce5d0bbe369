//go:build !js

package workerfile

import (
	"bytes"
	"slices"
	"strings"

	"github.com/golem-forge/golem/internal/work/strictyaml"
)

// parsesWithKey reports whether a YAML file has a key of workers at its top.
func parsesWithKey(content []byte) bool {
	node, _ := strictyaml.Parse("", bytes.TrimPrefix(content, []byte("\ufeff")))
	return slices.ContainsFunc(node.Fields, func(f strictyaml.Field) bool {
		return slices.Contains(strings.Split(ownKeys, "|"), f.Key.Text)
	})
}
