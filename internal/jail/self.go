package jail

import (
	"os"
	"os/exec"
)

// StartSelf starts this program once more, outside any jail and without a terminal, with the
// user's environment. It prints to output, and does not end with this process. wait waits
// for its end, and returns its exit code. The process has files as its descriptors 3, 4 and
// so on.
func StartSelf(args []string, output *os.File, files ...*os.File) (wait func() int, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, args...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = output, output, files
	separate(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() int {
		cmd.Wait()
		return cmd.ProcessState.ExitCode()
	}, nil
}
