package transaction

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/claim"
)

// TestLockOfStoppedProcess waits for a lock whose process is stopped: the error names the
// process.
func TestLockOfStoppedProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.Command("flock", dir, "sh", "-c", "echo ready; exec sleep 1000")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Skip("there is no flock here:", err)
	}
	defer func() {
		unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		cmd.Wait()
	}()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(-cmd.Process.Pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	f, err := lockDirectory(dir)
	if err == nil {
		f.Close()
		t.Fatal("the lock was free")
	}
	if want := fmt.Sprintf("process %d is stopped; kill -CONT %d", cmd.Process.Pid, cmd.Process.Pid); !strings.Contains(err.Error(), want) || !errors.Is(err, ErrBusy) {
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
