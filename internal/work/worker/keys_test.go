package worker_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/work/strictyaml"
	"github.com/golem-forge/golem/internal/work/worker"
)

// wrongValues are values of every kind, of which each key accepts at most a few.
var wrongValues = []string{`""`, "x", "0", "99999999999999999999", "[x]"}

// TestKeyProblems compares what golem says about wrong values of every key with
// testdata/problems.txt. A key stands beside the other keys of its example, or alone.
func TestKeyProblems(t *testing.T) {
	var b strings.Builder
	all := places()
	for _, p := range all {
		for _, value := range wrongValues {
			text := p.fileBeside(all, value)
			if text == "" {
				text, _ = p.file(p.key.Name, value)
			}
			says := "accepted"
			if _, err := worker.Parse("w.worker", []byte(text)); err != nil {
				says = err.Error()
			}
			fmt.Fprintf(&b, "%s: %s\n\t%s\n", p, value, strings.ReplaceAll(says, "\n", "\n\t"))
		}
	}
	testutil.Golden(t, "testdata/problems.txt", b.String())
}

// fileBeside returns a worker file with a value at the place and the other keys that the
// example of the map around it has, "" if there is no such example.
func (p place) fileBeside(all []place, value string) string {
	var around place
	for _, other := range all {
		for _, down := range []string{"", ".NAME", "[]"} {
			if other.String()+down+"."+p.key.Name == p.String() {
				around = other
			}
		}
	}
	n, problems := strictyaml.ParseValue("example", around.key.Example)
	open, shut := "{", "}"
	switch {
	case len(problems) > 0 || around.key.Name == "":
		return ""
	case around.key.Type == strictyaml.Named && len(n.Fields) > 0:
		open, shut = "{"+n.Fields[0].Key.Text+": {", "}}"
		n = n.Fields[0].Value
	case n.Kind == strictyaml.List && len(n.Items) > 0:
		open, shut = "[{", "}]"
		n = n.Items[0]
	}
	if len(n.Fields) == 0 {
		return ""
	}
	flow := open + p.key.Name + ": " + value
	for _, f := range n.Fields {
		if f.Key.Text != p.key.Name {
			flow += ", " + f.Key.Text + ": " + writeFlow(f.Value)
		}
	}
	text, _ := around.file(around.key.Name, flow+shut)
	return text
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
