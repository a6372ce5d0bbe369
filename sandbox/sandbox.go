package sandbox

import (
	"errors"
	"os"
	"slices"
	"sort"
	"strings"
)

// A Sandbox is a view of files: mounts, and layers of limits on top. It is immutable, and
// many goroutines may use it at once. The zero Sandbox shows nothing.
type Sandbox struct {
	mounts   []*mount
	overlaps []overlap
	layers   []layer
	protect  []string
	guard    guard
	content  contentGuard
	table    table
}

// Config describes a Sandbox for [New].
type Config struct {
	Mounts []Mount
	// Protect adds patterns to those of [Protected]. ".env" and "*.key" match a name in
	// any directory, "/ci/**" matches only from the top.
	Protect []string
	// ProtectContent protects more files, by their content.
	ProtectContent ContentRule
}

// A Mount puts a directory of the host, or another store, at a virtual path.
type Mount struct {
	// Target is the virtual path.
	Target string
	// Source is the directory on the host. It must exist, unless Base is set.
	Source Host
	// If Base is set, Source is relative to this existing directory. Then no symlink
	// below Base is followed, and Source may be missing. A missing source is an empty
	// directory until the first write makes it.
	Base Host
	// Backend replaces Source if it is set.
	Backend Backend
	// Access is the highest access that is allowed here. The zero value hides the mount.
	Access Access
	// Suffixes limits the files that can be read or written here to those with one of
	// these endings, such as ".md" and ".tar.gz". Case does not matter. Empty means any
	// file.
	Suffixes []string
	// MaxFileBytes limits the size of files that can be read or written. 0 means no
	// limit.
	MaxFileBytes int64
}

// mount is a Mount that New has checked.
type mount struct {
	Mount
	traits     Traits
	fileLimits *fileLimits // nil: none
}

// New makes a sandbox. It returns an error if two mounts have the same target, if a
// source is missing or under /proc, /sys or /dev, or if a pattern is invalid.
func New(c Config) (*Sandbox, error) {
	s := &Sandbox{protect: slices.Clone(c.Protect)}
	var why string
	if s.guard, why = newGuard(append(Protected(), c.Protect...)); why == "" {
		s.content, why = newContentGuard(c.ProtectContent)
	}
	if why != "" {
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

// spellTargets makes the targets of mounts use one spelling if some mount ignores case.
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

// Dir returns a backend for a directory of the host, which must exist. A Mount with a
// Source makes its own backend.
func Dir(dir Host) (Backend, error) { return DirIn("", dir) }

// DirIn returns a backend for a source below a base, like the fields of a [Mount].
func DirIn(base, source Host) (Backend, error) {
	b, err := openDir(base, source)
	if err != nil {
		return nil, mountError("", err)
	}
	return b, nil
}

// DirAt returns a backend with the given traits for an open directory, which need not
// have a name on the host. It is for a directory that is shown through an overlay. The
// kernel makes overlays only on Linux, so DirAt returns an error on other systems. The
// file must stay open as long as the backend is used.
func DirAt(dir *os.File, t Traits) (Backend, error) { return openAt(dir, t) }

// Restrict returns a sandbox with one more layer of limits. A limit allows at most its
// access at its path and below. If no limit applies to a name, nothing is allowed there.
// Within a layer, the limit with the longest path decides. Among layers, the lowest
// access decides. Names do not change. Without any limits, the new sandbox shows nothing.
//
// A limit applies to names. If a directory of the host is mounted at two targets, a limit
// on one of them does not apply to the other. In contrast, the access of a mount applies
// to both.
//
// Restrict only lowers access. A limit above the access of s has no effect. To refuse
// such a limit instead, call [Sandbox.Within] first.
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

// Within returns nil if s has at least the access of each limit at its path. Otherwise it
// returns a joined error with one *Error for each limit that exceeds s, with the code
// ErrExceedsParent, or ErrInvalid for an invalid path.
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

// Canonical returns the canonical form of a name, which errors, results and policies use.
// It does not look at any file.
func (s *Sandbox) Canonical(name string) (string, error) {
	canonical, why := s.clean(name)
	if why != "" {
		return "", s.invalid(request{op: "name", access: ReadOnly}, name, why)
	}
	return canonical, nil
}

// FoldsCase reports whether some mount treats names that differ in case as one.
func (s *Sandbox) FoldsCase() bool { return s.folds() }

// Access returns the access that is allowed at name, None if the name is invalid. It
// looks only at the policy, not at the files.
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

// CanRead reports whether the policy allows reading name.
func (s *Sandbox) CanRead(name string) bool { return s.Access(name) >= ReadOnly }

// CanWrite reports whether the policy allows writing name.
func (s *Sandbox) CanWrite(name string) bool { return s.Access(name) >= ReadWrite }

// MountOf returns the mount that holds name. Its Access is the access that is allowed at
// that name. MountOf reports false if nothing is visible there.
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

// Mounts returns the visible mounts, ordered by target. The Access of each is the access
// that is allowed at its target.
func (s *Sandbox) Mounts() []Mount {
	var list []Mount
	for _, m := range s.mounts {
		if r := s.lookup(m.Target); r.access > None || s.table.above[m.Target] {
			list = append(list, m.withAccess(r.access))
		}
	}
	// sort.Slice keeps the program for browsers small: slices.SortFunc is compiled for each type.
	sort.Slice(list, func(i, j int) bool { return list[i].Target < list[j].Target })
	return list
}

// Config returns the configuration of the sandbox before any Restrict. It is for the
// user's side only: a sandbox made from it is not restricted.
func (s *Sandbox) Config() Config {
	c := Config{Protect: slices.Clone(s.protect), ProtectContent: s.content.rule}
	for _, m := range s.mounts {
		c.Mounts = append(c.Mounts, m.withAccess(m.Access))
	}
	return c
}

// withAccess returns a copy of the Mount with another access.
func (m *mount) withAccess(access Access) Mount {
	shown := m.Mount
	shown.Access = access
	shown.Suffixes = slices.Clone(m.Suffixes)
	return shown
}

// String returns the visible mounts with their access.
func (s *Sandbox) String() string {
	var parts []string
	for _, m := range s.Mounts() {
		parts = append(parts, brief(m.Target)+" "+m.Access.String())
	}
	return "sandbox(" + strings.Join(parts, ", ") + ")"
}

// ReadableRoots returns the topmost names that may be read. Everything below them may be
// read too, unless a mount or limit below says otherwise.
func (s *Sandbox) ReadableRoots() []string { return slices.Clone(s.table.readable) }

// WritableRoots returns the topmost names that may be written.
func (s *Sandbox) WritableRoots() []string { return slices.Clone(s.table.writable) }

// clean is like the function clean. It also accepts "name:rest" for a mount at "/name",
// and writes names that have rules in their known spelling.
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
