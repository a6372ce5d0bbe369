package sandbox

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
)

// This file is the only way from a name to a file. It relies on the promise of the
// backends that no operation follows a symlink. So an operation at a name touches exactly
// the file with that name. Access is decided on the name, and no check is repeated. If an
// operation meets a symlink, it has done nothing. Then follow computes the name that the
// symlink leads to, and everything starts again with that name, including the access
// check. Somebody may change the tree while follow reads it. This is safe, because follow
// only computes the next name to try.

const (
	maxLinks    = 40 // in one call of followParts, as on Linux
	maxAttempts = 16 // tries of one operation while somebody keeps changing symlinks
)

// A location is a canonical name, the rule that applies there, and the name relative to
// the mount.
type location struct {
	name string
	rel  string
	rule rule
}

// A request says what an operation needs at a name.
type request struct {
	op     string
	access Access
	// dirs also allows a directory that is visible only because something below it is.
	dirs bool
	// noFollow means that a symlink in the last part is not followed.
	noFollow bool
	// noSuggestions skips the search for names similar to one that was not found.
	noSuggestions bool
	// removes is true if the operation removes a name. Other operations with ReadWrite
	// make or change a file.
	removes bool
	// onlyAsk is true if the caller only asks where a name leads. Then noWrite of a rule
	// does not apply.
	onlyAsk bool
}

// do resolves name and calls act with the location. It follows symlinks and calls act
// again until act returns something other than ErrLink. Every error is an *Error about
// the name that the caller asked for.
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

// Locate returns the canonical name that name leads to after following symlinks. It
// returns an error if the policy forbids an operation with this access there. Nothing
// need exist at the name. With noFollow it does not follow a symlink in the last part, as
// for an operation that removes a name. Locate ignores NoWrite and NoDelete, so a caller
// can ask a sandbox that has both. The error begins with op.
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

// authorize returns the location of a canonical name, or an error if the policy forbids
// the operation there.
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

// follow resolves the symlinks in the name of p and returns a name without symlinks. With
// noFollow it keeps a symlink in the last part.
func (s *Sandbox) follow(p location, noFollow bool) (string, error) {
	m := p.rule.mount
	return s.followParts(m, m.Target, strings.Split(p.rel, "/"), noFollow)
}

// followParts resolves the parts in rest, starting at a name of the mount m that has no
// symlinks. A symlink may lead only through visible names, and never out of its mount or
// into another.
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
			return s.canonical(next, rest) // somebody just replaced it by a symlink: try again
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

// canonical joins the parts of a name after symlinks are resolved, and checks it.
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

// allowed returns a hint on where operations with this access are allowed.
func (s *Sandbox) allowed(a Access) string {
	if a == ReadWrite {
		return "writable: " + joinNames(s.table.writable) + s.table.except()
	}
	return "readable: " + joinNames(s.table.readable)
}

// explain returns the error for the caller. It is about the name that the caller asked
// for, and its hint says what is allowed instead.
func (s *Sandbox) explain(req request, asked, now string, err error) error {
	code, hint := ErrInternal, ""
	var known *Error
	if errors.As(err, &known) {
		if known.Op != "" {
			return known // a complete error about another name
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
