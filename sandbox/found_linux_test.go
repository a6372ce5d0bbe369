package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/sandbox"
)

// Tests of defects that were found and fixed.

const rw, ro = sandbox.ReadWrite, sandbox.ReadOnly

func newBox(t *testing.T, mounts ...sandbox.Mount) *sandbox.Sandbox {
	t.Helper()
	s, err := sandbox.New(sandbox.Config{Mounts: mounts})
	ok(t, err)
	return s
}

func mountAt(target, dir string) sandbox.Mount {
	return sandbox.Mount{Target: target, Source: sandbox.Host(dir), Access: rw}
}

func writeFile(t *testing.T, name, content string) {
	t.Helper()
	ok(t, os.MkdirAll(filepath.Dir(name), 0o755))
	ok(t, os.WriteFile(name, []byte(content), 0o644))
}

// runMeanwhile runs something again and again until the test ends.
func runMeanwhile(t *testing.T, act func()) {
	var stop atomic.Bool
	done := make(chan bool)
	go func() {
		defer close(done)
		for !stop.Load() {
			act()
		}
	}()
	t.Cleanup(func() { stop.Store(true); <-done })
}

// mustEndWithin fails the test if act takes longer than while.
func mustEndWithin(t *testing.T, while time.Duration, act func()) {
	t.Helper()
	done := make(chan bool)
	go func() { act(); close(done) }()
	select {
	case <-done:
	case <-time.After(while):
		t.Fatal("it hangs")
	}
}

// TestWriteDuringSweep: if a sweep removes the unfinished file of a write, the write
// starts again with all of its content.
func TestWriteDuringSweep(t *testing.T) {
	dir := t.TempDir()
	s := newBox(t, mountAt("/", dir))
	runMeanwhile(t, func() { s.Sweep(context.Background(), time.Now().Add(time.Hour)) })
	data := []byte(strings.Repeat("x", 1<<20))
	for i := range 100 {
		if _, err := s.Write("/f", data); err != nil {
			continue
		}
		if info, err := os.Stat(dir + "/f"); err == nil && info.Size() != int64(len(data)) {
			t.Fatalf("try %d: written, but the file has %d bytes", i, info.Size())
		}
	}
}

// TestClosedFileIsClosed: a closed file does not use its descriptor, whose number may
// belong to another file.
func TestClosedFileIsClosed(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/in/a", strings.Repeat("a", 100))
	writeFile(t, dir+"/out/secret", strings.Repeat("SECRET", 30))
	s := newBox(t, mountAt("/", dir+"/in"))
	f, err := s.Open("a")
	ok(t, err)
	ok(t, f.Close())
	host, err := os.Open(dir + "/out/secret")
	ok(t, err)
	defer host.Close()
	buf := make([]byte, 20)
	if n, err := f.Read(buf); err == nil || n > 0 {
		t.Errorf("read %q", buf[:n])
	}
	if f.Close() == nil {
		t.Error("closed twice")
	}
	if _, err := host.Read(buf); err != nil {
		t.Errorf("the second close closed another file: %v", err)
	}
}

// TestSymlinkBehindSymlink: an operation on a symlink acts on the symlink itself, also
// if a symlink leads to its directory.
func TestSymlinkBehindSymlink(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/real/target", "precious")
	ok(t, os.Symlink("target", dir+"/real/l"))
	ok(t, os.Symlink("real", dir+"/d"))
	ok(t, newBox(t, mountAt("/", dir)).Delete("/d/l"))
	if _, err := os.Lstat(dir + "/real/target"); err != nil {
		t.Error("the target of the symlink is gone")
	}
	if _, err := os.Lstat(dir + "/real/l"); err == nil {
		t.Error("the symlink still exists")
	}
}

