package strictyaml

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/golem-forge/golem/sandbox"
)

// A Place is where a value comes from: a line of a file, a flag, an environment
// variable, or the defaults.
type Place struct {
	Source    string // the name of a file, "--set", "GOLEM_MODEL", "default"
	Line, Col int    // from 1; 0 if the source has no lines
}

// Default is the place of a value that comes from the defaults.
var Default = Place{Source: "default"}

// String returns file:line, or only the source if there is no line.
func (p Place) String() string {
	if p.Line == 0 {
		return visible(p.Source)
	}
	return fmt.Sprintf("%s:%d", visible(p.Source), p.Line)
}

// visible returns the name of a source in printable form, because file names from others
// may contain any character. It does not shorten the name, so that editors can open it.
func visible(source string) string {
	if strings.ContainsFunc(source, func(r rune) bool { return !strconv.IsPrint(r) || r == utf8.RuneError }) {
		return strconv.Quote(source)
	}
	return source
}

// Kind is the kind of a node.
type Kind uint8

// The kinds of nodes.
const (
	Null Kind = iota
	Scalar
	List
	Map
)

func (k Kind) String() string {
	return [...]string{"nothing", "a single value", "a list", "a map"}[k]
}

// A Node is a value with its place.
type Node struct {
	Place Place
	Kind  Kind
	Text  string // the source text of a scalar
	// Quoted is true for a scalar in quotes or a block scalar. Such a scalar is always a
	// text.
	Quoted bool
	Items  []Node // the items of a list
	Fields []Field
}

// A Field is a key of a map and its value.
type Field struct {
	Key   Node
	Value Node
}

// At returns the value of a key, and whether it exists. With several keys it follows
// nested maps.
func (n Node) At(keys ...string) (Node, bool) {
	for _, key := range keys {
		i := slices.IndexFunc(n.Fields, func(f Field) bool { return f.Key.Text == key })
		if i < 0 {
			return Node{}, false
		}
		n = n.Fields[i].Value
	}
	return n, true
}

// Has reports whether a map has the key.
func (n Node) Has(key string) bool {
	_, ok := n.At(key)
	return ok
}

// Texts returns the texts of a list of scalars, or of one scalar.
func (n Node) Texts() []string {
	if n.Kind == Scalar {
		return []string{n.Text}
	}
	var list []string
	for _, item := range n.Items {
		list = append(list, item.Text)
	}
	return list
}

// Set returns a copy of the tree with value at the path of keys. It replaces the old
// value and creates missing maps.
func (n Node) Set(keys []string, value Node) Node {
	if len(keys) == 0 {
		return value
	}
	if n.Kind != Map {
		n = Node{Place: value.Place, Kind: Map}
	}
	n.Fields = slices.Clone(n.Fields)
	i := slices.IndexFunc(n.Fields, func(f Field) bool { return f.Key.Text == keys[0] })
	if i < 0 {
		i = len(n.Fields)
		n.Fields = append(n.Fields, Field{Key: Node{Place: value.Place, Kind: Scalar, Text: keys[0]}})
	}
	n.Fields[i].Value = n.Fields[i].Value.Set(keys[1:], value)
	return n
}

// MaxEntries is the maximum number of entries of a list or map.
const MaxEntries = 1000

// Bounded adds a problem for every list and map with more than MaxEntries entries,
// because processing them could take long. It reports whether there is none.
func (n Node) Bounded(problems *Problems) bool {
	if count := len(n.Items) + len(n.Fields); count > MaxEntries {
		problems.Add(n, fmt.Sprintf("%s of %d entries", n.Kind, count), fmt.Sprintf("at most %d", MaxEntries))
		return false
	}
	ok := true
	for _, item := range n.Items {
		ok = item.Bounded(problems) && ok
	}
	for _, f := range n.Fields {
		ok = f.Value.Bounded(problems) && ok
	}
	return ok
}

// A Problem is something wrong with a value, with its place.
type Problem struct {
	Place Place
	What  string
	Hint  string       // which values are allowed, or what to do
	Code  sandbox.Code // the error code; "" is sandbox.ErrInvalid
}

// Error returns "file:line:col: what; hint".
func (p Problem) Error() string {
	var b strings.Builder
	b.WriteString(visible(p.Place.Source))
	if p.Place.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Place.Line, p.Place.Col)
	}
	b.WriteString(": " + p.What)
	if p.Hint != "" {
		b.WriteString("; " + p.Hint)
	}
	return b.String()
}

// Unwrap returns the code, for errors.Is.
func (p Problem) Unwrap() error { return cmp.Or(p.Code, sandbox.ErrInvalid) }

// Problems are all problems of a check.
type Problems []Problem

// Error returns a line for each problem.
func (ps Problems) Error() string {
	var lines []string
	for _, p := range ps {
		lines = append(lines, p.Error())
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns each problem as an error.
func (ps Problems) Unwrap() []error {
	var errs []error
	for _, p := range ps {
		errs = append(errs, p)
	}
	return errs
}

// Err returns the problems sorted by place without duplicates, or nil if there are none.
// The problem "too many problems" comes last.
func (ps Problems) Err() error {
	if len(ps) == 0 {
		return nil
	}
	ordered, seen := Problems{}, map[Problem]bool{}
	for _, p := range ps {
		if !seen[p] {
			seen[p], ordered = true, append(ordered, p)
		}
	}
	slices.SortStableFunc(ordered, func(a, b Problem) int {
		return cmp.Or(last(a)-last(b), strings.Compare(a.Place.Source, b.Place.Source),
			cmp.Compare(a.Place.Line, b.Place.Line), cmp.Compare(a.Place.Col, b.Place.Col))
	})
	return ordered
}

func last(p Problem) int {
	if p.What == tooMany {
		return 1
	}
	return 0
}

// maxProblems is the maximum number of problems to report at once.
const maxProblems = 100

const tooMany = "too many problems"

// Add adds a problem at a node.
func (ps *Problems) Add(at Node, what, hint string) {
	ps.Note(Problem{Place: at.Place, What: what, Hint: hint})
}

// Note adds problems. At the limit it adds a last problem that says so, and drops the
// rest.
func (ps *Problems) Note(more ...Problem) {
	for _, p := range more {
		switch len(*ps) {
		case maxProblems:
			return
		case maxProblems - 1:
			p = Problem{Place: p.Place, What: tooMany, Hint: "fix those above first"}
		}
		*ps = append(*ps, p)
	}
}

// Full reports whether Note would drop further problems.
func (ps Problems) Full() bool { return len(ps) >= maxProblems }

// Value returns the node as encoding/json represents it: maps, lists, strings, numbers,
// booleans and nil.
func (n Node) Value() any {
	switch n.Kind {
	case List:
		list := []any{}
		for _, item := range n.Items {
			list = append(list, item.Value())
		}
		return list
	case Map:
		fields := make(map[string]any, len(n.Fields))
		for _, f := range n.Fields {
			fields[f.Key.Text] = f.Value.Value()
		}
		return fields
	case Scalar:
		if n.Quoted {
			return n.Text
		}
		switch n.Text {
		case "true":
			return true
		case "false":
			return false
		}
		if whole, err := strconv.ParseInt(n.Text, 10, 64); err == nil {
			return whole
		}
		if number, err := strconv.ParseFloat(n.Text, 64); err == nil && !math.IsInf(number, 0) && !math.IsNaN(number) {
			return number
		}
		return n.Text
	}
	return nil
}
