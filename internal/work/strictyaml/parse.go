package strictyaml

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// MaxFile is the maximum size of a file in bytes.
const MaxFile = 1 << 20

const (
	maxDepth = 32
	maxText  = 256 << 10 // bytes of one scalar; a prompt is one scalar
)

// Parse parses one YAML document. It accepts only the parts of YAML whose effect a reader
// sees. It reports anchors, aliases, merge keys, tags, duplicate keys, a second document,
// deep nesting and invisible line breaks as problems. An empty document is an empty map.
func Parse(source string, data []byte) (Node, Problems) {
	return ParseAfter(source, data, 0)
}

// ParseAfter is like Parse for YAML that starts after the given number of lines of its
// file.
func ParseAfter(source string, data []byte, lines int) (Node, Problems) {
	p := parser{source: source, lines: lines}
	n := p.parseDocument(data)
	if n.Kind == Null {
		n = Node{Place: p.place(1, 1), Kind: Map}
	}
	return n, p.problems
}

// A parser converts the nodes of the YAML library.
type parser struct {
	source    string
	lines     int // lines of the file before the YAML
	last, end int // line and column of the end
	problems  Problems
}

// place returns the place of a line and column of the text. For an empty value at the end
// of a text, the YAML library reports the line after the last one; place corrects that.
func (p *parser) place(line, col int) Place {
	if p.last > 0 && line > p.last {
		line, col = p.last, p.end
	}
	return Place{p.source, p.lines + line, col}
}

func (p *parser) add(at Place, what, hint string) {
	p.problems.Note(Problem{Place: at, What: what, Hint: hint})
}

// parseDocument parses the text of a file. It returns a Null node if it cannot.
func (p *parser) parseDocument(data []byte) Node {
	if len(data) > MaxFile {
		p.add(p.place(1, 1), fmt.Sprintf("%d bytes", len(data)), fmt.Sprintf("a file may have %d", MaxFile))
		return Node{}
	}
	text := strings.TrimPrefix(string(data), "\ufeff")
	if !p.isLegible(text) {
		return Node{}
	}
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var doc, second yaml.Node
	if err := decoder.Decode(&doc); err != nil {
		if says := err.Error(); says != "EOF" {
			p.addSyntax(text, says)
		}
		return Node{}
	}
	if err := decoder.Decode(&second); err == nil {
		p.convert(&second, 0)
		p.add(p.place(second.Line, second.Column), "a second document", "a file holds one; remove the --- between them")
	} else if says := err.Error(); says != "EOF" {
		p.addSyntax(text, says)
	}
	return p.convert(&doc, 0)
}

// isLegible reports whether a text has only characters that a reader can recognize. YAML
// breaks lines at some characters where editors do not. After such a character, the end
// of a comment would become a key.
func (p *parser) isLegible(text string) bool {
	line, col := 1, 1
	for i, r := range text {
		what, hint := "", "remove it"
		switch {
		case r == '\n':
			line, col = line+1, 0
		case r == '\t', r == '\r' && strings.HasPrefix(text[i:], "\r\n"):
		case r == '\r':
			what, hint = "not YAML: a carriage return without a line feed", "end lines with LF or CRLF"
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD"):
			what, hint = "not UTF-8", "save the file as UTF-8"
		case r == '\u2028' || r == '\u2029' || r == '\u0085':
			what = fmt.Sprintf("not YAML: %U, an invisible line break", r)
		case r < ' ' || r >= 0x7f && r < 0xa0:
			what, hint = fmt.Sprintf("not YAML: the control character %U", r), "remove it, or write it as an escape between double quotes"
		case r == '\ufeff' || r == '\ufffe' || r == '\uffff':
			what = fmt.Sprintf("not YAML: %U, which is no character", r)
		}
		if what != "" {
			p.add(p.place(line, col), what, hint)
			return false
		}
		col++
	}
	p.last, p.end = line, col
	return true
}

