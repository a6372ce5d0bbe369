package jail

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/overlay"
)

// The directories of a policy are mounted anew for every command. The kernel caches what
// an overlay has shown, and a command would see files as they were for the command
// before.

// A tree is the root directory of the commands of a cell. Two threads maintain it: one
// sees the host's directories and makes detached mounts, and the caller's thread, in the
// tree, moves them to their places.
type tree struct {
	plan    plan
	outside thread
	inside  int          // its mount namespace
	within  thread       // another thread in the tree, for work while a command runs
	stores  []string     // the stores for the changes of the next command
	shown   []step       // the steps that are mounted
	ids     []uint64     // the kernel's numbers of these mounts
	from    [][2]uint64  // device and inode of the directories that they show
	next    chan *making // delivers the mounts for the next command; nil if nobody makes them

	mover   *mover // moves directories for commands; nil if they need no help
	sockets int    // the list of sockets in a network namespace of the commands

	system  string // which directory of the system is shown without an overlay, "" for none
	exposed string // which directory of all is shown without an overlay, "" for none
}

// newTree builds the tree of a plan, and moves the calling thread into it.
func newTree(p plan) (*tree, error) {
	if err := settle(); err != nil {
		return nil, err
	}
	if os.Getpid() == 1 {
		if err := ownProc(); err != nil {
			return nil, fmt.Errorf("the processes of commands: %w", err)
		}
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
	exposed, err := p.carryOut()
	if err != nil {
		return nil, err
	}
	return &tree{plan: p, outside: outside, inside: inside, stores: p.Stores, system: exposed}, nil
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

// A making is the detached mounts for one command.
type making struct {
	steps []step
	fds   []int
	from  [][2]uint64 // device and inode of the directories that they show
	err   error

	exposed string // which of them is shown without an overlay, "" for none
}

func (m *making) close() {
	for _, fd := range m.fds {
		unix.Close(fd)
	}
}

// make makes the mounts. It runs on the thread that sees the host.
func (t *tree) make() *making {
	m := &making{}
	stores := t.stores
	for _, s := range t.plan.Steps {
		if !s.Each || s.Do == second {
			continue
		}
		store := ""
		if s.Do == overlayBind && s.Write {
			if len(stores) == 0 {
				m.err = fmt.Errorf("%s %s: no place for changes", s.Do, s.Target)
				return m
			}
			store, stores = stores[0], stores[1:]
		}
		fd, from, exposed, err := s.detached(store)
		if s.Maybe && errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			m.err = fmt.Errorf("%s %s: %w", s.Do, s.Target, err)
			return m
		}
		m.steps, m.fds, m.from, m.exposed = append(m.steps, s), append(m.fds, fd), append(m.from, from), cmp.Or(m.exposed, exposed)
	}
	return m
}

// holds reports whether the host still has the same directories at these paths.
func (m *making) holds(t *tree) bool {
	i := 0
	for _, s := range t.plan.Steps {
		if !s.Each || s.Do == second {
			continue
		}
		var from [2]uint64
		fd, err := s.open()
		if err == nil && fd >= 0 {
			from, err = number(fd)
			unix.Close(fd)
		}
		if s.Maybe && err == unix.ENOENT {
			continue
		}
		if err != nil || i >= len(m.from) || m.from[i] != from {
			return false
		}
		i++
	}
	return m.err == nil && i == len(m.from)
}

// ahead begins to make the mounts for the next command while one runs. The kernel reads a
// directory only when the next command uses it.
func (t *tree) ahead(stores []string) {
	t.stores = stores
	t.next = make(chan *making, 1)
	go t.outside.do(func() error { t.next <- t.make(); return nil })
}

// ready returns mounts of the directories that the host has now.
func (t *tree) ready() *making {
	var m *making
	if t.next != nil {
		m, t.next = <-t.next, nil
	}
	t.outside.do(func() error {
		if m != nil && m.holds(t) {
			return nil
		}
		if m != nil {
			m.close()
		}
		m = t.make()
		return nil
	})
	return m
}

// refresh replaces the mounts in the tree by mounts of the directories that the host has
// now.
func (t *tree) refresh() error {
	m := t.ready()
	defer m.close()
	if m.err != nil {
		return m.err
	}
	for _, s := range t.shown {
		if within(t.shown, s) {
			continue
		}
		err := unix.Unmount(s.Target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) // with all mounts inside it
		if err != nil && err != unix.EINVAL {                               // it was unmounted with the directory that contained it
			return fmt.Errorf("unmount %s: %w", s.Target, err)
		}
	}
	t.shown, t.ids, t.from = nil, nil, m.from
	t.exposed = cmp.Or(t.plan.exposed(), t.system, m.exposed)
	for i, s := range m.steps {
		if s.Do == replaced && !isFile(s.Target) {
			continue
		}
		id, err := put(m.fds[i], s.Target)
		if err != nil {
			return fmt.Errorf("%s %s: %w", s.Do, s.Target, err)
		}
		t.shown, t.ids = append(t.shown, s), append(t.ids, id)
	}
	for _, s := range m.steps {
		if s.Do != empty { // all mounts inside it are in their places by now
			continue
		}
		if err := restrict(s.Target, 0, unix.MOUNT_ATTR_RDONLY); err != nil {
			return err
		}
	}
	return t.showSecond()
}

// showSecond mounts directories of the tree at their second paths.
func (t *tree) showSecond() error {
	for _, s := range t.plan.Steps {
		if s.Do != second {
			continue
		}
		fd, err := unix.OpenTree(unix.AT_FDCWD, s.Source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW)
		if err != nil {
			return fmt.Errorf("%s %s: %w", s.Do, s.Target, err)
		}
		id, err := put(fd, s.Target)
		unix.Close(fd)
		if err != nil {
			return fmt.Errorf("%s %s: %w", s.Do, s.Target, err)
		}
		t.shown, t.ids = append(t.shown, s), append(t.ids, id)
	}
	return nil
}

// anew refreshes the read-only overlays while a command runs.
func (t *tree) anew() (err error) {
	if t.within.work == nil {
		if t.within, err = newThread(t.enter); err != nil {
			return err
		}
	}
	return t.within.do(func() error {
		for _, s := range t.shown {
			if s.Do == overlayBind && !s.Write {
				flush(s.Target, "ro") // it fails for a bind mount, which is always current
			}
		}
		return nil
	})
}

// within reports whether a step lies inside another one that every command gets anew.
func within(steps []step, s step) bool {
	for _, o := range steps {
		if o.Each && strings.HasPrefix(s.Target, o.Target+"/") {
			return true
		}
	}
	return false
}

// put moves a mount to its place, creates the place if it is missing, and returns the
// kernel's number of the mount. It follows no symlink that a command may have put there.
func put(fd int, target string) (id uint64, err error) {
	if err := move(fd, target); err != nil {
		return 0, err
	}
	return mountAt(target)
}

// move does the same as put without returning the number.
func move(fd int, target string) error {
	at, err := placeAt(target)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return unix.MoveMount(fd, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

const noLinks = unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// placeAt opens the place for a mount, and creates it if it is missing.
func placeAt(target string) (int, error) {
	open := func(name string) (int, error) {
		return openat2(unix.AT_FDCWD, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: noLinks})
	}
	at, err := open(target)
	if err != unix.ENOENT {
		return at, err
	}
	for _, dir := range append(above(target), target) {
		in, err := open(path.Dir(dir))
		if err != nil {
			return -1, err
		}
		err = unix.Mkdirat(in, path.Base(dir), 0o755)
		unix.Close(in)
		if err != nil && err != unix.EEXIST {
			return -1, err
		}
	}
	return open(target)
}

// mountAt returns the kernel's number of the mount at a target.
func mountAt(target string) (uint64, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, target, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_MNT_ID, &st)
	return st.Mnt_id, err
}

// stands reports whether the mounts are still there and show the directories that the
// host has now. The kernel removes mounts if their mount point is removed on the host.
func (t *tree) stands() bool {
	for i, s := range t.shown {
		if id, err := mountAt(s.Target); err != nil || id != t.ids[i] {
			return false
		}
	}
	m := &making{from: t.from}
	return t.outside.do(func() error {
		if !m.holds(t) {
			return errors.New("changed")
		}
		return nil
	}) == nil
}

// open opens the directory of a step on the host, whose tree is at oldRoot; -1 for a step
// without one. A policy names directories without symlinks. If there is one now, a
// command that may write to a directory above put it there.
func (s step) open() (int, error) {
	if s.Do == empty || s.Do == private || s.Do == replaced {
		return -1, nil
	}
	return openBelow(oldRoot, s.Source, s.Top)
}

// errReplaced reports that a directory is not the one of the policy.
var errReplaced = errors.New("another directory took its place on the host; put it back, or start golem again")

// openBelow opens a directory of the host, whose tree is at root. Top is a directory
// above it, and must still have the same device and inode.
func openBelow(root, source string, top held) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: noLinks}
	if top.Number == [2]uint64{} {
		return openat2(unix.AT_FDCWD, root+source, &how)
	}
	rel, err := filepath.Rel(top.Folder, source)
	if err != nil || !filepath.IsLocal(rel) {
		return -1, errReplaced
	}
	fd, err := openat2(unix.AT_FDCWD, root+top.Folder, &how)
	if err == unix.ENOENT || err == unix.ELOOP || err == unix.ENOTDIR {
		return -1, errReplaced
	}
	if err != nil {
		return -1, err
	}
	is, err := number(fd)
	if err == nil && is != top.Number {
		err = errReplaced
	}
	if err != nil || rel == "." {
		if err != nil {
			unix.Close(fd)
			fd = -1
		}
		return fd, err
	}
	defer unix.Close(fd)
	how.Resolve |= unix.RESOLVE_BENEATH
	return openat2(fd, rel, &how)
}

