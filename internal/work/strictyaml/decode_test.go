package strictyaml_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/work/strictyaml"
)

// TestDecode checks each type of variable, and which variables keep their values.
func TestDecode(t *testing.T) {
	n, problems := strictyaml.Parse("f.yaml", []byte("text: a\nyes: true\nmaybe: false\nwhole: 1_000\nsize: 2KiB\nprice: 0.5\nheat: 0\nspan: 2m\nlist: [a, 1]\nin: {deep: b}\nskipped: c\nwrong: x\nnull:\n"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var (
		text, deep, node = "", "", strictyaml.Node{}
		yes, maybe       = false, new(bool)
		whole            int
		size, wrong      int64 = 0, 7
		price            float64
		heat             *float64
		span             time.Duration
		list             []string
		nodes            []strictyaml.Node
		skipped, missing = "kept", "kept"
	)
	*maybe = true
	n.Decode(map[string]any{"text": &text, "yes": &yes, "maybe": &maybe, "whole": &whole, "size": &size, "price": &price, "heat": &heat,
		"span": &span, "list": &list, "in.deep": &deep, "in": &node, "skipped": &skipped, "missing": &missing, "wrong": &wrong}, func(n strictyaml.Node) bool { return n.Text == "c" })
	n.Decode(map[string]any{"list": &nodes}, nil)
	if text != "a" || !yes || *maybe || whole != 1000 || size != 2048 || price != 0.5 || heat == nil || *heat != 0 || span != 2*time.Minute || deep != "b" || !node.Has("deep") {
		t.Errorf("got %q %v %v %d %d %v %v %v %q %v", text, yes, *maybe, whole, size, price, heat, span, deep, node)
	}
	if !slices.Equal(list, []string{"a", "1"}) || len(nodes) != 2 || nodes[1].Place.Line != 9 {
		t.Errorf("got %q, %v", list, nodes)
	}
	if skipped != "kept" || missing != "kept" || wrong != 7 {
		t.Errorf("got %q, %q, %d: a variable without a valid value keeps its own", skipped, missing, wrong)
	}
}

// TestCheckAll checks that CheckAll also reports values, once each, and Check does not.
func TestCheckAll(t *testing.T) {
	short := func(n strictyaml.Node) (string, string) {
		if len(n.Text) > 2 {
			return n.Text, "two letters"
		}
		return "", ""
	}
	key := strictyaml.Key{Type: strictyaml.Group, Keys: []strictyaml.Key{
		{Name: "one", Type: strictyaml.Text, Valid: short},
		{Name: "many", Type: strictyaml.Bool, Or: []strictyaml.Key{{Type: strictyaml.Texts, Valid: short}}},
		{Name: "named", Type: strictyaml.Named, Keys: []strictyaml.Key{{Name: "x", Type: strictyaml.Text, Valid: short}}},
		{Name: "list", Type: strictyaml.Groups, Keys: []strictyaml.Key{{Name: "x", Type: strictyaml.Whole, Valid: short}}},
	}}
	n, _ := strictyaml.Parse("f.yaml", []byte("one: abc\nmany: [ab, abc, [abc]]\nnamed: {n: {x: abc}}\nlist: [{x: 123}, {x: abc}]\n"))
	var form, all strictyaml.Problems
	key.Check(n, &form)
	key.CheckAll(n, &all)
	if want := "f.yaml:2:17: many: a list in the list; it is a list of texts\nf.yaml:4:22: list.x: abc; it is a whole number"; form.Error() != want {
		t.Errorf("Check: got\n%s\nwant\n%s", form.Error(), want)
	}
	want := strings.Join([]string{
		"f.yaml:1:6: one: abc; two letters",
		"f.yaml:2:12: many: abc; two letters",
		"f.yaml:2:17: many: a list in the list; it is a list of texts",
		"f.yaml:3:16: named.n.x: abc; two letters",
		"f.yaml:4:12: list.x: 123; two letters",
		"f.yaml:4:22: list.x: abc; it is a whole number",
	}, "\n")
	if all.Err().Error() != want {
		t.Errorf("CheckAll: got\n%s\nwant\n%s", all.Err().Error(), want)
	}
}
