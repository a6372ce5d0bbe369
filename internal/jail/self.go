package jail

import (
	"os"
	"os/exec"
)

// StartSelf starts this program once more, outside any jail and without a terminal, with the
// user's environment. It prints to output, and does not end with this process. wait waits
// for its end, and returns its exit code.
func StartSelf(args []string, output *os.File) (wait func() int, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, args...)
	cmd.Stdout, cmd.Stderr = output, output
	separate(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() int {
		cmd.Wait()
		return cmd.ProcessState.ExitCode()
	}, nil
}
