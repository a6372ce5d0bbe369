package changes

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/claim"
	"github.com/golem-forge/golem/internal/files/overlay"
)

// holdStopped locks a file in another process, and stops that process. It returns the
// process.
func holdStopped(t *testing.T, file string) int {
	t.Helper()
	cmd := exec.Command("flock", file, "sh", "-c", "echo ready; exec sleep 1000")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Skip("there is no flock here:", err)
	}
	t.Cleanup(func() {
		unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		cmd.Wait()
	})
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(-cmd.Process.Pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// TestRequestForLockedOverlay makes requests for overlays that a stopped process has locked,
// as the helper of a killed golem does. The error names the process. For a process that is
// not stopped, the helper answers that it waits, and golem asks again.
func TestRequestForLockedOverlay(t *testing.T) {
	t.Parallel()
	h := startHelper()
	defer h.close()
	for _, test := range []struct{ do, file string }{{listChanges, "lock"}, {recordChanges, "lock"}, {removeRecord, "."}} {
		l := overlay.Overlay{Dir: t.TempDir(), Store: t.TempDir()}
		if err := l.InitSession(); err != nil {
			t.Fatal(err)
		}
		pid := holdStopped(t, filepath.Join(l.Store, test.file))
		r := request{Do: test.do, Layer: l, List: "list"}
		_, err := h.ask(r)
		if want := fmt.Sprintf("process %d is stopped; kill -CONT %d", pid, pid); err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, ErrBusy) {
			t.Errorf("%s: got %v, want %s", test.do, err, want)
		}
		if err := unix.Kill(-pid, unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
		busy := (*overlay.BusyError)(nil)
		if _, _, err := h.askOnce(r); !errors.As(err, &busy) {
			t.Errorf("%s: the lock is held, and a request returns %v", test.do, err)
		}
		if err := unix.Kill(-pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if _, err := h.ask(r); err != nil {
			t.Errorf("%s: the lock is free, and a request returns %v", test.do, err)
		}
	}
}

// TestLockOfStoppedProcess waits for a lock whose process is stopped: the error names the
// process.
func TestLockOfStoppedProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pid := holdStopped(t, dir)
	f, err := lockDirectory(dir)
	if err == nil {
		f.Close()
		t.Fatal("the lock was free")
	}
	if want := fmt.Sprintf("process %d is stopped; kill -CONT %d", pid, pid); !strings.Contains(err.Error(), want) || !errors.Is(err, ErrBusy) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestStoppedHelper stops a helper. A request fails and names the process, and after the
// process continues, the next request gets its own reply.
func TestStoppedHelper(t *testing.T) {
	t.Parallel()
	h := startHelper()
	defer h.close()
	if h.process == nil {
		t.Skip("no helper can be started here")
	}
	ask := func() error {
		_, err := h.ask(request{Do: "nothing"})
		return err
	}
	if err := ask(); err == nil || !strings.Contains(err.Error(), "no such request") {
		t.Fatal(err)
	}
	pid := h.process.Process()
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(pid, err)
	}
	for range 2 {
		if err := ask(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d is stopped; kill -CONT %d", pid, pid)) {
			t.Errorf("the helper %v is stopped, and a request returns %v", claim.Stat(pid), err)
		}
	}
	if err := unix.Kill(pid, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := ask(); err == nil || !strings.Contains(err.Error(), "no such request") {
		t.Errorf("after it continues: %v", err)
	}
}
