package sandbox

import (
	"errors"
	"os"
	"slices"
	"strings"
)

// A Sandbox is a view of files: mounts, and layers of limits above them. It is
// immutable and may be used by many goroutines at once. The zero Sandbox shows
// nothing.
type Sandbox struct {
	mounts   []*mount
	overlaps []overlap
	layers   []layer
	protect  []string
	guard    guard
	table    table
}

// Config is what a Sandbox is made from.
type Config struct {
	Mounts []Mount
	// Protect adds patterns to those that [Protected] names: ".env" or "*.key"
	// for a name anywhere, "/ci/**" for one place.
	Protect []string
}

// A Mount puts a directory of the host, or another store, at a virtual path.
type Mount struct {
	// Target is the virtual path.
	Target string
	// Source is the directory on the host. It must exist, unless Base is set.
	Source Host
	// Base, where set, is an existing directory that Source is relative to. Such a
	// source is reached without following a link below Base, and may be missing:
	// it is then an empty directory until the first write makes it.
	Base Host
	// Backend is used in place of Source where set.
	Backend Backend
	// Access is the most that is allowed here. The zero value hides the mount.
	Access Access
	// Suffixes, where there are any, are the only endings that files read or
	// written here may have, in any case: ".md", ".tar.gz".
	Suffixes []string
	// MaxFileBytes, where above zero, limits the size of files read or written.
	MaxFileBytes int64
}

// mount is a Mount that has passed New.
type mount struct {
	Mount
	traits     Traits
	fileLimits *fileLimits // nil: none
}

// New makes a sandbox. Two mounts at one target, a source that is missing or
// lies under /proc, /sys or /dev, and a pattern that is none are errors.
func New(c Config) (*Sandbox, error) {
	s := &Sandbox{protect: slices.Clone(c.Protect)}
	var why string
	if s.guard, why = newGuard(c.Protect); why != "" {
		return nil, &Error{Op: "mount", Code: ErrInvalid, Hint: why}
	}
	for _, given := range c.Mounts {
		m, err := newMount(given)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(s.mounts, func(o *mount) bool { return o.Target == m.Target }) {
			return nil, &Error{Op: "mount", Path: m.Target, Code: ErrExists, Hint: "two mounts at one target; give each its own"}
		}
		s.mounts = append(s.mounts, m)
	}
	if err := s.spellTargets(); err != nil {
		return nil, err
	}
	s.overlaps = append(findOverlaps(s.mounts), kernelDirs(s.mounts)...)
	if s.folds() {
		known := table{spellings: spelling{}}
		for _, m := range s.mounts {
			known.spellings.add(m.Target)
		}
		for i := range s.overlaps {
			for _, name := range []*string{&s.overlaps[i].location, &s.overlaps[i].at} {
				if *name != "" {
					*name = known.spellings.spell(*name)
					known.spellings.add(*name)
				}
			}
		}
	}
	s.table = s.compile()
	return s, nil
}

// spellTargets writes the targets of mounts one way, where case does not count.
func (s *Sandbox) spellTargets() error {
	if !s.folds() {
		return nil
	}
	known := spelling{}
	for _, m := range s.mounts {
		if _, twice := known[caseless(m.Target)]; twice && slices.ContainsFunc(s.mounts, func(o *mount) bool {
			return o != m && caseless(o.Target) == caseless(m.Target)
		}) {
			return &Error{Op: "mount", Path: m.Target, Code: ErrExists, Hint: "two mounts whose targets differ only in case; give each its own"}
		}
		m.Target = known.spell(m.Target)
		known.add(m.Target)
	}
	return nil
}

func newMount(given Mount) (*mount, error) {
	m := &mount{Mount: given}
	target, why := clean(given.Target)
	if why != "" {
		return nil, &Error{Op: "mount", Path: given.Target, Code: ErrInvalid, Hint: why}
	}
	m.Target = target
	m.Suffixes = slices.Clone(given.Suffixes)
	if m.fileLimits, why = newFileLimits(given.Suffixes, given.MaxFileBytes); why == "" && given.Access > ReadWrite {
		why = "access must be none, ro or rw"
	}
	if why != "" {
		return nil, &Error{Op: "mount", Path: target, Code: ErrInvalid, Hint: why}
	}
	if m.Backend == nil {
		b, err := openDir(given.Base, given.Source)
		if err != nil {
			return nil, mountError(target, err)
		}
		m.Backend = b
	}
	m.traits = m.Backend.Traits()
	return m, nil
}

// Dir returns a backend for a directory of the host, which must exist. A Mount
// with a Source makes its own.
func Dir(dir Host) (Backend, error) { return DirIn("", dir) }

// DirIn returns a backend for a source below a base, as a Mount has them.
func DirIn(base, source Host) (Backend, error) {
	b, err := openDir(base, source)
	if err != nil {
		return nil, mountError("", err)
	}
	return b, nil
}

// DirAt returns a backend for a directory that is open, and need have no name here,
// with the traits that are given. It is for a directory that is shown through a layer,
// which the kernel makes on Linux alone: elsewhere it is an error. The file must
// stay open for as long as the backend is used.
func DirAt(dir *os.File, t Traits) (Backend, error) { return openAt(dir, t) }

