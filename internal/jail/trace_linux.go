package jail

import (
	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/claim"
)

// Commands may trace one another: strace, debuggers and crash handlers do. The cell is
// out of their reach. It is not dumpable and has capabilities that they lack, so the
// kernel refuses ptrace, process_vm_readv and its like towards it, and hides it in /proc;
// Landlock refuses all of its threads but the one that starts commands; and the filter
// refuses that one. A tracer changes what a process asks for before the filter sees it,
// and the broker of sockets looks at numbers only, so tracing gets around neither.

// tracing judges the calls that reach into another process. Without namespaces all
// processes of the user would be in reach.
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

// release lets go of a process that has asked its parent to trace it, and was stopped:
// the parent is the cell, which traces nobody. It reports whether it was so.
func (h *hands) release(pid int, by unix.Signal) bool {
	if f := claim.Stat(pid); len(f) == 0 || f[0] != "t" {
		return false
	}
	if by == unix.SIGTRAP {
		by = 0 // that of execve, which nobody else would have got
	}
	return h.do(func() error {
		_, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(pid), 0, uintptr(by), 0, 0)
		if errno != 0 {
			return errno
		}
		return nil
	}) == nil
}
