package strictyaml_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/work/strictyaml"
)

// outline prints a tree on one line, each value with its line and column.
func outline(n strictyaml.Node) string {
	at := fmt.Sprintf("@%d:%d", n.Place.Line, n.Place.Col)
	var parts []string
	switch n.Kind {
	case strictyaml.Scalar:
		if n.Quoted {
			return fmt.Sprintf("%q", n.Text) + at
		}
		return n.Text + at
	case strictyaml.List:
		for _, item := range n.Items {
			parts = append(parts, outline(item))
		}
		return "[" + strings.Join(parts, " ") + "]" + at
	case strictyaml.Map:
		for _, f := range n.Fields {
			parts = append(parts, outline(f.Key)+"="+outline(f.Value))
		}
		return "{" + strings.Join(parts, " ") + "}" + at
	}
	return "nothing" + at
}

// TestParse checks the tree of valid files.
func TestParse(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", "{}@1:1"},
		{"comments alone", "# nothing\n\n# here\n", "{}@1:1"},
		{"a document that says nothing", "---\n...\n", "{}@1:1"},
		{"nothing by name", "~", "{}@1:1"},
		{"scalars", "a: b\nc: 1\nd: true\n", "{a@1:1=b@1:4 c@2:1=1@2:4 d@3:1=true@3:4}@1:1"},
		{"quotes", "a: 'b'\nc: \"1\"\n", `{a@1:1="b"@1:4 c@2:1="1"@2:4}@1:1`},
		{"nothing", "a:\nb: ~\nc: null\nd: 'null'\n", `{a@1:1=nothing@1:3 b@2:1=nothing@2:4 c@3:1=nothing@3:4 d@4:1="null"@4:4}@1:1`},
		{"nested", "a:\n  b:\n    - c\n    - {d: e}\n", "{a@1:1={b@2:3=[c@3:7 {d@4:8=e@4:11}@4:7]@3:5}@2:3}@1:1"},
		{"flow", "{a: [b, {c: d}]}", "{a@1:2=[b@1:6 {c@1:10=d@1:13}@1:9]@1:5}@1:1"},
		{"CRLF", "a: b\r\nc:\r\n  - d\r\ne: |\r\n  f\r\n  g\r\n", `{a@1:1=b@1:4 c@2:1=[d@3:5]@3:3 e@4:1="f\ng\n"@4:4}@1:1`},
		{"a byte order mark", "\ufeffa: b\nc: d\n", "{a@1:1=b@1:4 c@2:1=d@2:4}@1:1"},
		{"columns are letters", "ä: ö\nü: [é, ñ]\n", "{ä@1:1=ö@1:4 ü@2:1=[é@2:5 ñ@2:8]@2:4}@1:1"},
		{"letters beyond the first plane", "a: {𝔾: 🜏, b: c}\n", "{a@1:1={𝔾@1:5=🜏@1:8 b@1:11=c@1:14}@1:4}@1:1"},
		{"a document start", "---\na: b\n", "{a@2:1=b@2:4}@2:1"},
		{"a comment behind", "a: b # c\n", "{a@1:1=b@1:4}@1:1"},
		{"a hash in a word", "a: b#c\n", "{a@1:1=b#c@1:4}@1:1"},
		{"escapes", `a: "\t\u00e4\x00"`, `{a@1:1="\tä\x00"@1:4}@1:1`},
		{"tabs in a text", "a: |\n  b\tc\n  \td\n", `{a@1:1="b\tc\n\td\n"@1:4}@1:1`},
		{"--- in a block", "a: |\n  b\n  ---\n  c\n", `{a@1:1="b\n---\nc\n"@1:4}@1:1`},
		{"a merge key in quotes is a key", "'<<': a\n", `{"<<"@1:1=a@1:7}@1:1`},
		{"keys that look like nothing", "null: a\n~: b\n", "{null@1:1=a@1:7 ~@2:1=b@2:4}@1:1"},
		{"keys that look like numbers", "1: a\n1.0: b\ntrue: c\n", "{1@1:1=a@1:4 1.0@2:1=b@2:6 true@3:1=c@3:7}@1:1"},
		{"not a map", "a", "a@1:1"},
		{"a replacement character is a character", "a: \ufffd", "{a@1:1=\ufffd@1:4}@1:1"},
	} {
		n, problems := strictyaml.Parse("f", []byte(test.text))
		if len(problems) > 0 {
			t.Errorf("%s: %v", test.name, problems)
		}
		if got := outline(n); got != test.want {
			t.Errorf("%s:\ngot  %s\nwant %s", test.name, got, test.want)
		}
	}
}

