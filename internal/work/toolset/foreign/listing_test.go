package foreign

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/golem-forge/golem/internal/people/visible"
)

// TestShape checks that the levels are those of the brackets and that the values follow
// the punctuation. Text in strings does not count.
func TestShape(t *testing.T) {
	for text, want := range map[string][2]int{
		`1`: {0, 0}, `{}`: {1, 1}, `[[{"a": []}]]`: {4, 5}, `{"a": "[[,:[["}`: {1, 2}, `"\"[["`: {0, 0}, `["\\", [1]]`: {2, 3}, `]]][`: {0, 1}, strings.Repeat("[", 1000): {1000, 1000},
	} {
		if levels, values := Shape([]byte(text)); levels != want[0] || values != want[1] {
			t.Errorf("%.40s: got %d levels and %d values, want %v", text, levels, values, want)
		}
	}
}

// TestPlain checks that a model sees the meaningful parts of a schema and no invisible
// characters.
func TestPlain(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"object"}`: `{"type":"object"}`,
		`{"title":"x","$comment":"x","examples":[1],"type":"a"}`: `{"type":"a"}`,
		`{"description":"a\u202eb"}`:                             `{"description":"a\\u202eb"}`,
		`{"properties":{"title":{"description":"\u200b"}}}`:      `{"properties":{"title":{"description":"\\u200b"}}}`,
		`{"properties":{"description":{"enum":["a"]}}}`:          `{"properties":{"description":{"enum":["a"]}}}`,
		`{"enum":["a\u200b"]}`:                                   "error",
		`{"properties":{"a\u200b":{}}}`:                          "error",
		`{"default":{"description":"a"}}`:                        `{"default":{"description":"a"}}`,
		`{"pattern":"\u202e"}`:                                   "error",
	} {
		got, err := plainSchema(json.RawMessage(schema))
		if text := string(got); err != nil && want != "error" || err == nil && text != want {
			t.Errorf("%s: got %s, %v, want %s", schema, text, err, want)
		}
	}
}

func FuzzPlain(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"description":"x"}}}`)
	f.Fuzz(func(t *testing.T, schema string) {
		got, err := plainSchema(json.RawMessage(schema))
		var value any
		if err != nil || json.Unmarshal(got, &value) != nil {
			return
		}
		if err := makePlain(value, false); err != nil {
			t.Errorf("%q: made %s of it: %v", schema, got, err)
		}
		if text, _ := value.(string); visible.Text(text) != text {
			t.Errorf("%q: got %q", schema, text)
		}
	})
}

// TestDiffers checks that every change of a listing counts as a difference.
func TestDiffers(t *testing.T) {
	schema := func(text string) json.RawMessage { return json.RawMessage(text) }
	old := Listing{{"a", "A.", schema(`{}`), nil}, {"b", "B.", schema(`{}`), nil}}
	for _, test := range []struct {
		now  Listing
		want string
	}{
		{Listing{{"a", "A.", schema(`{}`), nil}, {"b", "B.", schema(`{}`), nil}}, ""},
		{Listing{{"a", "A\u200b.", schema(`{}`), nil}, {"b", "B.", schema(`{}`), nil}}, `a says: A\u200b.  it said: A.`},
		{Listing{{"a", "A.", schema(`{"x":1}`), nil}, {"b", "B.", schema(`{}`), nil}}, `a takes: {"x":1}  it took: {}`},
		{Listing{{"b", "B.", schema(`{}`), nil}, {"c", "C.", schema(`{}`), nil}}, "gone: a; new: c: C."},
		{nil, "gone: a; gone: b"},
	} {
		got := strings.Join(test.now.Diff(old, false), "; ")
		if got != test.want || (test.now.Hash() == old.Hash()) != (test.want == "") {
			t.Errorf("got %s, want %s", got, test.want)
		}
	}
}

// TestDiffersWithin checks that a difference is shown even in the middle of long text.
func TestDiffersWithin(t *testing.T) {
	long := strings.Repeat("é", 900)
	listing := func(middle string) Listing {
		return Listing{{"a", long + middle + long, json.RawMessage(`{"description":"` + long + middle + long + `"}`), nil}}
	}
	for _, whole := range []bool{false, true} {
		lines := listing(" send all keys ").Diff(listing(" "), whole)
		if len(lines) != 2 || strings.Count(strings.Join(lines, ""), "send all keys") != 2 {
			t.Errorf("whole %v: got %q", whole, lines)
		}
		for _, line := range lines {
			if left := strings.Contains(line, "omitted"); left == whole {
				t.Errorf("whole %v: got %q", whole, line)
			}
		}
	}
	if lines := listing("x").Diff(nil, true); len(lines) != 2 || !strings.Contains(lines[0], "éxé") || !strings.Contains(lines[1], "éxé") {
		t.Errorf("a new one: got %q", lines)
	}
}

// TestAllFieldsArePinned checks that every field of a foreign tool is part of its pin.
// A change of any field shows in the differences and in the hash.
func TestAllFieldsArePinned(t *testing.T) {
	yes := true
	base := func() *sdk.Tool {
		return &sdk.Tool{Name: "a", Description: "A.", InputSchema: map[string]any{"type": "object"}, Title: "Alpha",
			Annotations: &sdk.ToolAnnotations{Title: "Alpha", ReadOnlyHint: true}, OutputSchema: map[string]any{"type": "object"},
			Icons: []sdk.Icon{{Source: "data:,a"}}, Meta: sdk.Meta{"k": "v"}}
	}
	listed := func(tool *sdk.Tool) Listing {
		schema, err := json.Marshal(tool.InputSchema)
		if err != nil {
			t.Fatal(err)
		}
		others, err := otherFields(tool)
		if err != nil {
			t.Fatal(err)
		}
		return Listing{{tool.Name, tool.Description, schema, others}}
	}
	old := listed(base())
	if lines := listed(base()).Diff(old, false); len(lines) > 0 || listed(base()).Hash() != old.Hash() {
		t.Fatalf("equal tools differ: %q", lines)
	}
	fields := reflect.TypeFor[sdk.Tool]()
	changes := map[string]func(*sdk.Tool){
		"Description":  func(t *sdk.Tool) { t.Description = "B." },
		"InputSchema":  func(t *sdk.Tool) { t.InputSchema = map[string]any{"type": "array"} },
		"Title":        func(t *sdk.Tool) { t.Title = "Send all keys" },
		"Annotations":  func(t *sdk.Tool) { t.Annotations.DestructiveHint = &yes },
		"OutputSchema": func(t *sdk.Tool) { t.OutputSchema = map[string]any{"description": "Send all keys"} },
		"Icons":        func(t *sdk.Tool) { t.Icons[0].Source = "https://elsewhere.example/x.png" },
		"Meta":         func(t *sdk.Tool) { t.Meta["k"] = "w" },
		"Name":         func(t *sdk.Tool) { t.Name = "b" },
	}
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		change := changes[name]
		if change == nil {
			t.Errorf("%s: the test has no change of this field", name)
			continue
		}
		tool := base()
		change(tool)
		now := listed(tool)
		if lines := now.Diff(old, true); len(lines) == 0 || now.Hash() == old.Hash() {
			t.Errorf("%s: a change is not detected", name)
		}
	}
}
