package checks_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A phrase is one that readers stumbled over, with the words to use instead.
type phrase struct {
	pattern *regexp.Regexp
	better  string
}

// phrases is the short list that docs, comments, messages and help texts are held to.
// It cannot tell good writing. It only finds places to look at again.
var phrases = func() []phrase {
	var list []phrase
	for _, row := range [][2]string{
		{`folders?`, `directory`},
		{`mend(s|ed|ing)?`, `fix, repair`},
		{`(is|are|was|were|be|been) (told|said)`, `name who reports, prints or warns`},
		{`(is|are|was|were|be|been) left out|left out:`, `skip, skipped`},
		{`but for`, `except`},
		{`(is|are|was|were|be|been|gets?) given up`, `discard, drop, stop`},
		{`for want of`, `without`},
		{`lest`, `so that … not`},
		{`whoever`, `name the actor`},
		{`thereby`, `start a new sentence`},
		{`for ever`, `forever`},
		{`go on|goes on`, `continue`},
		{`at one go`, `at once`},
		{`doors?|doorm[ae]n|doorkeepers?`, `gate`},
		{`takes? in|taken in|took in`, `read`},
		{`say-so`, `approval`},
		{`(?-i:Golem(?:'s)?(?: [a-z]\w*|$))`, `golem, in lower case`},
	} {
		list = append(list, phrase{regexp.MustCompile(`(?i)\b(?:` + row[0] + `)\b`), row[1]})
	}
	return list
}()

// quotations are the texts that may hold a phrase: a file and a part of the line.
var quotations = []struct{ file, part, why string }{
	{"internal/checks/words_test.go", "", "the list itself"},
}

// TestWords finds phrases of the list, and prints the better words.
func TestWords(t *testing.T) {
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); name != "." && (base[0] == '.' || base == "testdata" || base == "bin" || base == "node_modules") {
				return fs.SkipDir
			}
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		switch path.Ext(name) {
		case ".md":
			checkWords(t, name, proseOf(string(text)))
		case ".go":
			lines, err := wordsOf(name, text)
			if err != nil {
				return err
			}
			checkWords(t, name, lines)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestWordsFinds shows that the test finds a phrase in a comment, in a message and in a
// page, and not in code.
func TestWordsFinds(t *testing.T) {
	lines, err := wordsOf("a.go", []byte("package a\n\n// A folder.\nvar folder = \"it was mended\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	got := findWords(append(lines, proseOf("It is told.\n```\na folder\n```\nuse `folder:` here\n")...))
	if len(got) != 3 {
		t.Errorf("got %q, want a comment, a string and a sentence", got)
	}
}

// A wordLine is a line of prose with its number.
type wordLine struct {
	number int
	text   string
}

// checkWords reports the phrases in lines of a file.
func checkWords(t *testing.T, name string, lines []wordLine) {
	t.Helper()
	lines = slices.DeleteFunc(lines, func(l wordLine) bool {
		for _, q := range quotations {
			if q.file == name && strings.Contains(l.text, q.part) {
				return true
			}
		}
		return false
	})
	for _, found := range findWords(lines) {
		t.Errorf("%s:%s", name, found)
	}
}

// findWords returns the phrases in lines, with their better words.
func findWords(lines []wordLine) []string {
	var found []string
	for _, l := range lines {
		for _, p := range phrases {
			if at := p.pattern.FindString(l.text); at != "" {
				found = append(found, fmt.Sprintf("%d: %q: write %s", l.number, at, p.better))
			}
		}
	}
	return found
}

// code matches inline code in Markdown.
var code = regexp.MustCompile("`[^`]*`")

// proseOf returns the lines of a page without code.
func proseOf(page string) []wordLine {
	var lines []wordLine
	inBlock := false
	for i, line := range strings.Split(page, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			inBlock = !inBlock
			continue
		}
		if !inBlock {
			lines = append(lines, wordLine{i + 1, code.ReplaceAllString(line, "")})
		}
	}
	return lines
}

// wordsOf returns the comments of a Go file and its strings that have a blank. Strings
// of tests are data and are not read.
func wordsOf(name string, text []byte) ([]wordLine, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var lines []wordLine
	for _, group := range f.Comments {
		for _, c := range group.List {
			lines = append(lines, wordLine{fset.Position(c.Pos()).Line, c.Text})
		}
	}
	if strings.HasSuffix(name, "_test.go") {
		return lines, nil
	}
	for n := range ast.Preorder(f) {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil && strings.Contains(text, " ") {
				lines = append(lines, wordLine{fset.Position(lit.Pos()).Line, text})
			}
		}
	}
	return lines, nil
}
