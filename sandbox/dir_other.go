//go:build !linux

package sandbox

// openDir opens a folder of the host as a backend.
func openDir(base, source Host) (Backend, error) { return openRoot(base, source) }
