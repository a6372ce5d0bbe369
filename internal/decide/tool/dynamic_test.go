//go:build !js

package tool

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/sandbox"
)

// TestDynamic checks that a tool with a foreign schema decodes arguments as strictly as
// others.
func TestDynamic(t *testing.T) {
	const schema = `{"type": "object", "required": ["name"], "properties": {
		"name": {"type": "string", "enum": ["a", "b"]}, "n": {"type": "integer", "default": 3, "maximum": 9007199254740993},
		"list": {"type": "array"}, "any": {}, "odd": {"enum": [[1], {"a": 1}]}, "of": {"type": "array", "items": {"$ref": "#/$defs/one"}}},
		"$defs": {"one": {"type": "object", "properties": {"x": {"type": ["string", "null"]}}}}}`
	var got string
	d, err := Dynamic(Tool{Name: "count", Mode: policy.Both}, []byte(schema), func(_ context.Context, _ Names, args json.RawMessage) (Plan, error) {
		got = string(args)
		return Plan{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		`{"name": "a"}`:                           `{"n":3,"name":"a"}`,
		`{"name": "b", "n": 9007199254740993}`:    `{"n":9007199254740993,"name":"b"}`,
		`{"name": "a", "any": [null, {"k":1.0}]}`: `{"any":[null,{"k":1.0}],"n":3,"name":"a"}`,
		`{"name": "a", "odd": [1]}`:               `{"n":3,"name":"a","odd":[1]}`,
		`{"name": "a", "of": [{"x": null}]}`:      `{"n":3,"name":"a","of":[{"x":null}]}`,
		`{"name": "a", "list": [1, "2"]}`:         `{"list":[1,"2"],"n":3,"name":"a"}`,
		`{}`:                                      "error: name is missing",
		`{"Name": "a"}`:                           "error: unknown argument Name; did you mean name?",
		`{"name": "a", "name": "b"}`:              "error: the arguments: name appears twice",
		`{"name": "c"}`:                           "error: name: want one of a, b",
		`{"name": "a", "n": 1.5}`:                 "error: n: want an integer",
		`{"name": "a", "odd": [2]}`:               "error: odd: want one of",
		`{"name": "a", "of": [{"x": 1}]}`:         "error: ",
		`{"name": "a"} {}`:                        "error: something follows",
		`[]`:                                      "error: the arguments: want an object",
		`{"name": "a", "list": {}}`:               "error: list: want an array",
	} {
		got = ""
		_, _, err := d.plan(t.Context(), Names{}, []byte(args))
		if err != nil {
			got = "error: " + err.(*sandbox.Error).Hint
		}
		if got != want && !(strings.HasPrefix(want, "error: ") && strings.HasPrefix(got, want)) {
			t.Errorf("%s: got %s, want %s", args, got, want)
		}
	}
}

// TestDynamicRefuses checks that a schema is refused if it refers to itself or describes
// no object.
func TestDynamicRefuses(t *testing.T) {
	bomb := `{"type": "object", "$defs": {"a0": {}`
	for i := range 30 {
		bomb += `, "a` + strconv.Itoa(i+1) + `": {"allOf": [{"$ref": "#/$defs/a` + strconv.Itoa(i) + `"}, {"$ref": "#/$defs/a` + strconv.Itoa(i) + `"}]}`
	}
	bomb += `}, "properties": {"x": {"$ref": "#/$defs/a30"}}}`
	for schema, want := range map[string]string{
		``:                                "it ends too early",
		`{}`:                              `no "type": "object"`,
		`true`:                            "",
		`{"type": "array"}`:               `no "type": "object"`,
		`{"type": "object", "$ref": "#"}`: "points to itself",
		`{"type": "object", "allOf": [{"$ref": "#"}]}`:                            "points to itself",
		`{"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}`:     "points to itself",
		`{"type": "object", "properties": {"a": {"$ref": "https://x.test/s"}}}`:   "only #/$defs/NAME can be referred to",
		`{"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}}`:          "points to nothing",
		`{"type": "object", "$anchor": "x", "properties": {"a": {"$ref": "#x"}}}`: "only #/$defs/NAME can be referred to",
		`{"type": "object", "$id": "https://x.test/s"}`:                           "$id: parts are referred to",
		`{"type": "object", "properties": {"a": {"$dynamicRef": "#x"}}}`:          "$dynamicRef: parts are referred to",
		`{"type": "object", "properties": {"a": {"pattern": "("}}}`:               "no JSON schema",
		`{"type": "object", "properties": {"a": {"type": "nothing"}}}`:            "",
		`{"type": "object", "type": "object"}`:                                    "type appears twice",
		bomb:                                                                      "more than 20000 values",
	} {
		_, err := Dynamic(Tool{Name: "x"}, []byte(schema), nil)
		if err == nil && want != "" || err != nil && want != "" && !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: got %v, want %s", schema, err, want)
		}
	}
}

// FuzzDynamic checks that any schema and any arguments come to an end.
func FuzzDynamic(f *testing.F) {
	f.Add(`{"type": "object", "properties": {"a": {"type": "string"}}}`, `{"a": "b"}`)
	f.Add(`{"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"enum": [[1]]}}}`, `{"a": [1]}`)
	f.Fuzz(func(t *testing.T, schema, args string) {
		d, err := Dynamic(Tool{Name: "x"}, []byte(schema), func(context.Context, Names, json.RawMessage) (Plan, error) { return Plan{}, nil })
		if err == nil {
			d.plan(t.Context(), Names{}, []byte(args))
		}
	})
}

// TestForeignRules checks that the rule in a tool's definition is one more layer: it
// never approves what other layers ask about.
func TestForeignRules(t *testing.T) {
	run := func(c policy.Approval) policy.Rule {
		return policy.Rule{Verb: policy.Run, Target: "custom x", Approval: c, From: "x.json:1"}
	}
	for _, test := range []struct {
		written, own []policy.Rule
		want         policy.Approval
	}{
		{nil, nil, policy.Ask},
		{nil, []policy.Rule{run(policy.PreApproved)}, policy.PreApproved},
		{nil, []policy.Rule{run(policy.PreApproved), run(policy.Ask)}, policy.Ask},
		{nil, []policy.Rule{run(policy.Blocked)}, policy.Blocked},
		{[]policy.Rule{{Verb: policy.Run, Target: "*", Approval: policy.Ask}}, []policy.Rule{run(policy.PreApproved)}, policy.Ask},
		{[]policy.Rule{{Verb: policy.Run, Target: "*", Approval: policy.PreApproved}}, []policy.Rule{run(policy.Ask)}, policy.Ask},
		{[]policy.Rule{{Verb: policy.Use, Target: "x", Approval: policy.Blocked}}, []policy.Rule{run(policy.PreApproved)}, policy.Blocked},
	} {
		g := Gate{Grant: policy.Grant{Tools: policy.SetOf("custom"), Approvals: policy.Approvals{}.With(test.written...)}}
		got := g.HighestApproval(Tool{Name: "x", Toolset: "custom", Verbs: []policy.Verb{policy.Run}, Program: "custom x", Rules: test.own})
		if got != test.want {
			t.Errorf("%v and %v: got %v, want %v", test.written, test.own, got, test.want)
		}
	}
}
