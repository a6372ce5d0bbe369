package jail

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/overlay"
)

// MountOverlay mounts the overlay of a session in the mount namespace of this process, and
// opens the directory that is seen through it. A copy is only opened.
func MountOverlay(l overlay.Overlay) (fd int, err error) {
	if l.IsCopy {
		return openFolder(l.SessionDir())
	}
	// Mounts made here stay in this namespace, and mounts of others still appear.
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return -1, fmt.Errorf("mounts of its own: %w", err)
	}
	options := [][2]string{{"lowerdir", "."}, {"userxattr"}}
	for _, o := range [][2]string{{"upperdir", l.UpperDir()}, {"workdir", l.WorkDir()}} {
		fd, err := openFolder(o[1])
		if err != nil {
			return -1, fmt.Errorf("the place for changes: %w", err)
		}
		defer unix.Close(fd)
		options = append(options, [2]string{o[0], fmt.Sprintf("/proc/self/fd/%d", fd)})
	}
	source, err := openFolder(l.Dir)
	if err != nil {
		return -1, err
	}
	defer unix.Close(source)
	if err := unix.Fchdir(source); err != nil {
		return -1, err
	}
	defer unix.Chdir("/")
	made, err := fileSystem("overlay", 0, options...)
	if err != nil {
		return -1, err
	}
	defer unix.Close(made)
	// The kernel makes a directory there that the user cannot enter or remove.
	if err := unix.Chmod(l.WorkDir()+"/work", 0o700); err != nil {
		return -1, fmt.Errorf("the place for changes: %w", err)
	}
	at, err := openFolder(l.SessionDir())
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	if err := unix.MoveMount(made, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return -1, err
	}
	return openFolder(l.SessionDir())
}

func openFolder(name string) (int, error) {
	return openat2(unix.AT_FDCWD, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: noLinks})
}

// FlushOverlay makes the kernel look again at the directory below the overlay of a session.
func FlushOverlay(l overlay.Overlay) error {
	if l.IsCopy { // nothing is below it
		return nil
	}
	return flush(l.SessionDir())
}

// flush makes the kernel look again at the directory below an overlay. Otherwise it could
// show an earlier state of the directory.
func flush(at string, flags ...string) error {
	fs, err := unix.Fspick(unix.AT_FDCWD, at, unix.FSPICK_CLOEXEC|unix.FSPICK_NO_AUTOMOUNT|unix.FSPICK_SYMLINK_NOFOLLOW)
	if err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	defer unix.Close(fs)
	for _, f := range flags {
		if err := unix.FsconfigSetFlag(fs, f); err != nil {
			return fmt.Errorf("flush: %w", err)
		}
	}
	if err := unix.FsconfigReconfigure(fs); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	return nil
}

// openat2 opens a name as unix.Openat2 does. While anything is renamed or mounted on the
// machine, the kernel asks for another try where a name has "..", as many symlinks do.
func openat2(dir int, name string, how *unix.OpenHow) (fd int, err error) {
	for range 1000 {
		if fd, err = unix.Openat2(dir, name, how); err != unix.EAGAIN && err != unix.EINTR {
			return fd, err
		}
	}
	return fd, err
}
