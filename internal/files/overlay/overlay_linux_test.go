package overlay_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/files/overlay"
)

// inside is set in the test program that runs in its own namespaces, where it can mount
// overlays.
const inside = "GOLEM_TEST_INSIDE"

// TestMain runs the tests in namespaces of their own: as the current user and, if that is
// root, once more as an ordinary user.
func TestMain(m *testing.M) {
	if doWork() {
		os.Exit(0)
	}
	if os.Getenv(inside) != "" {
		if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	code := 0
	ids := []int{os.Geteuid()}
	if ids[0] == 0 {
		ids = append(ids, 12345)
	}
	for _, id := range ids {
		if err := runAsUser(id); err != nil {
			fmt.Fprintln(os.Stderr, "as user", id, err)
			code = 1
		}
	}
	os.Exit(code)
}

// runAsUser runs this program again as a user.
func runAsUser(id int) error {
	dir, err := os.MkdirTemp("", "overlay")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(dir, 0o711), os.WriteFile(dir+"/test", data, 0o755), os.Mkdir(dir+"/tmp", 0o700), os.Lchown(dir+"/tmp", id, id)); err != nil {
		return err
	}
	args := os.Args[1:]
	for i, a := range args { // its working directory is another one
		if strings.HasPrefix(a, "-test.testlogfile") || strings.HasPrefix(a, "-test.coverprofile") || strings.HasPrefix(a, "-test.gocoverdir") {
			args[i] = "-test.v=false"
		}
	}
	cmd := exec.Command(dir+"/test", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir+"/tmp", os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), inside+"=1", "TMPDIR="+dir+"/tmp", "HOME="+dir+"/tmp")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if id != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: id, HostID: id, Size: 1}}
		cmd.SysProcAttr.GidMappings = cmd.SysProcAttr.UidMappings
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(id), Gid: uint32(id), NoSetGroups: true}
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER}
	}
	return cmd.Run()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// applyChanges applies changes as a transaction does.
func applyChanges(o overlay.Overlay, changes []overlay.PathChange, skipped []string) error {
	if err := o.PrepareApply(changes, skipped); err != nil {
		return err
	}
	if err := o.FinishApply(); err != nil {
		return err
	}
	return o.RemoveStaging()
}

// undoChanges undoes changes as a transaction does.
func undoChanges(o overlay.Overlay) error {
	if err := o.CheckUndo(); err != nil {
		return err
	}
	return overlay.UndoApply(o, nil)
}

// isApplied reports whether all moves are made.
func isApplied(o overlay.Overlay) bool {
	_, err := os.Lstat(o.Store + "/landed")
	return err == nil
}

// A fixture is a directory with an overlay over it.
type fixture struct {
	t *testing.T
	overlay.Overlay
	merged string
}

const start = `mkdir -p sub/deep empty; echo one > a; echo two > b; echo three > sub/c; echo four > sub/deep/d; ln -s a link; chmod 755 b; mkdir many; for i in 1 2 3 4 5; do echo $i > many/$i; done`

func newFixture(t *testing.T) *fixture {
	t.Helper()
	dir := t.TempDir()
	b := &fixture{t, overlay.Overlay{Dir: dir + "/real", Store: dir + "/store"}, dir + "/merged"}
	must(t, os.Mkdir(b.Dir, 0o755))
	must(t, os.Mkdir(b.merged, 0o755))
	run(t, b.Dir, start)
	must(t, b.Init())
	return b
}

func run(t *testing.T, dir, script string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", "umask 022; "+script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// work runs a script in the overlay mount.
func (b *fixture) work(script string) {
	b.t.Helper()
	must(b.t, unix.Mount("golem", b.merged, "overlay", 0, "lowerdir="+b.Dir+",upperdir="+b.UpperDir()+",workdir="+b.WorkDir()+",userxattr,volatile"))
	defer unix.Unmount(b.merged, 0)
	run(b.t, b.merged, script)
}

// list returns the changes, a line each.
func (b *fixture) list() []string {
	b.t.Helper()
	changes, err := b.Changes()
	must(b.t, err)
	var list []string
	for _, c := range changes {
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Op, c.Path, c.Kind)))
	}
	return list
}

