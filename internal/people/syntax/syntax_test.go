package syntax

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// names are files of all languages that the package knows.
var names = []string{
	"a.go", "a.py", "a.ts", "a.rs", "a.c", "a.java", "a.kt", "a.cs", "a.swift", "a.php", "a.proto", "a.graphql", "a.tf", "a.rb", "a.lua", "a.sh", "a.ps1",
	"a.yaml", "a.json", "a.toml", "a.md", "a.html", "a.css", "a.scss", "a.sql", "Dockerfile", "Makefile", "go.mod", ".gitignore",
}

// join returns the text of spans.
func join(spans []Span) string {
	var b strings.Builder
	for _, s := range spans {
		b.WriteString(s.Text)
	}
	return b.String()
}

// mark returns lines with each span that is not plain in brackets, with the first letter of
// its kind.
func mark(name string, lines ...string) string {
	s := NewScanner(name)
	if s == nil {
		return "unknown"
	}
	s.Reset(strings.Join(lines, "\n"))
	var out []string
	for _, line := range lines {
		text := ""
		for _, one := range s.Line(line) {
			if one.Kind == Plain {
				text += one.Text
			} else {
				text += "[" + string(one.Kind[:1]) + " " + one.Text + "]"
			}
		}
		out = append(out, text)
	}
	return strings.Join(out, "\n")
}

func TestLine(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a.go", `func f(x int) string { return "a\"b" + 'c' // why`, `[k func] [n f](x [k int]) [k string] { [k return] [s "a\"b"] + [s 'c'] [c // why]`},
		{"a.go", "x := `a\n\"b` + 0x1F /* c\nd */ nil", "x := [s `a]\n[s \"b`] + [n 0x1F] [c /* c]\n[c d */] [k nil]"},
		{"a.go", "of the old comment */ x\ny /* z */", "[c of the old comment */] x\ny [c /* z */]"},
		{"a.py", "@cached\ndef f(self):\n  '''a\n  b''' # it's", "[n @cached]\n[k def] [n f]([k self]):\n  [s '''a]\n[s   b'''] [c # it's]"},
		{"a.ts", "const a: number = f(`x${1}`) // don't", "[k const] a: [k number] = [n f]([s `x${1}`]) [c // don't]"},
		{"a.rs", "fn f<'a>(x: &'a str) -> char { '\\n' }", "[k fn] f<'a>(x: &'a [k str]) -> [k char] { [s '\\n'] }"},
		{"a.c", "#include <a.h>\nint x = 1.5e-3;", "[k #include] <a.h>\n[k int] x = [n 1.5e-3];"},
		{"a.sh", "if [ \"$a\" ]; then echo it's $b # c\nA=1 x#y", "[k if] [ [s \"$a\"] ]; [k then] [k echo] it's [n $b] [c # c]\n[n A]=[n 1] x#y"},
		{"a.yml", "- name: x # y\n  url: http://a#b\n  on: true", "- [n name]: x [c # y]\n  [n url]: http://a#b\n  [n on]: [k true]"},
		{"a.json", `{"a": "b", "c": [1, null]}`, `{[n "a"]: [s "b"], [n "c"]: [[n 1], [k null]]}`},
		{"a.toml", "[a.b]\nc-d = 'e'", "[k [a.b]]\n[n c-d] = [s 'e']"},
		{"a.md", "# A\ntext `b`\n```go\nfunc\n```\n> c", "# A\ntext [s `b`]\n[s ```go]\n[s func]\n[s ```]\n[c > c]"},
		{"a.html", "<a href=\"b\">it's 5 < 6</a><!-- c\nd -->", "<[k a] [n href]=[s \"b\"]>it's 5 < 6</[k a]>[c <!-- c]\n[c d -->]"},
		{"a.css", "a { color: #fff; margin: 0 } /* b */", "a { [n color]: #fff; [n margin]: [n 0] } [c /* b */]"},
		{"a.sql", "SELECT count(*) FROM a -- b", "[k SELECT] [n count](*) [k FROM] a [c -- b]"},
		{"Dockerfile", "FROM a AS b\nENV c=1", "[k FROM] a AS b\n[k ENV] [n c]=[n 1]"},
		{"Makefile", "all: a.o\n\tcc $(X) $y # z", "[n all]: a.o\n\tcc [n $(X]) [n $y] [c # z]"},
		{"a.unknown", "func", "unknown"},
		{"LICENSE", "func", "unknown"},
	} {
		if got := mark(c.name, strings.Split(c.text, "\n")...); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// check divides lines and compares the spans with them.
func check(t interface{ Fatalf(string, ...any) }, name string, lines []string) {
	s := NewScanner(name)
	s.Reset(strings.Join(lines, "\n"))
	for _, line := range lines {
		spans := s.Line(line)
		if len(line) > MaxLine {
			if spans != nil {
				t.Fatalf("%s: a line of %d bytes was divided", name, len(line))
			}
			continue
		}
		if got := join(spans); got != line {
			t.Fatalf("%s: got %q, want %q", name, got, line)
		}
		for i, one := range spans {
			if one.Text == "" || i > 0 && spans[i-1].Kind == one.Kind {
				t.Fatalf("%s: %q has the spans %q", name, line, spans)
			}
			if utf8.ValidString(line) && !utf8.ValidString(one.Text) {
				t.Fatalf("%s: %q was divided within a character: %q", name, line, spans)
			}
		}
	}
}

// pieces are parts of lines that mean something in a language.
var pieces = []string{"/*", "*/", "//", "#", "--", "\"", "'", "`", "\"\"\"", "'''", "```", "\\", "<!--", "-->", "<", ">", "</a", "$", "${", "$(", "@", "!", "&", "[", "]", ":", "=", " ", "\t", "func", "if", "1e-", "0x", "é", "日本", "\u202e", "\x1b[31m", "\xff", "\xc3", "a", "-", ".", "--[[", "]]"}

func TestSpansAreTheLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(names).Draw(t, "name")
		line := rapid.OneOf(rapid.String(), rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 40).Draw(t, "pieces"), "")
		}))
		lines := rapid.SliceOfN(line, 1, 6).Draw(t, "lines")
		for i := range lines {
			lines[i] = strings.ReplaceAll(lines[i], "\n", "")
		}
		check(t, name, lines)
	})
}

func FuzzLine(f *testing.F) {
	for _, piece := range pieces {
		f.Add(piece + "\n" + piece)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range names {
			check(t, name, strings.Split(text, "\n"))
		}
	})
}

// TestHostileLines divides lines that make regular expressions slow. A scanner that looked
// at each character again for each character before it would need minutes.
func TestHostileLines(t *testing.T) {
	const size = 40_000
	for _, pattern := range []string{"/*", `"\`, `"\"`, `'x\'`, "a<", "public ", "(", "</", "<////", "<!--", "'", "`", "${", "- ", "#", "a: ", "   ", "\"\"   ", "1e-", "[[", "```", "é", "$", "a.b(", `\`} {
		line := strings.Repeat(pattern, size/len(pattern))
		start := time.Now()
		for _, name := range names {
			s := NewScanner(name)
			s.Reset(line)
			r := reader{Scanner: s, line: line}
			r.read()
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%d bytes of %q in %d languages took %v", size, pattern, len(names), took)
		}
	}
}

func BenchmarkLine(b *testing.B) {
	const line = "\tfor i, piece := range visible.Broken(text, max(1, l.width-4)) { // of \"x\""
	for _, name := range []string{"a.go", "a.py", "a.sql"} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			s := NewScanner(name)
			for b.Loop() {
				s.Line(line)
			}
		})
	}
}
