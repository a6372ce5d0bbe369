package project_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/internal/work/strictyaml"
)

// wrongValues are values of every kind, of which each key accepts at most a few.
var wrongValues = []string{`""`, "x", "0", "99999999999999999999", "[x]"}

// TestKeyProblems compares what golem says about wrong values of every key with
// testdata/problems.txt. A key stands beside the other keys of its example, or alone.
func TestKeyProblems(t *testing.T) {
	w := newWorld(t)
	var b strings.Builder
	report := func(name, yaml string, parse func(string) error) {
		err := parse(yaml)
		text := "accepted"
		var all strictyaml.Problems
		if errors.As(err, &all) {
			text = all.Error()
		} else if err != nil {
			t.Errorf("%s: %v", yaml, err)
		}
		fmt.Fprintf(&b, "%s\n\t%s\n", name, strings.ReplaceAll(strings.ReplaceAll(text, w.top, "TOP"), "\n", "\n\t"))
	}
	for _, file := range []struct {
		name   string
		schema strictyaml.Key
		parse  func(string) error
	}{
		{"project", project.Schema(), func(yaml string) error {
			_, err := w.parse(yaml)
			return err
		}},
		{"config", project.ConfigSchema(), func(yaml string) error {
			_, err := project.ParseConfig("p.yaml", []byte(yaml), "/home/you", []string{"shell", "filesystem"})
			return err
		}},
	} {
		eachKey(file.schema, nil, func(path []strictyaml.Key) {
			key := path[len(path)-1]
			for _, value := range wrongValues {
				yaml := writeBeside(path, value)
				if yaml == "" {
					yaml, _ = writeKey(path, key.Name, value)
				}
				report(file.name+": "+fullName(path)+": "+value, yaml, file.parse)
			}
		})
	}
	testutil.Golden(t, "testdata/problems.txt", b.String())
}

// writeBeside returns a file with a value of a key and the other keys that the example of
// the map around it has, "" if there is no such example.
func writeBeside(path []strictyaml.Key, value string) string {
	if len(path) < 2 {
		return ""
	}
	above := path[len(path)-2]
	n, problems := strictyaml.ParseValue("example", above.Example)
	open, shut := "{", "}"
	switch {
	case len(problems) > 0:
		return ""
	case above.Type == strictyaml.Named && len(n.Fields) > 0:
		open, shut = "{"+n.Fields[0].Key.Text+": {", "}}"
		n = n.Fields[0].Value
	case above.Type == strictyaml.Groups && len(n.Items) > 0:
		open, shut = "[{", "}]"
		n = n.Items[0]
	}
	if len(n.Fields) == 0 {
		return ""
	}
	key := path[len(path)-1].Name
	text := open + key + ": " + value
	for _, f := range n.Fields {
		if f.Key.Text != key {
			text += ", " + f.Key.Text + ": " + writeFlow(f.Value)
		}
	}
	yaml, _ := writeKey(path[:len(path)-1], above.Name, text+shut)
	return yaml
}

// writeFlow writes a value in one line.
func writeFlow(n strictyaml.Node) string {
	var parts []string
	for _, item := range n.Items {
		parts = append(parts, writeFlow(item))
	}
	for _, f := range n.Fields {
		parts = append(parts, f.Key.Text+": "+writeFlow(f.Value))
	}
	switch {
	case n.Kind == strictyaml.List:
		return "[" + strings.Join(parts, ", ") + "]"
	case n.Kind == strictyaml.Map:
		return "{" + strings.Join(parts, ", ") + "}"
	case n.Quoted:
		return strconv.Quote(n.Text)
	}
	return n.Text
}
