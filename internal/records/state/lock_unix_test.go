//go:build unix

package state_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/records/state"
)

// openHurried opens a directory that does not wait for locks.
func openHurried(t *testing.T, dir string) *state.Dir {
	f := openDir(t, dir)
	f.SetPatience(time.Millisecond)
	return f
}

func isLocked(err error, name string) bool {
	return err != nil && strings.HasPrefix(err.Error(), name+": locked by ") && strings.Contains(err.Error(), "delete nothing")
}

// TestDeletedWhileAppending checks that deleting files during an append loses no other
// record, and that Append acknowledges no record that is missing.
func TestDeletedWhileAppending(t *testing.T) {
	for _, gone := range [][]string{{"head"}, {"jsonl"}, {"head", "jsonl"}} {
		dir := filepath.Join(t.TempDir(), "state")
		l, other := openLog(t, openDir(t, dir), 0), openLog(t, openHurried(t, dir), 0)
		if err := errors.Join(appendRecords(l, true, "one"), appendRecords(other, true, "two")); err != nil {
			t.Fatal(err)
		}
		var between error
		err := l.Append(true, func(state.Tail) ([][]byte, []byte, error) {
			for _, name := range gone {
				if err := os.Remove(filepath.Join(dir, "journal."+name)); err != nil {
					return nil, nil, err
				}
			}
			between = appendRecords(openLog(t, openHurried(t, dir), 0), true, "other")
			return [][]byte{[]byte("mine")}, []byte("mine"), nil
		})
		if !strings.Contains(fmt.Sprint(err), "removed while it was written to") {
			t.Errorf("without %s: the writer got %v", gone, err)
		}
		want := "one two"
		if slices.Contains(gone, "jsonl") {
			want = ""
		}
		if len(gone) == 2 { // both files are new then, and no lock is held
			want = "other"
		}
		if (between == nil) != (len(gone) == 2) || between != nil && !isLocked(between, "journal.head") && !isLocked(between, "journal.jsonl") {
			t.Errorf("without %s: another writer got %v", gone, between)
		}
		if got, err := readRecords(l); got != want || err != nil {
			t.Errorf("without %s: read %q, %v, want %q", gone, got, err, want)
		}
		if err := errors.Join(appendRecords(l, true, "x"), appendRecords(other, true, "y")); err != nil {
			t.Errorf("without %s: the log cannot continue: %v", gone, err)
		}
		if got, err := readRecords(l); got != strings.TrimSpace(want+" x y") || err != nil {
			t.Errorf("without %s: read %q, %v", gone, got, err)
		}
	}
}

const appendVariable = "STATE_TEST_APPEND"

// TestAppendPart is another process, which appends records and prints the acknowledged
// ones. Without a number it holds the log until it is killed.
func TestAppendPart(t *testing.T) {
	name, dir, ok := strings.Cut(os.Getenv(appendVariable), " ")
	if !ok {
		return
	}
	l := openLog(t, openDir(t, dir), 0)
	if name == "hold" {
		l.Append(false, func(state.Tail) ([][]byte, []byte, error) {
			fmt.Println("kept hold")
			time.Sleep(time.Hour) // with nothing to wait for, Go would report a deadlock
			return nil, nil, nil
		})
	}
	for i := range 500 {
		record := fmt.Sprintf("%s%d", name, i)
		if appendRecords(l, false, record) == nil {
			fmt.Println("kept", record)
		}
	}
}

func appender(t *testing.T, name, dir string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestAppendPart$")
	cmd.Env = append(os.Environ(), appendVariable+"="+name+" "+dir)
	out, err := cmd.StdoutPipe()
	if err := errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd, bufio.NewScanner(out)
}

// TestDeleterLosesNothing checks processes that append while another deletes all files
// except the records. Each acknowledged record exists exactly once.
func TestDeleterLosesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	l := openLog(t, openDir(t, dir), 0)
	type said struct {
		lines []string
		err   error
	}
	done := make(chan said)
	for _, name := range []string{"a", "b", "c"} {
		cmd, out := appender(t, name, dir)
		go func() {
			var s said
			for out.Scan() {
				if record, ok := strings.CutPrefix(out.Text(), "kept "); ok {
					s.lines = append(s.lines, record)
				}
			}
			s.err = cmd.Wait()
			done <- s
		}()
	}
	kept, deleted := map[string]int{}, 0
	for running := 3; running > 0; {
		select {
		case s := <-done:
			if s.err != nil || len(s.lines) == 0 {
				t.Errorf("another process kept %d records, %v", len(s.lines), s.err)
			}
			for _, record := range s.lines {
				kept[record]++
			}
			running--
		default:
			for _, name := range []string{"journal.head", "journal.lock"} {
				if os.Remove(filepath.Join(dir, name)) == nil {
					deleted++
				}
			}
		}
	}
	got, err := readRecords(l)
	if err != nil || deleted == 0 {
		t.Errorf("after %d deletions: %v", deleted, err)
	}
	for _, record := range strings.Fields(got) {
		kept[record]--
	}
	for record, n := range kept {
		if n != 0 {
			t.Errorf("%s exists %d times less than it was acknowledged", record, n)
		}
	}
	t.Logf("%d records, %d deletions", len(kept), deleted)
}

