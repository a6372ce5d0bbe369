package project_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/strictyaml"
)

func TestParseSet(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"model=openai:gpt-5", "model = openai:gpt-5"},
		{"model=a=b", "model = a=b"},
		{"model=*x", "model = *x"},
		{"model=a: b", "model = a: b"},
		{"model='quoted'", "model = quoted"},
		{`model="a # b"`, "model = a # b"},
		{"model=a # b", "model = a # b"},
		{"model='a' # b", "model = 'a' # b"},
		{"model=#", "model = #"},
		{"model= a ", "model =  a "},
		{"model=|\n  x", "model = |\n  x"},
		{"sandbox.root=./a #1", "sandbox root = ./a #1"},
		{"sandbox.root=~", "sandbox root = ~"},
		{"sandbox.readonly=true", "sandbox readonly = true"},
		{"delegation.maxDepth=3", "delegation max_depth = 3"},
		{"budget.cost=2.5", "budget cost = 2.5"},
		{"budget.time=5m", "budget time = 5m"},
		{"limits.memory=2GiB", "limits memory = 2GiB"},
		{"sandbox.network=[]", "sandbox network = []"},
		{"sandbox.network=true", "sandbox network = true"},
		{`workerPaths=["a", "b"]`, "worker_paths = [a b]"},
		{`sandbox.mounts=[{"source": "in", "target": "/in"}]`, "sandbox mounts = [{source:in target:/in}]"},
		{"sandbox.zones.data.mode=ro", "sandbox zones data mode = ro"},
		{"sandbox.zones.data={path: ./d, mode: ro}", "sandbox zones data = {path:./d mode:ro}"},
		{"sandbox={root: .}", "sandbox = {root:.}"},
	} {
		s, err := project.ParseSet("--set", test.text)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		if got := strings.Join(s.Keys, " ") + " = " + formatNode(s.Value); got != test.want {
			t.Errorf("%s: %s, want %s", test.text, got, test.want)
		}
		if s.Value.Place != (strictyaml.Place{Source: "--set"}) {
			t.Errorf("origin of %s: got %v", test.text, s.Value.Place)
		}
	}
}

// formatNode formats a node without quotes and places.
func formatNode(n strictyaml.Node) string {
	switch n.Kind {
	case strictyaml.Scalar:
		return n.Text
	case strictyaml.List:
		var items []string
		for _, item := range n.Items {
			items = append(items, formatNode(item))
		}
		return fmt.Sprint(items)
	}
	var fields []string
	for _, f := range n.Fields {
		fields = append(fields, f.Key.Text+":"+formatNode(f.Value))
	}
	return "{" + strings.Join(fields, " ") + "}"
}

func TestParseSetProblems(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"model", `--set: "model" has no value; write key=value, such as delegation.max_depth=3`},
		{"", `--set: "" has no value; write key=value, such as delegation.max_depth=3`},
		{"=x", `--set: unknown key "";…`},
		{"modle=x", `--set: unknown key "modle"; did you mean model?…`},
		{"delegation.maxdepht=1", `--set: unknown key "maxdepht" in delegation; did you mean max_depth?…`},
		{"sandbox.zones.data.mod=ro", `--set: unknown key "mod" in sandbox.zones.data; did you mean mode?…`},
		{"sandbox.zones..mode=ro", `--set: sandbox.zones: "" is no name; a name has 1 to 64 bytes; write sandbox.zones.NAME.KEY=value`},
		{"sandbox.zones.\x1b.mode=ro", `--set: sandbox.zones: "\x1b" is no name; a name has letters, digits and _, and after the first character also - and .; write sandbox.zones.NAME.KEY=value`},
		{"sandbox.mounts.0.mode=ro", "--set: sandbox.mounts is a list; set all of it, such as sandbox.mounts=[{source: ~/.npm, target: /cache, readonly: true}]"},
		{"model.name=x", "--set: model has no keys of its own; set it, such as model=anthropic:claude-sonnet-4-5"},
		{"delegation.maxDepth=x", "--set: delegation.max_depth: x; it is …"},
		{"delegation.maxDepth=-1", "--set: delegation.max_depth: -1; it is …"},
		{"delegation.maxDepth=1.5", "--set: delegation.max_depth: 1.5; it is …"},
		{"delegation.maxDepth=", `--set: delegation.max_depth: ""; it is …`},
		{"sandbox.readonly=yes", "--set: sandbox.readonly: yes; it is …"},
		{"sandbox.mode=RO", "--set: sandbox.mode: RO; it is …"},
		{"workerPaths=a", "--set: worker_paths: a; it is …"},
		{"workerPaths=[a", `--set: not YAML: …`},
		{"sandbox.mounts=[{sorce: in}]", `--set: unknown key "sorce" in sandbox.mounts; did you mean source?…`},
		{"sandbox={root: ., root: .}", `--set: "root" twice, first in line 1; keep one`},
		{"model=\xff", "--set: not UTF-8;…"},
	} {
		_, err := project.ParseSet("--set", test.text)
		if err == nil || !matchesLines(err.Error(), test.want) {
			t.Errorf("%q\ngot  %v\nwant %s", test.text, err, test.want)
		}
	}
}

