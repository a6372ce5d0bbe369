package jail

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// The folders of a policy are mounted anew for every command: the kernel does not
// look at a folder again that an overlay has shown, and a command would see files
// as they were for the one before it.

// A tree is where the commands of a cell live. Two threads keep it: one that sees
// the host's folders and makes mounts that are nowhere yet, and the caller's, which
// lives in the tree and puts them in their places.
type tree struct {
	plan    plan
	outside thread
	inside  int  // its mount namespace
	shown   bool // folders are mounted
}

// newTree makes the tree of a plan, and moves the calling thread into it.
func newTree(p plan) (*tree, error) {
	if err := settle(); err != nil {
		return nil, err
	}
	outside, err := newThread(func() error { return unix.Unshare(unix.CLONE_FS) })
	if err != nil {
		return nil, err
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return nil, fmt.Errorf("mounts of its own: %w", err)
	}
	inside, err := unix.Open(oldRoot+"/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("the host's /proc: %w", err)
	}
	if err := p.carryOut(); err != nil {
		return nil, err
	}
	return &tree{plan: p, outside: outside, inside: inside}, nil
}

// enter moves the calling thread into the tree.
func (t *tree) enter() error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	if err := unix.Setns(t.inside, unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("into the tree: %w", err)
	}
	return nil
}

// refresh mounts the folders as they are now.
func (t *tree) refresh() error {
	var steps []step
	var made []int
	defer func() {
		for _, fd := range made {
			unix.Close(fd)
		}
	}()
	err := t.outside.do(func() error {
		for _, s := range t.plan.Steps {
			if !s.Each {
				continue
			}
			fd, err := s.detached()
			if s.Maybe && errors.Is(err, unix.ENOENT) {
				continue
			}
			if err != nil {
				return fmt.Errorf("%s %s: %w", s.Do, s.Target, err)
			}
			steps, made = append(steps, s), append(made, fd)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, s := range steps {
		if t.shown && !within(steps, s) {
			if err := unix.Unmount(s.Target, unix.MNT_DETACH); err != nil { // with what is mounted in it
				return fmt.Errorf("unmount %s: %w", s.Target, err)
			}
		}
	}
	t.shown = true
	for i, s := range steps {
		if err := put(made[i], s.Target); err != nil {
			return fmt.Errorf("%s %s: %w", s.Do, s.Target, err)
		}
	}
	for _, s := range steps {
		if s.Do != empty { // what stands in it is there by now
			continue
		}
		if err := restrict(s.Target, 0, unix.MOUNT_ATTR_RDONLY); err != nil {
			return err
		}
	}
	return nil
}

// within reports whether a step stands in another.
func within(steps []step, s step) bool {
	for _, o := range steps {
		if strings.HasPrefix(s.Target, o.Target+"/") {
			return true
		}
	}
	return false
}

// put puts a mount in its place, which is made where it is missing.
func put(fd int, target string) error {
	err := unix.MoveMount(fd, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
	if err == unix.ENOENT {
		for _, dir := range append(above(target), target) {
			if err := ignoreExists(os.Mkdir(dir, 0o755)); err != nil {
				return err
			}
		}
		err = unix.MoveMount(fd, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	return err
}

// detached makes the mount of a step, which is nowhere yet. It runs outside, where
// the host's tree is at oldRoot.
func (s step) detached() (int, error) {
	if s.Do == empty {
		return fileSystem("tmpfs", 0, [2]string{"mode", "0755"}, [2]string{"size", "64k"})
	}
	// A policy names folders without a link on the way. One that is there now was put
	// there by a command that may write around it.
	source, err := unix.Openat2(unix.AT_FDCWD, oldRoot+s.Source, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err == unix.ELOOP {
		return -1, errors.New("a link is on the way to the folder now, and none was when it was given")
	}
	if err != nil {
		return -1, err
	}
	defer unix.Close(source)
	switch s.Do {
	case bind:
		return clone(source, s.Write)
	case layer:
		fd, err := overlay(source)
		if err == unix.EINVAL && mountsBelow(oldRoot+s.Source) {
			// An overlay shows one file system, and would show what the others hide.
			return clone(source, false)
		}
		return fd, err
	}
	return -1, errors.New("no such step")
}

// clone returns what is open of the host, with what is mounted in it: the kernel
// does not let that be taken away, because it may hide something.
func clone(source int, write bool) (int, error) {
	fd, err := unix.OpenTree(source, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return -1, err
	}
	flags := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	if !write {
		flags |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: flags}); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// overlay returns a folder of the host, read-only, through an overlay: no socket or
// pipe of the host is reached through it, and where it lies is not told.
func overlay(source int) (int, error) {
	// The name that is mounted is all that the kernel shows of it.
	if err := unix.Fchdir(source); err != nil {
		return -1, err
	}
	defer unix.Chdir("/")
	return fileSystem("overlay", unix.MOUNT_ATTR_RDONLY, [2]string{"lowerdir", ".:" + noFolder}, [2]string{"userxattr"})
}

// fileSystem returns a new file system that is nowhere yet.
func fileSystem(kind string, attr int, options ...[2]string) (int, error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fs)
	for _, o := range append(options, [2]string{"source", "golem"}) {
		if o[1] == "" {
			err = unix.FsconfigSetFlag(fs, o[0])
		} else {
			err = unix.FsconfigSetString(fs, o[0], o[1])
		}
		if err != nil {
			return -1, err
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, err
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attr|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}
