package sandbox

import (
	"maps"
	"slices"
	"strings"
)

// Bounds are what files of a place may be.
type fileLimits struct {
	suffixes []string // none: any
	maxBytes int64    // 0: any
}

// newBounds returns bounds, nil where there are none, or what is wrong.
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

// A layer is the limits of one Restrict.
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
		// Two limits that differ in case alone are one: the first says how it is
		// written, and so what a new file there is called.
		if m := s.table.find(name).mount; known != nil && (m == nil || m.traits.FoldsCase) {
			name = known.spell(name)
			known.add(name)
		}
		l = append(l, limit{name, min(given.Access, ReadWrite), b, given.NoWrite, given.NoDelete})
	}
	return l, nil
}

// lower lowers a rule to what the layer allows at name: what the limit with the
// longest path says, all of them where there are more, and nothing where there
// is none.
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

// A rule is all that holds at a name and below it, down to the next name that
// has a rule of its own.
type rule struct {
	mount  *mount // nil: no mount holds the name
	access Access
	// bounds limit the files of this place: those of the mount itself, of mounts
	// that share the host directory, and of layers.
	fileLimits []*fileLimits
	// noWrite and noDelete are the halves of ReadWrite that layers have taken.
	noWrite, noDelete bool
}

// bind adds bounds to the rule, each once.
func (r *rule) addFileLimits(b *fileLimits) {
	if b != nil && !slices.Contains(r.fileLimits, b) {
		r.fileLimits = append(r.fileLimits, b)
	}
}

// maxBytes returns the smallest size limit of the place, 0 for none.
func (r rule) maxBytes() int64 {
	var least int64
	for _, b := range r.fileLimits {
		if b.maxBytes > 0 && (least == 0 || b.maxBytes < least) {
			least = b.maxBytes
		}
	}
	return least
}

// suffix returns the suffixes that keep a file of this name out, or nil.
func (r rule) suffix(name string) []string {
	for _, b := range r.fileLimits {
		if len(b.suffixes) > 0 && !hasSuffix(name, b.suffixes) {
			return b.suffixes
		}
	}
	return nil
}

// A table is mounts, overlaps and layers compiled into one rule for each name
// where something changes. To decide about a name is to find the longest of
// them that holds it; how many there are does not matter.
type table struct {
	rules     map[string]rule
	longest   int             // length of the longest name in rules
	deeper    map[string]bool // names with a rule strictly below them
	above     map[string]bool // names with something shown strictly below them
	permanent map[string]bool // shown mounts and the directories above them: there, on disk or not
	children  map[string][]string
	spellings spelling // of the names above, where a mount folds case
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
	for _, name := range s.anchors() { // in order: a directory comes before what is in it
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

// folds reports whether some mount takes names that differ in case for one.
func (s *Sandbox) folds() bool {
	return slices.ContainsFunc(s.mounts, func(m *mount) bool { return m.traits.FoldsCase })
}

// A spelling knows how names that have rules are written, and the directories above
// them, by their caseless forms. On a host that ignores case another way to
// write one of them would reach the same files by another rule; so every name
// is written the known way before anything is decided. The nil spelling leaves
// names as they are.
type spelling map[string]string

func (known spelling) add(name string) {
	for ; name != "/"; name = parent(name) {
		known[caseless(name)] = name
	}
}

// spell returns a canonical name with as much of it as is known written so.
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

// show notes that name and the directories above it are always there.
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

// roots returns the topmost names with at least the access.
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

// except names what is shown in a writable place, and may only be read.
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

// find returns the rule of the longest name that holds name.
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

// lookup returns what holds at a canonical name.
func (s *Sandbox) lookup(name string) rule { return s.table.find(name) }

// visible reports whether name is shown at all: as itself, or as a directory on
// the way to something shown.
func (s *Sandbox) isVisible(name string) bool {
	return s.lookup(name).access > None || s.table.above[name]
}

// Anchors returns every name at which what is allowed may change, in order:
// mounts, what they share, limits. Between two of them nothing does.
func (s *Sandbox) Anchors() []string { return s.anchors() }

// anchors returns every name at which something may change.
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

// ruleAt works out the rule at a name that m holds from overlaps and layers.
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

// listed joins names for a hint, as many as fit.
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