func (b *fixture) applyAll(dropped ...string) error {
	b.t.Helper()
	changes, err := b.Changes()
	must(b.t, err)
	return applyChanges(b.Overlay, changes, dropped)
}

// describe returns a text with everything about the files of a directory.
func describe(t *testing.T, dir string) string {
	t.Helper()
	var list []string
	must(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(name, &st); err != nil {
			return err
		}
		content := ""
		switch {
		case d.Type().IsRegular():
			data, err := os.ReadFile(name)
			must(t, err)
			content = string(data)
		case d.Type()&fs.ModeSymlink != 0:
			content, _ = os.Readlink(name)
		}
		mode := st.Mode
		if d.Type()&fs.ModeSymlink != 0 {
			mode = 0
		}
		attrs := make([]byte, 4096)
		n, _ := unix.Llistxattr(name, attrs)
		list = append(list, fmt.Sprintf("%s %o %q %q", strings.TrimPrefix(name, dir), mode, content, attrs[:max(n, 0)]))
		return nil
	}))
	return strings.Join(list, "\n")
}

// scripts are shell scripts with the changes that they make.
var scripts = []struct{ script, want string }{
	{"true", ""},
	{"cat a sub/c; ls -R", ""},
	{"echo new > n", "create n file"},
	{"echo other > a", "change a file"},
	{"echo more >> sub/deep/d", "change sub/deep/d file"},
	{"rm a", "delete a"},
	{"rm -r sub", "delete sub"},
	{"rmdir empty", "delete empty"},
	{"chmod 700 a", "mode a file"},
	{"chmod 700 sub", "mode sub folder"},
	{"chmod 700 b; chmod 755 b", ""},
	{"touch a; ln a a2; rm a2", ""},
	{"ln a a2", "create a2 file"},
	{"cp a x; mv x a", ""},
	{"mkdir -p n/m; echo x > n/m/f; ln -s ../.. n/up", "create n folder, create n/m folder, create n/m/f file, create n/up link"},
	{"mkdir sub/n; echo x > sub/n/f", "create sub/n folder, create sub/n/f file"},
	{"rm -r sub; mkdir sub; echo x > sub/x", "delete sub/c, delete sub/deep, create sub/x file"},
	{"rm -r sub; mkdir -p sub/deep", "delete sub/c, delete sub/deep/d"},
	{"rm -r many; mkdir many; echo 1 > many/1; echo x > many/2", "change many/2 file, delete many/3, delete many/4, delete many/5"},
	{"mv a moved", "delete a, create moved file"},
	{"mv many n", "delete many, create n folder, create n/1 file, create n/2 file, create n/3 file, create n/4 file, create n/5 file"},
	{"rm a; mkdir a; echo x > a/x", "change a folder, create a/x file"},
	{"rm -r sub; echo x > sub", "change sub file"},
	{"rm link; ln -s b link", "change link link"},
	{"rm link; ln -s a link", ""},
	{"rm a; ln -s b a", "change a link"},
	{"mkfifo p", "create p special"},
	{"echo x > n; rm n", ""},
	{"mkdir n; mkfifo n/p; echo x > n/f; rm n/f", "create n folder, create n/p special"},
	{"chmod u+s a; chmod 4644 a", ""},
	{"printf x > 'a\nb'", "create a\nb file"},
	{"mkdir n; chmod 000 n", "create n folder"},
}

// TestChanges checks that Changes lists what a script did, and nothing else.
func TestChanges(t *testing.T) {
	for _, test := range scripts {
		b := newFixture(t)
		b.work(test.script)
		got := b.list()
		slices.Sort(got)
		want := strings.Split(test.want, ", ")
		slices.Sort(want)
		if strings.Join(got, ", ") != strings.Join(want, ", ") {
			t.Errorf("%s: got %q, want %q", test.script, got, want)
		}
	}
}

