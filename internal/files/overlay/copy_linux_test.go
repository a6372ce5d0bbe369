package overlay_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/overlay"
)

// A copyFixture is a directory with a session that works on a copy of it.
type copyFixture struct {
	t *testing.T
	overlay.Overlay
}

func newCopy(t *testing.T, script string) *copyFixture {
	t.Helper()
	dir := t.TempDir()
	c := &copyFixture{t, overlay.Overlay{Dir: dir + "/real", Store: dir + "/store", IsCopy: true}}
	must(t, os.Mkdir(c.Dir, 0o755))
	run(t, c.Dir, script)
	skipped, err := c.InitCopy(nil, nil)
	must(t, err)
	if len(skipped) > 0 {
		t.Fatalf("skipped: %v", skipped)
	}
	return c
}

// list returns the changes, a line each, with ! before conflicts.
func (c *copyFixture) list() []string {
	c.t.Helper()
	changes, err := c.SessionChanges()
	must(c.t, err)
	var list []string
	for _, one := range changes {
		mark := ""
		if one.Conflict {
			mark = "!"
		}
		list = append(list, mark+strings.TrimSpace(fmt.Sprintf("%s %s %s", one.Op, one.Path, one.Kind)))
	}
	return list
}

// apply applies all changes, conflicts too, and returns a function that undoes that.
func (c *copyFixture) apply() (undo func()) {
	c.t.Helper()
	list, err := c.SessionChanges()
	must(c.t, err)
	var picks []overlay.Pick
	var paths []string
	for _, one := range list {
		if one.NewDir == "" {
			picks, paths = append(picks, overlay.Pick{Path: one.Path, Force: true}), append(paths, one.Path)
		}
	}
	to := overlay.Overlay{Dir: c.Dir, Store: filepath.Join(c.t.TempDir(), "work")}
	must(c.t, to.Init())
	picked, err := c.Pick(to, picks)
	must(c.t, err)
	must(c.t, applyChanges(to, picked, nil))
	must(c.t, c.MarkApplied(paths, nil))
	return func() {
		c.t.Helper()
		must(c.t, undoChanges(to))
		must(c.t, c.Restore(to, picked))
	}
}

// TestCopyKeepsOwners checks that what is copied, and what is picked from the copy, belongs to
// the owner of the original.
func TestCopyKeepsOwners(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	t.Parallel()
	const owner = 65534
	c := newCopy(t, "mkdir dir; echo 1 >dir/file; ln -s file dir/link; chown -hR 65534 dir")
	run(t, c.SessionDir(), "cp -a dir new")
	defer c.apply()()
	for _, name := range []string{c.SessionDir() + "/dir", c.Dir + "/new"} {
		for _, name := range []string{name, name + "/file", name + "/link"} {
			var st unix.Stat_t
			must(t, unix.Lstat(name, &st))
			if st.Uid != owner {
				t.Errorf("%s belongs to %d, want %d", name, st.Uid, owner)
			}
		}
	}
}

