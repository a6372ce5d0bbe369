package strictyaml_test

import (
	"encoding/json"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/golem-forge/golem/internal/work/strictyaml"
)

var schemaOfEverything = strictyaml.Key{Type: strictyaml.Group, Keys: []strictyaml.Key{
	{Name: "text", Type: strictyaml.Text}, {Name: "bool", Type: strictyaml.Bool, Words: []string{"off"}},
	{Name: "whole", Type: strictyaml.Whole}, {Name: "count", Type: strictyaml.Count}, {Name: "money", Type: strictyaml.Money},
	{Name: "span", Type: strictyaml.Span}, {Name: "word", Type: strictyaml.Word, Words: []string{"a", "b"}},
	{Name: "texts", Type: strictyaml.Texts}, {Name: "empty", Type: strictyaml.Texts, Empty: true},
	{Name: "groups", Type: strictyaml.Groups, Keys: []strictyaml.Key{{Name: "x", Type: strictyaml.Text}}},
	{Name: "named", Type: strictyaml.Named, Keys: []strictyaml.Key{{Name: "x", Type: strictyaml.Whole}}},
	{Name: "free", Type: strictyaml.Free}, {Name: "either", Type: strictyaml.Bool, Or: []strictyaml.Key{{Type: strictyaml.Texts}}},
}}

// TestJSONSchema compares the verdicts of the schema with those of Check.
func TestJSONSchema(t *testing.T) {
	resolved := resolveSchema(t, schemaOfEverything)
	good := []string{"", "text: a", "text: 5", "bool: true", "bool: off", "whole: 5", "whole: 1_000", "count: 10", "count: 10MB", "count: 512 KiB", "money: 2.5",
		"span: 30s", "span: 90", "span: 1h30m", "word: b", "texts: [a, 1]", "empty: []", "empty:", "groups: [{x: a}]", "named: {n: {x: 5}}", "named: {n: }",
		"free: {anything: [1]}", "either: false", "either: [a]"}
	bad := []string{"unknown: 1", "text: [a]", "bool: yes please", "whole: -1", "whole: many", "count: 10 XB", "money: -2", "span: soon", "word: c", "texts: []", "texts: a",
		"texts: [[a]]", "groups: []", "groups: {x: a}", "groups: [{y: 1}]", "named: {}", "named: {n: {y: 1}}", "either: 5", "text:"}
	for i, text := range append(good, bad...) {
		n, problems := strictyaml.Parse("test", []byte(text))
		schemaOfEverything.Check(n, &problems)
		if ok := len(problems) == 0; ok != (i < len(good)) {
			t.Errorf("%q: Check says %v", text, problems)
		}
		if err := resolved.Validate(n.Value()); (err == nil) != (i < len(good)) {
			t.Errorf("%q: the schema says %v", text, err)
		}
	}
}

func resolveSchema(t *testing.T, k strictyaml.Key) *jsonschema.Resolved {
	t.Helper()
	data, err := k.JSONSchema("test")
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}
