//go:build !linux

package git

// limited returns the program as it is: only Linux counts the memory of a process in a
// way that a limit can rely on.
func limited(program string, memory int64, args []string) (string, []string) { return program, args }