// TestPrecedence checks that settings override the file, and later settings earlier ones.
func TestPrecedence(t *testing.T) {
	w := newWorld(t)
	const file = "delegation: {maxDepth: 7}\nsandbox:\n  zones:\n    data: {path: data, mode: ro}\nmodel: file"
	for _, test := range []struct {
		sets  []string
		want  string
		depth strictyaml.Place
	}{
		{nil, "7 file /data ro", strictyaml.Place{Source: "p.yaml", Line: 1, Col: 24}},
		{[]string{"delegation.maxDepth=2"}, "2 file /data ro", strictyaml.Place{Source: "--set"}},
		{[]string{"delegation.maxDepth=2", "model=flag", "delegation.maxDepth=3"}, "3 flag /data ro", strictyaml.Place{Source: "--set"}},
		{[]string{"sandbox.zones.data.mode=rw"}, "7 file /data rw", strictyaml.Place{Source: "p.yaml", Line: 1, Col: 24}},
		{[]string{"sandbox.zones.out.path=o"}, "7 file /data ro /out rw", strictyaml.Place{Source: "p.yaml", Line: 1, Col: 24}},
		{[]string{"sandbox={root: .}"}, "7 file / rw", strictyaml.Place{Source: "p.yaml", Line: 1, Col: 24}},
	} {
		p, err := w.parse(file, test.sets...)
		if err != nil {
			t.Errorf("%q: %v", test.sets, err)
			continue
		}
		got := fmt.Sprint(p.MaxDepth, " ", p.Model)
		for _, m := range p.Mounts {
			got += " " + m.Target + " " + m.Mode
		}
		if got != test.want {
			t.Errorf("%q: %s, want %s", test.sets, got, test.want)
		}
		if from := findValue(p, "delegation.max_depth").From; from != test.depth {
			t.Errorf("%q: depth comes from %v, want %v", test.sets, from, test.depth)
		}
	}
}

// TestSettingsHideNothing checks that golem reports a mistake in the file even if a
// setting replaces it, and that it checks settings like the file.
func TestSettingsHideNothing(t *testing.T) {
	w := newWorld(t)
	for _, test := range []struct {
		yaml, set, want string
	}{
		{"model: [a]", "model=b", "p.yaml:1:8: model: a list; it is …"},
		{"sandbox: [a]", "sandbox.network=true", "p.yaml:1:10: sandbox: a list; it is …"},
		{"sandbox: {zones: {a: {path: a}}}", "sandbox.paths.b.root=b", "--set: sandbox.paths is the llm-do spelling, sandbox.zones (p.yaml:1) the zone spelling; keep one of the two spellings"},
		{"sandbox: {zones: {a: {path: a}}}", "sandbox.mode=ro", "--set: sandbox.mode: ro is the mount spelling, sandbox.zones (p.yaml:1) the zone spelling; keep one of the two spellings"},
		{"sandbox: {mode: sandboxed, zones: {a: {path: a}}}", "sandbox.mode=ro", "p.yaml:1:28: sandbox.zones is the zone spelling, sandbox.mode: ro (--set) the mount spelling; keep one of the two spellings"},
		{"sandbox: {zones: {a: {path: a}}}", "sandbox.zones.b.mode=ro", "--set: sandbox.zones.b has no path; name its directory, such as path: ./b"},
		{"sandbox: {root: ., readonly: true}", "sandbox.mode=rw", "--set: sandbox.mode: rw contradicts readonly: true (p.yaml:1); keep one of the two"},
		{"", "delegation.maxDepth=101", "--set: delegation.max_depth: 101; at most 100"},
		{"", "sandbox.network=[a.com, b]c]", "--set: …"},
		{"", "sandbox.network=[a.com, -:-]", "--set: sandbox.network: -:-: not a port; write a number from 1 to 65535"},
		{"", "sandbox.root=\x01", `--set: a control character in "\x01"; write it without`},
	} {
		_, err := w.parse(test.yaml, test.set)
		if err == nil || !matchesLines(err.Error(), test.want) {
			t.Errorf("%s, %s\ngot  %v\nwant %s", test.yaml, test.set, err, test.want)
		}
	}
}

// TestSettingsAreChecked checks settings that did not pass through ParseSet.
func TestSettingsAreChecked(t *testing.T) {
	w := newWorld(t)
	for want, keys := range map[string][]string{
		"--x: delegation.max_depth: word; it is …":       {"delegation", "max_depth"},
		`--x: unknown key "modle"; did you mean model?…`: {"modle"},
	} {
		value := strictyaml.Node{Place: strictyaml.Place{Source: "--x"}, Kind: strictyaml.Scalar, Text: "word"}
		_, err := project.Parse(w.program, "", nil, w.env, []project.Setting{{Keys: keys, Value: value}})
		if err == nil || !matchesLines(err.Error(), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// TestSettingsWithoutFile loads settings without a file.
func TestSettingsWithoutFile(t *testing.T) {
	w := newWorld(t)
	s, err := project.ParseSet("GOLEM_ROOT", "sandbox.root=~/npm")
	if err != nil {
		t.Fatal(err)
	}
	p, err := project.Parse(w.program, "", nil, w.env, []project.Setting{s})
	if err != nil {
		t.Fatal(err)
	}
	if got := w.table(p); got != "/ rw home/npm" {
		t.Errorf("got %s", got)
	}
	if got := p.Mounts[0].From.String(); got != "GOLEM_ROOT" {
		t.Errorf("comes from %s", got)
	}
}

func findValue(p *project.Project, key string) project.Value {
	for _, v := range p.Values() {
		if v.Key == key {
			return v
		}
	}
	return project.Value{}
}
