package jail

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxCopied is the size up to which a file of /etc is copied for commands: that is
// quicker than a mount.
const maxCopied = 256 << 10

// expandEtc returns which of some names the /etc below a root has. A * stands for any
// part of the first element.
func expandEtc(root string, names []string) []string {
	var all []string
	if slices.ContainsFunc(names, func(name string) bool { return strings.Contains(name, "*") }) {
		entries, _ := os.ReadDir(root + "/etc")
		for _, e := range entries {
			all = append(all, e.Name())
		}
	}
	var list []string
	for _, name := range names {
		if !strings.Contains(name, "*") {
			list = append(list, name)
			continue
		}
		for _, n := range all {
			if ok, _ := path.Match(name, n); ok {
				list = append(list, n)
			}
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	return slices.DeleteFunc(list, func(name string) bool { // in a directory that is shown
		return slices.ContainsFunc(list, func(o string) bool { return strings.HasPrefix(name, o+"/") })
	})
}

// othersRead reports whether everybody may read a file or directory.
func othersRead(mode uint32) bool {
	if mode&unix.S_IFMT == unix.S_IFDIR {
		return mode&0o5 == 0o5
	}
	return mode&0o4 != 0
}

// openEtc opens a file or directory of the /etc below a root, "" for the host's own, by
// a name that commands may have. One that not everybody may read, or reach, is ENOENT,
// also for root.
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

// othersReach reports whether everybody may enter the directories above what is open,
// wherever symlinks led to.
func othersReach(root string, fd int) bool {
	real, err := os.Readlink(fmt.Sprintf("%s/proc/self/fd/%d", root, fd))
	if err != nil || !strings.HasPrefix(real, root+"/") {
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

// showEtc shows what the host has of some names in /etc.
func (v *systemView) showEtc(names []string) error {
	if err := os.Mkdir(newRoot+"/etc", 0o755); err != nil {
		return err
	}
	for _, name := range expandEtc(oldRoot, names) {
		if err := v.showOne(name); err != nil && err != unix.ENOENT && err != unix.ENOTDIR && err != unix.EACCES && err != unix.ELOOP {
			return &fs.PathError{Op: "show", Path: "/etc/" + name, Err: err}
		}
	}
	return nil
}

func (v *systemView) showOne(name string) error {
	fd, st, err := openEtc(oldRoot, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	target := "/etc/" + name
	for _, dir := range above(target) {
		if err := ignoreExists(os.Mkdir(newRoot+dir, 0o755)); err != nil {
			return err
		}
	}
	if st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size <= maxCopied {
		return copyEtc(fd, st.Size, newRoot+target)
	}
	if err := v.show(target, target); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return hideUnreadable(newRoot + target)
	}
	return nil
}

// copyEtc copies an open file of the host that has a size.
func copyEtc(fd int, size int64, to string) error {
	from, err := unix.Open(fmt.Sprintf("%s/proc/self/fd/%d", oldRoot, fd), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	data := make([]byte, size)
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
	return os.WriteFile(to, data[:n], 0o644)
}

// hideUnreadable covers all below a directory that not everybody may read. Root would
// read it otherwise, who owns it, and so would the members of its group.
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

// etcRules opens what the host has of some names in /etc to commands without a tree of
// their own: a directory as a whole if everybody may read all of it, and otherwise what
// everybody may read of it.
func etcRules(names []string) (rules []fenceRule) {
	for _, name := range expandEtc("", names) {
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
// whether that is all of it. A directory that has something else can only be listed.
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
