package jail

import "golang.org/x/sys/unix"

const hereArch = unix.AUDIT_ARCH_X86_64

func deniedHere() []uint32 {
	return []uint32{unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS_USTAT, unix.SYS_SYSFS}
}

func modesHere() []modeCall {
	return []modeCall{{unix.SYS_CHMOD, 1, -1}, {unix.SYS_MKNOD, 1, -1}, {unix.SYS_CREAT, 1, -1}, {unix.SYS_OPEN, 2, 1}}
}

// renameCall is the number of rename(2).
const renameCall = unix.SYS_RENAME

// renameCalls returns the system calls that rename a file.
func renameCalls() []uint32 {
	return []uint32{unix.SYS_RENAME, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2}
}