// number returns the device and inode of an open file.
func number(fd int) ([2]uint64, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return [2]uint64{uint64(st.Dev), st.Ino}, err
}

// detached makes the mount of a step, which is not in any tree yet, and returns what it
// shows. If commands could reach sockets of the host through it, exposed says why.
func (s step) detached(store string) (fd int, from [2]uint64, exposed string, err error) {
	if s.Do == empty {
		fd, err = fileSystem("tmpfs", 0, [2]string{"mode", "0755"}, [2]string{"size", "64k"})
		return fd, from, "", err
	}
	if s.Do == private {
		fd, err = s.memory()
		return fd, from, "", err
	}
	if s.Do == replaced {
		fd, err = s.replacement()
		return fd, from, "", err
	}
	source, err := s.open()
	if err == unix.ELOOP {
		return -1, from, "", errors.New("a symlink is in the path of the directory now, and was not when it was mounted")
	}
	if err != nil {
		return -1, from, "", err
	}
	defer unix.Close(source)
	if from, err = number(source); err != nil {
		return -1, from, "", err
	}
	if s.Do == bind {
		fd, err = clone(source, s.Write)
		return fd, from, "", err
	}
	if s.Write {
		fd, err = writable(source, store)
		return fd, from, "", err
	}
	fd, err = mountLower(source)
	if err == unix.EINVAL && mountsBelow(oldRoot+s.Source) {
		// An overlay shows one file system. It would reveal files that the other one
		// hides.
		exposed = notOverlaid(s.Target, errors.New("another file system is mounted in it"))
		fd, err = clone(source, false)
	}
	return fd, from, exposed, err
}

