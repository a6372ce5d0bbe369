package strictyaml_test

import (
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/work/strictyaml"
)

// schemaOfAll is a schema with a key of every type.
var schemaOfAll = strictyaml.Key{Type: strictyaml.Group, Keys: []strictyaml.Key{
	{Name: "name", Type: strictyaml.Text},
	{Name: "open", Type: strictyaml.Bool},
	{Name: "rooms", Type: strictyaml.Whole},
	{Name: "size", Type: strictyaml.Count},
	{Name: "price", Type: strictyaml.Money},
	{Name: "time", Type: strictyaml.Span},
	{Name: "mode", Type: strictyaml.Word, Words: []string{"ro", "rw", "overlay"}},
	{Name: "level", Type: strictyaml.Bool, Words: []string{"landlock", "namespaces"}},
	{Name: "doors", Type: strictyaml.Texts},
	{Name: "keys", Type: strictyaml.Texts, Empty: true},
	{Name: "garden", Type: strictyaml.Group, Keys: []strictyaml.Key{
		{Name: "trees", Type: strictyaml.Whole},
		{Name: "pond", Type: strictyaml.Group, Empty: true, Keys: []strictyaml.Key{{Name: "fish", Type: strictyaml.Whole}}},
	}},
	{Name: "floors", Type: strictyaml.Groups, Keys: []strictyaml.Key{{Name: "rooms", Type: strictyaml.Whole}}},
	{Name: "attics", Type: strictyaml.Groups, Empty: true},
	{Name: "people", Type: strictyaml.Named, Keys: []strictyaml.Key{{Name: "age", Type: strictyaml.Whole}}, Or: []strictyaml.Key{{Type: strictyaml.Texts}}},
	{Name: "notes", Type: strictyaml.Free},
	{Name: "network", Type: strictyaml.Bool, Or: []strictyaml.Key{{Type: strictyaml.Texts}, {Type: strictyaml.Word, Words: []string{"hosts"}}}},
	{Name: "none", Type: strictyaml.Group},
	{Name: "trips", Type: strictyaml.Group, Example: "{to: [sea]}", Keys: []strictyaml.Key{{Name: "by", Type: strictyaml.Groups, Example: "[{car: red}]"}}},
	{Name: "switch", Type: strictyaml.Bool, Words: []string{"on", "off"}},
}}

