package overlay

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockWait is how long a call waits for another process that works on the same session.
const lockWait = time.Second / 2

// A BusyError is the error of a call that did nothing because another process has locked
// File for longer than lockWait.
type BusyError struct{ File string }

// Error implements error.
func (e *BusyError) Error() string { return "another process works on the session" }

// Lock locks a file, or changes the kind of the lock that it holds. If others hold the lock
// for longer than most, the error is a BusyError.
func Lock(f *os.File, how int, most time.Duration) error {
	const step = 5 * time.Millisecond
	for wait := time.Duration(0); ; wait += step {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch {
		case err == unix.EWOULDBLOCK && wait >= most:
			return &BusyError{f.Name()}
		case err != unix.EWOULDBLOCK && err != unix.EINTR:
			return err
		}
		time.Sleep(step)
	}
}
