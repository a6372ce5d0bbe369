package sandboxtest

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/sandbox"
)

// An attack has names to try in a sandbox, and the result that each operation must have.
// Its tree is the content of the directory proj, which also has spare/mine. {host} stands
// for the directory around proj, and {canary} for a secret that no result may contain.
type attack struct {
	name  string
	paths []string
	tree  tree

	// mounts returns the mounts. It gets the backend for proj. If nil, proj is mounted rw
	// at "/".
	mounts  func(w *world, proj sandbox.Backend) []sandbox.Mount
	protect []string
	limits  [][]sandbox.Limit // layers of Restrict, one after the other

	// prepare changes the host in a way that tree cannot express. An attack with prepare
	// is only for backends on the host.
	prepare func(t testing.TB, w *world)
	host    bool // only for backends on the host
	folds   bool // only for backends that fold case

	mine    string   // virtual name of spare/mine in proj: "/spare/mine" unless set
	keep    []string // names in the world that must not change, even if the operation succeeds
	mayRead bool     // reading the secret is no leak, because the user made it visible
	skip    []string // operations that this attack does not try
	only    []string // if set, the only operations that it tries

	// want has the result of each operation, as "ops=codes" separated by spaces. Ops are
	// names of operations or groups, or all, separated by commas. Codes are separated by
	// bars. The last entry for an operation counts. There are more words than codes: ok;
	// host, which is ok on the host and not_found elsewhere; and none, ro and rw for
	// access.
	want string

	shows map[string]string // by operation: a text that the result must contain
	hides []string          // texts that no result may contain, unless they are in the given name

	// after checks the sandbox after each operation, if set.
	after func(t testing.TB, w *world, s *sandbox.Sandbox)
}

// The results of the operations at common kinds of names.
const (
	isNoName  = "all=invalid access=none"
	isMissing = "all=not_found put,mkdir=ok if=conflict|not_found resolve=host access=rw"
	isHidden  = "all=not_found access=none"
	isFile    = "all=ok directory=not_dir new,copy-to,move-to,mkdir=exists if=conflict fs.ReadLink=invalid resolve=host access=rw"
	isDir     = "all=ok file,put,if,restrict=is_dir move-to=exists delete=not_empty fs.ReadLink=invalid resolve=host access=rw"
	isTop     = isDir + " take=invalid" // also a mount, and a directory above one

	// A symlink that leaves the mount, and a name through one. Move and delete act on the
	// symlink itself.
	linkOut    = "all=outside take,fs.Lstat=ok move-to=exists access=rw"
	throughOut = "all=outside access=rw"

	// A symlink to a file or directory in the mount. A sandbox restricted to the symlink
	// does not show its target.
	linkToFile = isFile + " fs.ReadLink=ok restrict=outside"
	linkToDir  = isDir + " take,fs.ReadLink=ok restrict=outside"

	readOnlyFile    = isFile + " put,if,mkdir,take=read_only access=ro"
	readOnlyMissing = isMissing + " put,if,mkdir,take=read_only access=ro"
	protectedFile   = isFile + " put,if,mkdir,take=protected access=ro"
	protectedName   = isMissing + " put,if,mkdir,take=protected access=ro"
)

// Attacks makes sandboxes on the backend in a hostile world. It tries every operation on
// every name that might lead out of them, or to files they deny. Every attack is a
// subtest, and so is every name in it. Attacks run in parallel.
func Attacks(t *testing.T, f Fixture) {
	folds := f.open(t, tree{"a": file("a")}).Traits().FoldsCase
	for _, table := range [][]attack{nameAttacks, linkAttacks, kindAttacks, hostAttacks, mountAttacks, protectAttacks,
		restrictAttacks, overlapAttacks, caseAttacks} {
		for _, a := range table {
			if (a.host || a.prepare != nil) && !f.OnHost || a.folds && !folds {
				continue
			}
			t.Run(a.name, func(t *testing.T) {
				t.Parallel()
				a.run(t, f)
			})
		}
	}
	if f.Do != nil {
		return
	}
	for _, p := range slices.Concat(movePromises, windowPromises) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p.test(t, f)
		})
	}
}

func (a attack) run(t *testing.T, f Fixture) {
	outer := t
	want, err := a.expectations()
	if err != nil {
		t.Fatal(err)
	}
	w, s := a.begin(t, f)
	attempts := 0
	for i, name := range a.paths {
		t.Run(fmt.Sprintf("%02d", i), func(t *testing.T) {
			for _, op := range f.operations() {
				if slices.Contains(a.skip, op.name) || a.only != nil && !slices.Contains(a.only, op.name) {
					continue
				}
				attempts++
				switch a.try(t, w, s, op, w.fill(name), want[op.name]) {
				case changed:
					w, s = a.begin(outer, f)
				case hung:
					w.release()
					w, s = a.begin(outer, f)
					t.Fatal("the other operations are not tried")
				}
			}
		})
	}
	t.Logf("%d attempts", attempts)
}

