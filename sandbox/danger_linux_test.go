package sandbox_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/sandbox"
)

// These tests need a second process, which swaps symlinks, is killed, or competes. It is
// this test binary, started with a part to play.

const partVariable = "SANDBOX_TEST_PART"

// TestPart plays the part that another test asks for.
func TestPart(t *testing.T) {
	part, dir, _ := strings.Cut(os.Getenv(partVariable), " ")
	switch part {
	case "":
	case "swap":
		swapForever(dir)
	case "write":
		writeForever(t, dir)
	case "count":
		countUp(t, dir)
	default:
		t.Fatalf("no part %q", part)
	}
}

// startPart starts another process with a part to play on a directory.
func startPart(t *testing.T, part, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestPart$", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), partVariable+"="+part+" "+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd
}

// ways are the two backends for a directory of the host.
var ways = map[string]func(sandbox.Host) (sandbox.Backend, error){
	"openat2": sandbox.Dir,
	"os.Root": sandbox.RootBackend,
}

// TestDirUsesOpenat2: if the kernel has openat2, Dir uses it. No other test would notice
// the slower backend.
func TestDirUsesOpenat2(t *testing.T) {
	fd, err := unix.Openat2(unix.AT_FDCWD, ".", &unix.OpenHow{Flags: unix.O_PATH, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		t.Skipf("openat2: %v", err)
	}
	unix.Close(fd)
	b, err := sandbox.Dir(sandbox.Host(t.TempDir()))
	ok(t, err)
	if !sandbox.ByOpenat2(b) {
		t.Errorf("Dir is a %T", b)
	}
}

func mounted(t *testing.T, open func(sandbox.Host) (sandbox.Backend, error), dir string) *sandbox.Sandbox {
	t.Helper()
	b, err := open(sandbox.Host(dir))
	if err != nil {
		t.Fatal(err)
	}
	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Backend: b, Access: sandbox.ReadWrite}}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestLinkSwapRace: another process swaps directories, files and symlinks of one name as
// fast as it can, while eight readers and eight writers use the name. They never read or
// change anything outside, or in a hidden part of the mount.
func TestLinkSwapRace(t *testing.T) {
	length := time.Duration(testutil.Rounds(3)) * time.Second
	if testing.Short() {
		length = length * 2 / 3
	}
	for way, open := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			for _, dir := range []string{"out", "proj/secrets", "proj/src/d", "proj/src/real"} {
				ok(t, os.MkdirAll(filepath.Join(top, dir), 0o777))
			}
			for name, content := range map[string]string{"out/f": "CANARY", "proj/secrets/f": "CANARY", "proj/src/d/f": "inside", "proj/src/g": "inside"} {
				ok(t, os.WriteFile(filepath.Join(top, name), []byte(content), 0o666))
			}
			src := filepath.Join(top, "proj/src")
			ok(t, os.Symlink("../../out", filepath.Join(src, "far")))
			ok(t, os.Symlink("../secrets", filepath.Join(src, "near")))
			ok(t, os.Symlink("../../out/f", filepath.Join(src, "farfile")))
			ok(t, os.Symlink("../secrets/f", filepath.Join(src, "nearfile")))
			ok(t, unix.Mkfifo(filepath.Join(src, "pipe"), 0o666))
			before := manifest(t, filepath.Join(top, "out")) + manifest(t, filepath.Join(top, "proj/secrets"))

			s, err := mounted(t, open, filepath.Join(top, "proj")).Restrict(sandbox.Limit{Path: "/src", Access: sandbox.ReadWrite})
			ok(t, err)
			startPart(t, "swap", src)
			reads, wrote := hammer(t, s, length)
			t.Logf("%d reads inside, %d writes inside", reads, wrote)
			if reads == 0 || wrote == 0 {
				t.Error("no read or no write succeeded: the test checks nothing")
			}
			if after := manifest(t, filepath.Join(top, "out")) + manifest(t, filepath.Join(top, "proj/secrets")); after != before {
				t.Errorf("hidden files have changed:\n%s\nwas\n%s", after, before)
			}
		})
	}
}

// swapForever exchanges names in pairs until it is killed.
func swapForever(dir string) {
	pairs := [][2]string{{"d", "far"}, {"d", "near"}, {"g", "farfile"}, {"g", "nearfile"}, {"g", "pipe"}}
	for {
		for _, p := range pairs {
			a, b := filepath.Join(dir, p[0]), filepath.Join(dir, p[1])
			for range 2 {
				unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
			}
		}
	}
}

