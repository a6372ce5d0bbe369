package sandbox

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

// Protected returns the patterns of names that are read-only in every sandbox:
// repositories, and the files that say what a worker or a command may do. golem stops at a
// golem-forge.yaml, which may be a project file under a wrong name. Only clearance changes them.
func Protected() []string {
	return []string{".git", ".golem", "golem-forge.config.y*ml", "golem-forge.y*ml", "*.worker"}
}

// Protection returns a function that returns the pattern that protects a canonical name, or a
// directory above it, from every change, "" if there is none. It remembers the directories of the
// names, so that each part of many names in a deep tree is compared once.
func (s *Sandbox) Protection() func(name string) string {
	type found struct {
		part, path      string // the patterns
		plain, composed string // the name, as patterns with a slash match it
	}
	known := map[string]found{"/": {}}
	var find func(name string) found
	find = func(name string) found {
		if f, ok := known[name]; ok {
			return f
		}
		dir := parent(name)
		f := find(dir)
		known[dir] = f
		base := strings.TrimPrefix(name[len(dir):], "/")
		if f.part == "" {
			f.part = s.guard.matchOne(base)
		}
		if len(s.guard.paths) > 0 {
			plain := plainName("/" + base)
			f.plain, f.composed = f.plain+plain, f.composed+composeAccents(plain)
			f.path = cmp.Or(s.guard.matchWhole(f.plain), s.guard.matchWhole(f.composed), f.path)
		}
		return f
	}
	return func(name string) string {
		if !strings.HasPrefix(name, "/") {
			return ""
		}
		f := find(name)
		return cmp.Or(f.part, f.path)
	}
}

// A guard matches protected names. A pattern without a slash applies to any part of a
// name, and a pattern with a slash to the whole name from "/". Both also protect
// everything below a match. Both ignore case and the way in which accents are encoded.
type guard struct {
	parts []partPattern
	paths []string
}

// A partPattern is a caseless pattern for one part of a name. Most patterns have at most
// one star. For these, match compares the text before and after the star without
// allocating.
type partPattern struct {
	whole      string
	head, tail string
	star       bool
	general    bool
}

func newGuard(patterns []string) (guard, string) {
	var g guard
	for _, pattern := range patterns {
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

// canMatch reports whether a pattern can match a name. A pattern that never matches would
// leave a file unprotected by mistake.
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
		if p := g.matchOne(part); p != "" {
			return p
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

// matchOne returns the pattern that protects one part of a name, or "".
func (g guard) matchOne(part string) string {
	if !isPlain(part) {
		part = plainPart(part)
	}
	if p := g.matchPart(part); p != "" {
		return p
	}
	if other := composeAccents(part); other != part {
		return g.matchPart(other)
	}
	return ""
}

// matchWhole returns the pattern with a slash that matches a name, whatever the directories above it
// are.
func (g guard) matchWhole(name string) string {
	for _, p := range g.paths {
		if ok, _ := doublestar.Match(p, name); ok {
			return p
		}
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
			if len(at) < len(name) && !canMatchAbove(p, at) {
				continue
			}
			if ok, _ := doublestar.Match(p, at); ok {
				return p
			}
		}
	}
	return ""
}

// canMatchAbove reports whether a pattern can match a directory above a name that it does
// not match. It compares only the last parts: in a deep tree whole names cost too much.
func canMatchAbove(pattern, dir string) bool {
	if strings.ContainsAny(pattern, `{[\`) {
		return true
	}
	last := pattern[strings.LastIndexByte(pattern, '/')+1:]
	if last == "**" {
		return false // it would match the name, too
	}
	ok, _ := doublestar.Match(last, dir[strings.LastIndexByte(dir, '/')+1:])
	return ok
}

// composeAccents returns a caseless name in normal form NFC, in which a letter and its
// accent are one character if possible. Some hosts, such as macOS, treat both encodings
// as one name.
func composeAccents(name string) string {
	if !strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return name
	}
	if composed := compose(name); composed != name {
		return caseless(composed)
	}
	return name
}

// plainName applies plainPart to each part of a canonical name. A part stays as it is if
// plainPart would leave nothing of it.
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

// canMatchBelow reports whether a pattern for whole names could match a name below this
// one.
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

// isPlain reports whether every host takes part as it is written, except for case.
func isPlain(part string) bool {
	for i := 0; i < len(part); i++ {
		if c := part[i]; c >= 0x80 || c == ':' || c == '~' {
			return false
		}
	}
	last := part[len(part)-1]
	return last != '.' && last != ' '
}

// plainPart returns the name that some host would take part for. It removes the
// characters that HFS+ ignores, and the trailing dots, spaces and stream names that
// Windows ignores. It ignores case, and replaces the short name of .git.
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
