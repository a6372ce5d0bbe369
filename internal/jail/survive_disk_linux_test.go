package jail_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// A disk is a small file system.
type disk struct {
	t   *testing.T
	dir string
}

func newDisk(t *testing.T) disk {
	t.Helper()
	dir, err := os.MkdirTemp("", "disk")
	check(t, err)
	t.Cleanup(func() { os.Remove(dir) })
	d := disk{t, dir}
	check(t, unix.Mount("golem", d.dir, "tmpfs", 0, "size=1g,nr_inodes=200k"))
	t.Cleanup(func() { unix.Unmount(d.dir, unix.MNT_DETACH) })
	return d
}

// leave leaves room for so many pages and files, and no more.
func (d disk) leave(pages, files uint64) {
	d.t.Helper()
	var st unix.Statfs_t
	check(d.t, unix.Statfs(d.dir, &st))
	check(d.t, unix.Mount("golem", d.dir, "", unix.MS_REMOUNT, fmt.Sprintf("size=%d,nr_inodes=%d", (st.Blocks-st.Bfree+pages)*uint64(st.Bsize), st.Files-st.Ffree+files)))
}

const plenty = 10_000

// TestSurvivesFullDisk fills the disk at every step of a command, of applying its changes
// and of undoing them. Each must return an error and leave the directory in its old or
// its new state. When there is room again, everything works.
func TestSurvivesFullDisk(t *testing.T) {
	if !testutil.Mounts(t) {
		return
	}
	both := newDisk(t)
	g := newGround(t, 40)
	g.on(both.dir, both.dir)
	landed, failed := 0, 0
	for room := range uint64(5) {
		for _, left := range [][2]uint64{{plenty, room}, {room, plenty}} {
			when := fmt.Sprintf("room for %d pages and %d files", left[0], left[1])
			s := g.session()
			change := g.runCommand(s)
			both.leave(left[0], left[1])
			clash, err := change.Apply(nil)
			if is := g.checkState(when); clash != nil || is != (err == nil) {
				t.Errorf("%s: got %v, %v, applied: %v", when, clash, err, is)
			}
			if err != nil {
				failed++
				check(t, change.Discard())
				g.checkRestored(when)
			} else {
				landed++
				last, err := changes.Last(sandbox.Host(g.layers))
				check(t, err)
				both.leave(min(left[0], room%3), min(left[1], room%3))
				clash, err := last.Undo(nil)
				if is := g.checkState(when + ", undo"); clash != nil || is != (err != nil) {
					t.Errorf("%s: undo: %v, %v, applied: %v", when, clash, err, is)
				}
				both.leave(plenty, plenty)
				if err != nil {
					g.undo(when)
				}
			}
			both.leave(plenty, plenty)
			check(t, s.Close())
			g.recover()
			g.checkRestored(when)
			g.checkClean(when)
		}
	}
	if landed == 0 || failed == 0 {
		t.Errorf("%d were applied and %d failed: the test checks nothing", landed, failed)
	}
	// A command that fills the disk itself.
	both.leave(64, plenty)
	s := g.session()
	r, err := changes.Finish(s.Run(context.Background(), jail.Shell("head -c 10m /dev/zero > t/0; echo more > t/1; echo $?")))
	if err == nil && !strings.Contains(string(r.Stderr.Head), "No space left") {
		t.Errorf("printed %s, %s", r.Stdout.Head, r.Stderr.Head)
	}
	if r.Changed != nil {
		check(t, r.Changed.Discard())
	}
	both.leave(plenty, plenty)
	g.checkRestored("a full disk")
	if clash, err := g.runCommand(s).Apply(nil); err != nil || clash != nil {
		t.Error(clash, err)
	}
	check(t, s.Close())
	g.undo("a full disk")
	g.checkClean("a full disk")

	// The disk of the directory itself.
	own := newDisk(t)
	g.on(own.dir, both.dir)
	s = g.session()
	defer s.Close()
	for room := range uint64(60) {
		when := fmt.Sprintf("room for %d pages and files in the folder", room)
		change := g.runCommand(s)
		own.leave(room, room)
		clash, err := change.Apply(nil)
		own.leave(plenty, plenty)
		is := g.checkState(when)
		if clash != nil || is != (err == nil) {
			t.Errorf("%s: got %v, %v, applied: %v", when, clash, err, is)
		}
		if is {
			if room == 0 {
				t.Error("all is applied without room: the test checks nothing")
			}
			return
		}
		check(t, change.Discard())
		g.checkRestored(when)
	}
	t.Error("the changes are not applied with room for 60 files")
}

// on puts the directory and the overlays on other disks.
func (g *ground) on(work, layers string) {
	g.t.Helper()
	var err error
	g.work, err = os.MkdirTemp(work, "work")
	check(g.t, err)
	g.layers, err = os.MkdirTemp(layers, "layers")
	check(g.t, err)
	sh(g.t, g.copy, "cp -a . "+g.work)
}

// TestSurvivesKillsElsewhere kills golem and the holder while changes are first copied
// into the directory. Each change must be complete or missing, and no other file may
// stay.
func TestSurvivesKillsElsewhere(t *testing.T) {
	if !testutil.Mounts(t) {
		return
	}
	work, layers := newDisk(t), newDisk(t)
	g := newGround(t, 300)
	g.on(work.dir, layers.dir)
	s := g.session()
	change := g.runCommand(s)
	began := time.Now()
	if clash, err := change.Apply(nil); err != nil || clash != nil {
		t.Fatal(clash, err)
	}
	took, landed := time.Since(began), 0
	check(t, s.Close())
	kills := testutil.Rounds(6)
	for i := range kills {
		g.on(work.dir, layers.dir)
		l := g.lander("land")
		holder, cell := pidOf("jail-hold"), pidOf("jail-cell")
		l.begin()
		time.Sleep(rand.N(took))
		kill(holder)
		l.Process.Kill()
		l.end()
		waitUntilGone(holder, cell)
		g.recover()
		if g.checkState(fmt.Sprint("round ", i)) {
			landed++
		} else {
			g.checkClean(fmt.Sprint("round ", i))
		}
		check(t, os.RemoveAll(g.work))
	}
	g.on(work.dir, layers.dir)
	g.waitUntilSwept()
	t.Logf("%d of %d changes were applied", landed, kills)
}

// TestSurvivesKillsOfMany is TestSurvivesKills with ten thousand files.
func TestSurvivesKillsOfMany(t *testing.T) {
	if !testutil.Mounts(t) {
		return
	}
	t.Setenv("TMPDIR", newDisk(t).dir)
	g, seen := newGround(t, 10_000), make(map[string]int)
	g.measure()
	for i := range 2 {
		g.killOnce(i+1, seen) // the holder, and all
	}
	g.waitUntilSwept()
	t.Logf("kills: %v; an apply takes %v", seen, g.took)
}
