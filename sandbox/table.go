package sandbox

import (
	"maps"
	"slices"
	"strings"
)

// fileLimits limits the suffix and size of files.
type fileLimits struct {
	suffixes []string // empty: no limit
	maxBytes int64    // 0: no limit
}

// newFileLimits returns the limits, nil if there are none, or why they are invalid.
func newFileLimits(suffixes []string, maxBytes int64) (*fileLimits, string) {
	if slices.ContainsFunc(suffixes, func(s string) bool { return s == "" || strings.ContainsAny(s, "/\x00") }) {
		return nil, "a suffix must be the end of a file name, such as .md"
	}
	if maxBytes < 0 {
		return nil, "the size limit must not be negative"
	}
	if len(suffixes) == 0 && maxBytes == 0 {
		return nil, ""
	}
	return &fileLimits{slices.Clone(suffixes), maxBytes}, ""
}

// A layer has the limits of one Restrict.
type layer []limit

type limit struct {
	path              string
	access            Access
	fileLimits        *fileLimits // nil: none
	noWrite, noDelete bool
}

func (s *Sandbox) newLayer(limits []Limit) (layer, error) {
	l := make(layer, 0, len(limits))
	known := spelling(maps.Clone(s.table.spellings))
	for _, given := range limits {
		name, why := s.clean(given.Path)
		var b *fileLimits
		if why == "" {
			b, why = newFileLimits(given.Suffixes, given.MaxFileBytes)
		}
		if why != "" {
			return nil, &Error{Op: "restrict", Path: given.Path, Code: ErrInvalid, Hint: why}
		}
		// Two limits whose paths differ only in case are one. The first decides the
		// spelling, which is also the name of a new file there.
		if m := s.table.find(name).mount; known != nil && (m == nil || m.traits.FoldsCase) {
			name = known.spell(name)
			known.add(name)
		}
		l = append(l, limit{name, min(given.Access, ReadWrite), b, given.NoWrite, given.NoDelete})
	}
	return l, nil
}

// lower lowers a rule to what the layer allows at name. The limit with the longest path
// decides, or all of them if there are several. If no limit applies, nothing is allowed.
func (l layer) lower(r *rule, name string) {
	longest := 0
	for _, limit := range l {
		if within(limit.path, name) {
			longest = max(longest, len(limit.path))
		}
	}
	if longest == 0 {
		r.access = None
	}
	for _, limit := range l {
		if len(limit.path) == longest && within(limit.path, name) {
			r.access = min(r.access, limit.access)
			r.addFileLimits(limit.fileLimits)
			r.noWrite = r.noWrite || limit.noWrite
			r.noDelete = r.noDelete || limit.noDelete
		}
	}
}

// A rule says what is allowed at a name and below it, down to the next name with its own
// rule.
type rule struct {
	mount  *mount // nil: no mount holds the name
	access Access
	// fileLimits are the limits of the mount, of mounts that share the host directory,
	// and of layers.
	fileLimits []*fileLimits
	// noWrite and noDelete are the halves of ReadWrite that layers forbid.
	noWrite, noDelete bool
}

// addFileLimits adds limits to the rule unless it has them already.
func (r *rule) addFileLimits(b *fileLimits) {
	if b != nil && !slices.Contains(r.fileLimits, b) {
		r.fileLimits = append(r.fileLimits, b)
	}
}

// maxBytes returns the smallest size limit of the rule, 0 if there is none.
func (r rule) maxBytes() int64 {
	var least int64
	for _, b := range r.fileLimits {
		if b.maxBytes > 0 && (least == 0 || b.maxBytes < least) {
			least = b.maxBytes
		}
	}
	return least
}

// suffix returns the allowed suffixes if name has none of them, otherwise nil.
func (r rule) suffix(name string) []string {
	for _, b := range r.fileLimits {
		if len(b.suffixes) > 0 && !hasSuffix(name, b.suffixes) {
			return b.suffixes
		}
	}
	return nil
}

// A table has mounts, overlaps and layers compiled into one rule for each name at which
// something changes. The rule of the longest name that contains a given name decides. The
// time for a lookup does not depend on the number of rules.
type table struct {
	rules     map[string]rule
	longest   int             // length of the longest name in rules
	deeper    map[string]bool // names with a rule strictly below them
	above     map[string]bool // names with something visible strictly below them
	permanent map[string]bool // visible mounts and the directories above them, which always exist for the caller
	children  map[string][]string
	spellings spelling // spellings of these names, if a mount folds case
	readable  []string
	writable  []string
}

