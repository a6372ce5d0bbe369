package transaction

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// busyWait is how long golem waits for another golem.
const busyWait = 5 * time.Second

// lockFile opens a file and locks it. If others hold the lock longer than most, the error
// is ErrBusy.
func lockFile(name string, how int, most time.Duration) (*os.File, error) {
	// os.OpenFile would ask the kernel whether it can wait for the file.
	fd, err := unix.Open(name, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	for err == unix.EINTR {
		fd, err = unix.Open(name, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	if err := lock(f, how, most); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// lock locks a file, or changes the kind of the lock that it holds.
func lock(f *os.File, how int, most time.Duration) error {
	const step = 5 * time.Millisecond
	for wait := time.Duration(0); ; wait += step {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch {
		case err == unix.EWOULDBLOCK && wait >= most:
			return ErrBusy
		case err != unix.EWOULDBLOCK && err != unix.EINTR:
			return err
		}
		time.Sleep(step)
	}
}

// lockDirectory waits until no other process has locked a directory, and locks it until
// the file is closed.
func lockDirectory(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if err == nil {
			return f, nil
		}
		if err != unix.EINTR {
			f.Close()
			return nil, err
		}
	}
}
