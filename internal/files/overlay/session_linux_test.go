package overlay_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/files/overlay"
)

// newSession returns a directory with the overlay of a session over it.
func newSession(t *testing.T) *fixture {
	t.Helper()
	dir := t.TempDir()
	b := &fixture{t, overlay.Overlay{Dir: dir + "/real", Store: dir + "/store"}, ""}
	must(t, os.Mkdir(b.Dir, 0o755))
	run(t, b.Dir, start)
	must(t, b.InitSession())
	b.mount()
	return b
}

// mount mounts the overlay of a session without CAP_DAC_READ_SEARCH. With it, as root
// outside of a user namespace has it, the kernel can open files by handle, and would take
// a file for the one that it was copied from.
func (b *fixture) mount() {
	b.t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var had [2]unix.CapUserData
	must(b.t, unix.Capget(&header, &had[0]))
	less := had
	less[0].Effective &^= 1 << unix.CAP_DAC_READ_SEARCH
	must(b.t, unix.Capset(&header, &less[0]))
	defer unix.Capset(&header, &had[0])
	must(b.t, unix.Mount("golem", b.SessionDir(), "overlay", 0, "lowerdir="+b.Dir+",upperdir="+b.UpperDir()+",workdir="+b.WorkDir()+",userxattr"))
	b.t.Cleanup(func() { unix.Unmount(b.SessionDir(), unix.MNT_DETACH) })
}

func (b *fixture) unmount() {
	b.t.Helper()
	must(b.t, unix.Unmount(b.SessionDir(), 0))
}

// flush makes a mounted overlay drop its cache.
func (b *fixture) flush() {
	b.t.Helper()
	fd, err := unix.Fspick(unix.AT_FDCWD, b.SessionDir(), unix.FSPICK_CLOEXEC)
	must(b.t, err)
	defer unix.Close(fd)
	must(b.t, unix.FsconfigReconfigure(fd))
}

// call runs a command of the session.
func (b *fixture) call(script string) {
	b.t.Helper()
	must(b.t, b.RecordBases(true))
	must(b.t, b.MarkStart())
	b.flush()
	run(b.t, b.SessionDir(), script)
	must(b.t, b.RecordBases(true))
}

// steps makes steps: those of the session begin with ">", those of the user with "!".
// "tidy" and "note" call RecordBases.
func (b *fixture) steps(steps ...string) {
	b.t.Helper()
	for _, step := range steps {
		switch {
		case step == "tidy":
			must(b.t, b.RecordBases(true))
		case step == "note":
			must(b.t, b.RecordBases(false))
		case step[0] == '>':
			b.call(step[1:])
		case step[0] == '~': // while another command runs, which may write at any time
			must(b.t, b.RecordBases(false))
			must(b.t, b.MarkStart())
			b.flush()
			run(b.t, b.SessionDir(), step[1:])
			must(b.t, b.RecordBases(false))
		case step[0] == '!':
			run(b.t, b.Dir, step[1:])
		default:
			b.t.Fatal(step)
		}
	}
}

// changes returns the changes, with "!" after conflicts.
func (b *fixture) changes() string {
	b.t.Helper()
	list, err := b.SessionChanges()
	must(b.t, err)
	text := formatChanges(list)
	if here, err := overlay.SessionChangesHere(b.Overlay); err != nil && !b.IsCopy || err == nil && formatChanges(here) != text {
		b.t.Errorf("this process lists %s, %v, and a helper %s", formatChanges(here), err, text)
	}
	return text
}

// TestSessionChangesHere checks that a process which may not access everything lists
// nothing, and that a stamp changes with its file.
func TestSessionChangesHere(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can take permissions from a thread")
	}
	t.Parallel()
	dir := t.TempDir()
	for at := dir; at != "/"; at = filepath.Dir(at) { // another user must get there
		if info, err := os.Stat(at); err == nil && info.Mode()&0o001 == 0 {
			must(t, os.Chmod(at, info.Mode()|0o011))
		}
	}
	o := overlay.Overlay{Dir: filepath.Join(dir, "real"), Store: filepath.Join(dir, "store")}
	must(t, os.Mkdir(o.Dir, 0o755))
	must(t, os.Mkdir(o.Store, 0o700))
	must(t, o.InitSession())
	run(t, o.UpperDir(), "mkdir new secret; echo a >new/a; echo b >secret/b")
	run(t, dir, "chown -R 65534 store real")
	asOther := func() (list []overlay.PathChange, err error) {
		done := make(chan bool)
		go func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			defer close(done)
			if err = unix.Setfsuid(65534); err == nil {
				list, err = overlay.SessionChangesHere(o)
			}
		}()
		<-done
		return list, err
	}
	list, err := asOther()
	if err != nil || formatChanges(list) != "create new folder, create new/a file, create secret folder, create secret/b file" {
		t.Fatalf("got %s, %v", formatChanges(list), err)
	}
	if ago := time.Since(time.Unix(0, list[1].Changed)); ago < 0 || ago > time.Hour {
		t.Errorf("the file changed %v ago", ago)
	}
	must(t, os.Chmod(filepath.Join(o.UpperDir(), "secret"), 0))
	if list, err := asOther(); err != overlay.ErrDenied {
		t.Errorf("with a directory that it may not enter: got %s, %v", formatChanges(list), err)
	}

	stamps := func() uint64 {
		time.Sleep(50 * time.Millisecond) // longer than a tick of the clock
		list, err := overlay.SessionChangesHere(o)
		if err != nil || len(list) != 4 {
			t.Fatalf("got %s, %v", formatChanges(list), err)
		}
		return list[1].Stamp
	}
	first := stamps()
	run(t, o.UpperDir(), "cp -p new/a new/b; echo c >new/a; touch -r new/b new/a; rm new/b") // the same size and time of change
	if second := stamps(); first == 0 || second == 0 || first == second {
		t.Errorf("the stamps before and after a change: %d, %d", first, second)
	}
}

func formatChanges(list []overlay.PathChange) string {
	var lines []string
	for _, c := range list {
		line := strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Op, c.Path, c.Kind))
		if c.Conflict {
			line += "!"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, ", ")
}