// TestCopy checks that a copy equals the directory, except for skipped paths, which
// InitCopy reports.
func TestCopy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := overlay.Overlay{Dir: dir + "/real", Store: dir + "/store", IsCopy: true}
	must(t, os.Mkdir(l.Dir, 0o755))
	run(t, l.Dir, start+`; ln a hard; mkfifo pipe; mkdir -p in/side out .git closed; echo x > in/side/f; echo y > out/g; echo ref > .git/HEAD; truncate -s 3M holes; printf end >> holes
		printf x > "$(printf 'n\nl')"; printf x > "$(printf 'a\377b')"; chmod 4755 b; chmod 1777 empty; echo s > closed/s; chmod 555 closed; ln -s /etc/passwd away; touch -d 2001-02-03T04:05:06.789 sub/c`)
	must(t, os.Mkdir(l.Dir+"/mounted", 0o755))
	must(t, unix.Mount("golem", l.Dir+"/mounted", "tmpfs", 0, ""))
	defer unix.Unmount(l.Dir+"/mounted", unix.MNT_DETACH)
	run(t, l.Dir, "echo z > mounted/z")
	var last overlay.Progress
	skipped, err := l.InitCopy([]string{"out", "none"}, func(p overlay.Progress) error { last = p; return nil })
	must(t, err)
	want := []overlay.SkippedPath{{Path: "mounted", Reason: "another file system is mounted there"}, {Path: "pipe", Reason: "a pipe, socket or device"}}
	if !slices.Equal(skipped, want) {
		t.Errorf("skipped: %v, want %v", skipped, want)
	}
	if last.Files < last.TotalFiles || last.Bytes != last.TotalBytes || last.TotalFiles < 15 {
		t.Errorf("reported: %+v", last)
	}
	must(t, unix.Unmount(l.Dir+"/mounted", unix.MNT_DETACH))
	run(t, l.Dir, "rm pipe out/g; rmdir mounted; chmod 755 b; chmod 777 empty; chmod 700 out")
	if got, want := describe(t, l.SessionDir()), describe(t, l.Dir); got != want {
		t.Errorf("the copy is\n%s\nwant\n%s", got, want)
	}
	for _, name := range []string{"sub/c", "a", "holes"} {
		var a, b unix.Stat_t
		must(t, errors.Join(unix.Stat(l.Dir+"/"+name, &a), unix.Stat(l.SessionDir()+"/"+name, &b)))
		if a.Mtim != b.Mtim || b.Nlink != 1 || a.Uid != b.Uid || a.Gid != b.Gid {
			t.Errorf("%s: %+v, the copy has %+v", name, a, b)
		}
		if a.Blocks < 100 && b.Blocks > 100 {
			t.Errorf("%s: %d blocks, the copy has %d", name, a.Blocks, b.Blocks)
		}
	}
	run(t, l.SessionDir(), "mkdir none; touch none/x out/x")
	if changes, err := l.SessionChanges(); err != nil || len(changes) > 0 {
		t.Errorf("changes %v, %v", changes, err)
	}
	must(t, l.Remove())
}

// TestCopyChanges checks that a copy lists the same changes as an overlay.
func TestCopyChanges(t *testing.T) {
	t.Parallel()
	for _, test := range scripts {
		c := newCopy(t, start)
		before := describe(t, c.Dir)
		run(t, c.SessionDir(), test.script)
		got, want := c.list(), strings.Split(test.want, ", ")
		slices.Sort(got)
		slices.Sort(want)
		if strings.Join(got, ", ") != strings.Join(want, ", ") {
			t.Errorf("%s: got %q, want %q", test.script, got, want)
		}
		if describe(t, c.Dir) != before {
			t.Errorf("%s: the directory has changed", test.script)
		}
		must(t, c.Discard([]string{"."}))
		if got := c.list(); len(got) > 0 || test.want != "" && describe(t, c.SessionDir()) != before {
			t.Errorf("%s: discarded, and remaining is %q", test.script, got)
		}
	}
}

