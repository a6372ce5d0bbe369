package changes

import (
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/claim"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/records/state"
)

// busyWait is how long golem waits for another golem.
const busyWait = 5 * time.Second

// stoppedWait is how long golem waits for a process before it looks whether the process is
// stopped.
const stoppedWait = time.Second / 2

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
	err := overlay.Lock(f, how, most)
	if busy := (*overlay.BusyError)(nil); errors.As(err, &busy) {
		return ErrBusy
	}
	return err
}

// lockDirectory waits until no other process has locked a directory, and locks it until
// the file is closed.
func lockDirectory(dir string) (*os.File, error) { return lockDirectoryWithin(dir, math.MaxInt64) }

// lockDirectoryWithin is lockDirectory with a time limit. If others hold the lock longer,
// the error is ErrBusy. If the process that holds it is stopped, golem does not wait for
// long: the error names the process.
func lockDirectoryWithin(dir string, most time.Duration) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		wait := min(most, stoppedWait)
		err := lock(f, unix.LOCK_EX, wait)
		if err == nil {
			return f, nil
		}
		if most -= wait; errors.Is(err, ErrBusy) && most > 0 {
			if err = checkStopped(state.LockHolder(f)); err == nil {
				continue
			}
		}
		f.Close()
		return nil, err
	}
}

// retry calls do again as long as another process has locked a file that do needs. If that
// process is stopped, the error names it.
func retry(do func() error) error {
	for {
		err := do()
		busy := (*overlay.BusyError)(nil)
		if !errors.As(err, &busy) {
			return err
		}
		f, err := os.Open(busy.File)
		if err != nil {
			return err
		}
		err = checkStopped(state.LockHolder(f))
		f.Close()
		if err != nil {
			return err
		}
	}
}

// checkStopped returns an error if a process is stopped, for example by Ctrl-Z or a
// debugger.
func checkStopped(pid int) error {
	if pid == 0 {
		return nil
	}
	if is := claim.Stat(pid); len(is) == 0 || is[0] != "T" && is[0] != "t" {
		return nil
	}
	return fmt.Errorf("%w, and its process %d is stopped; kill -CONT %d continues it, kill -9 %d ends it", ErrBusy, pid, pid, pid)
}
