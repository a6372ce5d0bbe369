package jail

import (
	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/claim"
)

// Commands may trace one another, as strace, debuggers and crash handlers do. They cannot
// trace the cell. It is not dumpable and has capabilities that they lack, so the kernel
// refuses ptrace, process_vm_readv and similar calls, and hides the cell in /proc.
// Landlock protects all of its threads except the one that starts commands, and the
// filter protects that one. A tracer changes a system call before the filter sees it, and
// the broker of sockets looks only at numbers, so tracing gets around neither.

// tracing adds the rules for calls that reach into another process. Without namespaces
// they could reach all processes of the user.
func (b *filterBuilder) tracing(thread int, apart bool) {
	for _, c := range []struct{ call, arg uint32 }{{unix.SYS_PTRACE, 1}, {unix.SYS_PROCESS_VM_READV, 0}, {unix.SYS_PROCESS_VM_WRITEV, 0}} {
		if !apart {
			b.when(c.call, deny|uint32(unix.EPERM))
			continue
		}
		b.call(c.call, func() {
			b.load(atArgs + 8*c.arg)
			b.when(uint32(thread), deny|uint32(unix.EPERM))
			b.when(1, deny|uint32(unix.EPERM))
		})
	}
}

// release detaches a stopped process that asked its parent to trace it. Its parent is the
// cell, which traces nobody. release reports whether the process was detached.
func (h *hands) release(pid int, by unix.Signal) bool {
	if f := claim.Stat(pid); len(f) == 0 || f[0] != "t" {
		return false
	}
	if by == unix.SIGTRAP {
		by = 0 // the signal of execve, which only a tracer gets
	}
	return h.do(func() error {
		_, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(pid), 0, uintptr(by), 0, 0)
		if errno != 0 {
			return errno
		}
		return nil
	}) == nil
}