// TestCopyConflict checks that a change is a conflict if the user changed the same file.
// Other changes of the user are not listed.
func TestCopyConflict(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ work, meanwhile, want string }{
		{"true", "echo y > a; rm b; mkdir new; rm -r sub", ""},
		{"touch a; chmod 755 b", "rm -r many", ""},
		{"echo x > a", "echo y > a", "!change a file"},
		{"echo x > a", "echo x > a", ""},
		{"echo x > a", "chmod 700 a", "!change a file"},
		{"echo x > a", "rm a", "!create a file"},
		{"echo x > a", "echo y > b", "change a file"},
		{"rm a", "echo y >> a", "!delete a"},
		{"rm a", "rm a", ""},
		{"rm -r sub", "echo y > sub/deep/new", "!delete sub"},
		{"rm -r sub", "rm sub/deep/d", "delete sub"},
		{"rm -r sub", "mkfifo sub/p", "!delete sub"},
		{"rm -r sub", "rm -r sub; mv many sub", "!delete sub"}, // a moved directory, with older files
		{"rm -r sub; mkdir sub", "rm -r sub; mv many sub", ""},
		{"echo x > n", "echo y > n", "!change n file"},
		{"mkdir n; echo x > n/f", "mkdir n; echo y > n/g", "create n/f file"},
		{"mkdir n; chmod 700 n", "mkdir n", "!mode n folder"},
		{"chmod 700 sub", "chmod 711 sub", "!mode sub folder"},
		{"chmod 700 sub", "chmod 700 sub", ""},
		{"true", "chmod 711 sub", ""},
		{"echo x > sub/n", "rm -r sub", "!create sub folder, !create sub/n file"},
		{"echo x > sub/deep/d; mkdir sub/e; echo x > sub/e/f", "rm -r sub; echo y > sub", "!change sub folder, !create sub/deep folder, !create sub/deep/d file, !create sub/e folder, !create sub/e/f file"},
		{"rm sub/c", "rm -r sub", ""},
		{"rm link; ln -s b link", "rm link; ln -s c link", "!change link link"},
		{"true", "rm link; ln -s c link", ""},
		{"rm -r sub; echo x > sub", "touch sub/c", "!change sub file"},
		{"rm a; mkdir a; echo x > a/f", "echo y > a", "!change a folder, !create a/f file"},
	} {
		c := newCopy(t, start)
		run(t, c.SessionDir(), test.work)
		run(t, c.Dir, test.meanwhile)
		if got := strings.Join(c.list(), ", "); got != test.want {
			t.Errorf("%s / %s: got %q, want %q", test.work, test.meanwhile, got, test.want)
		}
		if strings.Contains(test.want, "!") {
			name := strings.Fields(test.want)[1]
			to := overlay.Overlay{Dir: c.Dir, Store: filepath.Join(t.TempDir(), "work")}
			must(t, to.Init())
			var conflict *overlay.ConflictError
			if _, err := c.Pick(to, []overlay.Pick{{Path: name}}); !errors.As(err, &conflict) {
				t.Errorf("%s / %s: %v, want a conflict", test.work, test.meanwhile, err)
			}
		}
		must(t, c.Discard([]string{"."}))
		if got := c.list(); len(got) > 0 {
			t.Errorf("%s / %s: discarded, and remaining is %q", test.work, test.meanwhile, got)
		}
	}
}

// TestCopyAbortedApply reverts an apply. The real files are as they were, so that no change of
// the session is a conflict that was none before.
func TestCopyAbortedApply(t *testing.T) {
	t.Parallel()
	const work = "rm a; echo x > b; rm -r many; rm link; ln -s c link; mv sub/c sub/e"
	for _, test := range []struct {
		edit, want string
		isFinished bool // golem made all moves before it reverted them
	}{
		{"true", "", true},
		{"true", "", false},
		{"echo y > sub/deep/d", "", true},
		{"echo y > a; echo y > b", "a b", true}, // applied with --overwrite
	} {
		c := newCopy(t, start)
		run(t, c.SessionDir(), work)
		run(t, c.Dir, test.edit)
		before, want := describe(t, c.Dir), c.list()
		to := overlay.Overlay{Dir: c.Dir, Store: filepath.Join(t.TempDir(), "work")}
		must(t, to.Init())
		changes, err := c.SessionChanges()
		must(t, err)
		var picks []overlay.Pick
		for _, change := range changes {
			if change.NewDir == "" {
				picks = append(picks, overlay.Pick{Path: change.Path, Force: true})
			}
		}
		changes, err = c.Pick(to, picks)
		must(t, err)
		must(t, to.PrepareApply(changes, nil))
		if test.isFinished {
			must(t, to.FinishApply())
		} else { // the last move fails
			must(t, os.Remove(filepath.Join(to.UpperDir(), "link")))
			if to.FinishApply() == nil {
				t.Error("a move without a file was made")
			}
		}
		must(t, to.AbortApply())
		if got := describe(t, c.Dir); got != before {
			t.Errorf("%s: the directory has\n%s\nwant\n%s", test.edit, got, before)
		}
		if got := c.list(); !slices.Equal(got, want) {
			t.Errorf("%s, finished %v: the session has %q, want %q", test.edit, test.isFinished, got, want)
		}
		for _, name := range strings.Fields(test.want) {
			if !slices.ContainsFunc(c.list(), func(line string) bool { return strings.HasPrefix(line, "!") && strings.Fields(line)[1] == name }) {
				t.Errorf("%s: %s is no conflict: %q", test.edit, name, c.list())
			}
		}
	}
}

