package jail

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/sandbox"
)

// FuzzPlan checks plans against the sandbox, with mounts and limits of all kinds. A plan
// must not show or write anything that the sandbox denies, and must show everything that
// it shows. A sandbox with less access must have a plan with less access, and nothing in
// the tree may reveal the path of a directory.
func FuzzPlan(f *testing.F) {
	g := newGround(f)
	for _, seed := range [][]byte{
		{},
		mix(1, 0, 1, 2, 0),
		mix(2, 0, 1, 2, 1, 4, 1, 0), // a mount at its own place
		mix(2, 0, 1, 2, 1, 6, 2, 0), // a mount of another directory
		mix(2, 0, 1, 2, 1, 4, 2, 1, 2, 0, 2, 2, 0),             // a part of it is hidden
		mix(2, 0, 1, 2, 1, 6, 2, 1, 2, 0, 2, 2, 1),             // a part of it is read-only
		mix(3, 0, 1, 2, 1, 6, 2, 2, 7, 1, 1, 2, 0, 2, 1, 1),    // a mount in a mount in the top
		mix(2, 1, 4, 2, 2, 7, 1, 2, 2, 1, 2, 14, 0, 1, 1, 1),   // restricted twice
		mix(1, 0, 1, 2, 1, 3, 0, 2, 4, 1, 5, 2),                // read-only, and in it writable again
		mix(2, 3, 1, 2, 6, 3, 1, 0),                            // one directory with two names
		mix(3, 0, 1, 1, 1, 10, 1, 2, 11, 2, 1, 1, 0, 2),        // directories that are missing
		mix(1, 10, 6, 1, 0),                                    // in a directory of the system
		mix(2, 0, 9, 2, 2, 6, 1, 1, 2, 0, 2, 2, 0),             // at a path that does not exist
		mix(4, 0, 1, 2, 1, 6, 2, 2, 2, 2, 8, 9, 2, 1, 1, 0, 2), // three deep
		mix(2, 0, 3, 1, 11, 9, 0),                              // a hidden mount at /work
		mix(1, 6, 12, 1, 1, 1, 23, 1),                          // a part of a mount without a directory
		mix(1, 10, 1, 1, 1, 1, 22, 1),                          // a part of a mount in a system directory
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		chain := g.sandboxes(&draw{data})
		var outer *plannedSandbox
		for _, s := range chain {
			mounts, err := MountsOf(s)
			if err != nil {
				if strings.Contains(err.Error(), g.top) {
					t.Errorf("the error has a host path: %v", err)
				}
				continue
			}
			l := &plannedSandbox{ground: g, s: s, plan: compile(Policy{Mounts: mounts}, 1000, 1000)}
			l.ordered(t)
			l.silent(t)
			l.agrees(t)
			if outer != nil {
				l.below(t, outer)
			}
			outer = l
		}
	})
}

// mix makes a seed.
func mix(numbers ...byte) []byte { return numbers }

// A draw makes choices from the input of the fuzzer. After the end of the input, it
// always chooses 0.
type draw struct{ data []byte }

func (d *draw) of(n int) int {
	if len(d.data) == 0 {
		return 0
	}
	b := d.data[0]
	d.data = d.data[1:]
	return int(b) % n
}

// A ground is a set of directories that are mounted in all ways.
type ground struct {
	top   string
	there map[string]bool // the existing host paths
}