// TestEndlessPatterns: patterns that would take too long are refused.
func TestEndlessPatterns(t *testing.T) {
	s := newBox(t, sandbox.Mount{Target: "/", Access: rw, Backend: sandbox.NewMemory(map[string]sandbox.Object{
		strings.Repeat("a", 60): {Content: strings.Repeat("a", 4000) + "\n"}})})
	budget := sandbox.Budget{Time: 200 * time.Millisecond}
	mustEndWithin(t, 20*time.Second, func() {
		if _, err := s.Find(context.Background(), "/", strings.Repeat("{a,a}", 24)+"b", budget); !errors.Is(err, sandbox.ErrInvalid) {
			t.Errorf("find: %v", err)
		}
		q := sandbox.Query{Pattern: strings.Repeat("(?:a?){999}", 100) + "[xy]"}
		if _, err := s.Search(context.Background(), "/", q, budget); !errors.Is(err, sandbox.ErrInvalid) {
			t.Errorf("search: %v", err)
		}
		q.Pattern = strings.Repeat("(?:a?){99}", 9) + "[xy]"
		if _, err := s.Search(context.Background(), "/", q, budget); err != nil {
			t.Errorf("search: %v", err)
		}
	})
	_, err := sandbox.New(sandbox.Config{Protect: []string{strings.Repeat("{a,a}", 24)}})
	if err == nil {
		t.Error("a protected pattern may take forever")
	}
}

// TestSharedDirectoriesStay: a directory that two mounts show cannot be moved to a name where
// the limits of either do not apply.
func TestSharedDirectoriesStay(t *testing.T) {
	dir := t.TempDir()
	ok(t, os.MkdirAll(dir+"/a/b", 0o755))
	writeFile(t, dir+"/big.md", strings.Repeat("x", 100))
	limited := mountAt("/x", dir+"/a/b")
	limited.Suffixes, limited.MaxFileBytes = []string{".md"}, 10
	s := newBox(t, mountAt("/", dir), limited)
	for _, name := range []string{"/a", "/a/b"} {
		if err := s.Move(name, "/c"); !errors.Is(err, sandbox.ErrReadOnly) {
			t.Errorf("move %s: %v", name, err)
		}
		if err := s.DeleteAll(context.Background(), name); !errors.Is(err, sandbox.ErrReadOnly) {
			t.Errorf("delete %s: %v", name, err)
		}
	}
	if err := s.Move("/big.md", "/a/b/big.md"); !errors.Is(err, sandbox.ErrTooLarge) {
		t.Errorf("100 bytes with a limit of 10: %v", err)
	}
}

// TestWriteIfAtPipe: a conditional write does not block if a pipe has replaced the
// file.
func TestWriteIfAtPipe(t *testing.T) {
	for way, open := range ways {
		t.Run(way, func(t *testing.T) {
			dir := t.TempDir()
			writeFile(t, dir+"/f", "one")
			ok(t, unix.Mkfifo(dir+"/p", 0o644))
			hold, err := os.OpenFile(dir+"/p", os.O_RDWR, 0)
			ok(t, err)
			defer hold.Close()
			s := mounted(t, open, dir)
			runMeanwhile(t, func() {
				unix.Renameat2(unix.AT_FDCWD, dir+"/f", unix.AT_FDCWD, dir+"/p", unix.RENAME_EXCHANGE)
			})
			v := sandbox.Version{}.With([]byte("one"))
			for end := time.Now().Add(time.Second); time.Now().Before(end); {
				mustEndWithin(t, 20*time.Second, func() { s.WriteIf("/f", []byte("one"), v) })
			}
		})
	}
}

// TestCaseOfOtherMounts: if one mount ignores case, names in a mount with case keep their
// spelling.
func TestCaseOfOtherMounts(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/Data/f", "granted")
	writeFile(t, dir+"/data/f", "SECRET")
	s := newBox(t, mountAt("/cs", dir), sandbox.Mount{Target: "/m", Backend: sandbox.NewMemory(nil, sandbox.FoldCase), Access: rw})
	r, err := s.Restrict(sandbox.Limit{Path: "/cs/Data", Access: rw})
	ok(t, err)
	if data, err := r.Read("/cs/Data/f"); string(data) != "granted" {
		t.Errorf("%q, %v", data, err)
	}
	if data, err := r.Read("/cs/data/f"); err == nil {
		t.Errorf("read %q", data)
	}
}

