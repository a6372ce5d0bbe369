package jail_test

import "golang.org/x/sys/unix"

// swapCall lets a traced process make unshare(CLONE_NEWUSER) in place of its next system
// call, and returns what the kernel answered.
func swapCall(pid int) (answer, err error) {
	if err := untilCall(pid); err != nil {
		return nil, err
	}
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(pid, &regs); err != nil {
		return nil, err
	}
	regs.Orig_rax, regs.Rdi = unix.SYS_UNSHARE, unix.CLONE_NEWUSER
	if err := unix.PtraceSetRegs(pid, &regs); err != nil {
		return nil, err
	}
	if err := untilCall(pid); err != nil {
		return nil, err
	}
	if err := unix.PtraceGetRegs(pid, &regs); err != nil {
		return nil, err
	}
	return unix.Errno(-int64(regs.Rax)), nil
}