func (s *Sandbox) compile() table {
	t := table{rules: map[string]rule{}, deeper: map[string]bool{}, above: map[string]bool{},
		permanent: map[string]bool{}, children: map[string][]string{}}
	targets := map[string]*mount{}
	for _, m := range s.mounts {
		targets[m.Target] = m
	}
	for _, name := range s.anchors() { // sorted: a directory comes before its files
		m := targets[name]
		if m == nil {
			m = t.find(parent(name)).mount
		}
		t.rules[name] = s.ruleAt(name, m)
		t.longest = max(t.longest, len(name))
	}
	for name, r := range t.rules {
		for up := name; up != "/"; {
			up = parent(up)
			t.deeper[up] = true
			if r.access > None {
				t.above[up] = true
			}
		}
	}
	for _, m := range s.mounts {
		if t.rules[m.Target].access > None || t.above[m.Target] {
			t.show(m.Target)
		}
	}
	t.readable = t.roots(ReadOnly)
	t.writable = t.roots(ReadWrite)
	if s.folds() {
		t.spellings = spelling{}
		for name, r := range t.rules {
			if r.mount == nil || r.mount.traits.FoldsCase {
				t.spellings.add(name)
			}
		}
		for _, m := range s.mounts {
			t.spellings.add(m.Target)
		}
	}
	return t
}

// folds reports whether some mount treats names that differ in case as one.
func (s *Sandbox) folds() bool {
	return slices.ContainsFunc(s.mounts, func(m *mount) bool { return m.traits.FoldsCase })
}

// A spelling maps the caseless forms of names that have rules, and of the directories
// above them, to the way they are written. On a host that ignores case, another way to
// write such a name would reach the same files by another rule. So every name is written
// in the known way before anything is decided. The nil spelling leaves names as they are.
type spelling map[string]string

func (known spelling) add(name string) {
	for ; name != "/"; name = parent(name) {
		known[caseless(name)] = name
	}
}

// spell returns a canonical name with its longest known part written in the known way.
func (known spelling) spell(name string) string {
	if known == nil {
		return name
	}
	for up := name; up != "/"; up = parent(up) {
		if way, ok := known[caseless(up)]; ok {
			return way + name[len(up):]
		}
	}
	return name
}

// show records that name and the directories above it always exist for the caller.
func (t *table) show(name string) {
	for !t.permanent[name] {
		t.permanent[name] = true
		if name == "/" {
			return
		}
		up := parent(name)
		t.children[up] = append(t.children[up], relative(up, name))
		name = up
	}
}

// roots returns the topmost names with at least this access.
func (t *table) roots(access Access) []string {
	var list []string
	for name, r := range t.rules {
		if r.access < access {
			continue
		}
		if name != "/" && t.find(parent(name)).access >= access {
			continue
		}
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// except returns a hint with the read-only names inside writable ones.
func (t *table) except() string {
	var names []string
	for name, r := range t.rules {
		if r.access == ReadOnly && name != "/" && t.find(parent(name)).access == ReadWrite {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return " but not " + joinNames(names)
}

// find returns the rule of the longest name that contains name.
func (t *table) find(name string) rule {
	if len(name) > t.longest {
		if t.longest == 0 {
			return rule{}
		}
		if name[t.longest] == '/' {
			name = name[:t.longest]
		} else {
			name = parent(name[:t.longest])
		}
	}
	for {
		if r, ok := t.rules[name]; ok {
			return r
		}
		if name == "/" {
			return rule{}
		}
		name = parent(name)
	}
}

// lookup returns the rule for a canonical name.
func (s *Sandbox) lookup(name string) rule { return s.table.find(name) }

// isVisible reports whether the caller can see name, because it is allowed or because
// something below it is.
func (s *Sandbox) isVisible(name string) bool {
	return s.lookup(name).access > None || s.table.above[name]
}

// Anchors returns every name at which the allowed access may change, in order: mounts,
// shared directories and limits. Between two anchors it does not change.
func (s *Sandbox) Anchors() []string { return s.anchors() }

// anchors returns the same as Anchors.
func (s *Sandbox) anchors() []string {
	var names []string
	for _, m := range s.mounts {
		names = append(names, m.Target)
	}
	for _, o := range s.overlaps {
		names = append(names, o.location)
	}
	for _, l := range s.layers {
		for _, limit := range l {
			names = append(names, limit.path)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ruleAt computes the rule for a name that the mount m holds.
//
//	access(name) = min(mount, mounts that share the directory, every layer)
func (s *Sandbox) ruleAt(name string, m *mount) rule {
	if m == nil {
		return rule{}
	}
	r := rule{mount: m, access: m.Access}
	r.addFileLimits(m.fileLimits)
	for _, o := range s.overlaps {
		if o.in == m && within(o.location, name) {
			r.access = min(r.access, o.with.Access)
			r.addFileLimits(o.with.fileLimits)
		}
	}
	for _, l := range s.layers {
		l.lower(&r, name)
	}
	return r
}

// joinNames joins as many names as fit into a hint.
func joinNames(names []string) string {
	const most = 60
	if len(names) == 0 {
		return "nothing"
	}
	var b strings.Builder
	for i, name := range names {
		if b.Len() > most {
			b.WriteString(", …")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(brief(name))
	}
	return b.String()
}
