package jail

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// The directories in which the cell builds the tree: a small file system with the host's
// tree next to the new one.
const (
	oldRoot = "/old"
	newRoot = "/new"
)

// settle creates that file system and makes it the root directory.
func settle() error {
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mounts of its own: %w", err)
	}
	// The file system is mounted at the host's /tmp, which every host has. After
	// pivot_root the content of /tmp is still visible below oldRoot.
	if err := unix.Mount("golem", "/tmp", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=4m"); err != nil {
		return fmt.Errorf("a place for the tree: %w", err)
	}
	for _, name := range []string{"/tmp" + oldRoot, "/tmp" + newRoot} {
		if err := os.Mkdir(name, 0o755); err != nil {
			return err
		}
	}
	if err := unix.PivotRoot("/tmp", "/tmp"+oldRoot); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	return makeNothing()
}

// ownProc shows the cell the processes of its commands. Commands have another /proc,
// which hides the cell: its threads would reveal the host's tree.
func ownProc() error {
	if err := os.Mkdir("/proc", 0o555); err != nil {
		return err
	}
	return unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
}

// carryOut builds the tree, except the mounts that every command gets anew, and moves the
// calling thread into it. The thread cannot see the host's tree then. Exposed says which
// directory of the system is shown without an overlay, "" for none.
func (p plan) carryOut() (exposed string, err error) {
	if err := unix.Mount("golem", newRoot, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=4m"); err != nil {
		return "", fmt.Errorf("the tree: %w", err)
	}
	var view systemView
	defer view.close()
	for _, s := range p.Steps {
		if err := s.carryOut(p.Steps, &view); err != nil && !(s.Maybe && errors.Is(err, unix.ENOENT)) {
			return "", fmt.Errorf("%s %s: %w", s.Do, s.Target, err)
		}
	}
	return view.exposed, live()
}

// live makes the new tree the root directory of the calling thread.
func live() error {
	if err := restrict(newRoot, 0, unix.MOUNT_ATTR_RDONLY); err != nil {
		return fmt.Errorf("the tree, read-only: %w", err)
	}
	if err := unix.Chdir(newRoot); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("the host's tree: %w", err)
	}
	// The copy that hideMounts makes receives later mounts.
	if err := unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("the tree, shared: %w", err)
	}
	return unix.Chdir("/")
}

// memory returns the mount points of the file systems in memory.
func (p plan) memory() (names []string) {
	for _, s := range p.Steps {
		switch s.Do {
		case memory:
			names = append(names, s.Target)
		case devices:
			names = append(names, s.Target+"/shm")
		}
	}
	return names
}

