package jail

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Where the cell works while it makes the tree: a small file system of its own,
// with the host's tree beside the new one.
const (
	oldRoot = "/old"
	newRoot = "/new"
)

// settle makes that place, and goes to live there.
func settle() error {
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mounts of its own: %w", err)
	}
	// The host's /tmp serves as the place: it is there, and what it holds is still
	// reached from the old root.
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

// ownProc shows the cell the processes of its commands. What commands see has not
// the cell in it: its threads would tell of the host's tree.
func ownProc() error {
	if err := os.Mkdir("/proc", 0o555); err != nil {
		return err
	}
	return unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
}

// carryOut makes the tree but for what every command has anew, and goes to live in
// it. The host's is gone then for the calling thread. Exposed says which directory of
// the system is shown without an overlay, "" for none.
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

// live moves the calling thread into the tree that carryOut has made.
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
	// hideMounts makes a copy of it, which is to follow.
	if err := unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("the tree, shared: %w", err)
	}
	return unix.Chdir("/")
}

// memory names the file systems of the tree that are memory.
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

// carryOut makes the thing, or the place where it will be.
func (s step) carryOut(all []step, view *systemView) error {
	at := newRoot + s.Target
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
	case folder:
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
		return makeDevices(at, s.Source)
	case etcParts:
		return view.showEtc(s.Names)
	case process:
		return makeProcess(at)
	}
	return errors.New("no such step")
}

func ignoreExists(err error) error {
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

// What is shown in place of something that is not: an empty folder, which also is
// the second part of a layer that has one, and an empty file.
const (
	noFolder = "/none"
	noFile   = "/blank"
)

// makeNothing makes both, read-only, as are the mounts made from them.
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

// makeProcess shows what the kernel tells of the cell's own processes. It is
// read-only: who is root on the host could otherwise set the host's kernel, with
// no capability at all. Of the rest only what shown lists is there. A process that a
// command may not trace is not there: the kernel finds every thread of the cell by its
// number, listed or not, and the mount table of a thread that sees the host tells its
// paths.
func makeProcess(at string) error {
	if err := os.Mkdir(at, 0o555); err != nil {
		return err
	}
	if err := unix.Mount("proc", at, "proc", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "hidepid=ptraceable"); err != nil {
		return err
	}
	list, err := os.ReadDir(at)
	if err != nil {
		return err
	}
	for _, entry := range list {
		name := entry.Name()
		if name[0] >= '0' && name[0] <= '9' && name != "1" || entry.Type()&os.ModeSymlink != 0 || slices.Contains(shown(), name) {
			continue
		}
		nothing := noFile
		if entry.IsDir() {
			nothing = noFolder
		}
		if err := unix.Mount(nothing, at+"/"+name, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

// hideMounts empties the mount table that the calling thread, and all that it starts,
// can read. The kernel shows of a bind mount where its source lies on the host, in
// mountinfo, mounts and mountstats of every process and thread. It lists only mounts
// of the mount namespace that a process belongs to, and of them those below its root.
// So the thread moves to a copy of its mount namespace, and keeps the root that it had
// in the first. The copy follows the first: what is a mount in it cannot be renamed or
// removed by the thread.
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

// restrict adds flags to a mount, and with AT_RECURSIVE to all below it.
func restrict(at string, how uint, flags uint64) error {
	return unix.MountSetattr(unix.AT_FDCWD, at, how, &unix.MountAttr{Attr_set: flags})
}

// mountsBelow reports whether something is mounted in a folder.
func mountsBelow(dir string) bool {
	list, err := os.ReadFile(oldRoot + "/proc/thread-self/mountinfo")
	name := strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`).Replace(dir)
	return err == nil && strings.Contains(string(list), " "+name+"/")
}

// makeDevices makes the few devices that programs expect and cannot harm with.
// They are the host's own, and read-only: that does not hinder who writes to a
// device, but who would change its mode or owner. Terminals are the tree's own: no
// other can be opened by a name that is in it.
func makeDevices(at, terminals string) error {
	if err := os.Mkdir(at, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("golem", at, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=0755,size=64k"); err != nil {
		return err
	}
	names := []string{"null", "zero", "full", "random", "urandom"}
	if terminals == ownTerminal {
		names = append(names, "tty") // who opens it gets the terminal that it belongs to, if any
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

// makeTerminals makes a place for terminals that nobody else has, and few of them:
// the kernel has a number for the whole machine.
func makeTerminals(at string) error {
	if err := os.Mkdir(at+"/pts", 0o755); err != nil {
		return err
	}
	if err := os.Symlink("pts/ptmx", at+"/ptmx"); err != nil {
		return err
	}
	return unix.Mount("devpts", at+"/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0600,max=64")
}