type hosted struct {
	*sandbox.Memory
	host string
}

func (h hosted) Traits() sandbox.Traits {
	return sandbox.Traits{FoldsCase: true, Host: sandbox.Host(h.host)}
}

// TestCaseOfOverlaps: overlaps apply to every spelling of a name, each time.
func TestCaseOfOverlaps(t *testing.T) {
	empty := func() *sandbox.Memory { return sandbox.NewMemory(nil, sandbox.FoldCase) }
	for range 50 {
		m := sandbox.NewMemory(map[string]sandbox.Object{"Foo/f": {}, "Foo/bar/f": {}}, sandbox.FoldCase)
		s := newBox(t, sandbox.Mount{Target: "/", Backend: hosted{m, "/nohost/proj"}, Access: rw},
			sandbox.Mount{Target: "/x", Backend: hosted{empty(), "/nohost/proj/Foo"}, Access: sandbox.None},
			sandbox.Mount{Target: "/y", Backend: hosted{empty(), "/nohost/proj/foo/bar"}, Access: ro})
		if _, err := s.Read("/Foo/f"); err == nil {
			t.Fatal("a denied file is shown")
		}
	}
}

// TestMoveDuringWrite: two calls at the same time do not make a file that neither may
// make.
func TestMoveDuringWrite(t *testing.T) {
	dir := t.TempDir()
	s, err := sandbox.New(sandbox.Config{Protect: []string{"/ci/*.yml"}, Mounts: []sandbox.Mount{mountAt("/", dir)}})
	ok(t, err)
	for i := range 500 {
		os.RemoveAll(dir + "/ci")
		os.RemoveAll(dir + "/t")
		ok(t, s.MakeDir("/t"))
		moved := make(chan bool)
		go func() { s.Move("/t", "/ci"); close(moved) }()
		for range i % 40 {
			runtime.Gosched()
		}
		s.WriteNew("/t/a.yml", nil)
		<-moved
		if _, err := os.Stat(dir + "/ci/a.yml"); err == nil {
			t.Fatalf("try %d: a protected file was created", i)
		}
	}
}

type noRemove struct{ sandbox.Backend }

func (noRemove) Remove(string) error { return os.ErrPermission }

// TestMoveOntoSymlink: a move between mounts never writes through a symlink, and removes
// only its own copy.
func TestMoveOntoSymlink(t *testing.T) {
	from := sandbox.NewMemory(map[string]sandbox.Object{"f": {Content: "x"}})
	for name, b := range map[string]sandbox.Backend{"it goes": from, "it cannot go": noRemove{from}} {
		to := sandbox.NewMemory(map[string]sandbox.Object{"l": {Content: "sub/new", Mode: os.ModeSymlink}, "sub/x": {}})
		s := newBox(t, sandbox.Mount{Target: "/a", Access: rw, Backend: b}, sandbox.Mount{Target: "/b", Access: rw, Backend: to})
		if err := s.Move("/a/f", "/b/l"); !errors.Is(err, sandbox.ErrExists) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := to.Lstat("l"); err != nil || len(to.Files()) != 1 {
			t.Errorf("%s: left %v, %v", name, to.Files(), err)
		}
	}
}

type growingBackend struct{ sandbox.Backend }

type growingFile struct{ sandbox.File }

func (g growingBackend) Open(name string) (sandbox.File, error) {
	f, err := g.Backend.Open(name)
	return growingFile{f}, err
}

func (growingFile) ReadAt(p []byte, off int64) (int, error) {
	if off > 100<<20 {
		return 0, io.EOF
	}
	return len(p), nil
}

