package jail

import "golang.org/x/sys/unix"

const hereArch = unix.AUDIT_ARCH_AARCH64

func deniedHere() []uint32 { return nil }

func modesHere() []modeCall { return nil }

// renameCall is the number of rename(2), which this machine does not have.
const renameCall = -1

// renameCalls returns the system calls that rename a file.
func renameCalls() []uint32 {
	return []uint32{unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2}
}