// clone returns a bind mount of an open directory of the host with all mounts inside it.
// The kernel does not allow it without those, because they may hide something.
func clone(source int, write bool) (int, error) {
	fd, err := unix.OpenTree(source, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return -1, err
	}
	flags := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	if !write {
		flags |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: flags, Propagation: unix.MS_PRIVATE}); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// mountLower returns a read-only overlay of a directory of the host. Commands cannot
// reach sockets and named pipes of the host through it, or see its host path.
func mountLower(source int) (int, error) {
	// The kernel shows only the path that was given for the mount.
	if err := unix.Fchdir(source); err != nil {
		return -1, err
	}
	defer unix.Chdir("/")
	return fileSystem("overlay", unix.MOUNT_ATTR_RDONLY, [2]string{"lowerdir", ".:" + noFolder}, [2]string{"userxattr"})
}

// writable returns an overlay of a directory of the host that keeps changes in a store.
// It serves one command, so the kernel does not have to sync it.
func writable(source int, store string) (int, error) {
	options := [][2]string{{"lowerdir", "."}, {"userxattr"}, {"volatile"}}
	l := overlay.Overlay{Store: oldRoot + store}
	if err := l.ResetWorkDir(); err != nil {
		return -1, fmt.Errorf("the place for changes: %w", err)
	}
	for option, name := range map[string]string{"upperdir": l.UpperDir(), "workdir": l.WorkDir()} {
		fd, err := openat2(unix.AT_FDCWD, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
		if err != nil {
			return -1, fmt.Errorf("the place for changes: %w", err)
		}
		defer unix.Close(fd)
		options = append(options, [2]string{option, fmt.Sprintf("%s/proc/self/fd/%d", oldRoot, fd)})
	}
	if err := unix.Fchdir(source); err != nil {
		return -1, err
	}
	defer unix.Chdir("/")
	return fileSystem("overlay", 0, options...)
}

// fileSystem creates a file system that is not mounted anywhere yet.
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