// TestParseAfter checks the lines of YAML that starts later in its file.
func TestParseAfter(t *testing.T) {
	n, problems := strictyaml.ParseAfter("w.worker", []byte("a: b\nc: [d]\n"), 10)
	if got, want := outline(n), "{a@11:1=b@11:4 c@12:1=[d@12:5]@12:4}@11:1"; got != want || len(problems) > 0 {
		t.Errorf("got %s, %v; want %s", got, problems, want)
	}
	for text, want := range map[string]string{
		"a: b\nc: d: e\n":  "w.worker:12:1: not YAML: a colon where no value can begin; ",
		"a: b\nc: [*d]\n":  "w.worker:12:1: an alias; ",
		"a: b\nc: d\x00\n": "w.worker:12:5: not YAML: the control character U+0000; ",
		"a: \xff\n":        "w.worker:11:4: not UTF-8; ",
	} {
		if _, problems := strictyaml.ParseAfter("w.worker", []byte(text), 10); !strings.HasPrefix(problems.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, problems, want)
		}
	}
	_, problems = strictyaml.ParseAfter("w.worker", []byte("a: &x b\nc: *x\na: d\n"), 10)
	want := "w.worker:11:4: an anchor; golem does not accept aliases; write the value where it is used, and quote a text that begins with &\n" +
		"w.worker:12:4: an alias; write the value out; quote a text that begins with *\n" +
		"w.worker:13:1: \"a\" twice, first in line 11; keep one"
	if got := problems.Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if n, _ := strictyaml.ParseAfter("w.worker", nil, 10); outline(n) != "{}@11:1" {
		t.Errorf("got %s, want {}@11:1", outline(n))
	}
}