// TestGrowingFile: a file that grows is read up to the limit of Read, whatever its mount
// allows.
func TestGrowingFile(t *testing.T) {
	s := newBox(t, sandbox.Mount{Target: "/", Access: rw, MaxFileBytes: 1 << 40,
		Backend: growingBackend{sandbox.NewMemory(map[string]sandbox.Object{"f": {Content: "x"}})}})
	if data, err := s.Read("/f"); !errors.Is(err, sandbox.ErrTooLarge) {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

// TestReadLinkDuringSwap: ReadLink returns a target only if it belongs to a symlink that
// stays inside.
func TestReadLinkDuringSwap(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/f", "x")
	ok(t, os.Symlink("f", dir+"/l"))
	ok(t, os.Symlink("/host/secret", dir+"/m"))
	s := newBox(t, mountAt("/", dir))
	runMeanwhile(t, func() {
		unix.Renameat2(unix.AT_FDCWD, dir+"/l", unix.AT_FDCWD, dir+"/m", unix.RENAME_EXCHANGE)
	})
	for range 20_000 {
		if target, err := s.ReadLink("l"); err == nil && target != "f" {
			t.Fatal(target)
		}
	}
}

// TestHiddenMountByItsName: a caller cannot tell a hidden mount from no mount.
func TestHiddenMountByItsName(t *testing.T) {
	m := sandbox.NewMemory(nil)
	s := newBox(t, sandbox.Mount{Target: "/a", Backend: m, Access: rw}, sandbox.Mount{Target: "/hidden", Backend: m})
	_, err := s.Stat("hidden:x")
	var e *sandbox.Error
	if errors.As(err, &e); e == nil || e.Path != "/hidden:x" {
		t.Error(err)
	}
}

// TestMoveTooDeep: a move does not make a file whose name is too long to reach.
func TestMoveTooDeep(t *testing.T) {
	s := newBox(t, mountAt("/", t.TempDir()))
	deep := strings.Repeat("/"+strings.Repeat("d", 200), 19)
	ok(t, s.MakeDir("/a"+deep))
	ok(t, s.MakeDir("/b"+deep))
	if err := s.Move("/a", "/b"+deep+"/a"); !errors.Is(err, sandbox.ErrInvalid) {
		t.Errorf("move: %v", err)
	}
	ok(t, s.DeleteAll(context.Background(), "/b"))
}

// TestValuesAreCopies: a caller cannot change a sandbox through the values that it
// returns, and they print no host path.
func TestValuesAreCopies(t *testing.T) {
	s := newBox(t, sandbox.Mount{Target: "/", Backend: sandbox.NewMemory(nil), Access: rw, Suffixes: []string{".md"}})
	s.Mounts()[0].Suffixes[0] = ".sh"
	m, _ := s.MountOf("/")
	m.Suffixes[0] = ".sh"
	s.Config().Mounts[0].Suffixes[0] = ".sh"
	if _, err := s.Write("/x.sh", nil); err == nil {
		t.Error("the policy was changed through a copy")
	}
	dir := t.TempDir()
	for way, open := range ways {
		b, err := open(sandbox.Host(dir))
		ok(t, err)
		s := newBox(t, sandbox.Mount{Target: "/", Backend: b, Access: rw})
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x", "%q"} {
			if text := fmt.Sprintf(verb+verb+verb, b, sandbox.Host(dir), s.Mounts()); strings.Contains(text, dir) {
				t.Errorf("%s by %s: %s", way, verb, text)
			}
		}
	}
}

// TestKernelDirectoriesInRoot: no mount shows the directories of the kernel.
func TestKernelDirectoriesInRoot(t *testing.T) {
	s := newBox(t, sandbox.Mount{Target: "/h", Source: "/", Access: ro})
	for _, name := range []string{"/h/proc/self/status", "/h/sys/kernel", "/h/dev/null", "/h/proc"} {
		if _, err := s.Stat(name); !errors.Is(err, sandbox.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Stat("/h/etc"); err != nil {
		t.Error(err)
	}
}
