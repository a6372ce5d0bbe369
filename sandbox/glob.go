package sandbox

import (
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// A glob is a pattern for names. Most patterns are one part with at most one star. For
// these, match compares only the text before and after the star.
type glob struct {
	pattern    string
	base       bool // applies to the last part of a name only
	simple     bool
	star       bool
	head, tail string
}

// maxAlternatives limits the alternatives of a pattern, which multiply.
const maxAlternatives = 1000

// countAlternatives counts the alternatives of a pattern. It stops soon after
// maxAlternatives.
func countAlternatives(pattern string) int {
	product, open := 1, []int{}
	for i := 0; i < len(pattern) && product <= maxAlternatives; i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case c == '{':
			open = append(open, 1)
		case c == ',' && len(open) > 0:
			open[len(open)-1]++
		case c == '}' && len(open) > 0:
			product *= open[len(open)-1]
			open = open[:len(open)-1]
		}
	}
	return product
}

func newGlob(op, name, pattern string) (glob, error) {
	if pattern == "" || len(pattern) > maxName || countAlternatives(pattern) > maxAlternatives || !doublestar.ValidatePattern(pattern) {
		return glob{}, &Error{Op: op, Path: name, Code: ErrInvalid,
			Hint: brief(pattern) + " is not a pattern; *.md, src/**/*.go and {a,b}.txt are"}
	}
	g := glob{pattern: strings.TrimPrefix(strings.TrimPrefix(pattern, "./"), "**/")}
	if strings.Contains(g.pattern, "/") {
		g.pattern = pattern
		return g, nil
	}
	g.base = true
	g.head, g.tail, g.star = strings.Cut(g.pattern, "*")
	g.simple = !strings.ContainsAny(g.head+g.tail, `*?[{\`)
	return g, nil
}

// match reports whether the file base in dir matches. The pattern is relative to top, or
// to "/" if it begins with a slash.
func (g glob) match(top, dir, base string) bool {
	switch {
	case g.simple && !g.star:
		return base == g.head
	case g.simple:
		return len(base) >= len(g.head)+len(g.tail) && strings.HasPrefix(base, g.head) && strings.HasSuffix(base, g.tail)
	case g.base:
		ok, _ := doublestar.Match(g.pattern, base)
		return ok
	}
	name := join(dir, base)
	if !strings.HasPrefix(g.pattern, "/") {
		name = relative(top, name)
	}
	ok, _ := doublestar.Match(g.pattern, name)
	return ok
}