// TestCheck checks the problems that a schema finds in a file.
func TestCheck(t *testing.T) {
	const known = "known here: name, open, rooms, size, price, time, mode, level, doors, keys, garden, floors, attics, people, notes, network, none, trips, switch"
	for _, test := range []struct{ text, want string }{
		{"name: a\nopen: true\nrooms: 3\nsize: 10MB\nprice: 2.50\ntime: 30s\nmode: rw\nlevel: landlock\ndoors: [a]\n" +
			"garden: {trees: 2, pond: {fish: 0}}\nfloors: [{rooms: 1}]\npeople: {a: {age: 1}, b: }\nnotes: {x: [1]}\nnetwork: [a]", ""},
		{"", ""},
		{"keys: []\nattics: []\ngarden: {pond: }", ""},
		{"keys:\nattics:", ""},
		{"name: 1\nlevel: false\nnetwork: hosts\nmode: 'rw'", ""},
		{"garden: {}", ""},
		{"people: [a, b]", ""},

		{"nam: a", `1:1: unknown key "nam"; did you mean name? ` + known},
		{"Name: a", `1:1: unknown key "Name"; did you mean name? ` + known},
		{"xyzzy: a", `1:1: unknown key "xyzzy"; ` + known},
		{"'': a", `1:1: unknown key ""; ` + known},
		{"garden: {tree: 1}", `1:10: unknown key "tree" in garden; did you mean trees? known here: trees, pond`},
		{"garden:\n  pond:\n    fsh: 1", `3:5: unknown key "fsh" in garden.pond; did you mean fish? known here: fish`},
		{"floors: [{rooms: 1}, {room: 2}]", `1:23: unknown key "room" in floors; did you mean rooms? known here: rooms`},
		{"people: {a: {agee: 1}}", `1:14: unknown key "agee" in people.a; did you mean age? known here: age`},
		{"none: {a: b}", `1:8: unknown key "a" in none; no key is allowed here`},
		{"\"na\\e[2Jme\": a", `1:1: unknown key "na\x1b[2Jme"; ` + known},
		{"\"na\\\"me\": a", `1:1: unknown key "na\"me"; did you mean name? ` + known},
		{strings.Repeat("x", 300) + ": a", `1:1: unknown key "` + strings.Repeat("x", 56) + "…" + strings.Repeat("x", 28) + `"; ` + known},

		{"name: [a]", "1:7: name: a list; it is a text"},
		{"name:", "1:6: name: nothing; it is a text"},
		{"open: yes", "1:7: open: yes; it is true or false; did you mean true?"},
		{"open: True", "1:7: open: True; it is true or false; did you mean true?"},
		{`open: "false"`, `1:7: open: "false"; it is true or false; write it without quotes`},
		{"open: 'no'", `1:7: open: "no"; it is true or false; did you mean false?`},
		{"trips: [a]", "1:8: trips: a list; it is a map; write trips: {to: [sea]}"},
		{"trips: {by: {car: red}}", "1:13: trips.by: a map; it is a list of maps; write by: [{car: red}]"},
		{"trips: a", "1:8: trips: a; it is a map"},
		{"switch: no", "1:9: switch: no; it is on, off, true or false; did you mean off?"},
		{"switch: NO", "1:9: switch: NO; it is on, off, true or false; did you mean off?"},
		{"switch: of", "1:9: switch: of; it is on, off, true or false"}, // as near to on as to off
		{"switch: Yes", "1:9: switch: Yes; it is on, off, true or false; did you mean on?"},
		{"switch: Off", "1:9: switch: Off; it is on, off, true or false; did you mean off?"},
		{"open: {a: b}", "1:7: open: a map; it is true or false"},
		{"rooms: -1", "1:8: rooms: -1; it is a whole number"},
		{"rooms: '3'", `1:8: rooms: "3"; it is a whole number; write it without quotes`},
		{"rooms: 99999999999999999999", "1:8: rooms: 99999999999999999999; it is a whole number"},
		{"size: 10 apples", "1:7: size: 10 apples; it is a number of bytes, such as 10000000, 10MB or 512KiB"},
		{"price: free", "1:8: price: free; it is a number"},
		{"time: soon", "1:7: time: soon; it is a time, such as 30s, 5m or a number of seconds"},
		{"mode: RW", "1:7: mode: RW; it is ro, rw or overlay; did you mean rw?"},
		{"mode: overlya", "1:7: mode: overlya; it is ro, rw or overlay; did you mean overlay?"},
		{"mode: sandboxed", "1:7: mode: sandboxed; it is ro, rw or overlay"},
		{"mode: " + strings.Repeat("x", 300), "1:7: mode: " + strings.Repeat("x", 56) + "…" + strings.Repeat("x", 28) + "; it is ro, rw or overlay"},
		{"level: lndlock", "1:8: level: lndlock; it is landlock, namespaces, true or false; did you mean landlock?"},
		{"doors: a", "1:8: doors: a; it is a list of texts"},
		{"doors: []", "1:8: doors: an empty list; leave the key out, or name something"},
		{"doors: [a, [b], , {c: d}, ~]", "1:17: not YAML"},
		{"doors: [a, [b], {c: d}, ~]", "1:12: doors: a list in the list; it is a list of texts\n1:17: doors: a map in the list; it is a list of texts\n1:25: doors: nothing in the list; it is a list of texts"},
		{"garden: a", "1:9: garden: a; it is a map"},
		{"garden:", "1:8: garden: nothing; it is a map"},
		{"garden: [a]", "1:9: garden: a list; it is a map"},
		{"floors: []", "1:9: floors: an empty list; leave the key out, or name something"},
		{"floors: {rooms: 1}", "1:9: floors: a map; it is a list of maps"},
		{"floors: [a]", "1:10: floors: a single value in the list; each is a map of rooms"},
		{"people: {}", "1:9: people: an empty map; leave the key out, or name something"},
		{"people: a", "1:9: people: a; it is a map of names, or a list of texts"},
		{"people: {a: [b]}", "1:13: people.a: a list; it is a map"},
		{"people: {a: b}", "1:13: people.a: b; it is a map"},
		{"people: {\"a\\e\": b}", `1:17: people."a\x1b": b; it is a map`},
		{"people: []", "1:9: people: an empty list; leave the key out, or name something"},
		{"notes:", "1:7: notes: nothing; it is a value of any kind"},
		{"network: 1", "1:10: network: 1; it is true or false, or a list of texts, or hosts"},
		{"a", "1:1: a; it is a map"},
		{"[a]", "1:1: a list; it is a map"},
		{"'a'", `1:1: "a"; it is a map`},
		{"open: |\n  true\n", `1:7: open: "true\n"; it is true or false`},

		// All problems at once, each with its place.
		{"nam: a\nopen: yes\nmode: x\ngarden:\n  trees: -1\n", "1:1: unknown key \"nam\"; did you mean name? " + known +
			"\n2:7: open: yes; it is true or false; did you mean true?\n3:7: mode: x; it is ro, rw or overlay\n5:10: garden.trees: -1; it is a whole number"},
	} {
		n, problems := strictyaml.Parse("f", []byte(test.text))
		if len(problems) == 0 {
			schemaOfAll.Check(n, &problems)
		}
		got := strings.ReplaceAll(problems.Error(), "f:", "")
		if strings.HasSuffix(test.want, "not YAML") {
			if !strings.Contains(got, "not YAML") {
				t.Errorf("%s:\ngot  %s\nwant %s", test.text, got, test.want)
			}
		} else if got != test.want {
			t.Errorf("%s:\ngot  %s\nwant %s", test.text, got, test.want)
		}
	}
}
