package changes

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/sandbox"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// crashVariable makes TestCrashed apply or undo changes: its value is "apply" or "undo", the
// directory of records and the directories to change.
const crashVariable = "GOLEM_TEST_CRASH"

// TestCrashed is the process that the tests below trace and kill.
func TestCrashed(t *testing.T) {
	args := strings.Fields(os.Getenv(crashVariable))
	if len(args) < 3 {
		return
	}
	if args[0] == "undo" {
		last, err := Last(sandbox.Host(args[1]))
		if err != nil {
			t.Fatal(err)
		}
		if clash, err := last.Undo(nil); err != nil || len(clash) > 0 {
			t.Fatal(clash, err)
		}
		return
	}
	if clash, err := newChange(t, args[1], args[2:]).Apply(nil); err != nil || len(clash) > 0 {
		t.Fatal(clash, err)
	}
}

// newChange returns the changes of a command in some directories, with a record in store.
func newChange(t *testing.T, dir string, dirs []string) *Transaction {
	t.Helper()
	var layers []overlay.Overlay
	var targets []string
	for i, dir := range dirs {
		layers, targets = append(layers, overlay.Overlay{Dir: dir}), append(targets, fmt.Sprintf("/%d", i))
	}
	st := &store{dir: dir, helper: &helper{}}
	w, err := st.newRecord(layers, targets, 1)
	must(t, err)
	for _, l := range w.layers { // as a command leaves them
		upper := l.UpperDir()
		must(t, errors.Join(os.WriteFile(upper+"/changed", []byte("new"), 0o644), os.Mkdir(upper+"/made", 0o755),
			os.WriteFile(upper+"/made/f", []byte("made"), 0o644), unix.Mknod(upper+"/deleted", unix.S_IFCHR, 0)))
	}
	change, err := st.list(w)
	must(t, err)
	return change
}

// A crashGround has directories to change, and a directory of records.
type crashGround struct {
	t     *testing.T
	store string
	dirs  []string
}

// newCrashGround makes a directory in each of some places, and the records in the first.
func newCrashGround(t *testing.T, places ...string) crashGround {
	t.Helper()
	g := crashGround{t: t}
	for i, place := range append([]string{places[0]}, places...) {
		dir, err := os.MkdirTemp(place, "")
		must(t, err)
		if i == 0 {
			g.store = dir
			continue
		}
		must(t, os.WriteFile(dir+"/changed", []byte("old"), 0o644))
		must(t, os.WriteFile(dir+"/deleted", []byte("deleted"), 0o644))
		g.dirs = append(g.dirs, dir)
	}
	return g
}

const (
	crashOld = "changed=old deleted=deleted"
	crashNew = "changed=new made/f=made"
)

// states describes the directories.
func (g crashGround) states() (list []string) {
	g.t.Helper()
	for _, dir := range g.dirs {
		var files []string
		must(g.t, filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(name)
			files = append(files, strings.TrimPrefix(name, dir+"/")+"="+string(data))
			return err
		}))
		list = append(list, strings.Join(files, " "))
	}
	return list
}

// run runs TestCrashed and kills it when stop says so.
func (g crashGround) run(do string, stop func(testutil.FileCall) bool) []testutil.FileCall {
	g.t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestCrashed$")
	cmd.Env = append(os.Environ(), crashVariable+"="+strings.Join(append([]string{do, g.store}, g.dirs...), " "))
	return testutil.TraceUntil(g.t, cmd, stop)
}

// changesNames reports whether a call changes a name in the ground.
func (g crashGround) changesNames(c testutil.FileCall) bool {
	if c.Op == testutil.Write || c.Op == testutil.Sync || c.Op == testutil.Exec {
		return false
	}
	return slices.ContainsFunc(append(g.dirs, g.store), func(dir string) bool { return strings.HasPrefix(c.Path, dir+"/") })
}

// made reports whether a file of the store got its name in a trace. The last call of a killed
// process was not made.
func (g crashGround) made(calls []testutil.FileCall, name string) bool {
	return slices.ContainsFunc(calls[:len(calls)-1], func(c testutil.FileCall) bool {
		return c.Op == testutil.Rename && strings.HasPrefix(c.To, g.store+"/") && filepath.Base(c.To) == name
	})
}