// TestParseProblems checks the problems for hidden features and for invalid YAML, each
// with its place.
func TestParseProblems(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"an anchor", "a: b\nc: &d e\n", "f:2:4: an anchor; "},
		{"an anchor on a map", "a: &b\n  c: d\n", "f:1:4: an anchor; "},
		{"an anchor on a key", "&a b: c\n", "f:1:1: an anchor; "},
		{"an anchor on nothing", "a: &b\n", "f:1:4: an anchor; "},
		{"an alias", "a: &b c\nd: *b\n", "f:1:4: an anchor; \nf:2:4: an alias; "},
		{"an alias to itself", "a: &b [*b]\n", "f:1:4: an anchor; \nf:1:8: an alias; "},
		{"an alias as a key", "a: &b c\n*b : d\n", "f:1:4: an anchor; \nf:2:1: an alias; "},
		{"an alias to nowhere", "a: b\nc: [d, *e]\n", "f:2:1: an alias; "},
		{"a merge key", "a:\n  <<: {b: c}\n", "f:2:3: a merge key; write the values out"},
		{"a merge of aliases", "a: &b {c: d}\ne:\n  <<: *b\n", "f:1:4: an anchor; \nf:3:7: an alias; \nf:3:3: a merge key; "},
		{"a tag", "a: !!str 1\nb: !c d\n", "f:1:4: a tag; \nf:2:4: a tag; "},
		{"a tag on a list", "a: !!set [b]\n", "f:1:4: a tag; "},
		{"a tag on a key", "!!str a: b\n", "f:1:1: a tag; "},
		{"a binary", "a: !!binary aGk=\n", "f:1:4: a tag; "},
		{"a key twice", "a: b\nc: d\na: e\n", `f:3:1: "a" twice, first in line 1; keep one`},
		{"a key twice, quoted", "a: b\n'a': e\n", `f:2:1: "a" twice, first in line 1; `},
		{"a key twice, deep", "a: [{b: c, b: d}]\n", `f:1:12: "b" twice, first in line 1; `},
		{"a key three times", "a: 1\na: 2\na: 3\n", "f:2:1: \"a\" twice, \nf:3:1: \"a\" twice, "},
		{"a key with escapes twice", "\"\\e\": 1\n\"\\e\": 2\n", `f:2:1: "\x1b" twice, `},
		{"a long key twice", strings.Repeat("k", 500) + ": 1\n" + strings.Repeat("k", 500) + ": 1\n", `f:2:1: "kkkkkkk`},
		{"a key that is a list", "? [a]\n: b\n", "f:1:3: a key that is a list; a key is one word"},
		{"a key that is a map", "{{a: b}: c}\n", "f:1:2: a key that is a map; "},
		{"a second document", "a: b\n---\nc: d\n", "f:2:1: a second document; a file holds one"},
		{"a second document of nothing", "a: b\n---\n", "f:2:1: a second document; "},
		{"a second document that is none", "a: b\n---\n[\n", "f:3:1: not YAML: a bracket"},
		{"text after the end", "a: b\n...\nc\n", "f:3:1: not YAML: a second document; "},
		{"a directive", "%FOO bar\n---\na: b\n", "f:1:1: not YAML: a directive; begin without %"},
		{"a directive of a later YAML", "%YAML 3.0\n---\na: b\n", "f:1:1: not YAML: a directive; "},
		{"a tab", "a:\n  b: c\n\td: e\n", "f:3:1: not YAML: a tab in an indent; indent with spaces"},
		{"a tab behind spaces", "a:\n  \tb: c\n", "f:2:3: not YAML: a tab in an indent; "},
		{"a tab first", "a:\n\tb: c\n", "f:2:1: not YAML: a tab in an indent; "},
		{"a colon too many", "a: b\nc: d: e\nf: g\n", "f:2:1: not YAML: a colon where no value can begin; quote"},
		{"an indent too many", "a: b\n  c: d\n", "f:2:3: not YAML: a colon where no value can begin; "},
		{"an indent between", "# c\na:\n  b: c\n d: e\nf: g\n", "f:4:2: not YAML: neither a key nor the end of a map; "},
		{"a list in a map", "a: b\n- c\n", "f:2:1: not YAML: neither a key nor the end of a map; "},
		{"a map in a list", "a:\n  - b\n  c: d\n", "f:3:3: not YAML: neither an item nor the end of a list; "},
		{"a list behind a key", "a: - b\n", "f:1:1: not YAML: a - where no list can begin; "},
		{"no colon", "a: b\nc\nd: e\n", "f:2:1: not YAML: a key without a colon; write key: value"},
		{"no closing quote", "a: b\nc: \"d\ne: f\ng: h\n", "f:2:1: not YAML: a quote that is not closed; "},
		{"no closing quote in the first line", "a: 'b\nc: d\n", "f:1:1: not YAML: a quote that is not closed; "},
		{"no closing bracket", "a: b\nc: [d, e\nf: g\n", "f:2:1: not YAML: a list that is not closed; "},
		{"no closing brace", "a: b\nc: {d: e\nf: g\n", "f:2:1: not YAML: a map that is not closed; "},
		{"text behind quotes", "a: b\nc: 'd' e\n", "f:2:1: not YAML: neither a key nor the end of a map; "},
		{"a bracket too many", "a: }\n", "f:1:1: not YAML: a bracket that is not closed, or one where a value should be; "},
		{"a star", "a: b\nc: *.md\n", `f:2:1: not YAML: a value that begins with * or &; quote it: "*"`},
		{"a star alone", "a: [*]\n", `f:1:1: not YAML: a value that begins with * or &; `},
		{"an at sign", "a: @b\n", "f:1:1: not YAML: a character that cannot begin a value; quote"},
		{"an escape that is none", `a: "\d"`, "f:1:1: not YAML: an escape that does not exist; between double quotes a backslash is written \\\\"},
		{"an escape that does not end", `a: "\u12"`, "f:1:1: not YAML: an escape that does not end; "},
		{"text behind a bar", "a: | b\n", "f:1:1: not YAML: text behind | or >; "},
		{"a tag that is none", "a: !b!c d\n", "f:1:1: not YAML: a tag; "},
		{"CRLF and a comment above", "# c\r\na: b\r\n  c: d\r\n", "f:3:3: not YAML: a colon where no value can begin; "},
		{"no line end", "a: b\nc: [d", "f:2:1: not YAML: a list that is not closed; "},

		{"NUL", "a: b\nc: d\x00\n", "f:2:5: not YAML: the control character U+0000; remove it, or write it as an escape"},
		{"an escape sequence", "a: b\x1b[2J\n", "f:1:5: not YAML: the control character U+001B; "},
		{"delete", "a: \x7f\n", "f:1:4: not YAML: the control character U+007F; "},
		{"a control character of the upper half", "a: ä\u009b\n", "f:1:5: not YAML: the control character U+009B; "},
		{"not UTF-8", "a: b\nc: ä\xff\n", "f:2:5: not UTF-8; save the file as UTF-8"},
		{"UTF-16", "\xff\xfea\x00", "f:1:1: not UTF-8; "},
		{"a key behind a line separator", "# a comment\u2028b: c\n", "f:1:12: not YAML: U+2028, an invisible line break; remove it"},
		{"a paragraph separator", "a: b\u2029c: d\n", "f:1:5: not YAML: U+2029, "},
		{"a next line", "# a\u0085b: c\n", "f:1:4: not YAML: U+0085, "},
		{"a key behind a carriage return", "# a comment\rb: c\n", "f:1:12: not YAML: a carriage return without a line feed; end lines with LF or CRLF"},
		{"a byte order mark inside", "a: b\n\ufeffc: d\n", "f:2:1: not YAML: U+FEFF, which is no character; "},
		{"a character that is none", "a: \uffff\n", "f:1:4: not YAML: U+FFFF, "},
	} {
		_, problems := strictyaml.Parse("f", []byte(test.text))
		got, want := strings.Split(problems.Error(), "\n"), strings.Split(test.want, "\n")
		ok := len(got) == len(want)
		for i := range want {
			ok = ok && strings.HasPrefix(got[i], want[i])
		}
		if !ok {
			t.Errorf("%s:\ngot  %s\nwant %s", test.name, problems, test.want)
		}
		for _, p := range problems {
			if p.Hint == "" {
				t.Errorf("%s: no hint: %v", test.name, p)
			}
		}
	}
}

