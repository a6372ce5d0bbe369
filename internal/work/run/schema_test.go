package run_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/work/run"
)

// TestCheckSchema: a schema that refers to itself without end is refused before it is
// used.
func TestCheckSchema(t *testing.T) {
	for schema, want := range map[string]string{
		`{"$ref":"#"}`: "without end",
		`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"properties":{"x":{"$ref":"#/$defs/a"}}}`: "without end",
		`{"allOf":[{"anyOf":[{"$ref":"#/allOf/0"}]}]}`:                                                          "without end",
		`{"if":{"not":{"$ref":"#"}}}`:                                                                           "without end",
		`{"dependentSchemas":{"a/b":{"$ref":"#/dependentSchemas/a~1b"}}}`:                                       "without end",
		`{"properties":{"x":{"oneOf":[{"$ref":"#/properties/x"}]}}}`:                                            "without end",
		`{"$ref":"file:///etc/passwd"}`:                                                                         "points to nothing",
		`{"$ref":"#/$defs/none"}`:                                                                               "points to nothing",
		`{"$dynamicRef":"#x","$dynamicAnchor":"x"}`:                                                             "is not supported",
		`{"properties":{"x":{"$id":"y"}}}`:                                                                      "is not supported",
		`{"$id":"https://example.com/tree","type":"object","properties":{"left":{"$ref":"#"},"$ref":{"type":"string"}}}`: "",
		`{"$defs":{"a":{"type":"string"}},"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],"const":{"$ref":"x"}}`:     "",
		`true`: "",
	} {
		err := run.CheckSchema(json.RawMessage(schema))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", schema, err, want)
		}
	}
}