// carryOut does the step, or creates the mount point if every command gets it anew.
func (s step) carryOut(all []step, view *systemView) error {
	at := newRoot + s.Target
	if s.Do == cover {
		return coverFile(newRoot+s.Source, at)
	}
	for _, dir := range above(s.Target) {
		if err := os.Mkdir(newRoot+dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	if s.Each {
		if within(all, s) {
			return nil
		}
		return ignoreExists(os.Mkdir(at, 0o755))
	}
	switch s.Do {
	case newDir:
		return ignoreExists(os.Mkdir(at, 0o755))
	case file:
		return writeNew(at, []byte(s.Source), 0o644)
	case link:
		return os.Symlink(s.Source, at)
	case sameLink:
		if to, err := os.Readlink(oldRoot + s.Source); err == nil {
			return os.Symlink(to, at)
		}
		_, err := view.show(s.Source, s.Target)
		return err
	case bind:
		_, err := view.show(s.Source, s.Target)
		return err
	case memory:
		if err := ignoreExists(os.Mkdir(at, 0o755)); err != nil {
			return err
		}
		return unix.Mount("golem", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("mode=1777,size=%d,nr_inodes=%d", s.Size, s.Size/4096))
	case devices:
		return makeDevices(at, s.Source, s.Names)
	case etcParts:
		return view.showEtc(s.Names)
	case process:
		return makeProcess(at, s.Write)
	}
	return errors.New("no such step")
}

// coverFile mounts a file over another one, read-only. It covers no symlink: the file that
// it leads to is covered by its own name.
func coverFile(source, at string) error {
	info, err := os.Lstat(at)
	if err != nil || !info.Mode().IsRegular() {
		return unix.ENOENT
	}
	if err := unix.Mount(source, at, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return restrict(at, 0, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
}

func ignoreExists(err error) error {
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

// Mounted over files and directories that commands must not see: an empty directory,
// which is also the second lower directory of overlays, and an empty file.
const (
	noFolder = "/none"
	noFile   = "/blank"
)

// makeNothing creates both, read-only. Mounts of them are read-only too.
func makeNothing() error {
	if err := os.Mkdir(noFolder, 0o555); err != nil {
		return err
	}
	if err := writeNew(noFile, nil, 0o444); err != nil {
		return err
	}
	for _, name := range []string{noFolder, noFile} {
		if err := unix.Mount(name, name, "", unix.MS_BIND, ""); err != nil {
			return err
		}
		if err := restrict(name, 0, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOEXEC); err != nil {
			return err
		}
	}
	return nil
}

// makeProcess mounts a /proc that shows the processes of the cell. It is read-only,
// because a command of root could otherwise change settings of the host's kernel without
// any capability. Apart from processes it shows only the names of procNames.
//
// It hides processes that a command may not trace. The kernel finds every thread of the
// cell by its number, listed or not. The mount table of a thread that sees the host
// contains host paths.
//
// NVIDIA's library names its threads, and fails if it cannot. So with the GPU the files of
// processes can be written, and the rest of /proc cannot.
func makeProcess(at string, gpu bool) error {
	if err := os.Mkdir(at, 0o555); err != nil {
		return err
	}
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
	if !gpu {
		flags |= unix.MS_RDONLY
	}
	if err := unix.Mount("proc", at, "proc", flags, "hidepid=ptraceable"); err != nil {
		return err
	}
	list, err := os.ReadDir(at)
	if err != nil {
		return err
	}
	for _, entry := range list {
		name := entry.Name()
		shown := slices.Contains(procNames(), name)
		if name[0] >= '0' && name[0] <= '9' && name != "1" || entry.Type()&os.ModeSymlink != 0 || shown && !gpu {
			continue
		}
		source := noFile
		if entry.IsDir() {
			source = noFolder
		}
		if shown {
			source = at + "/" + name
		}
		if err := unix.Mount(source, at+"/"+name, "", unix.MS_BIND, ""); err != nil {
			return err
		}
		if shown {
			if err := restrict(at+"/"+name, 0, unix.MOUNT_ATTR_RDONLY); err != nil {
				return err
			}
		}
	}
	return nil
}

// hideMounts empties the mount table that the calling thread, and every process that it
// starts, can read. The kernel shows the host path of each bind mount in mountinfo,
// mounts and mountstats of every process and thread. It lists only mounts of the
// process's mount namespace that lie below its root directory. So the thread moves to a
// copy of its mount namespace, and keeps the root directory of the first one. The copy
// receives later mounts of the first: the thread cannot rename or remove a mount point.
func hideMounts() error {
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("mount table: %w", err)
	}
	defer unix.Close(root)
	for _, do := range []func() error{
		func() error { return unix.Unshare(unix.CLONE_NEWNS) },
		func() error { return unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, "") },
		func() error { return unix.Fchdir(root) },
		func() error { return unix.Chroot(".") },
	} {
		if err := do(); err != nil {
			return fmt.Errorf("mount table: %w", err)
		}
	}
	return nil
}

// restrict adds flags to a mount, and with AT_RECURSIVE to all mounts below it.
func restrict(at string, how uint, flags uint64) error {
	return unix.MountSetattr(unix.AT_FDCWD, at, how, &unix.MountAttr{Attr_set: flags})
}

// mountsBelow reports whether something is mounted inside a directory.
func mountsBelow(dir string) bool {
	list, err := os.ReadFile(oldRoot + "/proc/thread-self/mountinfo")
	name := strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`).Replace(dir)
	return err == nil && strings.Contains(string(list), " "+name+"/")
}

// makeDevices creates a /dev with the few harmless devices that programs expect, and more
// of the host. They are the host's own, mounted read-only: a command can write to a device,
// but cannot change its mode or owner. Terminals belong to the tree, and no others can be
// opened by name.
func makeDevices(at, terminals string, more []string) error {
	if err := os.Mkdir(at, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("golem", at, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=0755,size=64k"); err != nil {
		return err
	}
	names := append([]string{"null", "zero", "full", "random", "urandom"}, more...)
	if terminals == ownTerminal {
		names = append(names, "tty") // it opens the controlling terminal of the process, if it has one
	}
	for _, name := range names {
		if err := writeNew(at+"/"+name, nil, 0o666); err != nil {
			return err
		}
		if err := unix.Mount(oldRoot+"/dev/"+name, at+"/"+name, "", unix.MS_BIND, ""); err != nil {
			return err
		}
		if err := restrict(at+"/"+name, 0, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC); err != nil {
			return err
		}
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(to, at+"/"+name); err != nil {
			return err
		}
	}
	if terminals != "" {
		if err := makeTerminals(at); err != nil {
			return fmt.Errorf("terminals: %w", err)
		}
	}
	if err := os.Mkdir(at+"/shm", 0o1777); err != nil {
		return err
	}
	if err := unix.Mount("golem", at+"/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777,size=64m,nr_inodes=16384"); err != nil {
		return err
	}
	return restrict(at, 0, unix.MOUNT_ATTR_RDONLY)
}

// makeTerminals mounts a separate devpts with few terminals, because the kernel limits
// their number for the whole machine.
func makeTerminals(at string) error {
	if err := os.Mkdir(at+"/pts", 0o755); err != nil {
		return err
	}
	if err := os.Symlink("pts/ptmx", at+"/ptmx"); err != nil {
		return err
	}
	return unix.Mount("devpts", at+"/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0600,max=64")
}
