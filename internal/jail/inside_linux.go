package jail

import "golang.org/x/sys/unix"

// The answer of the commands' filter to a prctl option that no kernel knows. golem uses
// it to detect that it runs in a jail. Commands can remove a variable or hide a file, but
// not a filter.
const (
	askConfined   = 0x676f6c65 // an option of prctl, "gole"
	whereConfined = unix.ENOTNAM
)

// Confined reports whether this process is a command of a jail.
func Confined() bool {
	return unix.Prctl(askConfined, 0, 0, 0, 0) == whereConfined
}