// TestDepth checks the limit for nesting.
func TestDepth(t *testing.T) {
	nested := func(open, shut string, n int) string { return strings.Repeat(open, n) + strings.Repeat(shut, n) }
	block := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(strings.Repeat(" ", i) + "a:\n")
		}
		return b.String()
	}
	for _, test := range []struct {
		name, text string
		deep       bool
	}{
		{"30 lists", nested("[", "]", 30), false},
		{"40 lists", nested("[", "]", 40), true},
		{"9000 lists", nested("[", "]", 9000), true},
		{"40 maps", nested("{a: ", "}", 40), true},
		{"40 lines", block(40), true},
		{"30 lines", block(30), false},
		{"40 items", strings.Repeat("- ", 40) + "a", true},
		{"40 keys", strings.Repeat("? ", 40) + "a", true},
		{"lists without end", strings.Repeat("[", 1<<20), true},
		{"maps without end", strings.Repeat("{a: ", 1<<18), true},
		{"items without end", strings.Repeat("- ", 1<<19), true},
		{"keys without end", strings.Repeat("? ", 1<<19), true},
		{"behind a comment that closes more", "# " + strings.Repeat("]", 5000) + "\n" + nested("[", "]", 5000), true},

		// A prompt may contain any text.
		{"a prompt full of brackets", "a: |\n" + strings.Repeat("  if x[i { [[[ {{{ (\n", 5000), false},
		{"a prompt with a long rule", "a: |\n  " + strings.Repeat("-", 5000) + "\n  b\n", false},
		{"a prompt with a wide indent", "a: |\n  b\n" + strings.Repeat(" ", 5000) + "c\n", false},
		{"a comment full of brackets", "# " + strings.Repeat("[{", 5000) + "\na: b\n", false},
		{"a text full of brackets", "a: \"" + strings.Repeat("[{", 5000) + "\"\n", false},
	} {
		_, problems := strictyaml.Parse("f", []byte(test.text))
		if got := strings.Contains(problems.Error(), "nested too deep; at most 32 levels"); got != test.deep || !test.deep && len(problems) > 0 {
			text := problems.Error()
			t.Errorf("%s: got %.200s, want too deep %v", test.name, text, test.deep)
		}
	}
}

