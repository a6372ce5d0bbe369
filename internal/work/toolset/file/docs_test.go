package file_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/work/toolset/file"
)

const (
	docs     = "../../../../docs/tools.md"
	tableTop = "<!-- every tool, from its schema: go test ./internal/work/toolset/file -run TestDocs -update -->\n"
	tableEnd = "<!-- end of tools -->\n"
)

// TestDocs checks that docs/tools.md lists every tool according to its schema.
func TestDocs(t *testing.T) { testutil.GoldenPart(t, docs, tableTop, tableEnd, table()) }

// table returns a row for each listed tool with its arguments, its effects and its
// description. A ? marks an optional argument.
func table() string {
	text := "\n| tool | arguments | effects | what it does |\n|---|---|---|---|\n"
	for _, tool := range file.Tools() {
		if tool.Unlisted {
			continue
		}
		s := tool.Schema()
		names := slices.Clone(s.Required)
		for name := range s.Properties {
			if !slices.Contains(s.Required, name) {
				names = append(names, name+"?")
			}
		}
		slices.SortStableFunc(names[len(s.Required):], strings.Compare)
		var effects []string
		for _, v := range tool.Verbs {
			effects = append(effects, v.String())
		}
		text += "| `" + tool.Name + "` | `" + strings.Join(names, "`, `") + "` | " + strings.Join(effects, ", ") + " | " + tool.Description + " |\n"
	}
	return text + "\n"
}