// crashDisk makes a small file system.
func crashDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must(t, unix.Mount("golem", dir, "tmpfs", 0, "size=64m"))
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// TestRecoveryDirection kills golem before each change of a name while it applies changes to
// two directories. The next golem applies all of them if the decision to apply was written,
// and none otherwise. It does the same if one directory is on another file system, so that its
// changes are final.
func TestRecoveryDirection(t *testing.T) {
	if !testutil.Mounts(t) {
		return
	}
	here, elsewhere := crashDisk(t), crashDisk(t)
	for _, second := range []string{here, elsewhere} {
		directions := make(map[string]int)
		for stop, isDone := 1, false; !isDone; stop++ {
			g := newCrashGround(t, here, second)
			left := stop
			calls := g.run("apply", func(c testutil.FileCall) bool {
				if g.changesNames(c) {
					left--
				}
				return left == 0
			})
			isDone = left > 0
			done, err := Recover(sandbox.Host(g.store))
			must(t, err)
			decided := g.made(calls, decidedName)
			remembered := slices.ContainsFunc(calls[:len(calls)-1], func(c testutil.FileCall) bool {
				return c.Op == testutil.Rename && strings.HasPrefix(filepath.Base(c.To), appliedPrefix)
			})
			want, direction := crashOld, "backward"
			if decided {
				want, direction = crashNew, "forward"
			}
			when := fmt.Sprintf("killed before call %d, %v", stop, calls[len(calls)-1])
			for i, got := range g.states() {
				if got != want {
					t.Errorf("%s: directory %d has %s, want %s", when, i, got, want)
				}
			}
			if directions[direction]++; (done.Applied == 1) != (decided && !remembered) || decided && done.Reverted > 0 || len(done.Broken) > 0 {
				t.Errorf("%s, decided %v, remembered %v: got %+v", when, decided, remembered, done)
			}
			g.checkUndo(when, decided, second == elsewhere)
		}
		if directions["backward"] < 5 || directions["forward"] < 5 {
			t.Errorf("got %v: the test checks nothing", directions)
		}
	}
}

// TestKilledUndo kills golem before each change of a name while it undoes changes and removes
// the record of them. The next golem undoes the rest if the undo had begun. If the undo was
// over, it only removes the record. It never says that it cannot complete something.
func TestKilledUndo(t *testing.T) {
	for _, hasSession := range []bool{false, true} {
		directions := make(map[string]int)
		for stop, isDone := 1, false; !isDone; stop++ {
			g, before, after := newCrashGround(t, t.TempDir()), crashOld, crashNew
			var session *Overlays
			if hasSession {
				dir := t.TempDir()
				session, _ = appliedSession(t, dir, 2)
				g.store, g.dirs, before, after = dir+"/records", []string{dir + "/real"}, "", "f0=new\n f1=new\n"
			} else if clash, err := newChange(t, g.store, g.dirs).Apply(nil); err != nil || len(clash) > 0 {
				t.Fatal(clash, err)
			}
			left := stop
			calls := g.run("undo", func(c testutil.FileCall) bool {
				if g.changesNames(c) {
					left--
				}
				return left == 0
			})
			isDone = left > 0
			when := fmt.Sprintf("session %v, killed before call %d, %v", hasSession, stop, calls[len(calls)-1])
			isInterrupted := IsInterrupted(sandbox.Host(g.store))
			done, err := Recover(sandbox.Host(g.store))
			must(t, err)
			want, direction := after, "not undone"
			if g.made(calls, undoingName) {
				want, direction = before, "undone"
			}
			if want == before && !isInterrupted {
				direction = "removed"
			}
			directions[direction]++
			if got := g.states()[0]; got != want {
				t.Errorf("%s: the directory has %q, want %q", when, got, want)
			}
			if len(done.Broken) > 0 || len(done.Left) > 0 || (done.Undone == 1) != isInterrupted {
				t.Errorf("%s: got %+v, interrupted %v", when, done, isInterrupted)
			}
			kept := 0
			for _, name := range list(t, g.store) {
				switch {
				case strings.HasPrefix(name, appliedPrefix) && want == after:
					kept++
				case name != lastName || want == before:
					t.Errorf("%s: %s is left", when, name)
				}
			}
			if want == after && kept != 1 {
				t.Errorf("%s: got %d records to undo, want 1", when, kept)
			}
			if session == nil {
				continue
			}
			if got, _, err := session.Changes(); err != nil || (len(got) == 2) != (want == before) {
				t.Errorf("%s: the session has %v, %v", when, got, err)
			}
			must(t, session.Close())
		}
		if directions["not undone"] < 1 || directions["undone"] < 4 || directions["removed"] < 4 {
			t.Errorf("got %v: the test checks nothing", directions)
		}
	}
}