// TestHostile checks that files made to exhaust the parser are refused with a short
// message, quickly and with little memory. The limits are wide, so they only catch
// unbounded growth.
func TestHostile(t *testing.T) {
	const long, much = 20 * time.Second, 400 << 20
	var laughs, keys strings.Builder
	laughs.WriteString("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n")
	for i := 1; i < 20; i++ {
		fmt.Fprintf(&laughs, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), ", "))
	}
	for i := 0; keys.Len() < 900<<10; i++ {
		fmt.Fprintf(&keys, "k%d:\n", i)
	}
	repeat := func(text string) string { return strings.Repeat(text, (1<<20)/len(text)) }
	for _, test := range []struct{ name, text, want string }{
		{"50 MB", strings.Repeat("a: b\n", 10<<20), "f:1:1: 52428800 bytes; a file may have 1048576"},
		{"one byte too many", strings.Repeat("#", 1<<20+1), "f:1:1: 1048577 bytes; "},
		{"billion laughs", laughs.String(), "f:1:5: an anchor; "},
		{"a text too long", "a: " + strings.Repeat("b", 256<<10+1), "f:1:4: a value of 262145 bytes; at most 262144"},
		{"a key too long", strings.Repeat("b", 256<<10+1), "f:1:1: a value of 262145 bytes; "},
		{"one key", repeat("a:\n"), `f:2:1: "a" twice, first in line 1; keep one`},
		{"no key", "{" + repeat("?,")[:1<<20-2] + "}", `f:1:5: "" twice, `},
		{"anchors", "[" + repeat("&a a,")[:1<<20-2] + "]", "f:1:2: an anchor; "},
		{"tags", "[" + repeat("!a a,")[:1<<20-2] + "]", "f:1:2: a tag; "},
		{"documents", repeat("---\n"), "f:2:1: a second document; "},
		{"a late mistake", strings.Repeat("- a\n", 30000) + "b: c\n", "f:30001:1: not YAML: neither an item nor the end of a list; "},
		{"a mistake in a large file", strings.Repeat("- a\n", 200000) + "b: c\n", "f:200000:1: not YAML: neither an item nor the end of a list; "},
		{"quotes", repeat("a: \"b\n"), "f:2:1: not YAML: "},
		{"lists", strings.Repeat("[", 1<<20), "f:1:1: not YAML: nested too deep; "},
		{"tabs", repeat("\t"), "f:1:1: not YAML: a tab in an indent; "},
		{"stars", repeat("*"), "f:1:1: not YAML: a value that begins with * or &; "},
		{"NUL", repeat("\x00"), "f:1:1: not YAML: the control character U+0000; "},
		{"not UTF-8", repeat("\xff"), "f:1:1: not UTF-8; "},
	} {
		t.Run(test.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			_, problems := strictyaml.Parse("f", []byte(test.text))
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			text := problems.Error()
			if !strings.HasPrefix(text, test.want) {
				t.Errorf("got %.200s, want %s", text, test.want)
			}
			if used := after.TotalAlloc - before.TotalAlloc; took > long || used > much {
				t.Errorf("took %v and %d bytes", took, used)
			}
			if len(problems) > 100 || len(text) > 100<<10 {
				t.Errorf("%d problems in %d bytes", len(problems), len(text))
			}
		})
	}
	// A file that is only large is read.
	for _, text := range []string{keys.String(), repeat("# a\n"), repeat("\n"), repeat("- a\n"), "a: " + strings.Repeat("b", 256<<10)} {
		if _, problems := strictyaml.Parse("f", []byte(text)); len(problems) > 0 {
			t.Errorf("%.20q…: %.200v", text, problems)
		}
	}
}

