package strictyaml

import (
	"io"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/golem-forge/golem/sandbox"
)

const aliasHint = "write the value out; quote a text that begins with *"

// plainMessages maps errors of the YAML library to plain words. The library reports the
// token it expected. A reader needs to know what to fix.
var plainMessages = []struct {
	says       string // a part of the library's message
	what, hint string
}{
	{"tab character", "a tab in an indent", "indent with spaces"},
	{"cannot start any token", "a character that cannot begin a value", "quote a text that begins with @, ` or %; indent with spaces, not tabs"},
	{"mapping values are not allowed", "a colon where no value can begin",
		"quote a text that has a colon and a space in it; indent the keys of one map alike"},
	{"could not find expected ':'", "a key without a colon", "write key: value"},
	{"did not find expected key", "neither a key nor the end of a map",
		"indent the keys of one map alike; nothing follows a closing quote or bracket"},
	{"did not find expected '-'", "neither an item nor the end of a list", "indent the items of one list alike, each after a -"},
	{"sequence entries are not allowed", "a - where no list can begin", "begin the list on a line of its own; quote a text that begins with -"},
	{"expected ',' or ']'", "a list that is not closed", "end it with ], and put commas between its items"},
	{"expected ',' or '}'", "a map that is not closed", "end it with }, and put commas between its keys"},
	{"unexpected end of stream", "a quote that is not closed", "end the text with the quote it began with"},
	{"unexpected document indicator", "a quote that is not closed", "end the text with the quote it began with"},
	{"expected alphabetic or numeric", "a value that begins with * or &", `quote it: "*"`},
	{"unknown escape", "an escape that does not exist", `between double quotes a backslash is written \\`},
	{"hexdecimal number", "an escape that does not end", `between double quotes a backslash is written \\`},
	{"expected comment or line break", "text behind | or >", "begin the text on the next line, indented"},
	{"exceeded max depth", "nested too deep", "at most " + strconv.Itoa(maxDepth) + " levels"},
	{"expected <document start>", "a second document", "a file holds one; remove what follows ..."},
	{"directive", "a directive", "begin without %"},
	{"incompatible YAML document", "a directive", "begin without %"},
	{"tag", "a tag", "values have the type that their key says; quote a text that begins with !"},
	{"expected node content", "a bracket that is not closed, or one where a value should be",
		"close it; quote a text that begins with a bracket or a comma"},
}

// maxSearch is the number of bytes in which to search for the first wrong line. The
// search parses that text about 15 times. In a longer text the line that the YAML library
// reports has to do, which may be the line of the enclosing map.
const maxSearch = 128 << 10

var (
	yamlLine   = compileLate(`^line (\d+): `)
	yamlAnchor = compileLate(`^unknown anchor '(.+)' referenced$`)
)

// addSyntax reports an error of the YAML library as a problem.
func (p *parser) addSyntax(text, err string) {
	said, line := parseMessage(err)
	if first, ok := findFirstWrong(text[:min(len(text), maxSearch)], said); ok || len(text) <= maxSearch {
		line = first
	}
	col, begins := lineStart(text, line)
	at := p.place(line, col)
	if yamlAnchor().MatchString(said) {
		p.add(at, "an alias", aliasHint)
		return
	}
	switch { // the library does not always report these two
	case countOpen(text) > maxDepth:
		said = "exceeded max depth"
	case begins == '\t':
		said = "tab character"
	}
	for _, m := range plainMessages {
		if strings.Contains(said, m.says) {
			p.add(at, "not YAML: "+m.what, m.hint)
			return
		}
	}
	p.add(at, "not YAML: "+sandbox.Shown(said), "check the indents, colons and quotes")
}

// countOpen counts the brackets that are not closed, wherever they are.
func countOpen(text string) int {
	return strings.Count(text, "[") + strings.Count(text, "{") - strings.Count(text, "]") - strings.Count(text, "}")
}

// parseMessage returns the message and the line in an error of the YAML library.
func parseMessage(err string) (said string, line int) {
	said, line = strings.TrimPrefix(err, "yaml: "), 1
	if m := yamlLine().FindStringSubmatch(said); m != nil {
		line, _ = strconv.Atoi(m[1])
		said = said[len(m[0]):]
	}
	return said, line
}

// findFirstWrong returns the first line such that parsing the text up to its end gives the
// same error, and whether there is such a line. The line that the library reports is of
// little use: it may be that of the enclosing map or list, the line before, or missing.
func findFirstWrong(text, said string) (line int, ends bool) {
	lines := strings.SplitAfter(text, "\n")
	upTo := make([]int, 0, len(lines))
	for end := 0; len(lines) > 1; lines = lines[1:] {
		end += len(lines[0])
		upTo = append(upTo, end)
	}
	i := sort.Search(len(upTo), func(i int) bool { return yamlMessage(text[:upTo[i]]) == said })
	return i + 1, i < len(upTo)
}

// yamlMessage returns the message of the YAML library for a text, "" if it can parse it.
func yamlMessage(text string) string {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for range 2 {
		if err := decoder.Decode(new(yaml.Node)); err == io.EOF {
			return ""
		} else if err != nil {
			said, _ := parseMessage(err.Error())
			return said
		}
	}
	return ""
}

// lineStart returns the column and the character at which a line begins, after its
// spaces.
func lineStart(text string, line int) (col int, begins byte) {
	for range line - 1 {
		_, text, _ = strings.Cut(text, "\n")
	}
	text, _, _ = strings.Cut(text, "\n")
	rest := strings.TrimLeft(text, " ")
	if rest != "" {
		begins = rest[0]
	}
	return 1 + len(text) - len(rest), begins
}

// compileLate returns a pattern that is compiled on first use. golem starts itself again for
// each jail, and should not compile patterns it does not need.
func compileLate(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}
