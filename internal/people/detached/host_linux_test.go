package detached

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestOutputIsBounded writes more than the files hold. A reader that follows gets the last
// output, and learns that some is missing.
func TestOutputIsBounded(t *testing.T) {
	dir := t.TempDir()
	o, err := newOutput(dir)
	if err != nil {
		t.Fatal(err)
	}
	piece := bytes.Repeat([]byte("x"), maxFrame)
	for range 5 * MaxOutput / maxFrame {
		o.write(piece)
	}
	o.write([]byte("the last words"))
	o.close()
	var all int64
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if all += info.Size(); info.Mode() != 0o600 {
			t.Errorf("%s has mode %v", e.Name(), info.Mode())
		}
	}
	if len(entries) != 2 || all > 2*MaxOutput || all < MaxOutput {
		t.Errorf("%d files with %d bytes", len(entries), all)
	}
	var got bytes.Buffer
	if err := Follow(t.Context(), dir, &got, func() error { return nil }); err != nil || int64(got.Len()) != all || !strings.HasSuffix(got.String(), "the last words") {
		t.Errorf("%d bytes, %v", got.Len(), err)
	}
}

// TestFollowRotated follows an output through two exchanges of its files.
func TestFollowRotated(t *testing.T) {
	dir := t.TempDir()
	held, err := seize(dir) // as a golem does that runs
	if err != nil {
		t.Fatal(err)
	}
	o, err := newOutput(dir)
	if err != nil {
		t.Fatal(err)
	}
	o.write([]byte("first "))
	lost := 0
	var got bytes.Buffer
	reads := &steps{to: &got, wait: []func(){
		func() { o.close(); rotate(t, o); o.write([]byte("second ")) },
		func() { o.close(); rotate(t, o); rotate(t, o); o.write([]byte("fourth")); held.Close() },
	}}
	if err := Follow(context.Background(), dir, reads, func() error { lost++; return nil }); err != nil {
		t.Fatal(err)
	}
	if got.String() != "first second fourth" || lost != 1 {
		t.Errorf("got %q, lost %d times", got.String(), lost)
	}
}

// rotate begins a new file, as if the former one were full.
func rotate(t *testing.T, o *output) {
	t.Helper()
	o.size = MaxOutput
	o.file, _ = os.OpenFile(filepath.Join(o.dir, outputName), os.O_WRONLY|os.O_APPEND, 0)
	o.write(nil)
	o.close()
	if err := os.Rename(filepath.Join(o.dir, outputName), filepath.Join(o.dir, olderName)); err != nil {
		t.Fatal(err)
	}
	if err := o.begin(); err != nil {
		t.Fatal(err)
	}
}

// A steps does something after each write with text.
type steps struct {
	to   *bytes.Buffer
	wait []func()
}

func (s *steps) Write(data []byte) (int, error) {
	s.to.Write(data)
	if len(s.wait) > 0 {
		s.wait[0]()
		s.wait = s.wait[1:]
	}
	return len(data), nil
}

// TestOtherUser checks that the host serves only processes of its user, also if the files let
// others connect.
func TestOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	top, err := os.MkdirTemp("", "detached-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(top)
	os.Chmod(top, 0o777)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(top, socketName), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	os.Chmod(filepath.Join(top, socketName), 0o777)
	h := &Host{listener: l, now: time.Now}
	h.serving.Go(h.accept)
	connect := func(user uintptr) (served bool) {
		done := make(chan bool)
		go func() {
			runtime.LockOSThread() // the thread ends with this goroutine
			if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, user, user, user); e != 0 {
				t.Errorf("setresuid: %v", e)
			}
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err == nil {
				err = unix.Connect(fd, &unix.SockaddrUnix{Name: filepath.Join(top, socketName)})
			}
			if err != nil {
				t.Errorf("connect as %d: %v", user, err)
			}
			defer unix.Close(fd)
			unix.Write(fd, appendFrames(nil, frameWatch, nil))
			var head [5]byte
			n, _ := unix.Read(fd, head[:]) // the screen, or the end
			done <- n > 0
		}()
		return <-done
	}
	if connect(12345) {
		t.Error("the host serves another user")
	}
	if !connect(0) {
		t.Error("the host does not serve its own user")
	}
	l.Close()
	h.serving.Wait()
}

// TestSlowClient checks that a client that does not read never has more than its limit, and
// keeps the frames that are no output.
func TestSlowClient(t *testing.T) {
	h := &Host{now: time.Now}
	c := newClient(h, nil)
	piece := bytes.Repeat([]byte("x"), maxFrame)
	c.send(frameOwner, []byte{1})
	for range 100 {
		c.send(frameShown, piece)
	}
	c.send(frameEnd, numbersFrame(7))
	if len(c.queue) > maxBehind {
		t.Errorf("%d bytes wait", len(c.queue))
	}
	h.recent = []byte("the screen")
	queue, behind, _ := c.take()
	var kinds []byte
	for r := bytes.NewReader(queue); r.Len() > 0; {
		f, err := readFrame(r)
		if err != nil {
			t.Fatal(err)
		}
		if kinds = append(kinds, f.kind); f.kind == frameShown && string(f.data) != "the screen" {
			t.Errorf("it shows %q", f.data)
		}
	}
	if !behind || string(kinds) != string([]byte{frameShown, frameOwner, frameEnd}) {
		t.Errorf("frames %q, behind: %v", kinds, behind)
	}
}
