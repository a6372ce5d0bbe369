package jail

import "golang.org/x/sys/unix"

// What the filter of commands answers to a question that no kernel knows. They
// can remove a variable or hide a file; a filter stays.
const (
	askConfined   = 0x676f6c65 // an option of prctl, "gole"
	whereConfined = unix.ENOTNAM
)

// Confined reports whether this process is a command of a session.
func Confined() bool {
	return unix.Prctl(askConfined, 0, 0, 0, 0) == whereConfined
}
