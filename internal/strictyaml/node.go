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
	Source    string // a file's name, "--set", "GOLEM_MODEL", "default"
	Line, Col int    // from 1; 0 where there are no lines
}

// Default is the place of what nobody has written.
var Default = Place{Source: "default"}

// String returns file:line, or the source alone.
func (p Place) String() string {
	if p.Line == 0 {
		return visible(p.Source)
	}
	return fmt.Sprintf("%s:%d", visible(p.Source), p.Line)
}

// visible returns the name of a source as it may be printed: files of strangers
// may have any letter in their names. It is not shortened; editors follow it.
func visible(source string) string {
	if strings.ContainsFunc(source, func(r rune) bool { return !strconv.IsPrint(r) || r == utf8.RuneError }) {
		return strconv.Quote(source)
	}
	return source
}

// Kind is the form of a node.
type Kind uint8

// The forms of a node.
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
	Text  string // of a scalar, as written
	// Quoted is true for a scalar in quotes or of several lines: a text, whatever
	// it looks like.
	Quoted bool
	Items  []Node // of a list
	Fields []Field
}

// A Field is a key of a map, and its value.
type Field struct {
	Key   Node
	Value Node
}

// At returns the value of a key, and whether it is there. Several keys lead
// down several maps.
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

// Set returns the tree with value at the path of keys; maps on the way are
// made. What stood there is replaced.
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

// MaxEntries is how many entries a list or map may have.
const MaxEntries = 1000

// Bounded notes every list and map that has more than MaxEntries entries, over
// which somebody would have to wait, and reports whether there is none.
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

// A Problem is something wrong with a value, at its place.
type Problem struct {
	Place Place
	What  string
	Hint  string       // what is allowed, what to do
	Code  sandbox.Code // the class; "" is sandbox.ErrInvalid
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

// Problems are all that is wrong, in the order of their places.
type Problems []Problem

// Error returns a line for each problem.
func (ps Problems) Error() string {
	var lines []string
	for _, p := range ps {
		lines = append(lines, p.Error())
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the problems one by one.
func (ps Problems) Unwrap() []error {
	var errs []error
	for _, p := range ps {
		errs = append(errs, p)
	}
	return errs
}

// Err returns the problems in order, each once, or nil if there are none. That
// there are too many comes last.
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

// maxProblems is how many problems are told at once.
const maxProblems = 100

const tooMany = "too many problems"

// Add notes a problem at a node.
func (ps *Problems) Add(at Node, what, hint string) {
	ps.Note(Problem{Place: at.Place, What: what, Hint: hint})
}

// Note notes problems. Those of something that is nothing but wrong are cut
// short: the last of 100 says so, and the rest is dropped.
func (ps *Problems) Note(more ...Problem) {
	for _, p := range more {
		switch len(*ps) {
		case maxProblems:
			return
		case maxProblems - 1:
			p = Problem{Place: p.Place, What: tooMany, Hint: "mend those above first"}
		}
		*ps = append(*ps, p)
	}
}

// Full reports whether no further problem would be told.
func (ps Problems) Full() bool { return len(ps) >= maxProblems }

// Value returns the node as encoding/json knows it: maps, lists, texts, numbers, true,
// false and nothing.
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