// hammer reads and writes the swapped names from eight goroutines each. It counts the
// operations that succeed.
func hammer(t *testing.T, s *sandbox.Sandbox, length time.Duration) (reads, writes int64) {
	var read, wrote atomic.Int64
	var all sync.WaitGroup
	end := time.Now().Add(length)
	for i := range 8 {
		all.Go(func() {
			for time.Now().Before(end) {
				for _, name := range []string{"/src/d/f", "/src/g"} {
					data, err := s.Read(name)
					if bytes.Contains(data, []byte("CANARY")) {
						t.Errorf("a read of %s returned the canary", name)
						return
					}
					if err == nil {
						read.Add(1)
					}
				}
				if found, err := s.Search(context.Background(), "/src", sandbox.Query{Pattern: "CANARY"}, sandbox.Budget{}); err == nil && len(found.Found) > 0 {
					t.Errorf("search found %v", found.Found)
					return
				}
			}
		})
		all.Go(func() {
			name := fmt.Sprintf("/src/d/w%d", i)
			for time.Now().Before(end) {
				if _, err := s.Write(name, []byte("written")); err == nil {
					wrote.Add(1)
				}
				s.MakeDir(name + "dir/x")
				s.Move(name, name+"moved")
				s.Delete(name + "moved")
				s.DeleteAll(context.Background(), name+"dir")
				s.Copy("/src/g", name+"copy")
				s.Delete(name + "copy")
			}
		})
	}
	all.Wait()
	return read.Load(), wrote.Load()
}

// manifest describes everything in a directory of the host.
func manifest(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	ok(t, filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		var sum [32]byte
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			sum = sha256.Sum256(data)
		}
		fmt.Fprintf(&b, "%s %s %d %s %x\n", name, info.Mode(), info.Size(), info.ModTime(), sum[:4])
		return nil
	}))
	return b.String()
}

// TestKillTearsNothing kills a process that writes, again and again, over two thousand
// writes. Every file has a complete content, and a sweep finds the unfinished files.
func TestKillTearsNothing(t *testing.T) {
	dir := t.TempDir()
	s := mounted(t, sandbox.Dir, dir)
	writes, enough := 0, testutil.Rounds(2000)
	for round := 0; writes < enough; round++ {
		cmd := startPart(t, "write", dir)
		time.Sleep(time.Duration(30+rand.IntN(150)) * time.Millisecond)
		cmd.Process.Kill()
		cmd.Wait()
		if data, err := os.ReadFile(filepath.Join(dir, "count")); err == nil {
			n, _ := strconv.Atoi(strings.TrimSpace(string(data)))
			writes += n
		}
		entries, err := s.List("/")
		ok(t, err)
		for _, e := range entries {
			if data, err := s.Read("/" + e.Name); err != nil || e.Name != "count" && !whole(data) {
				t.Fatalf("round %d: %s is torn or unreadable: %d bytes, %v", round, e.Name, len(data), err)
			}
		}
		if round > enough/5 {
			t.Fatalf("%d writes after %d rounds", writes, round)
		}
	}
	_, err := s.Sweep(context.Background(), time.Now().Add(time.Hour))
	ok(t, err)
	left, err := os.ReadDir(dir)
	ok(t, err)
	for _, e := range left {
		if strings.HasPrefix(e.Name(), ".") {
			t.Errorf("%s exists after the sweep", e.Name())
		}
	}
}

// writeForever replaces twenty files with contents that show where they end.
func writeForever(t *testing.T, dir string) {
	s := mounted(t, sandbox.Dir, dir)
	for n := 1; ; n++ {
		_, err := s.Write(fmt.Sprintf("/f%d", rand.IntN(20)), content(rand.IntN(200_000)))
		ok(t, err)
		if n%10 == 0 {
			_, err := s.Write("/count", []byte(strconv.Itoa(n)))
			ok(t, err)
		}
	}
}

// content returns n bytes and their hash.
func content(n int) []byte {
	data := bytes.Repeat([]byte{byte(n), byte(n >> 8), 7}, n/3+1)[:n]
	sum := sha256.Sum256(data)
	return append(data, sum[:]...)
}

func whole(data []byte) bool {
	if len(data) < 32 {
		return false
	}
	sum := sha256.Sum256(data[:len(data)-32])
	return bytes.Equal(sum[:], data[len(data)-32:])
}

// TestProcessesLoseNoUpdate: three processes add to one number, and each write has the
// version of its read as a condition. No addition is lost, with either backend.
func TestProcessesLoseNoUpdate(t *testing.T) {
	dir := t.TempDir()
	ok(t, os.WriteFile(filepath.Join(dir, "n"), []byte("0"), 0o666))
	var parts []*exec.Cmd
	for range 3 {
		parts = append(parts, startPart(t, "count", dir))
	}
	for _, p := range parts {
		if err := p.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "n"))
	ok(t, err)
	if got, want := string(data), strconv.Itoa(3*2*countTo); got != want {
		t.Errorf("counted %s, want %s", got, want)
	}
}