// TestCopyApplyAndUndo checks that Apply makes the directory equal to the copy, and that
// after Undo the directory is as before and the session has its changes again.
func TestCopyApplyAndUndo(t *testing.T) {
	t.Parallel()
	scripts := []string{"mv many n; mv a sub/a; rm -r sub/deep; echo x > sub/deep", "rm -r sub; mkdir sub; echo x > sub/x; chmod 700 many; rm a; mkdir -p a/b; echo x > a/b/c"}
	for range 12 {
		scripts = append(scripts, randomScript())
	}
	for _, script := range scripts {
		c := newCopy(t, start)
		before := describe(t, c.Dir)
		run(t, c.SessionDir(), script)
		seen, list := describe(t, c.SessionDir()), c.list()
		undo := c.apply()
		if got := describe(t, c.Dir); got != seen {
			t.Errorf("%s: applied\n%s\nwant\n%s", script, got, seen)
		}
		if got := c.list(); len(got) > 0 {
			t.Errorf("%s: applied, and remaining is %q", script, got)
		}
		undo()
		if got := describe(t, c.Dir); got != before {
			t.Errorf("%s: undone\n%s\nwant\n%s", script, got, before)
		}
		if got := c.list(); !slices.Equal(got, list) {
			t.Errorf("%s: after the undo the session has %q, want %q", script, got, list)
		}
		c.apply()
		if got := describe(t, c.Dir); got != seen {
			t.Errorf("%s: applied again\n%s\nwant\n%s", script, got, seen)
		}
	}
}

// TestCopyWithUserEdits checks that Apply applies only the changes made in the copy, and
// that Discard restores what the directory has, whatever the user does meanwhile.
func TestCopyWithUserEdits(t *testing.T) {
	t.Parallel()
	for range 12 {
		work, meanwhile := randomScript(), randomScript()
		c := newCopy(t, start)
		run(t, c.SessionDir(), work)
		run(t, c.Dir, meanwhile)
		list := c.list()
		edited := describe(t, c.Dir)
		undo := c.apply()
		if got := c.list(); len(got) > 0 {
			t.Errorf("%s / %s: applied %q, and remaining is %q", work, meanwhile, list, got)
		}
		undo()
		if got := describe(t, c.Dir); got != edited {
			t.Errorf("%s / %s: undone\n%s\nwant\n%s", work, meanwhile, got, edited)
		}
		must(t, c.Discard([]string{"."}))
		if got := c.list(); len(got) > 0 {
			t.Errorf("%s / %s: discarded %q, and remaining is %q", work, meanwhile, list, got)
		}
	}
}

// TestCopyMarkApplied checks that a file is still a change if the session changed it
// after the pick, or if only part of it was applied. An edit of the user in between is
// not a change.
func TestCopyMarkApplied(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ work, since, edit, given, want string }{
		{work: "echo x > a"},
		{work: "echo x > a", edit: "echo y > a"},
		{work: "rm link; ln -s b link", edit: "rm link; ln -s c link"},
		{work: "echo x > a", since: "echo z > a", want: "change a file"},
		{work: "echo x > a", since: "echo one > a", want: "change a file"},
		{work: "echo x > a", since: "rm a", want: "delete a"},
		{work: "mkdir -p n/m; echo x > n/m/f", since: "rm -r n/m", want: "delete n/m"},
		{work: "mkdir -p n/m; echo x > n/m/f", since: "rm -r n; echo x > n", want: "change n file"},
		{work: "rm -r sub", since: "mkdir sub; echo x > sub/c", want: "create sub folder, create sub/c file"},
		{work: "printf '1\n2\n' > a", given: "1\none\n", want: "change a file"},
	} {
		c := newCopy(t, start)
		run(t, c.SessionDir(), test.work)
		list, err := c.SessionChanges()
		must(t, err)
		pick := overlay.Pick{Path: list[0].Path}
		if test.given != "" {
			pick.ContentFile = filepath.Join(t.TempDir(), "given")
			must(t, os.WriteFile(pick.ContentFile, []byte(test.given), 0o600))
		}
		to := overlay.Overlay{Dir: c.Dir, Store: filepath.Join(t.TempDir(), "work")}
		must(t, to.Init())
		picked, err := c.Pick(to, []overlay.Pick{pick})
		must(t, err)
		run(t, c.SessionDir(), "true; "+test.since)
		must(t, applyChanges(to, picked, nil))
		run(t, c.Dir, "true; "+test.edit)
		must(t, c.MarkApplied([]string{pick.Path}, nil))
		must(t, c.MarkApplied([]string{pick.Path}, nil))
		if got := strings.Join(c.list(), ", "); got != test.want {
			t.Errorf("%s / %s / %s: got %q, want %q", test.work, test.since, test.edit, got, test.want)
		}
	}
}

