package project_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/strictyaml"
)

const (
	docs  = "../../../docs/config.md"
	begin = "<!-- keys: made from the schema by go test ./internal/work/project -run Docs -update -->\n"
	end   = "<!-- end of keys -->\n"
)

// TestDocs compares the tables of docs/config.md with the schema.
func TestDocs(t *testing.T) { testutil.GoldenPart(t, docs, begin, end, keyTables()) }

// keyTables writes the schema as tables: one for each top key that has keys, and one for
// the others.
func keyTables() string {
	const heads = "| key | type | default | meaning | example |\n|---|---|---|---|---|\n"
	b := "\n" + heads
	for _, k := range project.Schema().Keys {
		b += row(k, k.Name)
	}
	for _, k := range project.Schema().Keys {
		if len(k.Keys) == 0 {
			continue
		}
		b += "\n### " + k.Name + "\n\n" + heads
		eachKey(k, []strictyaml.Key{k}, func(path []strictyaml.Key) {
			b += row(path[len(path)-1], fullName(path))
		})
	}
	return b + "\n"
}

// fullName writes the path to a key: a name for each entry of a named map, []
// for each of a list.
func fullName(path []strictyaml.Key) string {
	name := ""
	for i, k := range path {
		name += k.Name
		if i == len(path)-1 {
			break
		}
		name += map[strictyaml.Type]string{strictyaml.Named: ".NAME", strictyaml.Groups: "[]"}[k.Type] + "."
	}
	return name
}

func row(k strictyaml.Key, name string) string {
	value := "–"
	if k.Default != "" {
		value = "`" + k.Default + "`"
	}
	last := name[strings.LastIndex(name, ".")+1:]
	line := fmt.Sprintf("| `%s` | %s | %s | %s | `%s: %s` |", name, typeName(k), value, k.Doc, last, k.Example)
	return strings.ReplaceAll(line, "\n", " ") + "\n"
}

// typeName describes the type of a key, in the words of the page about worker files.
func typeName(k strictyaml.Key) string {
	var kinds []string
	for _, w := range k.Words {
		kinds = append(kinds, "`"+w+"`")
	}
	switch k.Type {
	case strictyaml.Word:
	case strictyaml.Count:
		kinds = append(kinds, "bytes: `5000`, `10MB`, `2GiB`")
	case strictyaml.Span:
		kinds = append(kinds, "time: `30s`, `1h30m`, seconds")
	case strictyaml.Free:
		kinds = append(kinds, "map of texts")
	default:
		kinds = append(kinds, string(k.Type))
	}
	for _, or := range k.Or {
		kinds = append(kinds, typeName(or))
	}
	return strings.Join(kinds, ` \| `)
}

// TestDocsExamples loads every piece of YAML in the pages about the project file.
func TestDocsExamples(t *testing.T) {
	for page, least := range map[string]int{docs: 5, "../../../docs/scanners.md": 1} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(t)
		blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
		if len(blocks) < least {
			t.Errorf("%s: only %d examples", page, len(blocks))
		}
		for _, b := range blocks {
			if _, err := w.parse(b[1]); err != nil {
				t.Errorf("%s\n%s\n%v", page, b[1], err)
			}
		}
	}
}