// Restrict returns a sandbox with one more layer: at each limit's path and
// below, at most its access; everywhere else nothing. The longest path decides
// within a layer, the least access among layers. Names stay as they are. With
// no limits at all, nothing is left.
//
// A limit is about names: where one directory of the host is mounted at two places,
// a limit on the one does not bind the other, as the mounts' own access does.
//
// Restricting only lowers: a limit above what s has leaves what s has. To
// refuse such a wish instead, ask [Sandbox.Within] first.
func (s *Sandbox) Restrict(limits ...Limit) (*Sandbox, error) {
	l, err := s.newLayer(limits)
	if err != nil {
		return nil, err
	}
	lesser := *s
	lesser.layers = append(slices.Clip(s.layers), l)
	lesser.table = lesser.compile()
	return &lesser, nil
}

// Within returns nil if s has all that the limits ask for, each at its own
// path, and otherwise an error that names every excess. Every part of it is an
// *Error with the code ErrExceedsParent.
func (s *Sandbox) Within(limits ...Limit) error {
	var excess []error
	for _, l := range limits {
		name, why := s.clean(l.Path)
		if why != "" {
			excess = append(excess, &Error{Op: "restrict", Path: l.Path, Code: ErrInvalid, Hint: why})
		} else if have := s.lookup(name).access; l.Access > have {
			excess = append(excess, &Error{Op: "restrict", Path: name, Code: ErrExceedsParent,
				Hint: "asks " + l.Access.String() + ", the parent has " + have.String()})
		}
	}
	return errors.Join(excess...)
}

// Canonical returns the one form of a name that errors and results have, and in
// which policies speak of it. It does not look at any file.
func (s *Sandbox) Canonical(name string) (string, error) {
	canonical, why := s.clean(name)
	if why != "" {
		return "", s.invalid(request{op: "name", access: ReadOnly}, name, why)
	}
	return canonical, nil
}

// FoldsCase reports whether some mount takes names that differ in case for one.
func (s *Sandbox) FoldsCase() bool { return s.folds() }

// Access returns what is allowed at name: None for a name that is not valid.
// It looks at the policy only, not at the files.
func (s *Sandbox) Access(name string) Access {
	name, why := s.clean(name)
	if why != "" {
		return None
	}
	a := s.lookup(name).access
	if a == ReadWrite && s.guard.match(name) != "" {
		return ReadOnly
	}
	return a
}

// CanRead reports whether the policy lets name be read.
func (s *Sandbox) CanRead(name string) bool { return s.Access(name) >= ReadOnly }

// CanWrite reports whether the policy lets name be written.
func (s *Sandbox) CanWrite(name string) bool { return s.Access(name) >= ReadWrite }

// MountOf returns the mount that holds name, with the access that is left of
// it at that name. It reports false where nothing is shown.
func (s *Sandbox) MountOf(name string) (Mount, bool) {
	name, why := s.clean(name)
	if why != "" {
		return Mount{}, false
	}
	r := s.lookup(name)
	if r.mount == nil || r.access == None {
		return Mount{}, false
	}
	return r.mount.withAccess(r.access), true
}

// Mounts returns the mounts, ordered by target, each with the access that is
// left at its target. Those that nothing is left of are not among them.
func (s *Sandbox) Mounts() []Mount {
	var list []Mount
	for _, m := range s.mounts {
		if r := s.lookup(m.Target); r.access > None || s.table.above[m.Target] {
			list = append(list, m.withAccess(r.access))
		}
	}
	slices.SortFunc(list, func(a, b Mount) int { return strings.Compare(a.Target, b.Target) })
	return list
}

// Config returns what the sandbox was made from, before any Restrict: for the
// user's side, since a sandbox made from it again is not restricted.
func (s *Sandbox) Config() Config {
	c := Config{Protect: slices.Clone(s.protect)}
	for _, m := range s.mounts {
		c.Mounts = append(c.Mounts, m.withAccess(m.Access))
	}
	return c
}

// left returns the mount as others may have it, with the access that is left.
func (m *mount) withAccess(access Access) Mount {
	shown := m.Mount
	shown.Access = access
	shown.Suffixes = slices.Clone(m.Suffixes)
	return shown
}

// String names what is shown, and how far it may be used.
func (s *Sandbox) String() string {
	var parts []string
	for _, m := range s.Mounts() {
		parts = append(parts, brief(m.Target)+" "+m.Access.String())
	}
	return "sandbox(" + strings.Join(parts, ", ") + ")"
}

// ReadableRoots returns the topmost names that may be read, with all below
// them except what a deeper mount or limit says.
func (s *Sandbox) ReadableRoots() []string { return slices.Clone(s.table.readable) }

// WritableRoots returns the topmost names that may be written.
func (s *Sandbox) WritableRoots() []string { return slices.Clone(s.table.writable) }

// clean is the package's clean, which also knows "name:rest" for a mount at
// "/name", and how names that have rules are spelled.
func (s *Sandbox) clean(name string) (canonical, why string) {
	if i := strings.IndexAny(name, ":/"); i > 0 && name[i] == ':' {
		if target := s.table.spellings.spell("/" + name[:i]); s.table.permanent[target] && s.lookup(target).mount != nil {
			inside, why := clean("/" + strings.TrimLeft(name[i+1:], "/"))
			if why != "" {
				return "", why
			}
			name = target + inside
		}
	}
	canonical, why = clean(name)
	return s.table.spellings.spell(canonical), why
}