// TestCopyDiscard checks that discarding one change keeps the others.
func TestCopyDiscard(t *testing.T) {
	t.Parallel()
	c := newCopy(t, start)
	run(t, c.SessionDir(), `echo x > a; rm -r many; mkdir -p n/m; echo x > n/m/f; echo y > n/g; chmod 700 sub; echo z > sub/c; printf x > "$(printf 'a\377b')"; umask 777; mkdir shut`)
	run(t, c.Dir, "echo later > many/6; echo later >> a")
	for _, test := range []struct {
		paths []string
		want  string
	}{
		{[]string{"nothing"}, `"nothing" is not a change: file does not exist`},
		{[]string{"a", "b"}, `"b" is not a change: file does not exist`},
		{[]string{"a"}, "!delete many, create n folder, create n/g file, create n/m folder, create n/m/f file, create shut folder, mode sub folder, change sub/c file"},
		{[]string{"many", "n/m/f"}, "create n folder, create n/g file, create n/m folder, create shut folder, mode sub folder, change sub/c file"},
		{[]string{"n", "shut", "a\xffb"}, "mode sub folder, change sub/c file"},
		{[]string{"sub"}, ""},
	} {
		if err := c.Discard(test.paths); err != nil {
			if err.Error() != test.want {
				t.Errorf("%s: %v, want %s", test.paths, err, test.want)
			}
			continue
		}
		changes, err := c.SessionChanges()
		var unfit *overlay.NameError
		if !errors.As(err, &unfit) {
			must(t, err)
		}
		var list []string
		for _, one := range changes {
			mark := ""
			if one.Conflict {
				mark = "!"
			}
			list = append(list, mark+strings.TrimSpace(fmt.Sprintf("%s %s %s", one.Op, one.Path, one.Kind)))
		}
		if got := strings.Join(list, ", "); got != test.want {
			t.Errorf("%s: got %q, want %q", test.paths, got, test.want)
		}
	}
	if got, want := describe(t, c.SessionDir()), describe(t, c.Dir); got != want {
		t.Errorf("the copy is\n%s\nwant\n%s", got, want)
	}
}

// TestCopyRecentPaths checks that RecentPaths lists what a command changed in a copy.
func TestCopyRecentPaths(t *testing.T) {
	t.Parallel()
	c := newCopy(t, start)
	run(t, c.SessionDir(), "echo before > b")
	must(t, c.MarkStart())
	run(t, c.Dir, "echo mine > mine; echo mine > sub/mine")
	run(t, c.SessionDir(), "echo x > sub/deep/d; mkdir -p n/m; echo x > n/m/f; rm a sub/c")
	names, err := c.RecentPaths(1000)
	must(t, err)
	slices.Sort(names)
	if got := strings.Join(names, " "); got != "a n sub/c sub/deep/d" {
		t.Errorf("got %q", got)
	}
}