// TestDeletedWhileUpdating checks that deleting files during an update does not let a
// second update in.
func TestDeletedWhileUpdating(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	f, other := openDir(t, dir), openHurried(t, dir)
	if err := f.Update("n", countUp); err != nil {
		t.Fatal(err)
	}
	err := f.Update("n", func(old []byte) ([]byte, error) {
		for _, name := range listNames(t, dir) {
			if name != "n" {
				os.Remove(filepath.Join(dir, name))
			}
		}
		if err := other.Update("n", countUp); !isLocked(err, "n") {
			t.Errorf("two processes are in an update: %v", err)
		}
		return countUp(old)
	})
	data, _ := f.Read("n")
	if n, _ := readNumber(data); n != 2 || err != nil {
		t.Errorf("counted %d, %v, want 2", n, err)
	}
	if err := other.Update("n", countUp); err != nil {
		t.Error(err)
	}
}

// TestDecisionsWait checks that the lock of the directory makes decisions wait for each
// other.
func TestDecisionsWait(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	once, _ := openHurried(t, dir).Once("answers")
	if _, _, err := once.Decide("k", []byte("yes")); err != nil {
		t.Fatal(err)
	}
	room, err := os.Open(filepath.Join(dir, "answers.once"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(room.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, first, err := once.Decide("other", []byte("yes")); first || !isLocked(err, "answers.once") {
		t.Errorf("during another decision: decided %t, %v", first, err)
	}
	room.Close()
	if _, first, err := once.Decide("other", []byte("yes")); !first || err != nil {
		t.Errorf("decided %t, %v", first, err)
	}
}

// TestStoppedProcess checks that a process that is stopped during an append does not
// block others forever.
func TestStoppedProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	l := openLog(t, openHurried(t, dir), 0)
	if err := appendRecords(l, true, "one"); err != nil {
		t.Fatal(err)
	}
	cmd, out := appender(t, "hold", dir)
	for out.Scan() && out.Text() != "kept hold" {
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := appendRecords(l, true, "two"); !isLocked(err, "journal.head") {
		t.Errorf("while another process is stopped: %v", err)
	}
	if got, err := readRecords(l); got != "one" || err != nil {
		t.Errorf("while another process is stopped: read %q, %v", got, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if err := appendRecords(l, true, "two"); err != nil {
		t.Error(err)
	}
}

// TestReplacedContent checks that content is not kept under the name of other content if its
// file was replaced during the write.
func TestReplacedContent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	blobs, _ := openDir(t, dir).Blobs("staged")
	_, err := blobs.Put(replacingReader{filepath.Join(dir, "staged.blobs", "new-00")})
	if !strings.Contains(fmt.Sprint(err), "removed while") {
		t.Errorf("put: %v", err)
	}
	if got := listNames(t, filepath.Join(dir, "staged.blobs")); len(got) != 1 {
		t.Errorf("files %q, want what the other one writes", got)
	}
}

// replacingReader is a content that replaces its own file with another one while it is read.
type replacingReader struct{ name string }

func (r replacingReader) Read([]byte) (int, error) {
	if err := errors.Join(os.Remove(r.name), os.WriteFile(r.name, []byte("other"), 0o600)); err != nil {
		return 0, err
	}
	return 0, io.EOF
}

// TestLockWaitIsOneTotal checks the wait while a stopped process holds every lock of a
// directory. All waits of a call together take as long as the error says, and the error
// names the holder.
func TestLockWaitIsOneTotal(t *testing.T) {
	t.Parallel()
	const most = 300 * time.Millisecond
	dir := filepath.Join(t.TempDir(), "state")
	f := openDir(t, dir)
	f.SetPatience(most)
	l := openLog(t, f, 0)
	once, err := f.Once("answers")
	if err != nil {
		t.Fatal(err)
	}
	uses := map[string]func() error{
		"n":            func() error { return f.Update("n", countUp) },
		"journal.head": func() error { return appendRecords(l, true, "x") },
		"answers.once": func() error { _, _, err := once.Decide("k", []byte("yes")); return err },
	}
	var held []*os.File
	for name, use := range uses {
		if err := use(); err != nil {
			t.Fatal(err)
		}
		if name == "n" {
			name = "."
		}
		file, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		held = append(held, file)
	}
	began, said := time.Now(), ""
	for range 3 {
		for name, use := range uses {
			err := use()
			if !isLocked(err, name) {
				t.Fatalf("%s: %v", name, err)
			}
			said += err.Error() + "\n"
		}
	}
	if took := time.Since(began); took < most || took > 6*most { // nine waits would take 2.7 s
		t.Errorf("waited %v in all, want %v", took, most)
	}
	if first, _, _ := strings.Cut(said, "\n"); !strings.Contains(first, "golem waited 300ms;") || strings.Count(said, "golem waited 3ms;") != 2 {
		t.Errorf("said:\n%s", said)
	}
	if runtime.GOOS == "linux" && strings.Count(said, fmt.Sprintf("locked by process %d (", os.Getpid())) != 9 {
		t.Errorf("the process %d is not named:\n%s", os.Getpid(), said)
	}
	for _, file := range held {
		file.Close()
	}
	for name, use := range uses {
		if err := use(); err != nil {
			t.Errorf("%s: after the lock is free: %v", name, err)
		}
	}
	file, err := os.Open(dir)
	if err == nil {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(most/3, func() { file.Close() })
	if err := f.Update("n", countUp); err != nil {
		t.Errorf("a later call did not wait for the lock: %v", err)
	}
}