// TestTooManyProblems checks that the number of reported problems is limited.
func TestTooManyProblems(t *testing.T) {
	for _, n := range []int{98, 99, 100, 101, 5000} {
		_, problems := strictyaml.Parse("f", []byte("a: 0\n"+strings.Repeat("a: 1\n", n)))
		if want := min(n, 100); len(problems) != want {
			t.Errorf("%d mistakes: got %d problems, want %d", n, len(problems), want)
		}
		last := problems[len(problems)-1].What
		if got, want := last == "too many problems", n >= 100; got != want {
			t.Errorf("%d mistakes: the last is %q", n, last)
		}
	}
}

// TestParseValue checks values from the command line and the environment.
func TestParseValue(t *testing.T) {
	for text, want := range map[string]string{
		"":                      `""@0:0`,
		"  ":                    `"  "@0:0`,
		"a":                     "a@0:0",
		" a ":                   "a@0:0",
		"'a'":                   `"a"@0:0`,
		"true":                  "true@0:0",
		"3":                     "3@0:0",
		"null":                  "nothing@0:0",
		"~":                     "nothing@0:0",
		"# a":                   "nothing@0:0",
		"a # b":                 "a@0:0",
		"[a, b]":                "[a@0:0 b@0:0]@0:0",
		"{}":                    "{}@0:0",
		"[]":                    "[]@0:0",
		`{"a": [1, {"b": ""}]}`: `{"a"@0:0=[1@0:0 {"b"@0:0=""@0:0}@0:0]@0:0}@0:0`,
		"anthropic:claude":      "anthropic:claude@0:0",
		"a=b":                   "a=b@0:0",
		"\ufeffa":               "a@0:0",
	} {
		n, problems := strictyaml.ParseValue("--set", text)
		if got := outline(n); got != want || len(problems) > 0 {
			t.Errorf("%q: got %s, %v; want %s", text, got, problems, want)
		}
		if n.Place.Source != "--set" {
			t.Errorf("%q: from %q", text, n.Place.Source)
		}
	}
	for text, want := range map[string]string{
		"[a":           "--set: not YAML: a list that is not closed; ",
		"*":            `--set: not YAML: a value that begins with * or &; quote it: "*"`,
		"\x00":         "--set: not YAML: the control character U+0000; ",
		"\v":           "--set: not YAML: the control character U+000B; ",
		"\u0085":       "--set: not YAML: U+0085, ",
		"a\n---\nb":    "--set: a second document; ",
		"{a: 1, a: 2}": `--set: "a" twice, `,
		"&a [*a]":      "--set: an anchor; ",
	} {
		_, problems := strictyaml.ParseValue("--set", text)
		if got := problems.Error(); !strings.HasPrefix(got, want) {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}
