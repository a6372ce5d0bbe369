package sandbox

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
)

// This file is the way from a name to a file, the only one. It rests on the
// backends' promise that an operation meets no symbolic link: what a link-free
// operation at a name touches is what the name says, so access is decided on
// the name, and no check has to be repeated. When a link is met nothing has
// happened; follow then works out, by hand, the name that the link leads to,
// and everything starts again from that name, access included. What follow
// sees may change under its feet: it only ever computes the next name to try.

const (
	maxLinks    = 40 // in one walk by hand, as Linux has it
	maxAttempts = 16 // with somebody changing the tree all the time
)

// A place is a name with the rule that holds there, and its name in the mount.
type location struct {
	name string
	rel  string
	rule rule
}

// A want says what an operation needs at a name.
type request struct {
	op     string
	access Access
	// directories admits a directory that is only shown because something below it is.
	dirs bool
	// itself keeps a link in the last part from being followed.
	noFollow bool
	// bare saves the search for names like one that was not found.
	noSuggestions bool
	// removes is for what takes a name away, where others with ReadWrite make or
	// change it.
	removes bool
	// asks is for who only wants to know where a name leads. The halves of
	// ReadWrite that a layer has taken bind who acts.
	onlyAsk bool
}

// do resolves name and calls act at the place, again for every link on the way,
// until act returns something other than ErrLink. Whatever goes wrong comes
// back as an *Error about the name that was asked for.
func (s *Sandbox) do(req request, name string, act func(location) error) error {
	asked, why := s.clean(name)
	if why != "" {
		return s.invalid(req, name, why)
	}
	now := asked
	for range maxAttempts {
		p, err := s.authorize(req, now)
		if err == nil {
			err = act(p)
		}
		if err == nil {
			return nil
		}
		if errors.Is(err, ErrLink) {
			if now, err = s.follow(p, req.noFollow); err == nil {
				continue
			}
		}
		return s.explain(req, asked, now, err)
	}
	return &Error{Op: req.op, Path: asked, Code: ErrConflict, Hint: "symlinks in the path keep changing; try again"}
}

// Locate returns the canonical name that name leads to, links followed, if the
// policy lets an operation with this access go there, and otherwise the error
// that it would meet. There need not be anything at the name. With itself, a
// link in the last part is not followed: that is what an operation that removes
// a name acts on. NoWrite and NoDelete do not count: a sandbox with both can be
// asked and not changed. The op is the word that the error begins with.
func (s *Sandbox) Locate(op, name string, access Access, noFollow bool) (string, error) {
	at := ""
	req := request{op: op, access: access, dirs: access < ReadWrite, noFollow: noFollow, onlyAsk: true}
	err := s.do(req, name, func(p location) error {
		at = p.name
		if p.rule.mount == nil {
			return nil // a directory above mounts
		}
		attr, err := p.rule.mount.Backend.Lstat(p.rel)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err == nil && attr.Mode&fs.ModeSymlink != 0 && !noFollow:
			return ErrLink
		}
		return err
	})
	if err != nil {
		return "", err
	}
	return at, nil
}

// place decides whether the policy admits the operation at a canonical name.
func (s *Sandbox) authorize(req request, name string) (location, error) {
	r := s.lookup(name)
	p := location{name: name, rule: r}
	if r.mount != nil {
		p.rel = relative(r.mount.Target, name)
	}
	switch {
	case r.access == None && req.dirs && s.table.above[name]:
		return p, nil
	case r.access == None:
		return p, ErrNotFound
	case r.access < req.access:
		return p, ErrReadOnly
	case req.access == ReadWrite && req.removes && r.noDelete:
		return p, &Error{Code: ErrReadOnly, Hint: "it may be written here, but not deleted or moved away"}
	case req.access == ReadWrite && !req.removes && r.noWrite && !req.onlyAsk:
		return p, &Error{Code: ErrReadOnly, Hint: "it may be deleted or moved away, but not written"}
	case req.access == ReadWrite:
		if pattern := s.guard.match(name); pattern != "" {
			return p, &Error{Code: ErrProtected, Hint: "only clearance can change " + pattern + " and the files in it"}
		}
		if dir := p.repository(); dir != "" {
			return p, &Error{Code: ErrProtected, Hint: "git would treat " + brief(dir) + " as a repository, which only clearance can change; choose another name"}
		}
	}
	return p, nil
}

// follow walks the name of p by hand and returns the name that it leads to,
// which has no link in it. With itself, a link in the last part stays.
func (s *Sandbox) follow(p location, noFollow bool) (string, error) {
	m := p.rule.mount
	return s.followParts(m, m.Target, strings.Split(p.rel, "/"), noFollow)
}

// chase continues from a name of the mount m that has no link in it. A link may
// only pass through what is shown, and never out of its mount or into another.
func (s *Sandbox) followParts(m *mount, at string, rest []string, noFollow bool) (string, error) {
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if at == m.Target {
				return "", errLinkOutside
			}
			at = parent(at)
			continue
		}
		next := s.table.spellings.spell(join(at, part))
		if s.table.find(next).mount != m || !s.isVisible(next) {
			return "", errLinkOutside
		}
		if noFollow && len(rest) == 0 {
			return next, nil
		}
		attr, err := m.Backend.Lstat(relative(m.Target, next))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if slices.Contains(rest, "..") {
				return "", ErrNotFound
			}
			return s.canonical(next, rest)
		case errors.Is(err, ErrLink):
			return s.canonical(next, rest) // somebody made it one just now: try again
		case err != nil:
			return "", err
		case attr.Target == "":
			at = next
			continue
		case strings.HasPrefix(attr.Target, "/"):
			return "", errLinkOutside
		}
		if links++; links > maxLinks {
			return "", &Error{Code: ErrInvalid, Hint: "more than 40 symlinks in the path; they may form a loop"}
		}
		rest = append(strings.Split(attr.Target, "/"), rest...)
	}
	return s.canonical(at, nil)
}

var errLinkOutside = &Error{Code: ErrOutside, Hint: "a symlink in the path leaves its mount or points to a hidden file"}

// canonical joins and checks a name that links have made.
func (s *Sandbox) canonical(at string, rest []string) (string, error) {
	name, why := s.clean(strings.Join(append([]string{at}, rest...), "/"))
	if why != "" {
		return "", &Error{Code: ErrInvalid, Hint: why}
	}
	return name, nil
}

func (s *Sandbox) invalid(req request, name, why string) *Error {
	return &Error{Op: req.op, Path: name, Code: ErrInvalid, Hint: why + "; " + s.allowed(req.access)}
}

// allowed says where an operation of this kind may go.
func (s *Sandbox) allowed(a Access) string {
	if a == ReadWrite {
		return "writable: " + joinNames(s.table.writable) + s.table.except()
	}
	return "readable: " + joinNames(s.table.readable)
}

// explain makes the error that a caller sees: about the name asked for, with a
// hint on what is allowed instead.
func (s *Sandbox) explain(req request, asked, now string, err error) error {
	code, hint := ErrInternal, ""
	var known *Error
	if errors.As(err, &known) {
		if known.Op != "" {
			return known // about another name, and finished
		}
		code, hint = known.Code, known.Hint
	} else {
		code, hint = classify(err)
	}
	if hint == "" {
		hint = s.hint(req, now, code)
	}
	if now != "" && now != asked && s.isVisible(now) {
		hint = "it leads to " + brief(now) + "; " + hint
	}
	return &Error{Op: req.op, Path: asked, Code: code, Hint: strings.TrimSuffix(hint, "; ")}
}
