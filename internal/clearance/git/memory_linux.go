package git

import (
	"fmt"
	"os"
)

// shell sets the memory limit before git starts, so that children of git have it too.
const shell = "/bin/sh"

// limitMemory returns the program and arguments that run a program with a limit on its
// data memory, in bytes. Each program that it starts gets the same limit. Files that git
// maps do not count. Without a shell there is no limit.
func limitMemory(program string, memory int64, args []string) (string, []string) {
	if _, err := os.Stat(shell); err != nil {
		return program, args
	}
	// If the limit of the machine is lower, ulimit fails and that one stays.
	script := fmt.Sprintf(`ulimit -d %d 2>/dev/null; exec "$0" "$@"`, memory>>10)
	return shell, append([]string{"-c", script, program}, args...)
}