func newGround(f *testing.F) ground {
	top, err := filepath.EvalSymlinks(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	for _, dir := range []string{"top/a/b/deep", "top/a/data", "top/data/deep/a", "top/data/deep/b", "top/data/a", "top/deep/a",
		"other/a/b/deep", "other/data/deep", "other/b", "bare"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			f.Fatal(err)
		}
	}
	for _, name := range []string{"top/file", "top/a/b/file", "other/a/file"} {
		if err := os.WriteFile(filepath.Join(top, name), nil, 0o644); err != nil {
			f.Fatal(err)
		}
	}
	if err := os.Symlink("../a", filepath.Join(top, "top/data/link")); err != nil {
		f.Skip(err)
	}
	g := ground{top, map[string]bool{}}
	err = filepath.WalkDir(top, func(name string, _ fs.DirEntry, err error) error {
		g.there[name] = true
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	return g
}

// The targets of mounts and limits, and the sources of mounts.
var (
	someTargets = []string{"/", "/data", "/data/deep", "/a", "/a/b", "/deep", "/b", "/data/a", "/data/deep/b", "/data-a",
		"/usr/a", "/work", "/work/a", "/tmp", "/data/deep/a", "/a/data", "/a/b/deep", "/data/link", "/file", "/a/b/file", "/new", "/top/a", "/usr/a/b", "/b/deep/a"}
	someSources = []string{".", "top", "top/a", "top/a/b", "top/data", "top/data/deep", "other", "other/data", "other/a", "bare", "top/new", "bare/new", inMemory}
)

const inMemory = "memory" // stands for a mount without a directory

// sandboxes makes a sandbox, and from each one another with less access. It makes none
// from invalid input.
func (g ground) sandboxes(d *draw) []*sandbox.Sandbox {
	var c sandbox.Config
	for range d.of(6) {
		m := sandbox.Mount{Target: someTargets[d.of(len(someTargets))], Base: sandbox.Host(g.top),
			Source: sandbox.Host(someSources[d.of(len(someSources))]), Access: sandbox.Access(d.of(3))}
		if m.Source == inMemory {
			m.Backend = sandbox.NewMemory(nil)
		}
		c.Mounts = append(c.Mounts, m)
	}
	s, err := sandbox.New(c)
	if err != nil {
		return nil
	}
	chain := []*sandbox.Sandbox{s}
	for range d.of(3) {
		var limits []sandbox.Limit
		for range d.of(5) {
			limits = append(limits, sandbox.Limit{Path: someTargets[d.of(len(someTargets))], Access: sandbox.Access(d.of(3))})
		}
		if s, err = s.Restrict(limits...); err != nil {
			break
		}
		chain = append(chain, s)
	}
	return chain
}

// names returns the names at which a rule may be broken.
func (l *plannedSandbox) names() []string {
	list := []string{"/"}
	below := func(dirs []string) (more []string) {
		for _, dir := range dirs {
			for _, part := range []string{"a", "b", "data", "deep", "link", "file", "new"} {
				more = append(more, path.Join(dir, part))
			}
		}
		return more
	}
	one := below(list)
	two := below(one)
	list = append(append(list, one...), two...)
	list = append(list, below(two)...)
	for _, name := range l.s.Anchors() {
		near := below([]string{name})
		list = append(append(append(list, name, name+"x"), near...), below(near)...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// A plannedSandbox is a sandbox with its plan.
type plannedSandbox struct {
	ground
	s    *sandbox.Sandbox
	plan plan
}

// A thing is a directory or file of the host, or nothing, with the access to it.
type thing struct {
	host   string
	access sandbox.Access
}

func holds(dir, name string) bool {
	return dir == "/" || name == dir || strings.HasPrefix(name, dir+"/")
}

// at returns the thing that the plan puts at a name. The last step with the name decides.
func (l *plannedSandbox) at(name string) (found thing) {
	for _, s := range l.plan.Steps {
		if !holds(s.Target, name) {
			continue
		}
		switch {
		case s.Do != overlayBind && !(s.Do == bind && s.Write):
			found = thing{}
		case s.Write:
			found = thing{path.Join(s.Source, strings.TrimPrefix(name, s.Target)), sandbox.ReadWrite}
		default:
			found = thing{path.Join(s.Source, strings.TrimPrefix(name, s.Target)), sandbox.ReadOnly}
		}
	}
	return found
}

// says returns the thing that the sandbox has at a name. If the sandbox shows nothing
// there, there is no host path either.
func (l *plannedSandbox) says(name string) thing {
	m, ok := l.s.MountOf(name)
	if !ok {
		return thing{}
	}
	return thing{path.Join(string(m.Backend.Traits().Host), strings.TrimPrefix(name, strings.TrimSuffix(m.Target, "/"))), m.Access}
}

// covered reports whether a command sees, at a name of the sandbox where nothing is, the
// directory around a mount. A file created there has no name in the sandbox.
func (l *plannedSandbox) covered(name, host string) bool {
	in := view{mounts: l.s.Config().Mounts}.holder(name)
	return !l.there[host] && in.Target != "" && path.Join(string(in.Backend.Traits().Host), strings.TrimPrefix(name, strings.TrimSuffix(in.Target, "/"))) != host
}

// agrees checks for every name that commands see there what the sandbox shows.
func (l *plannedSandbox) agrees(t *testing.T) {
	t.Helper()
	for _, name := range l.names() {
		want := l.says(name)
		inside := Inside(l.s, name)
		for _, called := range []string{path.Join(Work, name), name} {
			got := l.at(called)
			switch {
			case got.access == sandbox.None || called == name && holds(Work, name): // in the second case, commands use another name
			case got.access < sandbox.ReadWrite && !l.there[got.host], l.covered(name, got.host):
			case got.host != want.host || got.access > want.access:
				l.fail(t, "%s is %s of %s; the sandbox says %s of %s", called, got.access, l.short(got.host), want.access, l.short(want.host))
			}
			if called == inside && got != want && l.mustBe(name, want) {
				l.fail(t, "%s is %s of %s; the sandbox shows %s of %s", called, got.access, l.short(got.host), want.access, l.short(want.host))
			}
		}
	}
}

// mustBe reports whether what the sandbox shows exists, or a command may create it in an
// existing directory.
func (l *plannedSandbox) mustBe(name string, what thing) bool {
	return l.there[what.host] || what.access == sandbox.ReadWrite && l.there[path.Dir(what.host)] && l.says(path.Dir(name)).access == sandbox.ReadWrite
}

// below checks that the plan shows and writes nothing that the plan of the sandbox above
// does not.
func (l *plannedSandbox) below(t *testing.T, above *plannedSandbox) {
	t.Helper()
	for _, name := range l.names() {
		for _, called := range []string{path.Join(Work, name), name} {
			got, most := l.at(called), above.at(called)
			if got.access < sandbox.ReadWrite && !l.there[got.host] || l.covered(name, got.host) {
				continue
			}
			if got.access > most.access || got.host != most.host {
				l.fail(t, "%s is %s of %s; above it is %s of %s", called, got.access, l.short(got.host), most.access, l.short(most.host))
			}
		}
	}
}

// ordered checks that a directory comes before its content, that nothing comes twice, and
// that no mount touches a directory of the system. In a writable directory, a command
// must not be able to move a directory that contains another mount.
func (l *plannedSandbox) ordered(t *testing.T) {
	t.Helper()
	steps := l.plan.Steps
	own := len(compile(Policy{}, 0, 0).Steps)
	for i, s := range steps {
		if s.Target != path.Clean(s.Target) || !strings.HasPrefix(s.Target, "/") || s.Target == "/" {
			l.fail(t, "%s is no target", s.Target)
		}
		for _, before := range steps[:i] {
			if holds(s.Target, before.Target) && !(s.Target == Work && before.Do == newDir) {
				l.fail(t, "%s comes after %s", s.Target, before.Target)
			}
		}
		for _, fixed := range steps[:min(i, own)] {
			if i >= own && fixed.Target != Work && (holds(s.Target, fixed.Target) || holds(fixed.Target, s.Target)) {
				l.fail(t, "%s touches %s", s.Target, fixed.Target)
			}
		}
		if dir := path.Dir(s.Target); i >= own && l.at(dir).access == sandbox.ReadWrite && !slices.ContainsFunc(steps, func(s step) bool { return s.Target == dir }) {
			l.fail(t, "%s can be moved, and %s with it", dir, s.Target)
		}
	}
}

// silent checks that nothing that a command can read reveals the path of a directory:
// neither files and symlinks, nor names, nor variables. A directory that is only read
// must not be a bind mount, which would reveal it.
func (l *plannedSandbox) silent(t *testing.T) {
	t.Helper()
	for _, s := range l.plan.Steps {
		source := strings.Contains(s.Source, l.top)
		if !source && (s.Do == overlayBind || s.Write) {
			l.fail(t, "%s %s is of no mount", s.Do, s.Target)
		}
		if source && s.Do != overlayBind && !(s.Do == bind && s.Write) || strings.Contains(s.Target, l.top) || s.Do == overlayBind && s.Write {
			l.fail(t, "%s %s tells where a folder lies", s.Do, s.Target)
		}
	}
	if env := strings.Join(environment(Policy{}), "\n"); strings.Contains(env, l.top) {
		l.fail(t, "the environment tells where a folder lies: %s", env)
	}
}

// short returns a host path relative to the ground.
func (g ground) short(host string) string {
	if host == "" {
		return "nothing"
	}
	return strings.TrimPrefix(host, g.top+"/")
}

// fail reports an error once, with the mounts that caused it.
func (l *plannedSandbox) fail(t *testing.T, format string, args ...any) {
	t.Helper()
	for _, m := range l.s.Config().Mounts {
		t.Logf("mount %s %s of %s", m.Target, m.Access, l.short(string(m.Backend.Traits().Host)))
	}
	for _, name := range l.s.Anchors() {
		t.Logf("left  %s %s", name, l.says(name).access)
	}
	t.Log("plan\n" + strings.ReplaceAll(formatPlan(plan{Steps: l.plan.Steps[len(compile(Policy{}, 0, 0).Steps):]}), l.top+"/", ""))
	t.Fatalf(format, args...)
}