const countTo = 300

func countUp(t *testing.T, dir string) {
	for way, open := range ways {
		s := mounted(t, open, dir)
		for done := 0; done < countTo; {
			data, v, err := s.ReadVersion("/n")
			ok(t, err)
			n, err := strconv.Atoi(string(data))
			ok(t, err)
			switch _, err := s.WriteIf("/n", []byte(strconv.Itoa(n+1)), v); {
			case err == nil:
				done++
			case !errors.Is(err, sandbox.ErrConflict):
				t.Fatalf("%s: %v", way, err)
			}
		}
	}
}

// TestFullDisk: on a full disk a write fails with a reason, the old file stays complete,
// and no unfinished file remains. The write succeeds once there is space.
func TestFullDisk(t *testing.T) {
	if !testutil.Mounts(t) {
		return
	}
	dir := t.TempDir()
	ok(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"))
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	for way, open := range ways {
		t.Run(way, func(t *testing.T) {
			s := mounted(t, open, dir)
			old := bytes.Repeat([]byte("old "), 10_000)
			_, err := s.Write("/a", old)
			ok(t, err)
			for range 3 {
				_, err := s.Write("/a", make([]byte, 1<<20))
				if !errors.Is(err, sandbox.ErrLimit) {
					t.Fatalf("write on a full disk: %v, want a limit", err)
				}
				if !strings.Contains(err.Error(), "no space") || strings.Contains(err.Error(), dir) {
					t.Errorf("the error lacks the reason, or has a host path: %v", err)
				}
			}
			if _, err := s.Write("/b", make([]byte, 1<<20)); !errors.Is(err, sandbox.ErrLimit) {
				t.Fatalf("new file on a full disk: got %v", err)
			}
			if got, err := s.Read("/a"); err != nil || !bytes.Equal(got, old) {
				t.Errorf("the old file is not whole: %d bytes, %v", len(got), err)
			}
			left, err := os.ReadDir(dir)
			ok(t, err)
			if len(left) != 1 {
				t.Errorf("files left on the disk: %v", left)
			}
			_, err = s.Write("/a", []byte("new"))
			ok(t, err)
		})
	}
}

// TestUnfitSource: the error for a source that cannot be mounted says why, and has no
// host path.
func TestUnfitSource(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	ok(t, os.WriteFile(file, nil, 0o666))
	for way, open := range ways {
		for source, want := range map[string]sandbox.Code{
			file: sandbox.ErrNotDir, filepath.Join(dir, "none"): sandbox.ErrNotFound,
			"/proc/self": sandbox.ErrInvalid, "/dev/shm": sandbox.ErrInvalid, "/sys": sandbox.ErrInvalid, "": sandbox.ErrInvalid,
		} {
			b, err := open(sandbox.Host(source))
			if err == nil {
				t.Errorf("%s: %s was mounted: %v", way, source, b)
				continue
			}
			if way == "os.Root" {
				continue // the caller of the backend completes the error
			}
			if got := sandbox.CodeOf(err); got != want || source != "" && strings.Contains(err.Error(), source+"/") || strings.Contains(err.Error(), dir) {
				t.Errorf("%s: %s: %v, want %s", way, source, err, want)
			}
		}
	}
}

// TestHugeFileIsNotRead: refusing to read a file of a tebibyte takes little memory,
// and a part of it can be read.
func TestHugeFileIsNotRead(t *testing.T) {
	for way, open := range ways {
		t.Run(way, func(t *testing.T) {
			dir := t.TempDir()
			f, err := os.Create(filepath.Join(dir, "big"))
			ok(t, err)
			ok(t, f.Truncate(1<<40))
			f.Close()
			s := mounted(t, open, dir)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err = s.Read("/big")
			runtime.ReadMemStats(&after)
			if !errors.Is(err, sandbox.ErrTooLarge) {
				t.Errorf("read: %v, want too_large", err)
			}
			if grew := after.TotalAlloc - before.TotalAlloc; grew > 1<<20 {
				t.Errorf("refusing took %d bytes", grew)
			}
			part, info, err := s.ReadRange("/big", 1<<39, 10)
			if err != nil || len(part) != 10 || info.Size() != 1<<40 {
				t.Errorf("part: %d bytes of %d, %v", len(part), info.Size(), err)
			}
			found, err := s.Search(context.Background(), "/", sandbox.Query{Pattern: "x"}, sandbox.Budget{})
			if err != nil || len(found.Found) != 0 || found.Cut != "" {
				t.Errorf("search: %+v, %v", found, err)
			}
		})
	}
}
