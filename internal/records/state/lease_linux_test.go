package state_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/records/state"
)

// TestLeaseHolder checks that golem finds the process that has a lease, and only while it
// has it.
func TestLeaseHolder(t *testing.T) {
	f := openDir(t, t.TempDir())
	if got := f.LeaseHolder("run"); got != 0 {
		t.Errorf("before: got %d", got)
	}
	leases, err := f.Leases()
	if err != nil {
		t.Fatal(err)
	}
	free, err := leases.Take(context.Background(), "run", "a run")
	if err != nil {
		t.Fatal(err)
	}
	if got := f.LeaseHolder("run"); got != os.Getpid() {
		t.Errorf("got %d, want %d", got, os.Getpid())
	}
	if got := f.LeaseHolder("other"); got != 0 {
		t.Errorf("another lease: got %d", got)
	}
	if err := free(); err != nil {
		t.Fatal(err)
	}
	if got := f.LeaseHolder("run"); got != 0 {
		t.Errorf("after: got %d", got)
	}
}

// TestHiddenLockHolder looks for the process that has a lock, as a user who may not see the
// open files of that process. Helpers of golem hide theirs in this way from their own user.
func TestHiddenLockHolder(t *testing.T) {
	const variable = "GOLEM_TEST_LOCKED"
	if name := os.Getenv(variable); name != "" {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		fmt.Println("holder:", state.LockHolder(f))
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	f, err := os.CreateTemp("", "golem-lock")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := errors.Join(f.Chmod(0o644), syscall.Flock(int(f.Fd()), syscall.LOCK_EX)); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	locks, _ := os.ReadFile("/proc/locks")
	if !strings.Contains(string(locks), fmt.Sprintf("%02x:%02x:%d ", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)), st.Ino)) {
		t.Skip("the kernel shows another device for locks of this file system")
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestHiddenLockHolder$")
	cmd.Env = append(os.Environ(), variable+"="+f.Name())
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if want := fmt.Sprintf("holder: %d\n", os.Getpid()); err != nil || !strings.Contains(string(out), want) {
		t.Errorf("got %v %s, want %s", err, out, want)
	}
}
