package jail

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

// separate makes a process independent of Ctrl-C in the console of this one.
func separate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}
