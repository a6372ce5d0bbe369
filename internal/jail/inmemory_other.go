//go:build !linux

package jail

import (
	"os"
	"runtime"

	"github.com/golem-forge/golem/sandbox"
)

// RunInMemory returns an error.
func RunInMemory(string, int64, []string, []string, [3]*os.File) (code int, err error) {
	why, fix := notHere(runtime.GOOS)
	return 0, &sandbox.Error{Op: "--sandbox", Path: "memory", Code: ErrNoSandbox, Hint: why + "; " + fix}
}

// MemoryRoom returns false.
func MemoryRoom(string) (free, size int64, ok bool) { return 0, 0, false }