// TestCopyStopped checks that an unfinished copy leaves nothing usable behind, for each
// way to stop it.
func TestCopyStopped(t *testing.T) {
	t.Parallel()
	l := newFixture(t).Overlay
	l.IsCopy = true
	must(t, l.Remove())
	run(t, l.Dir, "mkdir t; i=0; while [ $i -lt 300 ]; do echo $i > t/$i; i=$((i+1)); done; head -c 300000 /dev/zero | tr '\\0' x > large; chmod 555 t sub")
	empty := func(what string) {
		t.Helper()
		if _, err := os.Lstat(l.Store); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the store exists: %v", what, err)
		}
	}
	stop := errors.New("stop")
	if _, err := l.InitCopy(nil, func(p overlay.Progress) error {
		if p.Files > 150 {
			return stop
		}
		return nil
	}); !errors.Is(err, stop) {
		t.Errorf("stopped: %v", err)
	}
	empty("stopped")
	b := &fixture{t: t, Overlay: l}
	began := time.Now()
	b.runKilled("copy", time.Minute)
	took := time.Since(began)
	whole := 0
	for range 10 {
		if _, err := os.Lstat(l.SessionDir()); err == nil { // the next InitCopy removes an unfinished copy
			must(t, l.Remove())
		}
		b.runKilled("copy", rand.N(took*3/2))
		if _, err := os.Lstat(l.SessionDir()); err == nil {
			whole++
			if got, want := describe(t, l.SessionDir()), describe(t, l.Dir); got != want {
				t.Fatal("an existing copy is incomplete")
			}
			if changes, err := l.SessionChanges(); err != nil || len(changes) > 0 {
				t.Fatalf("changes %v, %v", changes, err)
			}
		}
	}
	t.Logf("%d of 10 copies were complete", whole)
	must(t, l.Remove())
	for name, options := range map[string]string{"too small": "size=100k", "too few files": "nr_inodes=150"} {
		l.Store = t.TempDir() + "/small"
		must(t, os.Mkdir(l.Store, 0o700))
		must(t, unix.Mount("golem", l.Store, "tmpfs", 0, options))
		mount := l.Store
		l.Store += "/store"
		var full *overlay.NoSpaceError
		if _, err := l.InitCopy(nil, nil); !errors.As(err, &full) || full.Needed < 1_000_000 {
			t.Errorf("%s: %v, want no room", name, err)
		}
		empty(name)
		must(t, unix.Unmount(mount, unix.MNT_DETACH))
	}
}

// TestCopyBusyFile checks that InitCopy copies a file that somebody writes to all the
// time, and that a change of it is a conflict.
func TestCopyBusyFile(t *testing.T) {
	t.Parallel()
	c := newCopy(t, start)
	stop, done := make(chan bool), make(chan bool)
	go func() {
		defer close(done)
		for i, last := 0, false; !last; i++ {
			select {
			case <-stop:
				last = true
			default:
			}
			if err := os.WriteFile(c.Dir+"/a", []byte(strings.Repeat(fmt.Sprint(i%10), 100_000)), 0o644); err != nil {
				t.Error(err)
			}
		}
	}()
	_, err := c.InitCopy(nil, nil)
	close(stop)
	<-done
	must(t, err)
	if got := c.list(); len(got) > 0 {
		t.Errorf("changes %q", got)
	}
	run(t, c.SessionDir(), "echo x > a")
	if got := c.list(); !slices.Equal(got, []string{"!change a file"}) {
		t.Errorf("changes %q", got)
	}
}

// TestCopyJustChanged checks that golem notices a change right after the copy, in the
// same step of the clock and to the same size. It needs a file system with such steps.
func TestCopyJustChanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, unix.Mount("golem", dir, "ramfs", 0, ""))
	defer unix.Unmount(dir, unix.MNT_DETACH)
	c := &copyFixture{t, overlay.Overlay{Dir: dir + "/real", Store: dir + "/store", IsCopy: true}}
	must(t, os.Mkdir(c.Dir, 0o755))
	for range 20 {
		must(t, os.WriteFile(c.Dir+"/a", []byte("mine"), 0o644))
		_, err := c.InitCopy(nil, func(p overlay.Progress) error {
			if p.Files == 0 {
				return nil
			}
			return os.WriteFile(c.Dir+"/a", []byte("ours"), 0o644)
		})
		must(t, err)
		run(t, c.SessionDir(), "echo x > a")
		if got := c.list(); !slices.Equal(got, []string{"!change a file"}) {
			t.Fatalf("changes %q", got)
		}
	}
}
