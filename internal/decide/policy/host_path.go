package policy

import (
	"slices"
	"strings"
)

// Patterns of URL paths are simple enough to compare exactly: of two patterns golem can
// tell whether one is within the other, and which pattern matches what both match.

// isPathPattern reports whether a text is a pattern. A path with a dot segment, a
// backslash or an escape means different things to different servers, so it is none.
func isPathPattern(text string) bool {
	if !strings.HasPrefix(text, "/") || strings.ContainsAny(text, "\\%?#\x00") {
		return false
	}
	parts := strings.Split(text[1:], "/")
	for i, p := range parts {
		switch {
		case p == "." || p == "..":
			return false
		case p == "**" && i < len(parts)-1:
			return false
		case p != "*" && p != "**" && strings.Contains(p, "*"):
			return false
		}
	}
	return true
}

// pathWithin reports whether pattern q matches everything that p matches. P may also be a
// path.
func pathWithin(p, q string) bool {
	for {
		if q == "/**" {
			return true
		}
		if p == "" || q == "" || p == "/**" {
			return p == q
		}
		var ps, qs string
		ps, p = cutSegment(p)
		qs, q = cutSegment(q)
		if ps != qs && qs != "*" {
			return false
		}
	}
}

// cutSegment returns the first segment of a path that starts with a slash, and the rest.
func cutSegment(path string) (segment, rest string) {
	if i := strings.IndexByte(path[1:], '/'); i >= 0 {
		return path[1 : i+1], path[i+1:]
	}
	return path[1:], ""
}

// meetPaths returns patterns for the paths that one of p and one of q match.
func meetPaths(p, q []string) []string {
	var both []string
	for _, a := range p {
		for _, b := range q {
			if met, ok := meetPath(a, b); ok {
				both = append(both, met)
			}
		}
	}
	var widest []string
	for _, a := range both {
		if !slices.ContainsFunc(both, func(b string) bool { return a != b && pathWithin(a, b) }) {
			widest = append(widest, a)
		}
	}
	return sortUnique(widest)
}

// meetPath returns the pattern for the paths that two patterns match, false if there are
// none.
func meetPath(p, q string) (string, bool) {
	met := ""
	for {
		switch {
		case p == "/**":
			return met + q, true
		case q == "/**":
			return met + p, true
		case p == "" || q == "":
			return met, p == q
		}
		var ps, qs string
		ps, p = cutSegment(p)
		qs, q = cutSegment(q)
		switch {
		case ps == "*":
			met += "/" + qs
		case qs == "*", ps == qs:
			met += "/" + ps
		default:
			return "", false
		}
	}
}
