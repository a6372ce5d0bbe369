package audit_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/records/audit"
)

// These tests need other processes, to compete with and to kill. They start this test
// binary again with a part to play.

const partVariable = "AUDIT_TEST_PART"

// TestPart plays the part that another test has asked for.
func TestPart(t *testing.T) {
	part := strings.SplitN(os.Getenv(partVariable), " ", 3)
	switch part[0] {
	case "":
	case "write":
		writeMany(t, part[1], part[2])
	case "acknowledge":
		acknowledgeForever(t, part[1], part[2])
	default:
		t.Fatalf("no part %q", part)
	}
}

// startPart prepares another process that plays a part on a directory.
func startPart(t *testing.T, part, name, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestPart$", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), partVariable+"="+part+" "+name+" "+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	t.Cleanup(func() {
		if cmd.Process != nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	return cmd
}

// each is how many records each of the two processes writes.
const each = 10_000

func writeMany(t *testing.T, name, dir string) {
	j := openJournal(t, dir, audit.Options{Session: name, Segment: 1 << 20})
	const callers = 8
	var group sync.WaitGroup
	for c := range callers {
		group.Go(func() {
			for i := range each / callers {
				wait := audit.Written
				switch {
				case i%100 == 0:
					wait = audit.Durable
				case i%3 == 0:
					wait = audit.Queued
				}
				if err := j.Write(newIntent(fmt.Sprintf("%s-%d-%d", name, c, i)), wait); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	ok(t, j.Close())
}

// TestTwoProcesses checks that two processes that write to one journal lose nothing and
// break no chain, and that Verify at the same time reports no problem.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ended := make(chan error, 2)
	for _, name := range []string{"one", "two"} {
		cmd := startPart(t, "write", name, dir)
		ok(t, cmd.Start())
		go func() { ended <- cmd.Wait() }()
	}
	looked := 0
	for running := 2; running > 0; {
		select {
		case err := <-ended:
			ok(t, err)
			running--
		default:
			if r := verify(t, dir); r.Bad != nil || r.Repairs != nil {
				t.Fatalf("while others write: bad: %v, repairs: %v", r.Bad, r.Repairs)
			}
			looked++
		}
	}
	if looked == 0 {
		t.Error("both processes ended before the first check: the test checks nothing")
	}
	checkWhole(t, dir, 2*each)
	seen := map[string]int{}
	rs, _ := readRecords(t, dir, audit.Filter{})
	for _, r := range rs {
		seen[r.Call]++
	}
	if len(seen) != 2*each {
		t.Errorf("got %d calls, want %d", len(seen), 2*each)
	}
}

// acknowledgeForever writes durable records from some goroutines, and prints each record
// that is written.
func acknowledgeForever(t *testing.T, name, dir string) {
	j := openJournal(t, dir, audit.Options{Session: name, Segment: 50_000})
	var group sync.WaitGroup
	for c := range 4 {
		group.Go(func() {
			for i := 0; ; i++ {
				r := newOutcome(fmt.Sprintf("%s-%d-%d", name, c, i))
				r.Note = strings.Repeat("x", i%7*100)
				if err := j.Write(r, audit.Durable); err != nil {
					t.Error(err)
					return
				}
				fmt.Fprintln(os.Stdout, "written", r.Call) // one write each
			}
		})
	}
	group.Wait()
}

// TestKill checks that a process killed at any moment has every acknowledged record in
// the journal.
func TestKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	acknowledged := map[string]bool{}
	repaired := 0
	for round := range testutil.Rounds(60) {
		cmd := startPart(t, "acknowledge", fmt.Sprint("round", round), dir)
		out, err := cmd.StdoutPipe()
		ok(t, err)
		ok(t, cmd.Start())
		lines := bufio.NewScanner(out)
		note := func() {
			if call, is := strings.CutPrefix(lines.Text(), "written "); is {
				acknowledged[call] = true
			}
		}
		for n := rand.IntN(40); n > 0 && lines.Scan(); n-- {
			note()
		}
		ok(t, cmd.Process.Kill())
		for lines.Scan() { // its output before it died
			note()
		}
		cmd.Wait()
		if r := verify(t, dir); r.Bad != nil {
			t.Fatalf("round %d: after the kill: %v", round, r.Bad)
		}
		j := openJournal(t, dir, audit.Options{Session: "parent"})
		ok(t, j.Write(newOutcome("after"), audit.Written))
		ok(t, j.Close())
		r := verify(t, dir)
		if r.Bad != nil {
			t.Fatalf("round %d: after the next write: %v", round, r.Bad)
		}
		repaired = len(r.Repairs)
	}
	rs, _ := readRecords(t, dir, audit.Filter{})
	for _, r := range rs {
		delete(acknowledged, r.Call)
	}
	if len(acknowledged) > 0 {
		t.Errorf("%d written records are missing: %v", len(acknowledged), acknowledged)
	}
	t.Logf("%d records, %d torn ones repaired", len(rs), repaired)
}

// TestFullDisk checks the journal on a full disk. Waiting callers get an error, and
// written records are whole. Refused records do not appear later, and queued records are
// not lost. The journal continues when there is space.
func TestFullDisk(t *testing.T) {
	if !testutil.Mounts(t) {
		return
	}
	dir := t.TempDir()
	ok(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k,mode=700"))
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	filler := filepath.Join(dir, "filler")
	fillUp := func() {
		file, err := os.Create(filler)
		ok(t, err)
		_, err = io.Copy(file, zeros{})
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("filling the disk: %v", err)
		}
		ok(t, file.Close())
	}
	j := openJournal(t, dir, audit.Options{})
	want := map[string]bool{}
	refused := 0
	for round := range 5 {
		fillUp()
		before := refused
		for i := 0; refused < before+3 && i < 1000; i++ {
			r := newIntent(fmt.Sprintf("%d-%d", round, i))
			if err := j.Write(r, audit.Wait(1+i%2)); err == nil {
				want[r.Call] = true
			} else if refused++; !errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), dir) {
				t.Fatalf("got %v, want an error about the disk without a path", err)
			}
			if i%5 == 0 {
				r := newOutcome(fmt.Sprintf("queued-%d-%d", round, i))
				ok(t, j.Write(r, audit.Queued))
				want[r.Call] = true
			}
		}
		if refused == before {
			t.Fatal("the disk is never full")
		}
		if r := verify(t, dir); r.Bad != nil {
			t.Fatalf("on the full disk: %v", r.Bad)
		}
		ok(t, os.Remove(filler))
		r := newOutcome(fmt.Sprint("free", round))
		ok(t, j.Write(r, audit.Durable))
		want[r.Call] = true
		checkWhole(t, dir, uint64(len(want)))
	}
	rs, _ := readRecords(t, dir, audit.Filter{})
	for _, r := range rs {
		if !want[r.Call] {
			t.Errorf("%s exists and should not", r.Call)
		}
		delete(want, r.Call)
	}
	if len(want) > 0 {
		t.Errorf("missing records: %v", want)
	}

	fillUp()
	for i := 0; j.Write(newIntent(fmt.Sprint("last", i)), audit.Written) == nil; i++ {
	}
	ok(t, j.Write(newOutcome("never"), audit.Queued))
	if err := j.Close(); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "not written to the journal: 1 record") {
		t.Errorf("Close with a record that cannot be written: got %v", err)
	}
}

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