// TestKilledTrim checks the records that can be undone after golem was killed while it removed
// the oldest of them.
func TestKilledTrim(t *testing.T) {
	g := newCrashGround(t, t.TempDir())
	var names []string
	for i := range 2 {
		if clash, err := newChange(t, g.store, g.dirs).Apply(nil); err != nil || len(clash) > 0 {
			t.Fatal(clash, err)
		}
		names = append(names, lastIn(g.store))
		must(t, errors.Join(os.WriteFile(g.dirs[0]+"/changed", []byte{byte(i)}, 0o644), os.WriteFile(g.dirs[0]+"/deleted", nil, 0o644), os.RemoveAll(g.dirs[0]+"/made")))
	}
	oldest, err := readRecord(filepath.Join(g.store, names[0]))
	must(t, err)
	must(t, errors.Join(oldest.undecide(), os.Remove(filepath.Join(oldest.layers[0].Store, changesName)), os.Remove(filepath.Join(oldest.dir, descriptionName))))
	steps, err := History(sandbox.Host(g.store))
	if err != nil || len(steps) != 1 || steps[0].Name() != names[1] {
		t.Errorf("got %v, %v, want %s", steps, err, names[1])
	}
	must(t, (&store{dir: g.store}).unlink(names[1]))
	if name := lastIn(g.store); name != "" {
		t.Errorf("%s can be undone", name)
	}
	_, err = Recover(sandbox.Host(g.store))
	must(t, err)
	if left := list(t, g.store); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}

// checkUndo checks that applied changes can be undone, unless they are final.
func (g crashGround) checkUndo(when string, isApplied, isFinal bool) {
	g.t.Helper()
	last, err := Last(sandbox.Host(g.store))
	if !isApplied {
		if err == nil {
			g.t.Errorf("%s: nothing was applied, and golem would undo %v", when, last.Changes)
		}
		return
	}
	must(g.t, err)
	clash, err := last.Undo(nil)
	want := crashOld
	if isFinal {
		if want = crashNew; err == nil || !strings.Contains(err.Error(), overlay.ErrCannotUndo.Error()) {
			g.t.Errorf("%s: undo of final changes: got %v, %v", when, clash, err)
		}
	} else if err != nil || len(clash) > 0 {
		g.t.Errorf("%s: undo: %v, %v", when, clash, err)
	}
	for i, got := range g.states() {
		if got != want {
			g.t.Errorf("%s: after the undo directory %d has %s, want %s", when, i, got, want)
		}
	}
}

