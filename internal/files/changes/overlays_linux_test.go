package changes

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
	"github.com/golem-forge/golem/sandbox/sandboxtest"
)

// openOver opens an overlay over a directory, and a sandbox that shows the directory
// through it.
func openOver(t *testing.T, dir, folder string) (*Overlays, *sandbox.Sandbox) {
	t.Helper()
	over := Directory{sandbox.Host(folder), "/"}
	k, err := Open(sandbox.Host(dir), []Directory{over}, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	f, err := k.OpenDirectory(over)
	if err != nil {
		t.Fatal(err)
	}
	b, err := sandbox.DirAt(f, sandbox.Traits{Host: over.Host, Through: k.Path(over)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Backend: b, Access: sandbox.ReadWrite}}})
	if err != nil {
		t.Fatal(err)
	}
	return k, s
}

// TestOverlays changes a directory by file tools and by commands in turn, while the user
// changes it too.
func TestOverlays(t *testing.T) {
	folder, dir := t.TempDir(), t.TempDir()
	os.WriteFile(filepath.Join(folder, "a.txt"), []byte("real\n"), 0o644)
	k, files := openOver(t, dir, folder)
	mounts, err := jail.MountsOf(files)
	if err != nil {
		t.Fatal(err)
	}
	s, err := jail.Start(jail.Policy{Mounts: mounts, Overlays: k, Least: jail.Namespaces}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	call := func(do func()) {
		t.Helper()
		leave, err := k.Enter(true, true)
		if err != nil {
			t.Fatal(err)
		}
		do()
		if err := leave(); err != nil {
			t.Fatal(err)
		}
	}
	run := func(line, want string) {
		t.Helper()
		call(func() {
			r, err := s.Run(t.Context(), jail.Shell(line))
			if err != nil {
				t.Fatal(err)
			}
			if got := string(r.Stdout.Head) + string(r.Stderr.Head); got != want || r.Code != 0 {
				t.Errorf("%s: %q, code %d; want %q", line, got, r.Code, want)
			}
		})
	}
	read := func(name, want string) {
		t.Helper()
		call(func() {
			got, err := files.Read(name)
			if err != nil || string(got) != want {
				t.Errorf("%s: %q, %v; want %q", name, got, err, want)
			}
		})
	}
	run("cat a.txt; echo two > b.txt", "real\n")
	read("/b.txt", "two\n")
	call(func() {
		if _, err := files.Write("/c.txt", []byte("three\n")); err != nil {
			t.Error(err)
		}
	})
	run("cat b.txt c.txt; rm b.txt", "two\nthree\n")
	os.WriteFile(filepath.Join(folder, "a.txt"), []byte("edited\n"), 0o644)
	os.WriteFile(filepath.Join(folder, "d.txt"), []byte("four\n"), 0o644)
	read("/d.txt", "four\n")
	run("cat a.txt d.txt; ls", "edited\nfour\na.txt\nc.txt\nd.txt\n")
	os.Rename(filepath.Join(folder, "d.txt"), filepath.Join(folder, "a.txt"))
	read("/a.txt", "four\n")
	run("cat a.txt; ls", "four\na.txt\nc.txt\n")
	if names := list(t, folder); len(names) != 1 {
		t.Errorf("the directory has %q", names)
	}
}

func list(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// throughOverlay returns a fixture for directories that are seen through an overlay. All
// directories share one overlay, because thousands of overlays would be too slow.
func throughOverlay(t *testing.T) sandboxtest.Fixture {
	folder := t.TempDir()
	over := Directory{sandbox.Host(folder), "/"}
	k, err := Open(sandbox.Host(t.TempDir()), []Directory{over}, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	top, err := k.OpenDirectory(over)
	if err != nil {
		t.Fatal(err)
	}
	var count atomic.Int64
	return sandboxtest.Fixture{New: func(t testing.TB, _ sandbox.Host, tree map[string]sandbox.Object) sandbox.Backend {
		for _, o := range tree {
			if o.Mode&fs.ModeDevice != 0 {
				t.Skip("devices cannot be copied into an overlay")
			}
		}
		name := strconv.FormatInt(count.Add(1), 10)
		at := filepath.Join(folder, name)
		if err := os.Mkdir(at, 0o755); err != nil {
			t.Fatal(err)
		}
		sandboxtest.Plant(t, sandbox.Host(at), tree)
		fd, err := unix.Openat(int(top.Fd()), name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fd), name)
		t.Cleanup(func() { f.Close() })
		b, err := sandbox.DirAt(f, sandbox.Traits{Host: sandbox.Host(at), Through: sandbox.Host(filepath.Join(string(k.Path(over)), name))})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}}
}

// TestOverlayFiles runs the suite for backends and the attacks on a directory that is
// seen through an overlay.
func TestOverlayFiles(t *testing.T) {
	t.Run("suite", func(t *testing.T) { sandboxtest.Suite(t, throughOverlay(t)) })
	t.Run("attacks", func(t *testing.T) { sandboxtest.Attacks(t, throughOverlay(t)) })
}

// TestServiceInOverlays runs a service in overlays while calls come and go. golem does
// not remove files that the service has open. golem knows the changes of the service and
// the state before them.
func TestServiceInOverlays(t *testing.T) {
	folder, dir := t.TempDir(), t.TempDir()
	for _, name := range []string{"a.txt", "b.txt"} {
		os.WriteFile(filepath.Join(folder, name), []byte("real\n"), 0o644)
	}
	k, files := openOver(t, dir, folder)
	mounts, err := jail.MountsOf(files)
	if err != nil {
		t.Fatal(err)
	}
	s, err := jail.Start(jail.Policy{Mounts: mounts, Overlays: k, Least: jail.Namespaces}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	call := func(line string) {
		t.Helper()
		leave, err := k.Enter(true, true)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := s.Run(t.Context(), jail.Shell(line)); err != nil || r.Code != 0 {
			t.Errorf("%s: %+v, %v", line, r, err)
		}
		if err := leave(); err != nil {
			t.Fatal(err)
		}
	}
	leave, err := k.Enter(true, true)
	if err != nil {
		t.Fatal(err)
	}
	const waits = "until [ -e go ]; do read -t 0.01 <> <(:); done; "
	v, err := s.Serve(jail.Shell("exec 5>>a.txt; echo opened; " + waits + "echo more >&5; touch done; until [ ! -e go ]; do read -t 0.01 <> <(:); done; read -t 0.3 <> <(:); echo own >b.txt; echo wrote; sleep 9876"))
	if err != nil {
		t.Fatal(err)
	}
	defer v.Kill()
	if err := leave(); err != nil {
		t.Fatal(err)
	}
	prints := func(text string) {
		for !strings.Contains(string(v.Output(0, 1000).Text), text) {
			time.Sleep(time.Millisecond)
		}
	}
	prints("opened")
	call("true") // at its end only the service is running
	call("touch go; until [ -e done ]; do read -t 0.01 <> <(:); done; grep more a.txt")
	call("rm go") // after it, the service writes outside of any call
	prints("wrote")
	os.WriteFile(filepath.Join(folder, "b.txt"), []byte("the user's\n"), 0o644)
	call("grep own b.txt; echo last >c.txt")
	v.Kill()
	list, _, err := k.Changes()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, c := range list {
		got[c.Name()] = map[bool]string{true: "clash", false: "change"}[c.Conflict]
	}
	for name, want := range map[string]string{"/a.txt": "change", "/b.txt": "clash", "/c.txt": "change"} {
		if got[name] != want {
			t.Errorf("%s: got %q, want %q, in %v", name, got[name], want, got)
		}
	}
	call("cat a.txt b.txt c.txt | tr '\\n' , | grep -x real,more,own,last,")
}