// output runs a script and returns its output.
func output(t *testing.T, dir, script string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// view describes what the session sees, without attributes of the upperdir.
func (b *fixture) view() string {
	b.t.Helper()
	b.flush()
	return describe(b.t, b.SessionDir())
}

// TestSessionChanges checks that SessionChanges lists the differences from the real
// directory as it is now, and that a change is a conflict if the user changed the same
// file.
func TestSessionChanges(t *testing.T) {
	for _, test := range []struct{ steps, want string }{
		{">true", ""},
		{">cat a sub/c; ls -R", ""},
		{">echo new > n", "create n file"},
		{">echo new > n|!echo mine > n", "change n file!"},
		{">echo new > n|!echo new > n", ""},
		{">echo x > a", "change a file"},
		{">echo x > a|!echo y > b; mkdir z; echo z > sub/z", "change a file"},
		{">echo x > a|!echo y > a", "change a file!"},
		{">echo x > a|!touch a", "change a file"},
		{">echo x > a|!echo y > a; echo one > a", "change a file"}, // like a switch to another branch and back
		{">rm a|!echo y > a; echo one > a", "delete a"},
		{">rm -r sub|!echo y > sub/c; echo three > sub/c", "delete sub!"}, // for a directory no contents are kept
		{">echo x > a|!echo one > a; chmod 600 a", "change a file!"},
		{">echo x > a|!rm a", "create a file!"},
		{">echo x > a|!rm a; mkdir a", "change a file!"},
		{">echo x > a|!cp a c; mv c a", "change a file"},
		{">echo x > a|!echo y > a|>echo z > a", "change a file!"},
		{">echo x > a|!echo y > a|>echo y > a", ""},
		{">echo x > a|!echo y > a|>echo one > a", ""}, // it equals its base again
		{"!echo y > a|>echo x > a", "change a file"},
		{">echo x > a|>echo one > a|!echo y > a", ""},
		{">touch a; chmod 600 b; chmod 755 b; ln sub/c k; rm k; : >> sub/deep/d|!echo y > a; echo y > b; rm -r sub", ""},
		{">ln a a2|!echo y > a", "create a2 file"},
		{">chmod 700 a", "mode a file"},
		{">chmod 700 a|!echo y > a", "change a file!"},
		{">rm a", "delete a"},
		{">rm a|!echo y > a", "delete a!"},
		{">rm a|!rm a", ""},
		{">rm a|!rm a|tidy|!echo y > a", ""},
		{">rm a|>echo one > a|!echo y > a", ""},
		{">rm -r sub", "delete sub"},
		{">rm -r sub|!echo y > sub/deep/new", "delete sub!"},
		{">rm -r sub|!rm sub/c", "delete sub!"},
		{">rm -r sub|!touch sub sub/deep; echo y > sub/deep/n; rm sub/deep/n", "delete sub"},
		{">mv sub n|!echo y > sub/n; rm sub/n", "create n folder, create n/c file, create n/deep folder, create n/deep/d file, delete sub"},
		{">rm -r sub; echo x > sub|!touch sub/deep", "change sub file"},
		{">rm -r sub|!chmod 700 sub/deep", "delete sub!"},
		{">rm -r sub|!mv sub/c sub/e", "delete sub!"},
		{"!cp -a sub o; echo y > o/c|>rm -r sub|!rm -r sub; mv o sub", "delete sub!"},
		{"!cp -a sub/deep o; echo y > o/d|>rm -r sub|!rm -r sub/deep; mv o sub/deep", "delete sub!"},
		{">rm link|!rm link; ln -s a link", "delete link"},
		{">rm link|!ln -sfn b link", "delete link!"},
		{">ln -sfn b link|!rm link; ln -s a link", "change link link"},
		{">ln -sfn b link|!ln -sfn c link", "change link link!"},
		{">rm -r sub|!echo y > a", "delete sub"},
		{">rm -r sub|!rm -r sub", ""},
		{">echo x > sub/c|!echo y > sub/c|>rm -r sub", "delete sub!"},
		{">echo x > sub/c|!echo y > sub/deep/d|>rm -r sub", "delete sub"},
		{">echo x > sub/c|>rm -r sub|!echo y > sub/deep/d", "delete sub!"},
		{">rm -r sub; mkdir sub; echo x > sub/x", "delete sub/c, delete sub/deep, create sub/x file"},
		{">rm -r sub; mkdir sub; echo x > sub/x|!echo y > sub/y", "delete sub/c, delete sub/deep, create sub/x file"},
		{">rm -r sub; mkdir sub; echo x > sub/x|!echo y > sub/c", "delete sub/c!, delete sub/deep, create sub/x file"},
		{">rm -r sub; mkdir sub; echo x > sub/x|!echo y > sub/x", "delete sub/c, delete sub/deep, change sub/x file!"},
		{">rm -r sub; mkdir -p sub/deep; echo x > sub/deep/e|!echo y > sub/deep/d", "delete sub/c, delete sub/deep/d!, create sub/deep/e file"},
		{">rm -r sub|>mkdir -p sub/deep|!echo y > sub/c", "delete sub/c!, delete sub/deep/d"},
		{">rm -r many; mkdir many; echo 1 > many/1; echo x > many/2|!echo y > many/1", "change many/2 file, delete many/3, delete many/4, delete many/5"},
		{"!mkdir -p o/m; echo y > o/m/f|>rm -r sub|!rm -r sub; mv o sub", "delete sub!"},
		{"!mkdir -p o/m; echo y > o/m/f|>rm -r sub|!rm -r sub; mv o sub|>mkdir sub", "delete sub/m!"}, // a moved directory, with older files
		{"!mkdir -p o/m; echo y > o/m/f|>rm -r sub|!rm -r sub; mv o sub|>mkdir -p sub/m", "delete sub/m/f!"},
		{"!mkdir -p o/m; echo y > o/m/f|>rm -r sub; mkdir sub|!rm -r sub; mv o sub", ""},
		{"!mkdir -p o/m; echo y > o/m/f|~rm -r sub; mkdir sub|!rm -r sub; mv o sub", "delete sub/m!"},
		{">rm -r sub; echo x > sub", "change sub file"},
		{">rm -r sub; echo x > sub|!echo y > sub/deep/d", "change sub file!"},
		{">rm a; mkdir a; echo x > a/x", "change a folder, create a/x file"},
		{">rm a; mkdir a; echo x > a/x|!echo y > a", "change a folder!, create a/x file!"},
		{">rm a; mkdir a; echo x > a/x|!rm a; mkdir a; echo y > a/y", "create a/x file"},
		{">mkdir -p n/m; echo x > n/m/f", "create n folder, create n/m folder, create n/m/f file"},
		{">mkdir -p n/m; echo x > n/m/f|!mkdir n; echo y > n/y", "create n/m folder, create n/m/f file"},
		{">mkdir -p n/m; echo x > n/m/f|!mkdir -p n/m; echo y > n/m/f", "change n/m/f file!"},
		{">mkdir -p n/m; echo x > n/m/f|!mkdir -p n/m; echo y > n/m/f|>echo z > n/m/f; echo z > n/m/g", "change n/m/f file!, create n/m/g file"},
		{">mkdir n; echo x > n/x|!mkdir n; echo y > n/y|>echo z > n/y", "create n/x file, change n/y file"},
		{">mkdir n; echo x > n/x|!mkdir n; echo y > n/y|>echo z > n/y|!echo w > n/y", "create n/x file, change n/y file!"},
		{">mkdir x; mv x n; echo x > n/x|!mkdir n; echo y > n/y|tidy|!echo z > n/z", "create n/x file"},
		{">mkdir n|!echo y > n", "change n folder!"},
		{">mkdir n; echo x > n/f|!mkdir n; chmod 700 n", "mode n folder!, create n/f file"},
		{">chmod 700 sub", "mode sub folder"},
		{">chmod 700 sub|!chmod 711 sub", "mode sub folder!"},
		{">chmod 700 sub|!chmod 700 sub", ""},
		{">echo x > sub/n|!chmod 711 sub", "create sub/n file"},
		{">echo x > sub/n|!rm -r sub", "create sub folder!, create sub/n file!"},
		{">echo x > sub/n|!mv sub was; ln -s was sub", "change sub folder!, create sub/n file!"},
		{">echo x > sub/n|!rm -r sub; mkdir sub", "create sub/n file"},
		{">echo x > sub/n|!rm -r sub|>echo z > sub/z|!mkdir sub; echo y > sub/z", "create sub/n file, change sub/z file!"},
		{">rm sub/c|!rm -r sub", ""},
		{">rm sub/c|!rm -r sub|tidy|!mkdir sub; echo y > sub/c", ""},
		{">rm link; ln -s b link", "change link link"},
		{">rm link; ln -s b link|!ln -sfn many link", "change link link!"},
		{">rm link; ln -s b link|!ln -sfn b link", ""},
		{">rm link; ln -s b link|>ln -sfn a link|!ln -sfn many link", ""},
		{">mkfifo p", "create p special"},
		{">mkfifo p; rm a; mkfifo a|!echo y > a", "change a special!, create p special"},
		{">echo x > n; rm n", ""},
		{">echo x > n|!echo y > n|>rm n", ""}, // it wants nothing here, as before
		{">mkdir n; chmod 000 n", "create n folder"},
		{">printf x > 'a\nb'|!printf y > 'a\nb'", "change a\nb file!"},
		// While another command runs nothing is removed, but the list is the same.
		{"~touch a; rm link; ln -s a link|!echo y > a", ""},
		{"~touch a|!rm a", ""},
		{"~echo x > a|!echo y > a", "change a file!"},
		{"~rm -r sub; mkdir -p sub/deep; echo x > sub/x", "delete sub/c, delete sub/deep/d, create sub/x file"},
		{"~rm -r sub; mkdir -p sub/deep; echo x > sub/x|!echo y > sub/deep/d", "delete sub/c, delete sub/deep/d!, create sub/x file"},
		{"~rm -r sub; mkdir -p sub/deep; echo x > sub/x|!echo y > sub/c", "delete sub/c!, delete sub/deep/d, create sub/x file"},
		{"~rm -r sub; mkdir sub|~rmdir sub|~echo x > sub", "change sub file"},
		{"~rm a|!rm a", ""},
		{"~rm a|!rm a|note|!echo y > a", "delete a!"},
		{"~echo x > sub/c|!echo y > sub/c|~rm -r sub", "delete sub!"},
		{"~mkdir x; mv x n; echo x > n/x|!mkdir n; echo y > n/y", "create n/x file"},
		{"~echo x > sub/n; rm sub/c|!rm -r sub", "create sub folder!, create sub/n file!"},
		{"~rm sub/c|!rm -r sub", ""},
		{"~echo x > sub/n|!echo y > sub/n|~rm -r sub; mkdir sub", "delete sub/c, delete sub/deep"},
		{"~echo x > n|!mkdir n; echo y > n/y|~rm n; mkdir n|>true", ""},
		{"~echo x > n|!mkdir n; echo y > n/y|~rm n; mkdir n; echo x > n/x|>true", "create n/x file"},
		{"!head -c 2000000 /dev/zero > large|~touch large|~true|>true|!echo y > large", ""},
		{"!head -c 2000000 /dev/zero > large|>echo x >> large|~truncate -s 2000000 large|~true|>true|!echo y > large", ""},
	} {
		b := newSession(t)
		before := describe(t, b.Dir)
		steps := strings.Split(test.steps, "|")
		b.steps(steps...)
		if got := b.changes(); got != test.want {
			t.Errorf("%s: got %q, want %q", test.steps, got, test.want)
		}
		// Tidying does not change the list, nor the session's view of its own files.
		real := describe(t, b.Dir)
		must(t, b.RecordBases(true))
		if got := b.changes(); got != test.want && !strings.HasPrefix(test.steps, "~rm a|!rm a|note") {
			t.Errorf("%s, in order: got %q, want %q", test.steps, got, test.want)
		}
		seen := b.view()
		must(t, b.RecordBases(true))
		if got := b.view(); got != seen {
			t.Errorf("%s: seen\n%s\nwant\n%s", test.steps, got, seen)
		}
		if test.want == "" && seen != real {
			t.Errorf("%s: no change, but seen is\n%s\nand there is\n%s", test.steps, seen, real)
		}
		if got := describe(t, b.Dir); got != real || !strings.Contains(test.steps, "!") && got != before {
			t.Errorf("%s: the real directory has changed", test.steps)
		}
		must(t, b.Discard([]string{"."}))
		if got := b.view(); got != real || b.changes() != "" {
			t.Errorf("%s: after all is discarded\n%s\nwant\n%s", test.steps, got, real)
		}
		if files, size, err := b.Usage(); files != 0 || size != 0 || err != nil {
			t.Errorf("%s: there still are %d files with %d bytes, %v", test.steps, files, size, err)
		}
	}
}

// TestUserEditsDuringCommand checks that what the user changes while a command runs is a conflict.
func TestUserEditsDuringCommand(t *testing.T) {
	for _, test := range []struct{ work, meanwhile, want string }{
		{"echo x > a", "echo y > a", "change a file!"},
		{"echo x > a", "echo y > b", "change a file"},
		{"echo x > a", "rm a", "create a file!"},
		{"rm a", "echo y > a", "delete a!"},
		{"rm a", "rm a", ""},
		{"rm -r sub", "echo y > sub/deep/d", "delete sub!"},
		{"chmod 700 sub", "chmod 711 sub", "mode sub folder!"},
		{"echo x > n", "echo y > n", "change n file!"},
		{"mkdir n; echo x > n/f", "mkdir n; echo y > n/f", "change n/f file!"},
		{"echo x > sub/n", "rm -r sub", "create sub folder!, create sub/n file!"},
		{"touch a", "echo y > b", ""},
	} {
		for _, killed := range []bool{false, true} {
			b := newSession(t)
			must(t, b.MarkStart())
			run(t, b.SessionDir(), test.work)
			run(t, b.Dir, test.meanwhile)
			if got := b.changes(); got != test.want {
				t.Errorf("%s / %s: before RecordBases: got %q, want %q", test.work, test.meanwhile, got, test.want)
			}
			if killed { // the next command starts without RecordBases after this one
				b.call("true")
			} else {
				must(t, b.RecordBases(true))
			}
			if got := b.changes(); got != test.want {
				t.Errorf("%s / %s: got %q, want %q", test.work, test.meanwhile, got, test.want)
			}
		}
	}
}

// TestFlush checks that a mounted overlay shows edits of the user and removed changes.
func TestFlush(t *testing.T) {
	b := newSession(t)
	for i, step := range []struct{ work, user, look, want string }{
		{"touch a; cat b", "echo mine > a; echo mine > b", "cat a b", "mine\nmine\n"},
		{"echo x > a", "echo other > a; echo n > n", "cat a n; rm n; ls", "x\nn\na\nb\nempty\nlink\nmany\nsub\n"},
		{"rm -r sub; mkdir sub; echo x > sub/x", "echo y > sub/y; rm n", "ls sub; rm -r sub; mkdir -p sub/deep", "x\ny\n"},
		{"true", "echo z > sub/z; echo z > sub/deep/z", "ls sub sub/deep", "sub:\ndeep\nz\n\nsub/deep:\nz\n"},
	} {
		run(t, b.SessionDir(), step.work)
		must(t, b.RecordBases(true))
		run(t, b.Dir, step.user)
		must(t, b.RecordBases(true))
		must(t, b.MarkStart())
		b.flush()
		got := output(t, b.SessionDir(), step.look)
		if got != step.want {
			t.Errorf("%d: got %q, want %q", i, got, step.want)
		}
		must(t, b.RecordBases(true))
		b.flush()
	}
	b.unmount()
	if got, want := b.changes(), "change a file!, delete sub/c, delete sub/deep/d, delete sub/y"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// pickAndApply applies changes and marks them as applied.
func (b *fixture) pickAndApply(picks ...overlay.Pick) error {
	b.t.Helper()
	to, list, err := b.pick(picks...)
	if err != nil {
		return err
	}
	if err := to.PrepareApply(list, nil); err != nil {
		return err
	}
	must(b.t, to.FinishApply())
	return b.MarkApplied(pathsOf(picks), nil)
}

// pick picks changes.
func (b *fixture) pick(picks ...overlay.Pick) (to overlay.Overlay, list []overlay.PathChange, err error) {
	b.t.Helper()
	to = overlay.Overlay{Dir: b.Dir, Store: b.t.TempDir() + "/landing"}
	must(b.t, to.Init())
	list, err = b.Pick(to, picks)
	return to, list, err
}

func pathsOf(picks []overlay.Pick) (list []string) {
	for _, p := range picks {
		list = append(list, p.Path)
	}
	return list
}

// TestPick checks that golem applies the picked changes and nothing else, and that the
// other changes stay.
func TestPick(t *testing.T) {
	given := t.TempDir() + "/given"
	must(t, os.WriteFile(given, []byte("given\n"), 0o600))
	for _, test := range []struct {
		steps string
		picks string // "!" forces a conflict, "=" applies other content
		list  string
		real  string // a script that does the same to the real directory
		left  string
	}{
		{">echo x > a; echo y > n", "a", "change a file", "echo x > a", "create n file"},
		{">echo x > a; echo y > n", "a n", "change a file, create n file", "echo x > a; echo y > n", ""},
		{">rm a; rm -r sub", "a", "delete a", "rm a", "delete sub"},
		{">rm a; rm -r sub", "sub", "delete sub", "rm -r sub", "delete a"},
		{">chmod 700 a sub; echo x > sub/n", "sub", "mode sub folder", "chmod 700 sub", "mode a file, create sub/n file"},
		{">chmod 700 a sub; echo x > sub/n", "a sub/n", "mode a file, create sub/n file", "chmod 700 a; echo x > sub/n", "mode sub folder"},
		{">mkdir -p n/m/o; echo f > n/f; echo g > n/m/g; mkfifo n/m/p", "n", "create n folder, create n/f file, create n/m folder, create n/m/g file, create n/m/o folder, create n/m/p special",
			"mkdir -p n/m/o; echo f > n/f; echo g > n/m/g", "create n/m/p special"},
		{">mkdir -p n/m/o; echo f > n/f; echo g > n/m/g; chmod 700 n", "n/m/g", "create n folder, create n/m folder, create n/m/g file",
			"mkdir -p n/m; chmod 700 n; echo g > n/m/g", "create n/f file, create n/m/o folder"},
		{">mkdir -p n/m/o; echo f > n/f; echo g > n/m/g", "n/m", "create n folder, create n/m folder, create n/m/g file, create n/m/o folder",
			"mkdir -p n/m/o; echo g > n/m/g", "create n/f file"},
		{">mkdir x; echo x > x/x; mv x n; echo f > n/f", "n/f", "create n folder, create n/f file", "mkdir n; echo f > n/f", "create n/x file"},
		{">rm -r sub; mkdir sub; echo x > sub/x", "sub/x", "create sub/x file", "echo x > sub/x", "delete sub/c, delete sub/deep"},
		{">rm -r sub; mkdir sub; echo x > sub/x", "sub/c", "delete sub/c", "rm sub/c", "delete sub/deep, create sub/x file"},
		{"~rm -r sub; mkdir sub; echo x > sub/x", "sub/c", "delete sub/c", "rm sub/c", "delete sub/deep, create sub/x file!"}, // its base is unknown
		{">rm a; mkdir a; echo x > a/x; echo y > a/y", "a/x", "change a folder, create a/x file", "rm a; mkdir a; echo x > a/x", "create a/y file"},
		{">rm -r sub; echo x > sub", "sub", "change sub file", "rm -r sub; echo x > sub", ""},
		{">rm link; ln -s b link; ln -s nowhere l", "link l", "create l link, change link link", "rm link; ln -s b link; ln -s nowhere l", ""},
		{">echo x > a|!echo y > a", "a!", "change a file", "echo x > a", ""},
		{">echo x > a|!rm a", "a!", "create a file", "echo x > a", ""},
		{">echo x > sub/n|!rm -r sub", "sub/n!", "create sub folder, create sub/n file", "mkdir sub; echo x > sub/n", ""},
		{">rm -r sub|!echo y > sub/y", "sub!", "delete sub", "rm -r sub", ""},
		{">echo x > n|!echo y > n", "n!", "change n file", "echo x > n", ""},
		{">echo x > a", "a=", "change a file", "echo given > a", "change a file"},
		{">echo x > a; chmod 700 a", "a=", "change a file", "echo given > a", "change a file"},
		{">echo x > n; chmod 700 n", "n=", "create n file", "echo given > n; chmod 700 n", "change n file"},
		{">echo given > a; chmod 700 a", "a=", "change a file", "echo given > a", "mode a file"},
		{">rm a", "a=", "change a file", "echo given > a", "delete a"},
		{">echo x > a|!echo y > a", "a!=", "change a file", "echo given > a", "change a file"},
		{">mkdir n; echo x > n/x; echo y > n/y", "n n/x=", "create n folder, create n/x file, create n/y file", "mkdir n; echo given > n/x; echo y > n/y", "change n/x file"},
		{">cp /bin/true su; chmod 6755 su", "su", "create su file", "cp /bin/true su; chmod 755 su", ""},
		{">mkdir d; chmod 000 d", "d", "create d folder", "mkdir d; chmod 000 d", ""},
		{">echo x > n; ln n m", "m", "create m file", "echo x > m", "create n file"},
	} {
		b, plain := newSession(t), t.TempDir()+"/real"
		must(t, os.Mkdir(plain, 0o755))
		run(t, plain, start)
		for step := range strings.SplitSeq(test.steps, "|") {
			b.steps(step)
			if step[0] == '!' {
				run(t, plain, step[1:])
			}
		}
		run(t, plain, test.real)
		var picks []overlay.Pick
		for p := range strings.FieldsSeq(test.picks) {
			name := strings.TrimRight(p, "!=")
			pick := overlay.Pick{Path: name, Force: strings.Contains(p, "!")}
			if strings.HasSuffix(p, "=") {
				pick.ContentFile = given
			}
			picks = append(picks, pick)
		}
		seen := b.view()
		before := b.changes()
		to, list, err := b.pick(picks...)
		if err != nil {
			t.Errorf("%s, %s: %v", test.steps, test.picks, err)
			continue
		}
		if got := formatChanges(list); got != test.list {
			t.Errorf("%s, %s: picked %q, want %q", test.steps, test.picks, got, test.list)
		}
		if got := b.changes(); got != before {
			t.Errorf("%s, %s: after the pick the session has %q, before %q", test.steps, test.picks, got, before)
		}
		must(t, to.PrepareApply(list, nil))
		must(t, to.FinishApply())
		if got, want := describe(t, b.Dir), describe(t, plain); got != want {
			t.Errorf("%s, %s: applied\n%s\nwant\n%s", test.steps, test.picks, got, want)
		}
		for range 2 {
			must(t, b.MarkApplied(pathsOf(picks), nil))
			if got := b.changes(); got != test.left {
				t.Errorf("%s, %s: left %q, want %q", test.steps, test.picks, got, test.left)
			}
			if got := b.view(); got != seen && !strings.Contains(test.steps, "6755") {
				t.Errorf("%s, %s: seen\n%s\nwant\n%s", test.steps, test.picks, got, seen)
			}
		}
		must(t, b.Discard([]string{"."}))
		if got, want := b.view(), describe(t, plain); got != want {
			t.Errorf("%s, %s: discarded\n%s\nwant\n%s", test.steps, test.picks, got, want)
		}
	}
}

// TestPickRefused checks that picking a conflict or a path without a change is an error,
// and that nothing is copied then.
func TestPickRefused(t *testing.T) {
	given := t.TempDir() + "/given"
	must(t, os.WriteFile(given, []byte("given\n"), 0o600))
	for _, test := range []struct {
		steps     string
		picks     []overlay.Pick
		conflicts string
		is        error
	}{
		{">echo x > a; echo x > b|!echo y > a", []overlay.Pick{{Path: "b"}, {Path: "a"}}, "a", nil},
		{">echo x > a|!echo y > a", []overlay.Pick{{Path: "a", ContentFile: given}}, "a", nil},
		{">mkdir n; echo x > n/f|!echo y > n", []overlay.Pick{{Path: "n/f"}}, "n", nil},
		{">rm -r sub|!echo y > sub/deep/d", []overlay.Pick{{Path: "sub"}}, "sub", nil},
		{">echo x > a", []overlay.Pick{{Path: "a"}, {Path: "b"}}, "", fs.ErrNotExist},
		{">echo x > sub/n", []overlay.Pick{{Path: "sub"}}, "", fs.ErrNotExist},
		{">echo x > a", []overlay.Pick{{Path: "."}}, "", fs.ErrNotExist},
		{">echo x > a", []overlay.Pick{{Path: "../real/a"}}, "", fs.ErrNotExist},
		{">rm -r sub", []overlay.Pick{{Path: "sub/c"}}, "", fs.ErrNotExist},
		{">mkdir n", []overlay.Pick{{Path: "n", ContentFile: given}}, "", fs.ErrInvalid},
		{">rm -r sub", []overlay.Pick{{Path: "sub", ContentFile: given}}, "", fs.ErrInvalid},
	} {
		b := newSession(t)
		b.steps(strings.Split(test.steps, "|")...)
		to, _, err := b.pick(test.picks...)
		var conflict *overlay.ConflictError
		switch {
		case test.conflicts != "":
			if !errors.As(err, &conflict) || strings.Join(conflict.Paths, ",") != test.conflicts {
				t.Errorf("%s, %v: %v, want a conflict at %s", test.steps, test.picks, err, test.conflicts)
			}
		case !errors.Is(err, test.is):
			t.Errorf("%s, %v: %v, want %v", test.steps, test.picks, err, test.is)
		}
		if entries, err := os.ReadDir(to.UpperDir()); len(entries) > 0 || err != nil {
			t.Errorf("%s, %v: made %v, %v", test.steps, test.picks, entries, err)
		}
	}
}

// TestMarkAppliedLater checks that the session and the user can continue between Pick,
// Apply and MarkApplied.
func TestMarkAppliedLater(t *testing.T) {
	for _, test := range []struct{ work, pick, after, applied, left, seen string }{
		{"echo x > a", "a", ">echo z > a", "", "change a file", "z"},
		{"echo x > a", "a", ">rm a", "", "delete a", ""},
		{"echo x > a", "a", ">echo one > a", "", "change a file", "one"},
		{"echo x > a", "a", "", "!echo y > a", "", "y"},
		{"echo x > a", "a", "", "!rm a", "", ""},
		{"rm a", "a", ">echo z > a", "", "create a file", "z"},
		{"rm a", "a", "", "!echo y > a", "", "y"},
		{"rm a; echo n > n", "n", ">rm n", "", "delete a, delete n", ""},
		{"rm a; mkdir n; echo n > n/n; echo m > n/m", "n", ">rm n/m", "", "delete a, delete n/m", ""},
		{"rm a; mkdir n; echo n > n/n; echo m > n/m", "n", ">rm -r n", "", "delete a, delete n", ""},
		{"rm a; mkdir n; echo n > n/n; echo m > n/m", "n", ">mv n/m n/o", "", "delete a, delete n/m, create n/o file", ""},
		{"rm a; mkdir n; echo n > n/n; echo m > n/m", "n", ">echo z > n/z; echo z > n/n", "!echo y > n/y", "delete a, change n/n file, create n/z file", ""},
		{"rm a; mkdir n; echo n > n/n; echo m > n/m", "n", "", "!echo y > n/y; echo y > n/n; rm n/m", "delete a", ""},
		{"rm a; mkdir n; echo n > n/n; echo m > n/m", "n", "", "!rm -r n", "delete a", ""},
		{"rm a; mkdir n; echo n > n/n; echo m > n/m", "n/n", ">rm n/n", "", "delete a, create n/m file, delete n/n", ""},
		{"rm a; mkdir n; echo n > n/n; echo m > n/m", "n/n", ">rm n/m", "!echo y > n/m", "delete a", ""},
		{"rm a; echo s > sub/s", "sub/s", ">rm sub/s", "", "delete a, delete sub/s", ""},
		{"rm a; echo s > sub/s", "sub/s", ">rm -r sub", "", "delete a, delete sub!", ""}, // sub/s was added to it
		{"chmod 700 a", "a", "", "!chmod 711 a", "", "one"},
		{"chmod 700 sub; rm a", "sub", "", "!chmod 711 sub", "delete a", ""},
		{"chmod 700 sub; rm a", "sub", ">chmod 755 sub", "", "delete a, mode sub folder", ""},
		{"rm a b", "b", ">echo two > b; chmod 755 b", "", "delete a, create b file", ""},
		{"rm a; echo s > s", "s", "", "tidy", "delete a", ""},
		{"rm a; echo s > s", "s", ">rm s", "tidy", "delete a, delete s", ""},
		{"rm a; mkdir n; echo n > n/n; echo m > n/m", "n", ">rm n/m", "tidy", "delete a, delete n/m", ""},
		{"rm a; mkdir n; echo n > n/n; echo m > n/m", "n", "", "tidy|!rm n/m", "delete a", ""},
	} {
		b := newSession(t)
		b.call(test.work)
		to, list, err := b.pick(overlay.Pick{Path: test.pick})
		must(t, err)
		if test.after != "" {
			b.steps(test.after)
		}
		must(t, to.PrepareApply(list, nil))
		must(t, to.FinishApply())
		if test.applied != "" {
			b.steps(strings.Split(test.applied, "|")...)
		}
		for range 2 {
			must(t, b.MarkApplied([]string{test.pick}, nil))
			if got := b.changes(); got != test.left {
				t.Errorf("%s, %s%s%s: left %q, want %q", test.work, test.pick, test.after, test.applied, got, test.left)
			}
			b.flush()
			if got := output(t, b.SessionDir(), "cat a 2>/dev/null || :"); strings.TrimSpace(got) != test.seen {
				t.Errorf("%s, %s%s%s: a is %q, want %q", test.work, test.pick, test.after, test.applied, got, test.seen)
			}
		}
	}
}

// TestDiscard checks that a discarded path is as in the real directory, and that the
// other changes stay.
func TestDiscard(t *testing.T) {
	for _, test := range []struct{ steps, paths, left, missing string }{
		{">echo x > a; rm b; echo n > n", "a", "delete b, create n file", ""},
		{">echo x > a; rm b; echo n > n", "b n", "change a file", ""},
		{">echo x > a|!echo y > a", "a", "", ""},
		{">rm -r sub; echo x > a", "sub", "change a file", ""},
		{">rm -r sub; mkdir sub; echo x > sub/x", "sub", "", ""},
		{">rm -r sub; mkdir sub; echo x > sub/x", "sub/c", "delete sub/deep, create sub/x file", ""},
		{">rm -r sub; mkdir sub; echo x > sub/x", "sub/x sub/deep", "delete sub/c", ""},
		{"~rm -r sub; mkdir -p sub/deep; echo x > sub/deep/x", "sub/c", "delete sub/deep/d, create sub/deep/x file", ""},
		{"~rm -r sub; mkdir -p sub/deep; echo x > sub/deep/x", "sub/deep/d", "delete sub/c, create sub/deep/x file", ""},
		{"~rm -r sub; mkdir -p sub/deep; echo x > sub/deep/x", "sub/deep", "delete sub/c", ""},
		{">chmod 700 sub; echo x > sub/x", "sub", "", ""},
		{">mkdir -p n/m; echo x > n/m/x; echo y > n/y", "n/m", "create n folder, create n/y file", ""},
		{">mkdir -p n/m; echo x > n/m/x; echo y > n/y", "n/m/x n/y", "create n folder, create n/m folder", ""},
		{">mkdir -p n/m; echo x > n/m/x; echo y > n/y", "./n/", "", ""},
		{">echo x > sub/c; echo x > sub/deep/d; echo x > a", "sub sub/c", "change a file", ""},
		{">rm a; mkdir a; echo x > a/x", "a", "", ""},
		{">rm a; mkdir a; echo x > a/x", "a/x", "change a folder", ""},
		{">mkfifo p; ln -s x y; rm link; mkdir n; chmod 000 n", ".", "", ""},
		{">rm sub/c|!rm -r sub", "sub", "", "sub"}, // it is no longer a change
		{">echo x > a", "b", "change a file", "b"},
		{">echo x > a", "a ../real", "change a file", "../real"},
		{">echo x > a", "a sub", "change a file", "sub"},
		{">rm -r sub", "sub/c", "delete sub", "sub/c"},
		{">touch a", "a", "", "a"},
	} {
		b := newSession(t)
		b.steps(strings.Split(test.steps, "|")...)
		real := describe(t, b.Dir)
		err := b.Discard(strings.Fields(test.paths))
		if (test.missing != "") != errors.Is(err, fs.ErrNotExist) || test.missing == "" && err != nil || test.missing != "" && !strings.Contains(err.Error(), test.missing) {
			t.Errorf("%s, %s: %v", test.steps, test.paths, err)
		}
		if got := b.changes(); got != test.left {
			t.Errorf("%s, %s: left %q, want %q", test.steps, test.paths, got, test.left)
		}
		if got := describe(t, b.Dir); got != real {
			t.Errorf("%s, %s: the real directory has changed", test.steps, test.paths)
		}
		seen := b.view()
		if test.left == "" && seen != real {
			t.Errorf("%s, %s: seen\n%s\nwant\n%s", test.steps, test.paths, seen, real)
		}
		// Applying the other changes makes the real directory equal to the view.
		list, err := b.SessionChanges()
		must(t, err)
		must(t, b.pickAndApply(picksOf(list)...))
		if got := describe(t, b.Dir); got != seen {
			t.Errorf("%s, %s: applied\n%s\nwant\n%s", test.steps, test.paths, got, seen)
		}
	}
}

// TestBaseContent checks that the content of the base is kept.
func TestBaseContent(t *testing.T) {
	b := newSession(t)
	run(t, b.Dir, "head -c 1048576 /dev/zero > large; head -c 1048577 /dev/zero > larger; : > nil")
	b.call("echo x > a; rm sub/c; echo n > n; echo x >> large; echo x >> larger; rm -r many; echo x > nil; touch b; rm link; echo x > link")
	run(t, b.Dir, "echo y > a; echo y > b; rm large")
	b.call("echo z > a; echo z > b; echo z > sub/c")
	for name, want := range map[string]string{"a": "one\n", "sub/c": "three\n", "nil": "", "b": "y\n", "large": strings.Repeat("\x00", 1<<20)} {
		if got, err := b.BaseContent(name); err != nil || string(got) != want {
			t.Errorf("%s: %.20q, %v, want %.20q", name, got, err, want)
		}
	}
	for _, name := range []string{"larger", "n", "many", "many/1", "link", "nowhere", "../store/clock", ""} {
		if got, err := b.BaseContent(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %q, %v, want that there is none", name, got, err)
		}
	}
	must(t, b.Discard([]string{"a", "large"}))
	for _, name := range []string{"a", "large"} {
		if _, err := b.BaseContent(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v after the discard", name, err)
		}
	}
	if got, err := b.BaseContent("b"); err != nil || string(got) != "y\n" {
		t.Errorf("b: %q, %v", got, err)
	}
	// At most a thousand are kept.
	b = newSession(t)
	run(t, b.Dir, "i=0; while [ $i -lt 1010 ]; do echo $i > many/f$i; i=$((i+1)); done")
	b.call("for f in many/f*; do echo x > $f; done")
	kept, err := os.ReadDir(b.Store + "/contents")
	must(t, err)
	if len(kept) != 1000 {
		t.Errorf("%d contents are kept, want 1000", len(kept))
	}
	must(t, b.Discard([]string{"many"}))
	if kept, _ = os.ReadDir(b.Store + "/base"); len(kept) != 0 {
		t.Errorf("%d contents are still kept", len(kept))
	}
}

// TestSessionBadNames checks that golem reports bad names together with the other
// changes, and that they can be discarded.
func TestSessionBadNames(t *testing.T) {
	deep := `python3 -c "
import os
for _ in range(2000): os.mkdir('dd'); os.chdir('dd')"`
	for _, test := range []struct{ script, fit, unfit string }{
		{`echo x > a; printf x > "$(printf 'a\377b')"`, "a", ""},
		{`echo x > a; mkdir n; cd n; printf x > "$(printf 'a\377b')"; echo x > m`, "n/m", "n"},
		{"echo x > a; " + deep, "a", "dd"},
		{"rm a; " + deep, "a", "dd/dd"},
	} {
		b := newSession(t)
		b.call(test.script)
		b.call("true")
		list, err := b.SessionChanges()
		var unfit *overlay.NameError
		if !errors.As(err, &unfit) || !slices.ContainsFunc(list, func(c overlay.PathChange) bool { return c.Path == test.fit }) {
			t.Errorf("%s: %d changes, %v, want all and an error about a name", test.script, len(list), err)
		}
		if test.unfit != "" {
			if _, _, err := b.pick(overlay.Pick{Path: test.unfit}); !errors.As(err, &unfit) {
				t.Errorf("%s: picked %s: %v, want an error about its name", test.script, test.unfit, err)
			}
		}
		if _, _, err := b.Usage(); err != nil {
			t.Errorf("%s: usage: %v", test.script, err)
		}
		must(t, b.pickAndApply(overlay.Pick{Path: test.fit}))
		b.flush()
		run(t, b.SessionDir(), `find . -maxdepth 2 | LC_ALL=C grep -q "$(printf 'a\377b')\|dd"`)
		must(t, b.Discard([]string{"."}))
		if got := b.changes(); got != "" {
			t.Errorf("%s: %q is left", test.script, got)
		}
		b.unmount()
		must(t, b.Remove())
	}
	// The version of such a name is recorded and read again.
	b := newSession(t)
	name := "a\xffb"
	must(t, os.WriteFile(b.Dir+"/"+name, []byte("mine"), 0o644))
	b.call("for f in a?b; do echo x > $f; done")
	if got, err := b.BaseContent(name); err != nil || string(got) != "mine" {
		t.Errorf("base of %q: %q, %v", name, got, err)
	}
	must(t, b.Discard([]string{name}))
	if _, err := b.SessionChanges(); err != nil {
		t.Errorf("discarded: %v", err)
	}
}

// TestDamagedBases checks that golem reads the other lines of a file that a crash
// damaged.
func TestDamagedBases(t *testing.T) {
	b := newSession(t)
	b.call("echo x > a; echo x > b")
	data, err := os.ReadFile(b.Store + "/bases")
	must(t, err)
	first := bytes.IndexByte(data, '\n')
	for cut := range data[first:] {
		must(t, os.WriteFile(b.Store+"/bases", data[:len(data)-cut], 0o600))
		must(t, b.RecordBases(false))
		if got, want := b.changes(), "change a file, change b file"; got != want {
			t.Fatalf("without %d bytes: %q, want %q", cut, got, want)
		}
	}
}

// TestSessionAttributes checks that Apply keeps the attributes of the user's file, and
// skips those that the session added.
func TestSessionAttributes(t *testing.T) {
	b := newSession(t)
	must(t, unix.Setxattr(b.Dir+"/b", "user.mine", []byte("1"), 0))
	b.call(`echo x > n; echo x >> a; echo x >> b; python3 -c "
import os
for f in 'n', 'a', 'b': os.setxattr(f, 'user.planted', b'x')"; touch -d 2001-01-01 a`)
	must(t, b.pickAndApply(overlay.Pick{Path: "a"}, overlay.Pick{Path: "b"}, overlay.Pick{Path: "n"}))
	if got := describe(t, b.Dir); strings.Contains(got, "planted") || strings.Contains(got, "overlay") || !strings.Contains(got, "user.mine") {
		t.Errorf("applied\n%s", got)
	}
	info, err := os.Stat(b.Dir + "/a")
	must(t, err)
	if info.ModTime().Year() != 2001 {
		t.Errorf("a is of %v", info.ModTime())
	}
}

// TestInitSessionAgain checks that InitSession does not change an existing store.
func TestInitSessionAgain(t *testing.T) {
	b := newSession(t)
	b.call("echo x > a; chmod 700 sub")
	before, err := os.Stat(b.Store + "/clock")
	must(t, err)
	must(t, b.InitSession())
	after, err := os.Stat(b.Store + "/clock")
	must(t, err)
	if now, was := after.Sys().(*syscall.Stat_t), before.Sys().(*syscall.Stat_t); now.Ctim != was.Ctim {
		t.Error("the store has a new change time")
	}
	if got := b.changes(); got != "change a file, mode sub folder" {
		t.Error(got)
	}
	if files, size, err := b.Usage(); files != 1 || size != 2 || err != nil {
		t.Errorf("%d files, %d bytes, %v", files, size, err)
	}
}

// TestSessionKilled kills RecordBases, MarkApplied and Discard at random moments. Calling
// them again must give the same result as without the kill.
func TestSessionKilled(t *testing.T) {
	const files = 100
	kills := testutil.Rounds(5)
	middle := 0
	for _, do := range []string{"record", "mark", "discard"} {
		took := time.Hour
		for i := range kills {
			b := newSession(t)
			for i := range files {
				must(t, os.WriteFile(fmt.Sprintf("%s/many/f%d", b.Dir, i), []byte("mine\n"), 0o644))
			}
			must(t, b.MarkStart())
			b.flush()
			run(t, b.SessionDir(), "rm -r many sub; mkdir -p many/new sub/deep")
			for i := range files {
				must(t, os.WriteFile(fmt.Sprintf("%s/many/f%d", b.SessionDir(), i), []byte{"mine\n"[i%5], "mine\n"[i%2]}, 0o644))
				must(t, os.WriteFile(fmt.Sprintf("%s/many/new/f%d", b.SessionDir(), i), []byte("x\n"), 0o644))
				if i%2 == 0 {
					must(t, os.Remove(fmt.Sprintf("%s/many/f%d", b.SessionDir(), i)))
				}
			}
			if do != "record" {
				must(t, b.RecordBases(true))
			}
			before, seen := b.changes(), b.view()
			switch do {
			case "mark":
				list, err := b.SessionChanges()
				must(t, err)
				to, list, err := b.pick(picksOf(list)...)
				must(t, err)
				must(t, to.PrepareApply(list, nil))
				must(t, to.FinishApply())
				before = ""
			case "discard":
				before, seen = "", describe(t, b.Dir)
			}
			state := func() string {
				return output(t, b.Store, "find upper dropped 2>/dev/null | sort; cat bases picked 2>/dev/null || :")
			}
			begun := state()
			began := time.Now()
			if i == 0 {
				b.runKilled(do, took)
				took = time.Since(began)
			} else {
				b.runKilled(do, took/4+rand.N(took))
			}
			stopped := state()
			switch do {
			case "mark":
				must(t, b.MarkApplied([]string{"."}, nil))
			case "discard":
				for _, name := range []string{"many", "sub"} { // one may be gone already
					if err := b.Discard([]string{name}); err != nil && !errors.Is(err, fs.ErrNotExist) {
						t.Fatal(err)
					}
				}
			}
			must(t, b.RecordBases(true))
			if stopped != begun && stopped != state() {
				middle++
			}
			if got := b.changes(); got != before {
				t.Fatalf("%s: changes\n%s\nwant\n%s", do, got, before)
			}
			if got := b.view(); got != seen {
				t.Fatalf("%s: seen\n%s\nwant\n%s", do, got, seen)
			}
			b.unmount()
		}
	}
	if middle == 0 {
		t.Log("no kill hit the middle: the test checks nothing") // on a busy machine
	}
}

// picksOf returns a Pick for each change of a list.
func picksOf(list []overlay.PathChange) (picks []overlay.Pick) {
	for _, c := range list {
		picks = append(picks, overlay.Pick{Path: c.Path})
	}
	return picks
}

// TestOddFiles checks that no file that a command leaves makes golem hang or follow a
// symlink, and that golem applies the rest.
func TestOddFiles(t *testing.T) {
	const script = `mkdir -p n/dark n/deep; echo x > n/dark/f; ln n/dark/f n/hard; ln -s /etc n/etc; ln -s ../../.. n/deep/up; printf x > 'n/a
b'; cp /bin/true n/su; chmod 4755 n/su; chmod 000 n/dark; rm -r sub; ln -s /etc sub; rm b; ln -s /etc/passwd b; echo x > many/6; chmod 000 many`
	b, plain := newSession(t), t.TempDir()+"/real"
	must(t, os.Mkdir(plain, 0o755))
	run(t, plain, start+"; "+script+"; chmod 755 n/su")
	b.call(script + `; mkfifo p n/p; rm a; mkfifo a; python3 -c "
import socket
for s in 's', 'n/s': socket.socket(socket.AF_UNIX).bind(s)"`)
	run(t, plain, "rm a; cp "+b.Dir+"/a a")
	list, err := b.SessionChanges()
	must(t, err)
	var special []string
	for _, c := range list {
		if c.Kind == overlay.Special {
			special = append(special, c.Path)
		}
	}
	if got, want := strings.Join(special, " "), "a n/p n/s p s"; got != want {
		t.Errorf("special are %q, want %q", got, want)
	}
	must(t, b.pickAndApply(picksOf(list)...))
	if got, want := describe(t, b.Dir), describe(t, plain); got != strings.ReplaceAll(want, plain, b.Dir) {
		t.Errorf("applied\n%s\nwant\n%s", got, want)
	}
	if got, want := b.changes(), "change a special, create n/p special, create n/s special, create p special, create s special"; got != want {
		t.Errorf("remaining %q, want %q", got, want)
	}
	must(t, b.Discard([]string{"a", "n", "p", "s"}))
	if got, want := b.view(), describe(t, b.Dir); got != want {
		t.Errorf("discarded\n%s\nwant\n%s", got, want)
	}
}

// TestPickLate checks that edits of the user after Pick are not overwritten, and that
// later writes of the session are not applied.
func TestPickLate(t *testing.T) {
	b := newSession(t)
	b.call("echo x > a; echo x > b")
	to, list, err := b.pick(overlay.Pick{Path: "a"}, overlay.Pick{Path: "b"})
	must(t, err)
	run(t, b.Dir, "echo y > a")
	var conflict *overlay.ConflictError
	if err := to.PrepareApply(list, nil); !errors.As(err, &conflict) || strings.Join(conflict.Paths, " ") != "a" {
		t.Errorf("got %v, want a conflict at a", err)
	}
	to, list, err = b.pick(overlay.Pick{Path: "a", Force: true}, overlay.Pick{Path: "b"})
	must(t, err)
	run(t, b.SessionDir(), "echo z >> b")
	must(t, to.PrepareApply(list, nil))
	must(t, to.FinishApply())
	if got := output(t, b.Dir, "cat a b"); got != "x\nx\n" {
		t.Errorf("applied %q", got)
	}
	must(t, b.RecordBases(true))
	must(t, b.MarkApplied([]string{"a", "b"}, nil))
	if got := b.changes(); got != "change b file" {
		t.Errorf("remaining %q", got)
	}
	if got, err := b.BaseContent("b"); err != nil || string(got) != "x\n" {
		t.Errorf("base of b: got %q, %v", got, err)
	}
}

// TestSessionOtherFileSystem checks a session with its store on another file system.
func TestSessionOtherFileSystem(t *testing.T) {
	b := newSession(t)
	b.unmount()
	elsewhere := t.TempDir()
	must(t, unix.Mount("golem", elsewhere, "tmpfs", 0, ""))
	t.Cleanup(func() { unix.Unmount(elsewhere, unix.MNT_DETACH) })
	b.Store = elsewhere + "/store"
	must(t, b.InitSession())
	b.mount()
	b.steps(">echo x > a; rm -r sub; mkdir -p sub/deep n; echo x > n/x; chmod 700 many; touch b", "!echo y > b; echo y > sub/y")
	if got, want := b.changes(), "change a file, mode many folder, create n folder, create n/x file, delete sub/c, delete sub/deep/d"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	to := overlay.Overlay{Dir: b.Dir, Store: elsewhere + "/landing"}
	must(t, to.Init())
	list, err := b.Pick(to, []overlay.Pick{{Path: "a"}, {Path: "n"}, {Path: "sub/c"}})
	must(t, err)
	must(t, to.PrepareApply(list, nil))
	must(t, to.FinishApply())
	seen := b.view()
	must(t, b.MarkApplied([]string{"a", "n", "sub/c"}, nil))
	if got, want := b.changes(), "mode many folder, delete sub/deep/d"; got != want {
		t.Errorf("remaining %q, want %q", got, want)
	}
	if got := b.view(); got != seen {
		t.Errorf("seen\n%s\nwant\n%s", got, seen)
	}
	b.unmount()
}

// TestBusySession checks that SessionChanges, RecordBases and Pick work while a command
// runs, and that in the end everything is applied as the command left it.
func TestBusySession(t *testing.T) {
	b := newSession(t)
	must(t, b.MarkStart())
	cmd := exec.Command("sh", "-c", `i=0; while [ $i -lt 30 ]; do
mkdir -p n$i/m; echo x > n$i/m/f; mv n$i o$i; rm -rf n$((i-3)) o$((i-2)); echo $i > a; rm -rf sub; mkdir -p sub/deep; echo $i > sub/deep/d; ln -sfn $i link; mv sub/deep/d b; rm -f many/$((i%5)); mkfifo p$i; i=$((i+1)); done 2>/dev/null; :`)
	cmd.Dir = b.SessionDir()
	must(t, cmd.Start())
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for busy := true; busy; {
		select {
		case err := <-done:
			must(t, err)
			busy = false
		default:
		}
		must(t, b.RecordBases(false))
		list, err := b.SessionChanges()
		must(t, err)
		for _, c := range list {
			if c.Conflict {
				t.Errorf("%s %s is a conflicts", c.Op, c.Path)
			}
		}
		if _, _, err := b.Usage(); err != nil {
			t.Error(err)
		}
		if len(list) > 0 {
			b.pick(picksOf(list[rand.IntN(len(list)):])...) // it may be gone
		}
	}
	must(t, b.RecordBases(true))
	list, err := b.SessionChanges()
	must(t, err)
	must(t, b.pickAndApply(picksOf(list)...))
	run(t, b.SessionDir(), "rm -f p*")
	if got, want := describe(t, b.Dir), b.view(); got != want {
		t.Errorf("applied\n%s\nwant\n%s", got, want)
	}
}

// TestReadOnlyStore lists the changes of a session whose store is on a read-only file system.
func TestReadOnlyStore(t *testing.T) {
	b := newSession(t)
	b.steps(">echo x > a")
	want := b.changes()
	b.unmount()
	must(t, unix.Mount(b.Store, b.Store, "", unix.MS_BIND, ""))
	defer unix.Unmount(b.Store, unix.MNT_DETACH)
	must(t, unix.Mount("", b.Store, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	if got := b.changes(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := b.Discard([]string{"a"}); !errors.Is(err, unix.EROFS) {
		t.Errorf("discard: got %v, want %v", err, unix.EROFS)
	}
}
