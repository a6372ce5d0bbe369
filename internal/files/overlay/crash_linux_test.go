package overlay_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/files/overlay"
)

// workVariable makes this program do some work on an overlay, so that it can be killed.
const workVariable = "GOLEM_TEST_SETTLE"

// doWork does what the variable says.
func doWork() bool {
	do, rest, ok := strings.Cut(os.Getenv(workVariable), " ")
	if !ok {
		return false
	}
	dir, store, _ := strings.Cut(rest, " ")
	l := overlay.Overlay{Dir: dir, Store: store}
	var err error
	switch do {
	case "undo":
		err = undoChanges(l)
	case "record":
		err = l.RecordBases(true)
	case "mark":
		err = l.MarkApplied([]string{"."}, nil)
	case "take":
		var changes []overlay.PathChange
		if changes, err = l.SessionChanges(); err == nil {
			err = overlay.Transfer{Session: l, To: overlay.Overlay{Dir: dir, Store: store + "-taken"}}.Take(changes, nil)
		}
	case "discard":
		err = l.Discard([]string{"many", "sub"})
	case "copy":
		l.IsCopy = true
		_, err = l.InitCopy(nil, nil)
	default:
		var changes []overlay.PathChange
		if changes, err = l.Changes(); err == nil {
			err = applyChanges(l, changes, nil)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// runKilled runs work in a separate process, and kills it after a while if it still runs.
func (b *fixture) runKilled(do string, after time.Duration) {
	b.t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), workVariable+"="+do+" "+b.Dir+" "+b.Store)
	cmd.Stderr = os.Stderr
	must(b.t, cmd.Start())
	timer := time.AfterFunc(after, func() { cmd.Process.Kill() })
	err := cmd.Wait()
	timer.Stop()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); err != nil && !(ok && status.Signal() == unix.SIGKILL) {
		b.t.Fatal(do, err)
	}
}

// TestKilled kills an apply and its undo at random moments, many times. After Recover the
// directory must be as before or as planned, to the byte, and after the undo as before.
func TestKilled(t *testing.T) {
	const files = 1000
	kills := testutil.Rounds(20)
	b := newFixture(t)
	run(t, b.Dir, fmt.Sprintf("mkdir t; i=0; while [ $i -lt %d ]; do echo old $i > t/$i; i=$((i+1)); done", files))
	must(t, b.MarkStart())
	b.work(fmt.Sprintf("i=0; while [ $i -lt %d ]; do case $((i%%3)) in 0) echo new $i > t/$i;; 1) rm t/$i;; 2) echo x > t/n$i;; esac; i=$((i+1)); done; rm -r sub; mkdir -p new/deep; echo x > new/deep/f; chmod 700 many", files))
	before := describe(t, b.Dir)
	began := time.Now()
	b.runKilled("apply", time.Minute) // it takes less
	took := time.Since(began)
	after := describe(t, b.Dir)
	must(t, undoChanges(b.Overlay))
	if got := describe(t, b.Dir); got != before {
		t.Fatal("the undo did not restore the directory")
	}
	begin := func() { // as if nothing was applied
		for _, name := range []string{"moves", "applied"} {
			if err := os.Remove(b.Store + "/" + name); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
		must(t, b.MarkStart())
	}
	begin()
	half, whole := 0, 0
	for i := 0; i < kills || half == 0 && i < 20*kills; i++ { // until a kill hits the middle
		b.runKilled("apply", rand.N(took))
		pending := b.HasMoves() && !isApplied(b.Overlay)
		if err := b.Recover(); err != nil {
			t.Fatal(err)
		}
		got := describe(t, b.Dir)
		switch {
		case got == after && pending:
			half++
		case got == after:
			whole++
		case got != before || pending:
			t.Fatalf("kill %d: the directory is neither old nor new; pending %v", i, pending)
		}
		if got == before {
			begin()
			continue
		}
		b.runKilled("undo", rand.N(took))
		must(t, overlay.UndoApply(b.Overlay, nil)) // as the next golem does
		if got := describe(t, b.Dir); got != before {
			t.Fatalf("kill %d: the undo did not restore the directory", i)
		}
		begin()
	}
	if half == 0 {
		t.Errorf("none of %d kills hit the middle (%d came too late): the test checks nothing", kills, whole)
	}
}
