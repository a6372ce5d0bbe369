package overlay_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/files/overlay"
)

// pickInPlace picks all changes of a session that is not mounted.
func (b *fixture) pickInPlace() (to overlay.Overlay, x overlay.Transfer, list []overlay.PathChange) {
	b.t.Helper()
	to = overlay.Overlay{Dir: b.Dir, Store: b.Store + "-taken"}
	x = overlay.Transfer{Session: b.Overlay, To: to}
	must(b.t, to.Remove())
	must(b.t, to.Init())
	changes, err := b.SessionChanges()
	must(b.t, err)
	list, err = x.Pick(picksOf(changes))
	must(b.t, err)
	return to, x, list
}

// TestInPlace applies changes that stay in the session until then, undoes them, and
// restores them in the session.
func TestInPlace(t *testing.T) {
	b := newSession(t)
	b.call("mkdir -p n/deep; echo x > n/f; echo y > n/deep/g; ln -s f n/l; echo z > sub/new; echo changed > a; rm b; " +
		"mkdir h; echo h > h/one; ln h/one h/two; mkdir s; echo s > s/file; chmod u+s s/file; mkdir v; chmod 000 v; mv sub/c moved; rmdir empty; echo e > empty")
	before, wanted, seen := b.changes(), describe(t, b.SessionDir()), describe(t, b.Dir)
	b.unmount()
	to, x, list := b.pickInPlace()
	paths, err := x.Paths()
	must(t, err)
	// A file with two names, a set-ID file and a directory that cannot be read are copied.
	if got := strings.Join(paths, " "); got != "moved n sub/new" {
		t.Errorf("in place: %s", got)
	}
	if got := b.changes(); got != before {
		t.Errorf("picked, the session has %s", got)
	}
	must(t, x.Take(list, nil))
	if !x.HoldsTaken() {
		t.Error("no files were moved")
	}
	must(t, overlay.Transfer{Session: b.Overlay, To: overlay.Overlay{Dir: b.Dir, Store: t.TempDir()}}.Take(list, nil)) // it has no list
	must(t, to.PrepareApply(list, nil))
	must(t, to.FinishApply())
	must(t, b.MarkApplied([]string{"."}, nil))
	if x.HoldsTaken() {
		t.Error("after the apply, the files are still in the session")
	}
	applied := describe(t, b.Dir)
	if want := strings.ReplaceAll(wanted, "/s/file 104644", "/s/file 100644"); applied != want {
		t.Errorf("applied:\n%s\nwant\n%s", applied, want)
	}
	b.mount()
	if got := b.changes() + output(t, b.UpperDir(), "find . -mindepth 1"); got != "" {
		t.Errorf("after the apply, the session has %s", got)
	}
	b.unmount()
	must(t, to.AbortApply())
	if got := describe(t, b.Dir); got != seen {
		t.Errorf("undone:\n%s\nwant\n%s", got, seen)
	}
	must(t, b.Restore(to, list))
	if got := b.changes(); got != before {
		t.Errorf("restored: %s\nwant %s", got, before)
	}
}

// TestInPlaceChanged checks that Take moves nothing if anything in the picked files
// changed, also if the one who changed it hides that.
func TestInPlaceChanged(t *testing.T) {
	for _, change := range []string{
		"echo x >> n/f",
		"printf y | dd of=n/f conv=notrunc status=none", // same size
		"touch -r n/f ref; printf y | dd of=n/f conv=notrunc status=none; touch -r ref n/f; rm ref",
		"cp -p n/f n/g; mv n/g n/f",
		"chmod 600 n/f", "chmod 700 n/deep", "echo > n/deep/more", "rm n/deep/g", "mv n/deep/g n/deep/k", "ln n/f n/hard", "ln n/f outside",
		"rm n/l; ln -s f n/l", "mkdir n/deep/d", "rm -r n", "mv n m", "mv n m; cp -a m n", "rm n/f; mkdir n/f", "setfattr -n user.x -v y n/f || chmod 644 n/f",
	} {
		b := newSession(t)
		b.call("mkdir -p n/deep; echo x > n/f; echo y > n/deep/g; ln -s f n/l; echo > other")
		b.unmount()
		_, x, list := b.pickInPlace()
		run(t, b.UpperDir(), change)
		before := describe(t, b.UpperDir())
		var conflict *overlay.ConflictError
		if err := x.Take(list, nil); !errors.As(err, &conflict) || strings.Join(conflict.Paths, " ") != "n" {
			t.Errorf("%s: %v", change, err)
		}
		if got := describe(t, b.UpperDir()); got != before || x.HoldsTaken() {
			t.Errorf("%s: the session has\n%s\nwant\n%s", change, got, before)
		}
	}
}