// TestApplyAndUndo checks that Apply has the same result as running the script without an
// overlay, and that Undo restores everything.
func TestApplyAndUndo(t *testing.T) {
	scripts := []string{
		"echo new > n; echo other > a; rm b; chmod 700 sub",
		"rm -r sub many; mkdir sub; echo x > sub/x; echo y > many",
		"mv many n; mv a sub/a; ln -s ../b sub/l; rm link",
		"rm a; mkdir -p a/b/c; echo x > a/b/c/d; rm -r empty; echo x > empty",
		"rm -r sub; ln -s many sub; ln b b2",
		"chmod 600 b; echo x >> b; chmod 755 b",
	}
	for range testutil.Rounds(20) {
		scripts = append(scripts, randomScript())
	}
	for _, script := range scripts {
		b, plain := newFixture(t), t.TempDir()+"/real"
		must(t, os.Mkdir(plain, 0o755))
		run(t, plain, start)
		run(t, plain, script)
		before := describe(t, b.Dir)
		b.work(script)
		if got := describe(t, b.Dir); got != before {
			t.Fatalf("%s: the directory changed before anything was applied", script)
		}
		must(t, b.applyAll())
		if got, want := describe(t, b.Dir), describe(t, plain); got != want {
			t.Errorf("%s: applied\n%s\nwant\n%s", script, got, want)
		}
		must(t, undoChanges(b.Overlay))
		if got := describe(t, b.Dir); got != before {
			t.Errorf("%s: undone\n%s\nwant\n%s", script, got, before)
		}
		must(t, b.Remove())
		if _, err := os.Lstat(b.Store); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", script, err)
		}
	}
}

// randomScript returns a script with a few random commands.
func randomScript() string {
	names := []string{"a", "b", "sub", "sub/c", "sub/deep", "sub/deep/d", "empty", "many", "many/1", "many/2", "link", "n", "n/m", "n/m/o", "sub/n"}
	name := func() string { return names[rand.IntN(len(names))] }
	var parts []string
	for range 1 + rand.IntN(12) {
		form := []string{"echo %s%s > %s", "rm -rf %[1]s", "mkdir -p %[1]s", "mv %[1]s %[2]s", "cp %[1]s %[2]s", "ln -s %[2]s %[1]s", "chmod 700 %[1]s", "chmod 755 %[1]s", "touch %[1]s"}[rand.IntN(9)]
		if strings.Count(form, "%") == 3 && !strings.Contains(form, "[") {
			form = fmt.Sprintf("echo %d > %s", rand.IntN(5), name())
		} else {
			form = fmt.Sprintf(form+"%.0[1]s%.0[2]s", name(), name())
		}
		parts = append(parts, "{ "+form+"; } 2>/dev/null || :")
	}
	return strings.Join(parts, "; ")
}

// TestSkipped checks that Apply skips special files and the skipped paths, and applies
// the rest.
func TestSkipped(t *testing.T) {
	b := newFixture(t)
	b.work("mkdir -p repo/.git/hooks; echo evil > repo/.git/hooks/pre-push; echo code > repo/main.c; mkfifo repo/pipe; echo x > a; mkdir .git; echo x > .git/config")
	must(t, b.applyAll("repo/.git", ".git"))
	if got := describe(t, b.Dir); strings.Contains(got, ".git") || strings.Contains(got, "pipe") || !strings.Contains(got, "/repo/main.c") || !strings.Contains(got, `/a 100644 "x\n"`) {
		t.Errorf("applied\n%s", got)
	}
	must(t, undoChanges(b.Overlay))
}

