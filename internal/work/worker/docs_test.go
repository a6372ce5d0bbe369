package worker_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/internal/work/worker"
)

const (
	docs     = "../../../docs/workers.md"
	tableTop = "<!-- every key, from worker.Schema: go test ./internal/work/worker -run TestDocs -update -->\n"
	tableEnd = "<!-- end of keys -->\n"
)

// TestDocs compares the tables of docs/workers.md with the schema.
func TestDocs(t *testing.T) { testutil.GoldenPart(t, docs, tableTop, tableEnd, table()) }

// table returns a table of the top keys, and one for each of them that has keys.
func table() string {
	const heads = "| key | type | default | meaning | example |\n|---|---|---|---|---|\n"
	top := "\n" + heads
	below := ""
	for _, p := range places() {
		if len(p.above) == 0 {
			top += row(p)
			if len(p.key.Keys) > 0 {
				below += "\n### " + p.key.Name + "\n\n" + heads
			}
			continue
		}
		below += row(p)
	}
	return top + below + "\n"
}

func row(p place) string {
	value := code(p.key.Default)
	if value == "" {
		value = "–"
	}
	line := "| `" + p.String() + "` |"
	for _, cell := range []string{typeOf(p.key), value, p.key.Doc, code(p.key.Name + ": " + p.key.Example)} {
		line += " " + strings.ReplaceAll(cell, "|", `\|`) + " |"
	}
	return line + "\n"
}

// code formats a value as code, unless it is prose with code in it.
func code(s string) string {
	if s == "" || strings.Contains(s, "`") || strings.HasPrefix(s, "the ") {
		return s
	}
	return "`" + s + "`"
}

func typeOf(k strictyaml.Key) string {
	kinds := []string{}
	for _, word := range k.Words {
		kinds = append(kinds, "`"+word+"`")
	}
	if k.Type != strictyaml.Word {
		kinds = append(kinds, string(k.Type))
	}
	for _, or := range k.Or {
		kinds = append(kinds, typeOf(or))
	}
	return strings.Join(kinds, " | ")
}

var block = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestDocsExamples parses the files in docs/workers.md.
func TestDocsExamples(t *testing.T) {
	data, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	blocks := block.FindAllStringSubmatch(string(data), -1)
	if len(blocks) < 5 {
		t.Fatalf("got %d examples in %s", len(blocks), docs)
	}
	for _, b := range blocks {
		if _, err := worker.Parse("example.worker", []byte(b[1])); err != nil {
			t.Errorf("%v\n%s", err, b[1])
		}
	}
}
