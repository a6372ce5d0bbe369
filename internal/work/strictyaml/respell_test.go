package strictyaml_test

import (
	"testing"

	"github.com/golem-forge/golem/internal/work/strictyaml"
)

// TestRespell checks which keys are other spellings, and that only they change in the text.
func TestRespell(t *testing.T) {
	leaf := strictyaml.Key{Name: "max_depth", Type: strictyaml.Whole}
	schema := strictyaml.Key{Type: strictyaml.Group, Instead: map[string]string{"maxTurns": "no"}, Keys: []strictyaml.Key{
		leaf,
		{Name: "max_turns", Type: strictyaml.Whole},
		{Name: "require_os_sandbox", Type: strictyaml.Bool},
		{Name: "named", Type: strictyaml.Named, Keys: []strictyaml.Key{leaf}},
		{Name: "many", Type: strictyaml.Groups, Keys: []strictyaml.Key{leaf}},
		{Name: "either", Type: strictyaml.Bool, Or: []strictyaml.Key{{Type: strictyaml.Group, Keys: []strictyaml.Key{leaf}}}},
	}}
	for _, c := range []struct{ text, want string }{
		{"max_depth: 1\n", "max_depth: 1\n"},
		{"maxDepth: 1 # maxDepth stays here\n", "max_depth: 1 # maxDepth stays here\n"},
		{"max-depth: 1", "max_depth: 1"},
		{"MaxDepth: 1\nMax_depth: 1\nmax_Depth: 1\nMax_depth2: 1\n", "MaxDepth: 1\nMax_depth: 1\nmax_Depth: 1\nMax_depth2: 1\n"},
		{`"maxDepth": 1`, `"max_depth": 1`},
		{"requireOSSandbox: true\r\n", "require_os_sandbox: true\r\n"},
		{"named: {maxDepth: {maxDepth: 1, ü: 2}}", "named: {maxDepth: {max_depth: 1, ü: 2}}"},
		{"named: {ü: {maxDepth: 1}}", "named: {ü: {max_depth: 1}}"},
		{"many: [{maxDepth: 1}, {max-depth: 2}]", "many: [{max_depth: 1}, {max_depth: 2}]"},
		{"either: {maxDepth: 1}", "either: {max_depth: 1}"},
		{"max_depth: 1\nmaxDepth: 2\n", "max_depth: 1\nmaxDepth: 2\n"}, // both: Check reports the second
		{"maxTurns: 1", "maxTurns: 1"},
		{"other: {maxDepth: 1}", "other: {maxDepth: 1}"},
		{"\"max\\u0044epth\": 1", "\"max\\u0044epth\": 1"}, // not written plainly
	} {
		tree, problems := strictyaml.Parse("f.yaml", []byte(c.text))
		if len(problems) > 0 {
			t.Fatalf("%q: %v", c.text, problems)
		}
		_, list := schema.Respell(tree)
		got, skipped := strictyaml.ApplyRespellings([]byte(c.text), list)
		if string(got) != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
		if again, _ := strictyaml.Parse("f.yaml", got); len(skipped) == 0 {
			if _, left := schema.Respell(again); len(left) > 0 {
				t.Errorf("%q: a second pass changes %v", c.text, left)
			}
		}
	}
}