// TestModes checks that no applied file has set-ID bits.
func TestModes(t *testing.T) {
	b := newFixture(t)
	b.work("cp /bin/true su; chmod 6755 su; mkdir d; cp su d/su; chmod 6755 d/su d; chmod 4755 b; echo x >> b")
	must(t, b.applyAll())
	for _, name := range []string{"su", "d", "d/su", "b"} {
		info, err := os.Stat(b.Dir + "/" + name)
		must(t, err)
		if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
}

// TestConflict checks that Apply changes nothing if the directory changed meanwhile, and
// that Undo changes nothing if it changed since.
func TestConflict(t *testing.T) {
	for _, test := range []struct{ work, meanwhile, want string }{
		{"echo x > a", "echo y > a", "a"},
		{"echo x > a", "chmod 700 a", "a"},
		{"echo x > a", "rm a", "a"},
		{"rm a", "echo y >> a", "a"},
		{"rm -r sub", "echo y > sub/deep/new", "sub"},
		{"echo x > n", "echo y > n", "n"},
		{"echo x > sub/n", "rm -r sub", "sub"},
		{"echo x > sub/n", "mv sub was; ln -s was sub", "sub"},
		{"mkdir n; echo x > n/f", "mkdir n", "n"},
		{"chmod 700 sub", "chmod 711 sub", "sub"},
		{"echo x > a; echo x > b", "echo y > b", "b"},
		{"echo x > a", "cp a c; mv c a", "a"},
	} {
		b := newFixture(t)
		b.work(test.work)
		run(t, b.Dir, test.meanwhile)
		before := describe(t, b.Dir)
		var conflict *overlay.ConflictError
		changes, err := b.Changes()
		if err == nil {
			err = applyChanges(b.Overlay, changes, nil)
		}
		if !errors.As(err, &conflict) || strings.Join(conflict.Paths, ",") != test.want {
			t.Errorf("%s / %s: %v, want a conflict at %s", test.work, test.meanwhile, err, test.want)
		}
		if got := describe(t, b.Dir); got != before {
			t.Errorf("%s / %s: the directory has changed", test.work, test.meanwhile)
		}
	}
	for _, test := range []struct{ work, since string }{
		{"echo x > a", "echo y > a"},
		{"rm a", "echo y > a"},
		{"echo x > n", "rm n"},
		{"mkdir n; echo x > n/f", "echo y > n/f"},
		{"mkdir n; echo x > n/f", "echo y > n/g"},
		{"chmod 700 sub", "chmod 711 sub"},
		{"echo x > a", "echo y > a; touch -d '1 hour ago' a"},
		{"echo x > a", "chmod 700 a"},
		{"mkdir n; echo x > n/f", "chmod 700 n/f"},
		{"mkdir n; echo x > n/f", "rm n/f"},
		{"ln -sfn b link", "ln -sfn c link"},
	} {
		b := newFixture(t)
		b.work(test.work)
		must(t, b.applyAll())
		run(t, b.Dir, test.since)
		before := describe(t, b.Dir)
		var conflict *overlay.ConflictError
		if err := undoChanges(b.Overlay); !errors.As(err, &conflict) {
			t.Errorf("%s / %s: %v, want a conflict", test.work, test.since, err)
		}
		if got := describe(t, b.Dir); got != before {
			t.Errorf("%s / %s: the directory has changed", test.work, test.since)
		}
	}
	// New times are not conflicts.
	for _, test := range []struct{ work, since string }{
		{"echo x > a", "touch a"},
		{"echo x > a", "cp a c; mv c a"},
		{"echo x > a; rm b", "echo y > a; echo x > a; touch ."},
		{"mkdir n; echo x > n/f; ln -s f n/l", "touch n/f; echo y > n/g; rm n/g"},
		{"ln -sfn b link", "rm link; ln -s b link"},
		{"chmod 700 sub", "touch sub; echo y > sub/mine; rm sub/mine"},
		{"chmod 600 b", "touch b"},
	} {
		b := newFixture(t)
		before := describe(t, b.Dir)
		b.work(test.work)
		must(t, b.applyAll())
		run(t, b.Dir, test.since)
		must(t, undoChanges(b.Overlay))
		if got := describe(t, b.Dir); got != before {
			t.Errorf("%s / %s: undone\n%s\nwant\n%s", test.work, test.since, got, before)
		}
	}
	// Changes of others at other paths are not conflicts.
	b := newFixture(t)
	b.work("echo x > a; echo x > sub/n")
	run(t, b.Dir, "echo y > b; echo y > sub/c; echo y > sub/m")
	must(t, b.applyAll())
	run(t, b.Dir, "echo z > b; echo z > sub/c")
	must(t, undoChanges(b.Overlay))
}

// TestBadNames checks that bad names are an error, and that Remove removes directories of
// any depth.
func TestBadNames(t *testing.T) {
	for _, script := range []string{
		`printf x > "$(printf 'a\377b')"`,
		`mkdir n; cd n; printf x > "$(printf 'a\377b')"`,
		`python3 -c "
import os
for _ in range(2000): os.mkdir('dd'); os.chdir('dd')"`,
	} {
		b := newFixture(t)
		b.work(script)
		var unfit *overlay.NameError
		if _, err := b.Changes(); !errors.As(err, &unfit) {
			t.Errorf("%s: %v, want an error about its name", script, err)
		}
		must(t, b.Remove())
	}
}

// TestOtherFileSystem checks Apply with a store on another file system: the result is the
// same, nothing stays in the directory, and Undo returns an error.
func TestOtherFileSystem(t *testing.T) {
	for _, script := range []string{
		"echo new > n; echo other > a; rm b; chmod 700 sub; rm -r many; mkdir -p x/y; echo z > x/y/z; ln -s a l; mkfifo p; echo d > dropped; mkdir x/drop; echo x > x/drop/x; cp /bin/true su; chmod 6755 su",
		"rm a; mkdir a; echo x > a/x; rm -r sub; echo y > sub",
	} {
		b, plain := newFixture(t), t.TempDir()+"/real"
		must(t, os.Mkdir(plain, 0o755))
		run(t, plain, start)
		run(t, plain, script+"; rm -rf p dropped x/drop; test ! -e su || chmod 755 su")
		b.Store = t.TempDir() + "/elsewhere"
		must(t, os.Mkdir(b.Store, 0o700))
		must(t, unix.Mount("golem", b.Store, "tmpfs", 0, ""))
		t.Cleanup(func() { unix.Unmount(b.Store, unix.MNT_DETACH) })
		must(t, b.Init())
		b.work(script)
		before := describe(t, b.Dir)
		changes, err := b.Changes()
		must(t, err)
		run(t, b.Dir, "touch many/1 a")
		var conflict *overlay.ConflictError
		if err := applyChanges(b.Overlay, changes, []string{"dropped", "x/drop"}); !errors.As(err, &conflict) {
			t.Errorf("a conflict: %v", err)
		}
		if got := describe(t, b.Dir); got != before {
			t.Errorf("a conflict has left\n%s\nwant\n%s", got, before)
		}
		must(t, b.MarkStart())
		must(t, applyChanges(b.Overlay, changes, []string{"dropped", "x/drop"}))
		if got, want := describe(t, b.Dir), describe(t, plain); got != want {
			t.Errorf("%s: applied\n%s\nwant\n%s", script, got, want)
		}
		if err := undoChanges(b.Overlay); !errors.Is(err, overlay.ErrCannotUndo) {
			t.Errorf("undo: %v", err)
		}
	}
}

// TestAllOrNothing checks that Apply moves nothing if it cannot move one of the files.
func TestAllOrNothing(t *testing.T) {
	b := newFixture(t)
	b.work("echo x > a; rm sub/c; mkdir n; echo x > n/f; chmod 700 many; echo x > zz")
	changes, err := b.Changes()
	must(t, err)
	must(t, b.PrepareApply(changes, nil))
	run(t, b.Dir, "echo mine > zz")
	before := describe(t, b.Dir)
	var conflict *overlay.ConflictError
	if err := b.FinishApply(); !errors.As(err, &conflict) || conflict.Paths[0] != "zz" {
		t.Errorf("got %v, want a conflict at zz", err)
	}
	if got := describe(t, b.Dir); got != before {
		t.Errorf("the directory is\n%s\nwant\n%s", got, before)
	}
	if b.HasMoves() || isApplied(b.Overlay) {
		t.Error("the apply is not over, or counts as done")
	}
}

// TestAttributes checks that Apply skips attributes that a command added, and keeps those
// of the real file.
func TestAttributes(t *testing.T) {
	b := newFixture(t)
	must(t, unix.Setxattr(b.Dir+"/b", "user.mine", []byte("1"), 0))
	must(t, b.MarkStart())
	b.work(`echo x > n; echo x >> a; echo x >> b; python3 -c "
import os
for f in 'n', 'a', 'b': os.setxattr(f, 'user.planted', b'x')"`)
	must(t, b.applyAll())
	if got := describe(t, b.Dir); strings.Contains(got, "planted") || strings.Contains(got, "overlay") || !strings.Contains(got, "user.mine") {
		t.Errorf("applied\n%s", got)
	}
}