// TestAppliedIsSynced checks that golem syncs the decision to apply before the first move,
// every file of the store with its name, and staged copies before they get their names. On
// another file system the new names are on the disk before golem forgets the staged files.
func TestAppliedIsSynced(t *testing.T) {
	if !testutil.Mounts(t) {
		return
	}
	g := newCrashGround(t, crashDisk(t), crashDisk(t))
	none := func(testutil.FileCall) bool { return false }
	calls := g.run("apply", none)
	at := func(from int, is func(c testutil.FileCall) bool) int {
		t.Helper()
		i := slices.IndexFunc(calls[from:], is)
		if i < 0 {
			t.Fatal("the trace lacks a call")
		}
		return from + i
	}
	isIn := func(dir string) func(c testutil.FileCall) bool {
		return func(c testutil.FileCall) bool { return c.Op == testutil.Rename && filepath.Dir(c.To) == dir }
	}
	decided := at(0, func(c testutil.FileCall) bool {
		return c.Op == testutil.Rename && filepath.Base(c.To) == decidedName
	})
	record := filepath.Dir(calls[decided].To)
	synced := at(decided, func(c testutil.FileCall) bool { return c.Op == testutil.Sync && c.Path == record })
	for _, dir := range g.dirs {
		if first := at(0, isIn(dir)); first < synced {
			t.Errorf("%v before the decision was synced", calls[first])
		}
	}
	for _, problem := range testutil.Unsynced(calls, g.store) {
		// The kernel writes the files of commands, and renames on one file system in order.
		if !strings.Contains(problem, "/upper/") && !strings.Contains(problem, "/old/") {
			t.Errorf("in the store: %s", problem)
		}
	}
	for _, problem := range testutil.Unsynced(calls, g.dirs[1]) {
		t.Errorf("in the directory: %s", problem)
	}
	last := len(calls) - 1
	for ; !isIn(g.dirs[1])(calls[last]); last-- {
	}
	onDisk := at(last, func(c testutil.FileCall) bool { return c.Op == testutil.Sync && c.Path == g.dirs[1] })
	applied := at(0, func(c testutil.FileCall) bool {
		return c.Op == testutil.Rename && filepath.Base(c.To) == "applied" && filepath.Base(filepath.Dir(c.To)) == "1"
	})
	if applied < onDisk {
		t.Error("the changes count as applied before the new names are on the disk")
	}
}

// TestNotRemembered checks what happens if all files are in their places, but golem cannot
// remember the record. It takes the changes back if it can. If those of one directory are
// final, all of them count as applied.
func TestNotRemembered(t *testing.T) {
	if !testutil.Mounts(t) {
		return
	}
	here, elsewhere := crashDisk(t), crashDisk(t)
	for _, second := range []string{here, elsewhere} {
		g := newCrashGround(t, here, second)
		must(t, os.MkdirAll(filepath.Join(g.store, lastName, "in-the-way"), 0o700))
		clash, err := newChange(t, g.store, g.dirs).Apply(nil)
		want, isFinal := crashOld, second == elsewhere
		if isFinal {
			want = crashNew
		}
		if (err == nil) != isFinal || len(clash) > 0 {
			t.Errorf("final %v: got %v, %v", isFinal, clash, err)
		}
		for i, got := range g.states() {
			if got != want {
				t.Errorf("final %v: directory %d has %s, want %s", isFinal, i, got, want)
			}
		}
	}
}

// TestSameDirectoryTwice checks a command that sees one directory at two paths, which have the
// same name in the sandbox. Each path has its own overlay, and golem reads, skips, applies and
// undoes the change of the second one.
func TestSameDirectoryTwice(t *testing.T) {
	g := newCrashGround(t, t.TempDir())
	st := &store{dir: g.store, helper: &helper{}}
	begin := func() *Transaction {
		t.Helper()
		w, err := st.newRecord([]overlay.Overlay{{Dir: g.dirs[0]}, {Dir: g.dirs[0]}}, []string{"/x", "/x"}, 1)
		must(t, err)
		must(t, os.WriteFile(w.layers[1].UpperDir()+"/changed", []byte("new"), 0o644))
		change, err := st.list(w)
		must(t, err)
		return change
	}
	change := begin()
	if old, new, err := change.Content(change.Changes[0], 10); err != nil || string(old) != "old" || string(new) != "new" {
		t.Errorf("got %q, %q, %v", old, new, err)
	}
	if clash, err := change.Apply([]string{"/x/changed"}); err != nil || len(clash) > 0 || g.states()[0] != crashOld {
		t.Errorf("skipped: got %v, %v, %v", clash, err, g.states())
	}
	if clash, err := begin().Apply(nil); err != nil || len(clash) > 0 || g.states()[0] != "changed=new deleted=deleted" {
		t.Errorf("applied: got %v, %v, %v", clash, err, g.states())
	}
	last, err := Last(sandbox.Host(g.store))
	must(t, err)
	var names []string
	must(t, last.Each(func(name string, _, _ overlay.State) error { names = append(names, name); return nil }))
	if clash, err := last.Undo(nil); err != nil || len(clash) > 0 || g.states()[0] != crashOld || !slices.Equal(names, []string{"/x/changed"}) {
		t.Errorf("undone %v: got %v, %v, %v", names, clash, err, g.states())
	}
}
