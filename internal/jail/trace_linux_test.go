package jail_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// tryTrace traces a child as a debugger does, and reads its memory. It then replaces a
// system call of the child with one that the filter refuses.
func tryTrace([]string) {
	runtime.LockOSThread()
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		printResult("trace", err)
		return
	}
	pid := cmd.Process.Pid
	var status unix.WaitStatus
	_, err := unix.Wait4(pid, &status, 0, nil)
	printResult("trace", err)
	var regs unix.PtraceRegs
	printResult("registers", unix.PtraceGetRegs(pid, &regs))
	word := make([]byte, 8)
	remote := []unix.RemoteIovec{{Base: uintptr(regs.PC()), Len: len(word)}}
	_, err = unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &word[0], Len: uint64(len(word))}}, remote, 0)
	printResult("memory", err)
	answer, err := swapCall(pid)
	if err != nil {
		printResult("swap", err)
	}
	printResult("unshare", answer)
	printResult("detach", unix.PtraceDetach(pid))
	_, err = unix.Wait4(pid, &status, 0, nil)
	printResult("wait", err)
	fmt.Println("ended", status.Signaled() || status.Exited())
}

// untilCall lets a traced process run to the beginning or end of a system call.
func untilCall(pid int) error {
	if err := unix.PtraceSyscall(pid, 0); err != nil {
		return err
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, 0, nil); err != nil {
		return err
	}
	if !status.Stopped() {
		return fmt.Errorf("it ended: %v", status)
	}
	return nil
}

// tryCell tries to trace and read processes and threads that are not its own.
func tryCell([]string) {
	runtime.LockOSThread()
	word := make([]byte, 8)
	for id := 1; id < 64; id++ {
		if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", id)); err == nil {
			continue // skips its own threads, which Go starts at any time
		}
		call("seize", unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(id), 0, 0)
		call("attach", unix.SYS_PTRACE, unix.PTRACE_ATTACH, uintptr(id), 0, 0)
		local, remote := unix.Iovec{Base: &word[0], Len: 8}, unix.RemoteIovec{Base: 0x400000, Len: 8}
		call("read", unix.SYS_PROCESS_VM_READV, uintptr(id), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0)
		call("write", unix.SYS_PROCESS_VM_WRITEV, uintptr(id), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0)
		fd, err := unix.PidfdOpen(id, 0)
		if err == nil {
			for other := range 8 {
				call("take", unix.SYS_PIDFD_GETFD, uintptr(fd), uintptr(other), 0)
			}
			unix.Close(fd)
		}
		for _, name := range []string{"mem", "environ", "maps", "fd/3", "root/.", "cwd/.", "exe", "syscall", "stack"} {
			_, err := os.Open(fmt.Sprintf("/proc/%d/%s", id, name))
			printResult(name, err)
		}
	}
}

// tryTraced asks its parent to trace it, and then continues.
func tryTraced([]string) {
	runtime.LockOSThread()
	call("traceme", unix.SYS_PTRACE, unix.PTRACE_TRACEME, 0, 0, 0)
	unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGURG)
	fmt.Println("on")
	unix.Exec("/bin/echo", []string{"echo", "end"}, nil)
}

// traceSession starts a session for this program as a probe.
func traceSession(t *testing.T, m mode, network bool) func(word string, args ...string) string {
	t.Helper()
	bin := t.TempDir()
	copyOfSelf(t, bin)
	s, err := jail.Start(jail.Policy{Mounts: []jail.Mount{{Source: sandbox.Host(bin), Target: "/probe"}}, Network: network, Limits: jail.Limits{Time: 20 * time.Second}}, time.Now)
	check(t, err)
	t.Cleanup(func() { s.Close() })
	return func(word string, args ...string) string {
		t.Helper()
		c := probeCommand(word, args...)
		if m.refused {
			c.Path = bin + "/probe"
		}
		r, err := s.Run(context.Background(), c)
		check(t, err)
		if r.Late || r.Level != m.level() {
			t.Errorf("%s: late %t, level %v", word, r.Late, r.Level)
		}
		return string(r.Stdout.Head) + string(r.Stderr.Head)
	}
}

// TestPtraceAmongOwn checks that commands can trace their own processes at the level
// namespaces, without getting around a filter, and no process at the level landlock.
func TestPtraceAmongOwn(t *testing.T) {
	inModes(t, everyMode, func(t *testing.T, m mode) {
		for _, network := range []bool{false, true} {
			run := traceSession(t, m, network)
			want := "trace done\nregisters done\nmemory done\nunshare EPERM\ndetach done\nwait done\nended true\n"
			if m.refused {
				want = "trace EPERM\n"
			}
			if got := run("trace"); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})
}

// TestPtraceCell checks that no command can trace a process or thread of golem.
func TestPtraceCell(t *testing.T) {
	inModes(t, everyMode, func(t *testing.T, m mode) {
		run := traceSession(t, m, true)
		judge(t, "the cell", run("cell"), "EPERM", "ESRCH", "ENOENT", "EACCES", "ENOSYS")
	})
}

// TestPtraceParent checks that a command that asks its parent to trace it continues,
// because the cell does not trace.
func TestPtraceParent(t *testing.T) {
	inModes(t, everyMode, func(t *testing.T, m mode) {
		run := traceSession(t, m, false)
		want := "traceme done\non\nend\n"
		if m.refused {
			want = strings.Replace(want, "done", "EPERM", 1)
		}
		for range 2 { // the cell is as before
			if got := run("traced"); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})
}
