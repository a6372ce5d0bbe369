package git

import (
	"fmt"
	"os"
)

// shell sets the limit of a git before it starts, so that what git itself starts has it too.
const shell = "/bin/sh"

// limited returns the program and the arguments that run a program with so many bytes of
// memory of its own, and as many for each program that it starts. Files that a git maps
// do not count. Without a shell there is no limit.
func limited(program string, memory int64, args []string) (string, []string) {
	if _, err := os.Stat(shell); err != nil {
		return program, args
	}
	// A machine with a lower limit keeps it.
	script := fmt.Sprintf(`ulimit -d %d 2>/dev/null; exec "$0" "$@"`, memory>>10)
	return shell, append([]string{"-c", script, program}, args...)
}
