package overlay_test

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/files/overlay"
)

// An item is what a path holds. The zero item is nothing.
type item struct {
	kind  overlay.Kind
	text  string // of a file or a symlink
	mode  uint32
	ctime int64 // in the real directory
}

func (i item) plain() item { i.ctime = 0; return i }

func (i item) String() string { return fmt.Sprintf("%s %o %q", i.kind, i.mode, i.text) }

// A shape is the content of a directory, by path.
type shape map[string]item

// scan reads a directory.
func scan(t *testing.T, dir string) shape {
	t.Helper()
	s := shape{}
	must(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(name, &st); err != nil {
			return err
		}
		i := item{mode: st.Mode & 0o7777, ctime: st.Ctim.Nano()}
		switch {
		case d.IsDir():
			i.kind = overlay.Dir
		case d.Type()&fs.ModeSymlink != 0:
			i.kind, i.mode = overlay.Symlink, 0
			i.text, err = os.Readlink(name)
		default:
			i.kind = overlay.File
			var data []byte
			data, err = os.ReadFile(name)
			i.text = string(data)
		}
		s[strings.TrimPrefix(name, dir+"/")] = i
		return err
	}))
	return s
}

// diff lists the paths at which two shapes differ.
func diff(a, b shape) (list []string) {
	for _, s := range []shape{a, b} {
		for name := range s {
			if a[name].plain() != b[name].plain() {
				list = append(list, name)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func (s shape) isDir(name string) bool { return name == "." || s[name].kind == overlay.Dir }

func within(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// An origin is the base of a change.
type origin struct {
	item
	unknown bool
	open    bool   // a directory that both had
	kept    bool   // a conflict in a deleted directory
	names   string // what namesBelow returned for a directory
}

// A model is what the overlay of a session should be: the changes of the session, each
// with its base, over the real directory.
type model struct {
	real  shape
	own   map[string]item // the changes of the session; the zero item is a deletion
	bases map[string]origin
}

// view returns what the session sees.
func (m *model) view() shape {
	v := shape{}
	for name, i := range m.real {
		hidden := false
		for up := name; up != "."; up = path.Dir(up) {
			if o, ok := m.own[up]; ok && (o.kind != overlay.Dir) {
				hidden = true
			}
			// The path is a directory for the session, and something else in the real
			// directory.
			if up != name && m.real[up].kind != overlay.Dir {
				hidden = true
			}
		}
		if !hidden {
			v[name] = i.plain()
		}
	}
	for name, i := range m.own {
		if i.kind != overlay.Nothing {
			v[name] = i.plain()
		}
	}
	return v
}

// hasOwn reports whether the session has changes below a path.
func (m *model) hasOwn(name string) bool {
	for own, i := range m.own {
		if own != name && within(own, name) && i.kind != overlay.Nothing {
			return true
		}
	}
	return false
}

// tidy forgets entries that are not changes: they equal the real directory or their base.
func (m *model) tidy() {
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(m.own))) {
		own, real, base := m.own[name], m.real[name], m.bases[name]
		idle := own.plain() == real.plain()
		_, known := m.bases[name]
		if known = known && !base.unknown; known && own.kind != overlay.Dir {
			idle = idle || own.plain() == base.plain()
		}
		if known && own.kind == overlay.Dir && base.kind == overlay.Dir && own.mode == base.mode {
			idle = idle || real.kind == overlay.Dir || base.open && !m.hasOwn(name)
		}
		if idle {
			delete(m.own, name)
		}
	}
	// A deletion in a directory that does not exist is nothing.
	for name, i := range m.own {
		if i.kind == overlay.Nothing && m.real[name].kind == overlay.Nothing {
			delete(m.own, name)
		}
	}
	v := m.view()
	for name := range m.bases {
		if v[name] == m.real[name].plain() {
			delete(m.bases, name)
		}
	}
}

// top returns the change that hides a path: at the path or above it.
func (m *model) top(own map[string]item, name string) (string, bool) {
	for ; name != "."; name = path.Dir(name) {
		if i, ok := own[name]; ok && i.kind != overlay.Dir {
			return name, true
		}
	}
	return "", false
}

// applyUser records a change of the real directory.
func (m *model) applyUser(now shape) {
	before := m.real
	seen := m.view()
	m.real = now
	// A directory in which the session has changes stays if the real one goes.
	for _, name := range slices.Sorted(maps.Keys(before)) {
		_, own := m.own[name]
		if before[name].kind != overlay.Dir || own || now[name].kind == overlay.Dir {
			continue
		}
		if seen[name].kind == overlay.Dir && m.hasOwn(name) {
			m.own[name] = before[name].plain()
			m.bases[name] = origin{item: before[name], open: true}
		} else if seen[name].kind == overlay.Dir {
			for own := range m.own {
				if within(own, name) {
					delete(m.own, own)
				}
			}
		}
	}
	m.tidy()
	v := m.view()
	for _, name := range diff(v, now) {
		if _, ok := m.bases[name]; ok {
			continue
		}
		o := origin{item: before[name]}
		if top, ok := m.top(m.own, name); ok && top != name && o.kind == overlay.Nothing {
			// In a deleted directory, golem cannot distinguish new files from changed
			// ones.
			o.unknown = m.bases[top].unknown || m.bases[top].kind == overlay.Dir
		}
		m.bases[name] = o
	}
}

// applySession records a change of what the session sees.
func (m *model) applySession(now shape) {
	before, own := m.view(), m.own
	for name := range own {
		if base := m.bases[name]; !now.isDir(path.Dir(name)) && m.isConflict(name) {
			base.kept, base.unknown = true, base.unknown || before.isDir(name) && m.real.isDir(name)
			m.bases[name] = base
		} else if !now.isDir(path.Dir(name)) && base.kind == overlay.File {
			base.item = m.real[name] // the user may have written the same content again
			m.bases[name] = base
		}
	}
	m.own = map[string]item{}
	for _, name := range diff(now, m.real) {
		if now.isDir(path.Dir(name)) { // otherwise it goes with its directory
			m.own[name] = now[name].plain()
		}
		base, ok := m.bases[name]
		real, dir := m.real[name], path.Dir(name)
		if top, hidden := m.top(own, name); ok && hidden && top != name && !m.isKept(name) && now.isDir(dir) && base.ctime != real.ctime {
			// The base of a file in a deleted directory is unknown.
			base.unknown = base.unknown || m.bases[top].unknown || m.bases[top].kind == overlay.Dir
		}
		switch {
		case ok && before.isDir(name) && real.kind == overlay.Dir && !now.isDir(name):
			// Both had this directory, with another mode.
			base.unknown = base.unknown || base.kind != overlay.Dir
			mode := base.mode
			base.item, base.open, base.names = real, false, m.namesBelow(name)
			base.mode = mode
		case ok && !before.isDir(name) && real.kind == overlay.Dir && now.isDir(name):
			base.open = true
		case ok:
		default:
			base = origin{item: real, open: now.isDir(name) && real.kind == overlay.Dir, names: m.namesBelow(name)}
			above, deleted := m.bases[dir]
			if deleted && above.unknown && !m.real.isDir(dir) {
				base.unknown = true
			}
			if real.kind == overlay.Nothing && !before.isDir(dir) && m.real.isDir(dir) && deleted {
				// The directory may have had it before.
				if _, noted := own[dir]; above.kind == overlay.Dir {
					base.unknown = above.ctime != m.real[dir].ctime
				} else {
					base.unknown = above.unknown || !noted && !m.isKept(dir)
				}
			}
		}
		m.bases[name] = base
	}
	for name := range m.bases {
		if now[name] == m.real[name].plain() {
			delete(m.bases, name)
		}
	}
	m.tidy()
}

// isKept reports whether a path is a conflict in a deleted directory, or is below one.
func (m *model) isKept(name string) bool {
	for ; name != "."; name = path.Dir(name) {
		if m.bases[name].kept {
			return true
		}
	}
	return false
}

// isConflict reports whether the real directory no longer has the version that the
// session changed.
func (m *model) isConflict(name string) bool {
	base, real := m.bases[name], m.real[name]
	_, own := m.own[name]
	switch {
	case base.unknown || base.kind != real.kind:
		return true
	case own && real.kind == overlay.File && base.plain() == real.plain():
		return false // the user wrote the same content again
	case real.kind == overlay.Nothing:
		return false
	case real.kind == overlay.Dir && m.own[name].kind == overlay.Dir:
		return base.mode != real.mode
	case own && real.kind == overlay.Symlink && base.text == real.text:
		return false
	case real.kind != overlay.Dir:
		return base.ctime != real.ctime
	case base.mode != real.mode || base.names != m.namesBelow(name):
		return true
	}
	for below, i := range m.real {
		if below == name || !within(below, name) {
			continue
		}
		b := m.bases[below]
		if i.kind != overlay.Dir && m.isConflict(below) || i.kind == overlay.Dir && (b.unknown || b.kind != overlay.Dir || b.mode != i.mode) {
			return true
		}
	}
	return false
}

// namesBelow returns the names in a directory and below it, with the modes of directories.
func (m *model) namesBelow(name string) string {
	var list []string
	for below, i := range m.real {
		if below == name || !within(below, name) {
			continue
		}
		if list = append(list, below); i.kind == overlay.Dir {
			list[len(list)-1] += fmt.Sprintf(" %o", i.mode)
		}
	}
	slices.Sort(list)
	return strings.Join(list, "\n")
}

// changes lists the changes in the format of formatChanges, in any order.
func (m *model) changes() []string {
	v := m.view()
	var list []string
	for name, i := range m.own {
		real, in := m.real[name], ""
		for up := path.Dir(name); up != "."; up = path.Dir(up) {
			if o := m.own[up]; o.kind == overlay.Dir && m.real[up].kind != overlay.Dir {
				in = up
			}
		}
		op := overlay.Create
		switch {
		case i.kind == overlay.Nothing:
			op = overlay.Delete
		case in != "":
		case i.kind == real.kind && i.text == real.text:
			op = overlay.Mode
		case real.kind != overlay.Nothing:
			op = overlay.Modify
		}
		line := strings.TrimSpace(fmt.Sprintf("%s %s %s", op, name, v[name].kind))
		if m.isConflict(cmp.Or(in, name)) {
			line += "!"
		}
		list = append(list, line)
	}
	slices.Sort(list)
	return list
}

// formatModel returns changes in the format of the model.
func formatModel(list []overlay.PathChange) []string {
	var all []string
	for _, c := range list {
		all = append(all, formatChanges([]overlay.PathChange{c}))
	}
	slices.Sort(all)
	return all
}

// build makes a directory of a shape.
func build(t *testing.T, dir string, s shape) {
	t.Helper()
	must(t, os.RemoveAll(dir))
	must(t, os.Mkdir(dir, 0o755))
	names := slices.Sorted(maps.Keys(s))
	for _, name := range names {
		at, i := dir+"/"+name, s[name]
		switch i.kind {
		case overlay.Dir:
			must(t, os.Mkdir(at, 0o755))
		case overlay.Symlink:
			must(t, os.Symlink(i.text, at))
		default:
			must(t, os.WriteFile(at, []byte(i.text), 0o644))
			must(t, os.Chmod(at, fs.FileMode(i.mode)))
		}
	}
	for _, name := range names {
		if s[name].kind == overlay.Dir {
			must(t, os.Chmod(dir+"/"+name, fs.FileMode(s[name].mode)))
		}
	}
}

// randomEdits returns a script with a few random edits.
func randomEdits(r *rand.Rand, word string) string {
	names := []string{"a", "b", "sub", "sub/c", "sub/deep", "sub/deep/d", "empty", "many", "many/1", "many/2", "link", "n", "n/m", "n/m/o", "sub/n", "sub/deep/n"}
	name := func() string { return names[r.IntN(len(names))] }
	var parts []string
	for range 1 + r.IntN(4) {
		form := []string{
			"echo $3$4 > $1", "echo $3$4 > $1", "echo same > $1", "rm -rf $1", "rm -rf $1", "rm -rf $1; mkdir $1", "mkdir -p $1",
			"mkdir -p $1 && echo $3 > $1/$3", "test ! -e $2 && mv $1 $2", "cp -r $1 $2", "ln -sfn $3 $1", "chmod 700 $1", "chmod 755 $1", "chmod 711 $1", "touch $1",
		}[r.IntN(15)]
		form = strings.NewReplacer("$1", name(), "$2", name(), "$3", word, "$4", fmt.Sprint(r.IntN(3))).Replace(form)
		parts = append(parts, "{ "+form+"; } 2>/dev/null || :")
	}
	return strings.Join(parts, "; ")
}

// TestSessionModel makes random steps of the session and the user, and applies and
// discards changes, on an overlay and on a model of it. After each step both must agree
// on the view, the changes and the conflicts. The real directory must have the user's
// edits and the applied changes, to the byte.
func TestSessionModel(t *testing.T) {
	const steps = 25
	known := []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 6708051971852359162, 7207918101692704907, 7564426393185837253, 10639620910726137530, 12550516941785414943, 17565503279538915823}
	for i := range testutil.Rounds(len(known)) {
		seed := known[i%len(known)]
		if i >= len(known) { // a new seed
			seed = rand.Uint64()
		}
		if s := os.Getenv("GOLEM_TEST_SEED"); s != "" {
			fmt.Sscan(s, &seed)
		}
		if !runRandomSession(t, seed, steps) {
			return
		}
	}
}

// runRandomSession makes the steps of a seed.
func runRandomSession(t *testing.T, seed uint64, steps int) bool {
	r := rand.New(rand.NewPCG(seed, 0))
	b := newSession(t)
	defer b.unmount()
	plain := t.TempDir() + "/plain"
	m := &model{real: scan(t, b.Dir), own: map[string]item{}, bases: map[string]origin{}}
	var done []string
	agree := func(step string) bool {
		t.Helper()
		list, err := b.SessionChanges()
		must(t, err)
		want := m.changes()
		bad := ""
		if got := formatModel(list); !slices.Equal(got, want) {
			bad = fmt.Sprintf("changes\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		must(t, b.RecordBases(true))
		if r.IntN(4) == 0 {
			b.unmount()
			b.mount()
		}
		b.flush()
		got, view := scan(t, b.SessionDir()), m.view()
		for _, name := range diff(got, view) {
			bad += fmt.Sprintf("\n%s: seen %v, want %v", name, got[name], view[name])
		}
		real := scan(t, b.Dir)
		for _, name := range diff(real, m.real) {
			bad += fmt.Sprintf("\n%s: in the real directory %v, want %v", name, real[name], m.real[name])
		}
		if list, err = b.SessionChanges(); bad == "" {
			must(t, err)
			if got := formatModel(list); !slices.Equal(got, want) {
				bad = fmt.Sprintf("in order, changes\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		if bad != "" {
			t.Errorf("seed %d, after\n%s\n%s:\n%s", seed, strings.Join(done, "\n"), step, bad)
		}
		done = append(done, step)
		return bad == ""
	}
	for i := range steps {
		switch r.IntN(8) {
		case 0, 1, 2:
			script := randomEdits(r, fmt.Sprintf("s%d", i))
			build(t, plain, m.view())
			run(t, plain, script)
			must(t, b.RecordBases(true))
			must(t, b.MarkStart())
			b.flush()
			run(t, b.SessionDir(), script)
			b.flush()
			now := scan(t, plain)
			if got := scan(t, b.SessionDir()); len(diff(got, now)) > 0 {
				return true // it copies a directory into itself, with many possible results
			}
			must(t, b.RecordBases(r.IntN(2) == 0))
			if m.applySession(now); !agree("> " + script) {
				return false
			}
		case 3, 4, 5:
			script := randomEdits(r, fmt.Sprintf("u%d", i))
			run(t, b.Dir, script)
			if m.applyUser(scan(t, b.Dir)); !agree("! " + script) {
				return false
			}
		case 6:
			if step := m.apply(b, r); !agree(step) {
				return false
			}
		case 7:
			if step := m.discard(b, r); !agree(step) {
				return false
			}
		}
	}
	return true
}

// randomSample returns random elements of a list.
func randomSample[T any](r *rand.Rand, list []T) (some []T) {
	for _, e := range list {
		if r.IntN(3) == 0 {
			some = append(some, e)
		}
	}
	return some
}

// apply applies some of the changes, some of them with content from a file.
func (m *model) apply(b *fixture, r *rand.Rand) string {
	b.t.Helper()
	list, err := b.SessionChanges()
	must(b.t, err)
	seen := m.view()
	want := maps.Clone(m.real)
	put := func(name string, i item) {
		for below := range want {
			if within(below, name) && (below != name || i.kind != overlay.Dir) {
				delete(want, below)
			}
		}
		if want[name] = i; i.kind == overlay.Nothing {
			delete(want, name)
		}
	}
	given := b.t.TempDir() + "/given"
	must(b.t, os.WriteFile(given, []byte("given\n"), 0o644))
	var picks []overlay.Pick
	parts := map[string]bool{}
	step := "apply"
	for _, c := range randomSample(r, list) {
		p := overlay.Pick{Path: c.Path, Force: c.Conflict}
		if (c.Kind == overlay.File || c.Op == overlay.Delete && c.OldKind == overlay.File) && r.IntN(4) == 0 {
			p.ContentFile, parts[c.Path] = given, true
		}
		picks = append(picks, p)
		step += fmt.Sprintf(" %+v", p)
	}
	for _, p := range picks {
		for _, up := range append(parentsOf(p.Path), p.Path) {
			// the directories above it, and everything in it
			if up != p.Path && want.isDir(up) {
				continue
			}
			if i := seen[up]; up != p.Path || i.kind == overlay.Dir && want.isDir(up) {
				if i.kind == overlay.Dir && want.isDir(up) {
					want[up] = i // its mode
				} else {
					put(up, i)
				}
				continue
			}
			put(up, seen[up])
			if seen[up].kind == overlay.Dir {
				for below, i := range seen {
					if below != up && within(below, up) {
						want[below] = i
					}
				}
			}
		}
	}
	for name := range parts {
		i := seen[name]
		if m.real[name].kind == overlay.File {
			i = m.real[name]
		}
		i.kind, i.text = overlay.File, "given\n"
		put(name, i.plain())
	}
	to := overlay.Overlay{Dir: b.Dir, Store: b.t.TempDir() + "/landing"}
	must(b.t, to.Init())
	var changes []overlay.PathChange
	if r.IntN(2) == 0 {
		changes, err = b.Pick(to, picks)
		must(b.t, err)
	} else {
		b.unmount()
		x := overlay.Transfer{Session: b.Overlay, To: to}
		changes, err = x.Pick(picks)
		must(b.t, err)
		must(b.t, x.Take(changes, nil))
		b.mount()
	}
	must(b.t, to.PrepareApply(changes, nil))
	must(b.t, to.FinishApply())
	now := scan(b.t, b.Dir)
	for _, name := range diff(now, want) {
		b.t.Errorf("%s: applied %v, want %v", name, now[name], want[name])
	}
	for range 1 + r.IntN(2) {
		must(b.t, b.MarkApplied(pathsOf(picks), nil))
	}
	m.real = now
	own := map[string]item{}
	for _, name := range diff(seen, now) {
		if seen.isDir(path.Dir(name)) {
			own[name] = seen[name]
		}
		if parts[name] {
			m.bases[name] = origin{item: now[name]}
		}
	}
	m.own = own
	m.tidy()
	return step
}

// parentsOf returns the directories above a name, from the top.
func parentsOf(name string) (list []string) {
	for name = path.Dir(name); name != "."; name = path.Dir(name) {
		list = append([]string{name}, list...)
	}
	return list
}

// discard discards some of the changes.
func (m *model) discard(b *fixture, r *rand.Rand) string {
	b.t.Helper()
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(m.own)) {
		if r.IntN(4) == 0 {
			paths = append(paths, name)
		}
	}
	must(b.t, b.Discard(paths))
	for _, p := range paths {
		for name := range m.own {
			if within(name, p) {
				delete(m.own, name)
			}
		}
		for name := range m.bases {
			if within(name, p) {
				delete(m.bases, name)
			}
		}
	}
	m.tidy()
	return "discard " + strings.Join(paths, " ")
}
