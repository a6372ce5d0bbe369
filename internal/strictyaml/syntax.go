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

// misreadings tell in plain words what the YAML reader says when it cannot go
// on. It looks for tokens; a reader of the file looks for what to fix.
var misreadings = []struct {
	says       string // a part of the reader's own text
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

// maxSought is how far into a text its first wrong line is sought, which takes
// reading that much some 15 times. Behind it the line that the YAML reader tells
// must do, which may be that of the map in which it was lost.
const maxSought = 128 << 10

var (
	yamlLine   = late(`^line (\d+): `)
	yamlAnchor = late(`^unknown anchor '(.+)' referenced$`)
)

// syntax notes what the YAML reader could not read.
func (p *parser) syntax(text, err string) {
	said, line := spoken(err)
	if first, ok := firstWrong(text[:min(len(text), maxSought)], said); ok || len(text) <= maxSought {
		line = first
	}
	col, begins := beginning(text, line)
	at := p.place(line, col)
	if yamlAnchor().MatchString(said) {
		p.add(at, "an alias", aliasHint)
		return
	}
	switch { // the reader does not always find these words
	case open(text) > maxDepth:
		said = "exceeded max depth"
	case begins == '\t':
		said = "tab character"
	}
	for _, m := range misreadings {
		if strings.Contains(said, m.says) {
			p.add(at, "not YAML: "+m.what, m.hint)
			return
		}
	}
	p.add(at, "not YAML: "+sandbox.Shown(said), "check the indents, colons and quotes")
}

// open counts the brackets that are not closed, wherever they stand.
func open(text string) int {
	return strings.Count(text, "[") + strings.Count(text, "{") - strings.Count(text, "]") - strings.Count(text, "}")
}

// spoken returns what the YAML reader says, and the line it tells.
func spoken(err string) (said string, line int) {
	said, line = strings.TrimPrefix(err, "yaml: "), 1
	if m := yamlLine().FindStringSubmatch(said); m != nil {
		line, _ = strconv.Atoi(m[1])
		said = said[len(m[0]):]
	}
	return said, line
}

// firstWrong returns the first line with which the YAML reader says the same of
// the text up to there, and whether that line ends in the text. The reader's own
// line is of little use: it is that of the map or list around, or of the line
// before, or missing.
func firstWrong(text, said string) (line int, ends bool) {
	lines := strings.SplitAfter(text, "\n")
	upTo := make([]int, 0, len(lines))
	for end := 0; len(lines) > 1; lines = lines[1:] {
		end += len(lines[0])
		upTo = append(upTo, end)
	}
	i := sort.Search(len(upTo), func(i int) bool { return says(text[:upTo[i]]) == said })
	return i + 1, i < len(upTo)
}

// says returns what the YAML reader says of a text, "" if it can read it.
func says(text string) string {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for range 2 {
		if err := decoder.Decode(new(yaml.Node)); err == io.EOF {
			return ""
		} else if err != nil {
			said, _ := spoken(err.Error())
			return said
		}
	}
	return ""
}

// beginning returns the column and the character at which a line begins, blanks
// apart.
func beginning(text string, line int) (col int, begins byte) {
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

// late returns a pattern that is compiled when it is first needed: a program
// that starts itself again for each jail pays for what it has at hand.
func late(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}
