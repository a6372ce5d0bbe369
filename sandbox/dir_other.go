//go:build !linux

package sandbox

import "os"

// openDir opens a directory of the host as a backend.
func openDir(base, source Host) (Backend, error) { return openRoot(base, source) }

// openAt returns an error, because only Linux has overlays.
func openAt(*os.File, Traits) (Backend, error) {
	return nil, &Error{Op: "mount", Code: ErrInvalid, Hint: "this system has no overlays"}
}
