//go:build unix

package jail

import (
	"os/exec"
	"syscall"
)

// separate makes a process independent of the terminal of this one.
func separate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