func (p *parser) convert(y *yaml.Node, depth int) Node {
	n := Node{Place: p.place(y.Line, y.Column)}
	if depth > maxDepth {
		p.add(n.Place, "nested too deep", fmt.Sprintf("at most %d levels", maxDepth))
	}
	if depth > maxDepth || p.problems.Full() {
		return n
	}
	p.checkPlain(n, y)
	switch y.Kind {
	case yaml.DocumentNode:
		if len(y.Content) == 1 {
			return p.convert(y.Content[0], depth)
		}
	case yaml.ScalarNode:
		p.convertScalar(&n, y)
	case yaml.SequenceNode:
		n.Kind = List
		for _, item := range y.Content {
			n.Items = append(n.Items, p.convert(item, depth+1))
		}
	case yaml.MappingNode:
		n.Kind = Map
		p.convertFields(&n, y, depth)
	}
	return n
}

// checkPlain reports anchors, aliases and tags as problems.
func (p *parser) checkPlain(n Node, y *yaml.Node) {
	switch {
	case y.Kind == yaml.AliasNode:
		p.add(n.Place, "an alias", aliasHint)
	case y.Anchor != "":
		p.add(n.Place, "an anchor", "golem does not accept aliases; write the value where it is used, and quote a text that begins with &")
	case y.Style&yaml.TaggedStyle != 0:
		p.add(n.Place, "a tag", "values have the type that their key says; quote a text that begins with !")
	}
}

func (p *parser) convertScalar(n *Node, y *yaml.Node) {
	n.Quoted = y.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
	if !n.Quoted && y.Tag == "!!null" {
		return
	}
	n.Kind, n.Text = Scalar, y.Value
	if len(n.Text) > maxText {
		p.add(n.Place, fmt.Sprintf("a value of %d bytes", len(n.Text)), fmt.Sprintf("at most %d", maxText))
	}
}

func (p *parser) convertFields(n *Node, y *yaml.Node, depth int) {
	seen := map[string]Place{}
	for i := 0; i+1 < len(y.Content); i += 2 {
		key := p.convert(y.Content[i], depth+1)
		if key.Kind == Null && y.Content[i].Kind == yaml.ScalarNode {
			key.Kind, key.Text = Scalar, y.Content[i].Value
		}
		value := p.convert(y.Content[i+1], depth+1)
		switch first, twice := seen[key.Text]; {
		case y.Content[i].Kind == yaml.AliasNode: // already reported
			continue
		case key.Kind != Scalar:
			p.add(key.Place, "a key that is "+key.Kind.String(), "a key is one word")
			continue
		case y.Content[i].Tag == "!!merge":
			p.add(key.Place, "a merge key", "write the values out")
			continue
		case twice:
			p.add(key.Place, fmt.Sprintf("%s twice, first in line %d", quoted(key.Text), first.Line), "keep one")
			continue
		}
		seen[key.Text] = key.Place
		n.Fields = append(n.Fields, Field{key, value})
	}
}

// ParseValue parses a value from the command line or the environment, as it would stand
// in a file after its key. An empty text stays an empty text.
func ParseValue(source, text string) (Node, Problems) {
	p := parser{source: source}
	n := p.parseDocument([]byte(text))
	if strings.TrimSpace(text) == "" && len(p.problems) == 0 {
		n = Node{Kind: Scalar, Quoted: true, Text: text}
	}
	n = n.withPlace(Place{Source: source})
	for i := range p.problems {
		p.problems[i].Place = n.Place
	}
	return n, p.problems
}

// withPlace returns the tree with the same place for all of its nodes.
func (n Node) withPlace(place Place) Node {
	n.Place = place
	for i := range n.Items {
		n.Items[i] = n.Items[i].withPlace(place)
	}
	for i, f := range n.Fields {
		n.Fields[i] = Field{f.Key.withPlace(place), f.Value.withPlace(place)}
	}
	return n
}
