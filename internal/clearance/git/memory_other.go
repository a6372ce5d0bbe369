//go:build !linux

package git

// limitMemory returns the program unchanged. Only Linux counts the memory of a process in
// a way that a limit can rely on.
func limitMemory(program string, memory int64, args []string) (string, []string) {
	return program, args
}
