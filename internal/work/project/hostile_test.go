package project_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestHostile reads files that try to be misread or to block the reader.
func TestHostile(t *testing.T) {
	w := newWorld(t)
	laughs := "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 30; i++ {
		laughs += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), ", "))
	}
	many := func(format string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for _, test := range []struct{ name, yaml, want string }{
		{"billion laughs", laughs, "p.yaml:1:5: an anchor"},
		{"an anchor", "sandbox: &a {root: .}", "p.yaml:1:10: an anchor"},
		{"an alias", "model: &a x\napproval: {mode: *a}", "p.yaml:2:18: an alias"},
		{"a merge key", "sandbox:\n  <<: {network: true}\n  root: .", "p.yaml:2:3: a merge key"},
		{"a tag", "model: !!str x", "p.yaml:1:8: a tag"},
		{"a tag that makes things", "model: !!python/object/apply:os.system [id]", "p.yaml:1:8: a tag"},
		{"a key twice", "sandbox:\n  network: false\n  root: .\n  network: true", `p.yaml:4:3: "network" twice, first in line 2`},
		{"a key twice, quoted", "model: a\n\"model\": b", `p.yaml:2:1: "model" twice, first in line 1`},
		{"a second document", "model: a\n---\nmodel: b", "a second document"},
		{"a tab", "sandbox:\n\troot: .", "not YAML"},
		{"not UTF-8", "model: \xff", "not UTF-8"},
		{"NUL", "model: \x00", "not YAML"},
		{"deep lists", "model: " + strings.Repeat("[", 5000), "nested too deep"},
		{"deep maps", "sandbox: " + strings.Repeat("{a: ", 100) + strings.Repeat("}", 100), "nested too deep"},
		{"a long text", "model: " + strings.Repeat("x", 300<<10), "a value of 307200 bytes"},
		{"a long file", strings.Repeat("# comment\n", 200<<10), "a file may have 1048576"},
		{"unknown keys without end", many("k%d: 1\n", 20000), "unknown key"},
		{"zones without end", "sandbox:\n  zones:\n" + many("    z%d: {path: z}\n", 20000), "p.yaml:3:5: a map of 20000 entries; at most 1000"},
		{"mounts without end", "sandbox:\n  mounts:\n" + many("    - {source: in, target: /t%d}\n", 20000), "p.yaml:3:5: a list of 20000 entries; at most 1000"},
		{"paths without end", "sandbox:\n  paths:\n" + many("    z%d: {root: z}\n", 20000), "a map of 20000 entries; at most 1000"},
		{"targets without end", "clearance:\n  targets:\n" + many("    t%d: {type: local, path: .}\n", 20000), "a map of 20000 entries; at most 1000"},
		{"workers without end", "workerPaths: [" + many("w%d, ", 100000) + "]", "a list of 100000 entries; at most 1000"},
		{"protect without end", "sandbox: {protect: [" + many("w%d, ", 100000) + "]}", "a list of 100000 entries; at most 1000"},
		{"more zones than a sandbox has", "sandbox:\n  zones:\n" + many("    z%d: {path: z}\n", 101), "p.yaml:3:5: sandbox.zones: 101 directories; a sandbox has at most 100"},
		{"more paths than a sandbox has", "sandbox:\n  paths:\n" + many("    z%d: {root: z}\n", 101), "p.yaml:3:5: sandbox.paths: 101 directories; a sandbox has at most 100"},
		{"more mounts than a sandbox has", "sandbox:\n  root: .\n  mounts:\n" + many("    - {source: in, target: /t%d}\n", 100), "p.yaml:4:5: sandbox.mounts: 101 directories; a sandbox has at most 100"},
		{"unknown keys cut short", many("k%d: 1\n", 1000), "too many problems; fix those above first"},
		{"control characters without end", "workerPaths: [" + many("\"\\0%d\", ", 1000) + "]", "too many problems; fix those above first"},
		{"escapes", "sandbox: {zones: {\"a\\e[2J\": {path: x}}}", `a control character in "a\x1b[2J"`},
		{"a key that is a list", "? [a]\n: b", "a key is one word"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := w.parse(test.yaml)
			if err == nil {
				t.Fatal("it loads")
			}
			if text := err.Error(); !strings.Contains(text, test.want) {
				t.Errorf("got %.500s\nwant %s", text, test.want)
			} else if strings.ContainsAny(text, "\x1b\x00") {
				t.Errorf("an escape is shown raw: %q", text)
			} else if strings.Count(text, "\n") > 99 {
				t.Errorf("%d lines", strings.Count(text, "\n"))
			}
		})
	}
}