// A state says what an operation did to its world.
type state int

const (
	hung    state = iota // the operation still runs
	changed              // the next operation needs a new world
	intact
)

// begin makes a new world with the sandbox under attack.
func (a attack) begin(t testing.TB, f Fixture) (*world, *sandbox.Sandbox) {
	t.Helper()
	w := newWorld(t, f)
	objects := tree{"spare/" + path.Base(a.own()): file("mine")}
	for name, o := range a.tree {
		objects[name] = o
	}
	proj := w.mount("proj", objects)
	mounts := []sandbox.Mount{{Target: "/", Backend: proj, Access: sandbox.ReadWrite}}
	if a.mounts != nil {
		mounts = a.mounts(w, proj)
	}
	if a.prepare != nil {
		a.prepare(t, w)
	}
	s, err := sandbox.New(sandbox.Config{Mounts: mounts, Protect: a.protect})
	for _, layer := range a.limits {
		if err == nil {
			s, err = s.Restrict(layer...)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	w.before = w.snapshot()
	return w, s
}

func (a attack) own() string {
	if a.mine == "" {
		return "/spare/mine"
	}
	return a.mine
}

// try runs one operation and checks its result against the oracles and the table.
func (a attack) try(t *testing.T, w *world, s *sandbox.Sandbox, op operation, name string, want []string) state {
	at := &attempt{w: w, s: s, name: name, mine: a.own()}
	switch {
	case op.ofFS && !fs.ValidPath(at.fsName()):
		want = []string{string(sandbox.ErrInvalid)}
	case op.ofFS && byMount(s, name):
		want = []string{string(sandbox.ErrNotFound)}
	}
	o := watch(op.run, at)
	if o.hung {
		t.Errorf("%s %q hangs", op.name, name)
		return hung
	}
	got := codeName(o.err)
	// Something between may refuse more, with its own codes, and search in a single file.
	if w.fixture.Do != nil && (got != "ok" || op.name == "search" && slices.Contains(want, string(sandbox.ErrNotDir))) {
		want = append(want, got)
	}
	if !slices.Contains(want, got) && !(slices.Contains(want, "host") && got == map[bool]string{true: "ok", false: "not_found"}[w.dir != ""]) {
		t.Errorf("%s %q: got %s (%v), want %s", op.name, name, got, o.err, strings.Join(want, " or "))
	}
	if o.fault != nil {
		t.Errorf("%s %q: %v", op.name, name, o.fault)
	}
	if _, answer := o.err.(accessError); o.err != nil && !answer && w.fixture.Do == nil {
		for _, wrong := range misshapen(o.err, op.ofFS) {
			t.Errorf("%s %q: the error %s: %v", op.name, name, wrong, o.err)
		}
	}
	for _, leak := range w.leaks(o, name, a) {
		t.Errorf("%s %q: %s: %s %v", op.name, name, leak, o.text, o.err)
	}
	if part := a.shows[op.name]; w.fixture.Do == nil && !strings.Contains(o.text, part) {
		t.Errorf("%s %q: got %s, want %s in it", op.name, name, o.text, part)
	}
	if a.after != nil {
		a.after(t, w, s)
	}
	list := changes(w.before, w.snapshot())
	for _, change := range w.tampered(list, o.err != nil, a.keep) {
		t.Errorf("%s %q: %s", op.name, name, change)
	}
	if len(list) > 0 && (t.Failed() || !w.restore(list)) {
		return changed
	}
	return intact
}

// byMount reports whether a name begins with the name of a mount and a colon. In io/fs
// such a name has no special meaning.
func byMount(s *sandbox.Sandbox, name string) bool {
	return slices.ContainsFunc(s.Mounts(), func(m sandbox.Mount) bool { return strings.HasPrefix(name, m.Target[1:]+":") })
}

// expectations parses want.
func (a attack) expectations() (map[string][]string, error) {
	want := map[string][]string{}
	for field := range strings.FieldsSeq(a.want) {
		ops, codes, _ := strings.Cut(field, "=")
		for word := range strings.SplitSeq(ops, ",") {
			known := false
			for _, op := range operations() {
				if word == op.name || word == op.group || word == "all" {
					want[op.name], known = strings.Split(codes, "|"), true
				}
			}
			if !known {
				return nil, fmt.Errorf("no operation %q in %q", word, a.want)
			}
		}
	}
	for _, op := range operations() {
		if want[op.name] == nil {
			return nil, fmt.Errorf("%q says nothing of %s", a.want, op.name)
		}
	}
	return want, nil
}
