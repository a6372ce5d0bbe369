package jail_test

import "golang.org/x/sys/unix"

// swapCall lets a traced process make unshare(CLONE_NEWUSER) in place of its next system
// call, and returns what the kernel answered.
func swapCall(pid int) (answer, err error) {
	const numberOfCall = 0x404 // NT_ARM_SYSTEM_CALL
	if err := untilCall(pid); err != nil {
		return nil, err
	}
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(pid, &regs); err != nil {
		return nil, err
	}
	regs.Regs[0] = unix.CLONE_NEWUSER
	if err := unix.PtraceSetRegs(pid, &regs); err != nil {
		return nil, err
	}
	var number unix.PtraceRegsArm64
	number.Regs[0] = unix.SYS_UNSHARE
	if err := unix.PtraceSetRegSetArm64(pid, numberOfCall, &number); err != nil {
		return nil, err
	}
	if err := untilCall(pid); err != nil {
		return nil, err
	}
	if err := unix.PtraceGetRegs(pid, &regs); err != nil {
		return nil, err
	}
	return unix.Errno(-int64(regs.Regs[0])), nil
}