// TestInPlaceWriter checks that a file that a process has open for writing is copied.
func TestInPlaceWriter(t *testing.T) {
	b := newSession(t)
	b.call("mkdir n m; echo x > n/f; echo x > m/f")
	f, err := os.OpenFile(b.SessionDir()+"/n/f", os.O_RDWR, 0)
	must(t, err)
	page, err := unix.Mmap(int(f.Fd()), 0, 2, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(t, err)
	f.Close() // the mapping still writes
	to, x, list := b.pickInPlace()
	if paths, err := x.Paths(); err != nil || len(paths) != 1 || paths[0] != "m" {
		t.Errorf("in place: %q, %v", paths, err)
	}
	page[0] = 'y'
	must(t, x.Take(list, nil))
	if got := output(t, to.UpperDir(), "cat n/f m/f"); got != "x\nx\n" {
		t.Errorf("got %q", got)
	}
	must(t, unix.Munmap(page))
}

// TestInPlaceSkipped checks that skipped files stay in the session.
func TestInPlaceSkipped(t *testing.T) {
	b := newSession(t)
	b.call("mkdir -p n/deep o p; echo x > n/f; echo y > n/deep/g; echo o > o/f; echo p > p/f")
	b.unmount()
	to, x, list := b.pickInPlace()
	skipped := []string{"n/deep", "o"}
	must(t, x.Take(list, skipped))
	must(t, to.PrepareApply(list, skipped))
	must(t, to.FinishApply())
	must(t, b.MarkApplied([]string{"."}, skipped))
	if got := output(t, b.Dir, "cat n/f p/f; ls n"); got != "x\np\nf\n" {
		t.Errorf("got %q", got)
	}
	if got, want := b.changes(), "create n/deep folder, create n/deep/g file, create o folder, create o/f file"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestTakeKilled kills Take at random moments. After Return the session is as before, and
// so are its conflicts.
func TestTakeKilled(t *testing.T) {
	b := newSession(t)
	b.call("for i in $(seq 300); do mkdir -p new/d$i d$i; echo $i > d$i/f; echo $i > sub/f$i; done; echo mine > both")
	run(t, b.Dir, "echo yours > both")
	b.unmount()
	before := b.changes()
	took, middle := time.Duration(0), 0
	for i := range testutil.Rounds(10) {
		to := overlay.Overlay{Dir: b.Dir, Store: b.Store + "-taken"}
		must(t, to.Remove())
		must(t, to.Init())
		changes, err := b.SessionChanges()
		must(t, err)
		picks := picksOf(changes)
		for i := range picks {
			picks[i].Force = true
		}
		x := overlay.Transfer{Session: b.Overlay, To: to}
		_, err = x.Pick(picks)
		must(t, err)
		began := time.Now()
		if i == 0 {
			b.runKilled("take", time.Minute)
			took = time.Since(began)
			if got := b.changes(); got != "change both file!" {
				t.Fatalf("after all was taken, the session has %s", got)
			}
		} else {
			b.runKilled("take", took/2+rand.N(took/2))
		}
		if n := strings.Count(output(t, to.UpperDir(), "find . -name 'd*'"), "\n"); n > 0 && n < 600 {
			middle++
		}
		must(t, x.Return(nil))
		must(t, x.Return(nil))
		must(t, b.Unpick([]string{"."}))
		if got := b.changes(); got != before {
			t.Fatalf("kill %d: got %s\nwant %s", i, got, before)
		}
	}
	if middle == 0 {
		t.Log("no kill hit the middle: the test checks nothing") // on a busy machine
	}
	if got := output(t, b.UpperDir(), "cat d7/f sub/f300 both"); got != fmt.Sprintln(7)+fmt.Sprintln(300)+"mine\n" {
		t.Errorf("got %q", got)
	}
}
