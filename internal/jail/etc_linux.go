package jail

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxCopied is the largest file of /etc that golem copies for commands. A copy of a small
// file is quicker than a mount.
const maxCopied = 256 << 10

// bufferSize is the size of a buffer for the entries of a directory.
const bufferSize = 16 << 10

// expandEtc returns those names that an /etc with some entries may have. Without entries,
// they are not known. A * stands for any part of the first element. It omits names inside
// a directory that the list also has.
func expandEtc(there map[string]byte, names []string) []string {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		if first, _, _ := strings.Cut(name, "/"); !strings.Contains(name, "*") {
			if _, ok := there[first]; ok || there == nil {
				set[name] = true
			}
			continue
		}
		for n := range there {
			if ok, _ := path.Match(name, n); ok {
				set[n] = true
			}
		}
	}
	list := make([]string, 0, len(set))
	for name := range set {
		if !slices.ContainsFunc(above("/"+name), func(dir string) bool { return set[dir[1:]] }) {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// entriesIn returns the entries of an open directory with their types, such as DT_REG, or
// nil after an error.
func entriesIn(dir int) map[string]byte {
	entries := make(map[string]byte)
	if eachEntry(dir, make([]byte, bufferSize), func(name string, kind byte) error { entries[name] = kind; return nil }) != nil {
		return nil
	}
	return entries
}

// othersRead reports whether everybody may read a file or directory.
func othersRead(mode uint32) bool {
	if mode&unix.S_IFMT == unix.S_IFDIR {
		return mode&0o5 == 0o5
	}
	return mode&0o4 != 0
}

// openEtc opens a file or directory of the /etc below a root, or of the host's own for
// "". The error is ENOENT, also for root, unless everybody may read it and enter the
// directories above it.
func openEtc(root, name string) (fd int, st unix.Stat_t, err error) {
	dir, err := unix.Open(root+"/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, st, err
	}
	defer unix.Close(dir)
	fd, err = openat2(dir, "etc/"+name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return -1, st, err
	}
	if err = unix.Fstat(fd, &st); err == nil && !(othersRead(st.Mode) && othersReach(root, fd)) {
		err = unix.ENOENT
	}
	if err != nil {
		unix.Close(fd)
		return -1, st, err
	}
	return fd, st, nil
}

// isSystemPath reports whether a path is in a directory of the system. A symlink in /etc may
// lead elsewhere, such as to settings in a home that everybody may read.
func isSystemPath(name string) bool {
	return slices.ContainsFunc([]string{"/etc/", "/usr/", "/lib/", "/lib32/", "/lib64/", "/opt/", "/var/lib/", "/var/cache/", "/nix/store/", "/gnu/store/", "/ostree/", "/sysroot/"},
		func(dir string) bool { return strings.HasPrefix(name, dir) })
}

// othersReach reports whether everybody may enter the directories above an open file,
// after all symlinks were followed, and the file belongs to the system.
func othersReach(root string, fd int) bool {
	real, err := os.Readlink(fmt.Sprintf("%s/proc/self/fd/%d", root, fd))
	if err != nil || !strings.HasPrefix(real, root+"/") || !isSystemPath(strings.TrimPrefix(real, root)) {
		return false
	}
	for _, dir := range above(strings.TrimPrefix(real, root)) {
		var st unix.Stat_t
		if unix.Stat(root+dir, &st) != nil || st.Mode&0o1 == 0 {
			return false
		}
	}
	return true
}

// showEtc shows those of the named parts of /etc that the host has.
func (v *systemView) showEtc(names []string) error {
	if err := os.Mkdir(newRoot+"/etc", 0o755); err != nil {
		return err
	}
	host := openHostEtc()
	defer host.close()
	for _, name := range expandEtc(host.entries, names) {
		shown, err := v.showPlain(host, name)
		if !shown {
			err = v.showOne(host, name)
		}
		if err != nil && err != unix.ENOENT && err != unix.ENOTDIR && err != unix.EACCES && err != unix.ELOOP {
			return &fs.PathError{Op: "show", Path: "/etc/" + name, Err: err}
		}
	}
	return nil
}

// showPlain shows a file or directory directly below /etc, with fewer system calls than
// showOne. It reports whether it has shown it. Only showOne knows symlinks, large files,
// files that not everybody may read, and directories that the overlay does not have.
func (v *systemView) showPlain(host *hostEtc, name string) (shown bool, err error) {
	kind := host.entries[name]
	if host.to < 0 || kind != unix.DT_REG && kind != unix.DT_DIR || kind == unix.DT_DIR && !v.hasEtc() {
		return false, nil
	}
	flags := unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	if kind == unix.DT_DIR {
		flags |= unix.O_DIRECTORY
	}
	fd, err := unix.Openat(host.dir, name, flags, 0)
	if err != nil {
		return false, nil
	}
	defer unix.Close(fd)
	st, err := statMount(fd)
	if err != nil || !othersRead(uint32(st.Mode)) {
		return false, nil
	}
	switch {
	case kind == unix.DT_DIR && st.Mnt_id == host.mount:
		return v.showDirectory(host, fd, name)
	case kind == unix.DT_REG && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size <= maxCopied:
		return true, host.copy(fd, int64(st.Size), host.to, name)
	}
	return false, nil
}

// showDirectory shows a directory directly below /etc, through the overlay of /etc. It is
// open at fd.
func (v *systemView) showDirectory(host *hostEtc, fd int, name string) (shown bool, err error) {
	hidden, err := host.hiddenIn(fd, name)
	if err != nil {
		return false, nil
	}
	made, err := unix.OpenTree(v.etc, name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT)
	if err != nil {
		return false, nil
	}
	defer unix.Close(made)
	if err := unix.Mkdirat(host.to, name, 0o755); err != nil && err != unix.EEXIST {
		return true, err
	}
	if err := unix.MoveMount(made, "", host.to, name, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return true, err
	}
	return true, hideAll(newRoot+"/etc/", hidden)
}

func (v *systemView) showOne(host *hostEtc, name string) error {
	fd, st, err := host.open(name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	target := "/etc/" + name
	for _, dir := range above(target)[1:] {
		if err := ignoreExists(os.Mkdir(newRoot+dir, 0o755)); err != nil {
			return err
		}
	}
	if st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size <= maxCopied {
		from, err := unix.Open(oldRoot+"/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer unix.Close(from)
		return host.copy(from, st.Size, unix.AT_FDCWD, newRoot+target)
	}
	overlaid, err := v.show(target, target)
	if err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	if overlaid {
		if hidden, err := host.hidden(name); err == nil {
			return hideAll(newRoot+"/etc/", hidden)
		}
	}
	return hideUnreadable(newRoot + target)
}

// A hostEtc is the /etc of the host, opened once for all that the cell shows of it.
type hostEtc struct {
	dir     int             // -1 if openEtc has to be used: not everybody may enter /etc, or the kernel does not number mounts
	mount   uint64          // the kernel's number of its mount
	entries map[string]byte // as of entriesIn
	to      int             // the /etc of the new tree; -1 if only showOne can be used
	buffer  []byte          // for one file or directory after the other
}

func openHostEtc() *hostEtc {
	h := &hostEtc{dir: -1, to: -1, buffer: make([]byte, bufferSize)}
	fd, err := unix.Open(oldRoot+"/etc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return h
	}
	h.entries = entriesIn(fd)
	st, err := statMount(fd)
	if err != nil || st.Mode&0o1 == 0 {
		unix.Close(fd)
		return h
	}
	h.dir, h.mount = fd, st.Mnt_id
	h.to, _ = unix.Open(newRoot+"/etc", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return h
}

// statMount returns the type, mode, size and mount of an open file. It fails if the kernel
// does not number mounts.
func statMount(fd int) (st unix.Statx_t, err error) {
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_TYPE|unix.STATX_MODE|unix.STATX_SIZE|unix.STATX_MNT_ID, &st)
	if err == nil && st.Mask&unix.STATX_MNT_ID == 0 {
		err = unix.ENOSYS
	}
	return st, err
}

func (h *hostEtc) close() {
	for _, fd := range []int{h.dir, h.to} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// open does what openEtc does, with fewer system calls if the path has no symlink.
func (h *hostEtc) open(name string) (fd int, st unix.Stat_t, err error) {
	if h.dir < 0 {
		return openEtc(oldRoot, name)
	}
	fd, err = openat2(h.dir, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | noLinks})
	if err == unix.ELOOP {
		return openEtc(oldRoot, name)
	}
	if err != nil {
		return -1, st, err
	}
	err = unix.Fstat(fd, &st)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK { // O_PATH opens the symlink itself
		unix.Close(fd)
		return openEtc(oldRoot, name)
	}
	if err == nil && !(othersRead(st.Mode) && h.othersReach(name)) {
		err = unix.ENOENT
	}
	if err != nil {
		unix.Close(fd)
		return -1, st, err
	}
	return fd, st, nil
}

// othersReach reports whether everybody may enter the directories between /etc and a
// name. The path has no symlink, and everybody may enter /etc.
func (h *hostEtc) othersReach(name string) bool {
	for _, dir := range above("/" + name) {
		var st unix.Stat_t
		if unix.Fstatat(h.dir, dir[1:], &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Mode&0o1 == 0 {
			return false
		}
	}
	return true
}

// An unreadable names a file or directory of /etc that not everybody may read.
type unreadable struct {
	name      string
	directory bool
}

// errOtherMount reports that the overlay may show something else than the host's
// directory.
var errOtherMount = errors.New("something is mounted in it")

// hidden returns the files and directories below a directory that not everybody may read.
// It reads the host's directory, which takes half the time of reading the overlay.
func (h *hostEtc) hidden(dir string) (list []unreadable, err error) {
	if h.dir < 0 {
		return nil, errOtherMount
	}
	fd, err := openat2(h.dir, dir, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | noLinks})
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if st, err := statMount(fd); err != nil || st.Mnt_id != h.mount {
		return nil, errOtherMount
	}
	return h.hiddenIn(fd, dir)
}

// hiddenIn does the same as hidden for an open directory.
func (h *hostEtc) hiddenIn(fd int, dir string) (list []unreadable, err error) {
	var deep []string
	err = eachEntry(fd, h.buffer, func(name string, kind byte) error {
		if kind == unix.DT_LNK {
			return nil
		}
		var st unix.Statx_t
		err := unix.Statx(fd, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_TYPE|unix.STATX_MODE|unix.STATX_MNT_ID, &st)
		if err == unix.ENOENT {
			return nil // it is gone
		}
		if err != nil {
			return err
		}
		if st.Mnt_id != h.mount {
			return errOtherMount
		}
		mode := uint32(st.Mode)
		directory := mode&unix.S_IFMT == unix.S_IFDIR
		switch {
		case mode&unix.S_IFMT == unix.S_IFLNK:
		case !othersRead(mode):
			list = append(list, unreadable{dir + "/" + name, directory})
		case directory:
			deep = append(deep, name)
		}
		return nil
	})
	for _, name := range deep {
		if err != nil {
			return nil, err
		}
		var below []unreadable
		below, err = h.hiddenBelow(fd, dir, name)
		list = append(list, below...)
	}
	return list, err
}

// hiddenBelow does the same as hidden for a directory in an open one.
func (h *hostEtc) hiddenBelow(in int, dir, name string) ([]unreadable, error) {
	fd, err := unix.Openat(in, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return h.hiddenIn(fd, dir+"/"+name)
}

// hideAll mounts an empty file or directory over each one of a list.
func hideAll(in string, list []unreadable) error {
	for _, u := range list {
		nothing := noFile
		if u.directory {
			nothing = noFolder
		}
		if err := unix.Mount(nothing, in+u.name, "", unix.MS_BIND, ""); err != nil && err != unix.ENOENT {
			return err
		}
	}
	return nil
}

// eachEntry calls do for each entry of an open directory, with the type of the entry.
func eachEntry(dir int, buffer []byte, do func(name string, kind byte) error) error {
	for {
		n, err := unix.Getdents(dir, buffer)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return err
		}
		const at = unsafe.Offsetof(unix.Dirent{}.Name)
		for rest := buffer[:n]; len(rest) > int(at); {
			size := int(binary.NativeEndian.Uint16(rest[unsafe.Offsetof(unix.Dirent{}.Reclen):]))
			kind := rest[unsafe.Offsetof(unix.Dirent{}.Type)]
			name := unix.ByteSliceToString(rest[at:size])
			rest = rest[size:]
			if name == "." || name == ".." {
				continue
			}
			if err := do(name, kind); err != nil {
				return err
			}
		}
	}
}

// copy copies at most size bytes of an open file of the host to a new file.
func (h *hostEtc) copy(from int, size int64, dir int, to string) error {
	if size > int64(len(h.buffer)) {
		h.buffer = make([]byte, size)
	}
	data := h.buffer[:size]
	n := 0
	for n < len(data) {
		more, err := unix.Read(from, data[n:])
		if err != nil && err != unix.EINTR {
			return err
		}
		if err == nil && more == 0 {
			break
		}
		n += max(more, 0)
	}
	return writeNewAt(dir, to, data[:n], 0o644)
}

// writeNew writes a file, with fewer system calls than os.WriteFile.
func writeNew(name string, data []byte, mode uint32) error {
	return writeNewAt(unix.AT_FDCWD, name, data, mode)
}

// writeNewAt does the same as writeNew in an open directory.
func writeNewAt(dir int, name string, data []byte, mode uint32) error {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_CLOEXEC, mode)
	if err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		if err != nil && err != unix.EINTR {
			return &fs.PathError{Op: "write", Path: name, Err: err}
		}
		data = data[max(n, 0):]
	}
	return nil
}

// hideUnreadable hides all below a directory that not everybody may read. Without it, the
// owner could read these files, root or not, and so could the members of their group.
func hideUnreadable(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 {
			continue
		}
		at := filepath.Join(dir, e.Name())
		var st unix.Stat_t
		if err := unix.Lstat(at, &st); err != nil {
			continue // it is gone
		}
		directory := st.Mode&unix.S_IFMT == unix.S_IFDIR
		switch {
		case othersRead(st.Mode) && directory:
			err = hideUnreadable(at)
		case othersRead(st.Mode):
		case directory:
			err = unix.Mount(noFolder, at, "", unix.MS_BIND, "")
		default:
			err = unix.Mount(noFile, at, "", unix.MS_BIND, "")
		}
		if err != nil && err != unix.ENOENT {
			return err
		}
	}
	return nil
}

// etcRules returns rules that open the named parts of /etc to commands at the level
// landlock. It opens a directory as a whole if everybody may read all of it, and
// otherwise only the parts of it that everybody may read.
func etcRules(names []string) (rules []fenceRule) {
	var entries map[string]byte
	if dir, err := unix.Open("/etc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
		entries = entriesIn(dir)
		unix.Close(dir)
	}
	for _, name := range expandEtc(entries, names) {
		fd, st, err := openEtc("", name)
		if err != nil {
			continue
		}
		unix.Close(fd)
		at := "/etc/" + name
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			rules = append(rules, fenceRule{Path: at, Access: unix.LANDLOCK_ACCESS_FS_READ_FILE})
			continue
		}
		list, whole := readableBelow(at)
		if whole {
			list = []fenceRule{{Path: at, Access: mayRead}}
		}
		rules = append(rules, list...)
	}
	return rules
}

// readableBelow returns rules for all below a directory that everybody may read, and
// whether that is the whole directory.
func readableBelow(dir string) (rules []fenceRule, whole bool) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, false
	}
	whole = true
	for _, e := range entries {
		at := filepath.Join(dir, e.Name())
		var st unix.Stat_t
		if e.Type()&fs.ModeSymlink != 0 || unix.Lstat(at, &st) != nil {
			continue
		}
		switch {
		case !othersRead(st.Mode):
			whole = false
		case st.Mode&unix.S_IFMT == unix.S_IFDIR:
			below, all := readableBelow(at)
			if all {
				below = []fenceRule{{Path: at, Access: mayRead}}
			}
			rules, whole = append(rules, below...), whole && all
		case st.Mode&unix.S_IFMT == unix.S_IFREG:
			rules = append(rules, fenceRule{Path: at, Access: unix.LANDLOCK_ACCESS_FS_READ_FILE})
		}
	}
	return rules, whole
}
