package sandbox

import (
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/text/unicode/norm"
)

// Protected returns the patterns of names that are read-only in every sandbox:
// repositories, and the files that say what a worker may do. Only clearing
// changes them.
func Protected() []string {
	return []string{".git", "golem-forge.config.y*ml", "*.worker"}
}

// ProtectedBy returns the pattern that protects a name, or a directory that it is in,
// from every change, "" for none. The name is canonical.
func (s *Sandbox) ProtectedBy(name string) string {
	if !strings.HasPrefix(name, "/") {
		return ""
	}
	return s.guard.match(name)
}

// A guard knows the protected names. A pattern without a slash speaks of any
// part of a name, one with a slash of the whole name from "/"; both cover what
// lies below a match, and neither cares about case or about how accents are written.
type guard struct {
	parts []partPattern
	paths []string
}

// A partPattern is a caseless pattern for one part of a name. Those with one
// star at most, nearly all, are matched by their two ends without allocating.
type partPattern struct {
	whole      string
	head, tail string
	star       bool
	general    bool
}

func newGuard(patterns []string) (guard, string) {
	var g guard
	for _, pattern := range append(Protected(), patterns...) {
		p := composeAccents(caseless(strings.TrimPrefix(pattern, "./")))
		if !canMatch(p) {
			return guard{}, "protect: " + brief(pattern) + " is not a pattern; .env, *.key and /ci/** are"
		}
		if strings.Contains(p, "/") {
			g.paths = append(g.paths, "/"+strings.Trim(p, "/"))
			continue
		}
		head, tail, star := strings.Cut(p, "*")
		g.parts = append(g.parts, partPattern{whole: p, head: head, tail: tail, star: star,
			general: strings.ContainsAny(head+tail, `*?[{\`)})
	}
	return g, ""
}

// guards reports whether a pattern can match a name: what looks like one and
// never would is a mistake that leaves a file open.
func canMatch(pattern string) bool {
	bare := strings.Trim(pattern, "/")
	return bare != "" && countAlternatives(pattern) <= maxAlternatives && doublestar.ValidatePattern(pattern) && strings.TrimSpace(pattern) == pattern &&
		!strings.HasPrefix(pattern, "!") && !strings.HasPrefix(pattern, "~") &&
		!slices.ContainsFunc(strings.Split(bare, "/"), func(part string) bool { return part == "" || part == "." || part == ".." })
}

// match returns the pattern that protects name, or "".
func (g guard) match(name string) string {
	for rest := name[1:]; rest != ""; {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		if !isPlain(part) {
			part = plainPart(part)
		}
		if p := g.matchPart(part); p != "" {
			return p
		}
		if other := composeAccents(part); other != part {
			if p := g.matchPart(other); p != "" {
				return p
			}
		}
	}
	if len(g.paths) == 0 {
		return ""
	}
	plain := plainName(name)
	if p := g.matchPath(plain); p != "" {
		return p
	}
	if other := composeAccents(plain); other != plain {
		return g.matchPath(other)
	}
	return ""
}

func (g guard) matchPart(part string) string {
	for i := range g.parts {
		if g.parts[i].match(part) {
			return g.parts[i].whole
		}
	}
	return ""
}

func (g guard) matchPath(name string) string {
	for at := name; at != "/"; at = parent(at) {
		for _, p := range g.paths {
			if ok, _ := doublestar.Match(p, at); ok {
				return p
			}
		}
	}
	return ""
}

// composed returns a caseless name with each accent and its letter as one character where
// there is one (NFC). Some hosts, macOS among them, take both spellings for one name.
func composeAccents(name string) string {
	if norm.NFC.IsNormalString(name) {
		return name
	}
	return caseless(norm.NFC.String(name))
}

// plainName returns the name that some host would take a canonical name for: see
// plainPart. A part of which nothing is left stays as it is.
func plainName(name string) string {
	parts := strings.Split(name[1:], "/")
	for i, part := range parts {
		if part != "" && !isPlain(part) {
			if plain := plainPart(part); plain != "" {
				parts[i] = plain
			}
		}
	}
	return caseless("/" + strings.Join(parts, "/"))
}

// reaches reports whether a pattern for whole names could be about something
// below a name.
func (g guard) canMatchBelow(name string) bool {
	name = composeAccents(plainName(name))
	return slices.ContainsFunc(g.paths, func(p string) bool {
		fixed := p
		if i := strings.IndexAny(p, `*?[{\`); i >= 0 {
			fixed = p[:i]
		}
		return strings.HasPrefix(fixed, name+"/") || strings.HasPrefix(name+"/", fixed) && fixed != p
	})
}

func (p *partPattern) match(part string) bool {
	switch {
	case p.general:
		ok, _ := doublestar.Match(p.whole, caseless(part))
		return ok
	case !p.star:
		return strings.EqualFold(part, p.whole)
	}
	n := len(part)
	return n >= len(p.head)+len(p.tail) &&
		strings.EqualFold(part[:len(p.head)], p.head) && strings.EqualFold(part[n-len(p.tail):], p.tail)
}

// isPlain reports whether every host takes part for what it says, except case.
func isPlain(part string) bool {
	for i := 0; i < len(part); i++ {
		if c := part[i]; c >= 0x80 || c == ':' || c == '~' {
			return false
		}
	}
	last := part[len(part)-1]
	return last != '.' && last != ' '
}

// plainPart returns the name that some host would take part for: without case,
// without the characters that HFS+ ignores, without the trailing dots, spaces
// and stream names that Windows drops, and with the short name of .git undone.
func plainPart(part string) string {
	part = strings.Map(func(r rune) rune {
		switch {
		case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
			return -1
		}
		return r
	}, part)
	if stem, _, ok := strings.Cut(part, ":"); ok && stem != "" {
		part = stem
	}
	part = caseless(strings.TrimRight(part, ". "))
	if short, ok := strings.CutPrefix(part, "git~"); ok && short != "" && strings.Trim(short, "0123456789") == "" {
		return ".git"
	}
	return part
}
