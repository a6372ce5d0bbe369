package jail

import (
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/overlay"
)

// A transfer renames a directory of an overlay that the kernel cannot rename. It makes a
// copy beside the new name, gives the copy its name in one step, and then removes the
// original. If it fails, it removes the copy, and the original is as it was. If the cell is
// killed before the copy has its name, the copy stays under a name that
// [overlay.IsUnfinished] knows. If the cell is killed later, the copy is complete.
//
// Most files are copied. A hard link keeps the file with everything, but the kernel syncs a
// file of the real directory when it is linked, which takes much longer. A transfer links
// files that a process has open for writing, and all that it cannot copy exactly.
//
// The command may change both trees meanwhile. The transfer follows no symlink and leaves
// no mount, and a file that changed since it was copied, or that a process has opened for
// writing since, is moved once more.
type transfer struct {
	fromDir  int // the directory that contains the original
	from     string
	toDir    int
	to       string
	flags    uint
	isWanted func() bool // reports whether the command still waits

	temp        string             // the name of the copy in toDir
	began       int64              // files with an earlier ctime have not changed since
	linked      map[[2]uint64]bool // device and inode of files of the original that the copy has links to
	replaced    *unix.Stat_t
	cannotClone bool
}

func (t *transfer) run() error {
	source, err := openIn(t.fromDir, t.from)
	if err != nil {
		return err
	}
	defer unix.Close(source)
	var st unix.Stat_t
	if err := unix.Fstat(source, &st); err != nil {
		return err
	}
	if err := checkOwner(st); err != nil {
		return err
	}
	if err := t.checkTarget(); err != nil {
		return err
	}
	t.temp, t.linked = overlay.UnfinishedPrefix+rand.Text(), make(map[[2]uint64]bool)
	if err := unix.Mkdirat(t.toDir, t.temp, 0o700); err != nil {
		return err
	}
	target, err := openIn(t.toDir, t.temp)
	if err != nil {
		return errors.Join(err, removeTree(t.toDir, t.temp))
	}
	defer unix.Close(target)
	if err = unix.Fstat(target, &st); err == nil {
		t.began = st.Ctim.Nano()
		err = t.copyTree(source, target)
	}
	if err == nil && !t.isWanted() {
		err = unix.EINTR
	}
	if err == nil {
		err = unix.Renameat2(t.toDir, t.temp, t.toDir, t.to, t.flags)
	}
	if err != nil {
		return errors.Join(err, removeTree(t.toDir, t.temp))
	}
	for range 10 { // a command may make files there meanwhile
		if err = t.removeOriginal(source, target); !errors.Is(err, unix.ENOTEMPTY) {
			break
		}
	}
	if err == nil {
		return nil
	}
	// If this fails too, each file is at least at one of the names.
	if t.restore(source, target) != nil {
		return unix.EIO
	}
	return err
}

// checkTarget returns an error if the new name is a directory with content.
func (t *transfer) checkTarget() error {
	var st unix.Stat_t
	if err := unix.Fstatat(t.toDir, t.to, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil
	}
	t.replaced = &st
	fd, err := openIn(t.toDir, t.to)
	if err != nil {
		return nil // the kernel checks it again
	}
	defer unix.Close(fd)
	if names, err := namesIn(fd); err == nil && len(names) > 0 {
		return unix.ENOTEMPTY
	}
	return nil
}

// inTree is how a transfer looks up names in its trees.
const inTree = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// openIn opens a directory in another one.
func openIn(dir int, name string) (int, error) {
	return openat2(dir, name, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: inTree})
}

// namesIn returns the names in a directory.
func namesIn(fd int) ([]string, error) {
	again, err := openIn(fd, ".") // with its own offset
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(again), "directory")
	defer f.Close()
	return f.Readdirnames(-1)
}

// visit calls enter for a directory and all directories below it, the upper first, and
// leave for the same ones in reverse order. enter returns the names of the directories to
// visit. Both get the path below top.
func visit(enter func(name string) ([]string, error), leave func(name string) error) error {
	all := []string{"."}
	for i := 0; i < len(all); i++ {
		names, err := enter(all[i])
		if err != nil {
			return err
		}
		for _, n := range names {
			all = append(all, path.Join(all[i], n))
		}
	}
	for _, name := range slices.Backward(all) {
		if err := leave(name); err != nil {
			return err
		}
	}
	return nil
}

// copyTree copies the content of a directory to another one.
func (t *transfer) copyTree(from, to int) error {
	names := make(map[[2]uint64]string) // a name in the copy for files with several names, by device and inode
	return visit(func(name string) (dirs []string, err error) {
		source, err := openIn(from, name)
		if err != nil {
			return nil, err
		}
		defer unix.Close(source)
		target, err := openIn(to, name)
		if err != nil {
			return nil, err
		}
		defer unix.Close(target)
		list, err := namesIn(source)
		if err != nil {
			return nil, err
		}
		for _, base := range list {
			var st unix.Stat_t
			if err := unix.Fstatat(source, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return nil, err
			}
			switch {
			case st.Mode&unix.S_IFMT == unix.S_IFDIR:
				if err = checkOwner(st); err == nil {
					err = unix.Mkdirat(target, base, 0o700)
				}
				dirs = append(dirs, base)
			case st.Nlink > 1:
				key := [2]uint64{uint64(st.Dev), st.Ino}
				if first, ok := names[key]; ok {
					err = t.linkAgain(source, base, to, first, target)
				} else {
					names[key] = path.Join(name, base)
					err = t.link(source, base, source, base, target)
				}
			default:
				err = t.copyFile(source, base, target, st)
			}
			if err != nil {
				return nil, err
			}
			if !t.isWanted() {
				return nil, unix.EINTR
			}
		}
		return dirs, nil
	}, func(name string) error {
		source, err := openIn(from, name)
		if err != nil {
			return err
		}
		defer unix.Close(source)
		target, err := openIn(to, name)
		if err != nil {
			return err
		}
		defer unix.Close(target)
		var st unix.Stat_t
		if err := unix.Fstat(source, &st); err != nil {
			return err
		}
		return copyAttributes(source, target, st)
	})
}

// checkOwner returns an error for a directory of another user: its copy would have another
// owner.
func checkOwner(st unix.Stat_t) error {
	if int(st.Uid) != os.Geteuid() {
		return unix.EPERM
	}
	return nil
}

// linkAgain gives the copy of a file another name. First is the one that it has below top.
// Two names of a file in the original are also names of one file in the copy.
func (t *transfer) linkAgain(source int, base string, top int, first string, target int) error {
	dir, err := openIn(top, path.Dir(first))
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return t.link(source, base, dir, path.Base(first), target)
}

// link gives a file another name in the directory target: that of the file base in the
// directory source.
func (t *transfer) link(source int, base string, dir int, name string, target int) error {
	if err := unix.Linkat(dir, name, target, base, 0); err != nil {
		return err
	}
	// An overlay gives the new name another inode number.
	var st unix.Stat_t
	if err := unix.Fstatat(source, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	t.linked[[2]uint64{uint64(st.Dev), st.Ino}] = true
	return nil
}

// copyFile makes a copy of a file, or a hard link to it.
func (t *transfer) copyFile(source int, base string, target int, st unix.Stat_t) error {
	err := errLink
	if st.Mode&unix.S_IFMT == unix.S_IFREG && int(st.Uid) == os.Geteuid() && st.Mode&(unix.S_ISUID|unix.S_ISGID) == 0 {
		err = t.copyRegular(source, base, target)
	}
	if err == errLink {
		return t.link(source, base, source, base, target)
	}
	return err
}

// errLink says that a file has to be linked, because a copy could differ.
var errLink = errors.New("not copied")

// copyRegular copies a regular file with its attributes.
func (t *transfer) copyRegular(source int, base string, target int) (err error) {
	in, err := openToCopy(source, base)
	if err != nil {
		return errLink
	}
	defer unix.Close(in)
	var st unix.Stat_t
	if err := unix.Fstat(in, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return errLink
	}
	if hasWriter(in) {
		return errLink
	}
	out, err := unix.Openat(target, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(out)
	err = t.copyContent(in, out, st)
	if err == nil {
		if err = copyAttributes(in, out, st); err != nil && !isFull(err) {
			err = errLink
		}
	}
	if err != nil {
		unix.Unlinkat(target, base, 0)
	}
	return err
}

// openToCopy opens a file for reading without any effect on it.
func openToCopy(dir int, base string) (int, error) {
	return openat2(dir, base, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOFOLLOW | unix.O_NOATIME | unix.O_CLOEXEC, Resolve: inTree})
}

// hasWriter reports whether a process has a regular file open for writing. The kernel
// grants this lease only if none has.
func hasWriter(fd int) bool {
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		return true
	}
	unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
	return false
}

func isFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// copyContent copies the content of a file, and keeps its holes.
func (t *transfer) copyContent(in, out int, st unix.Stat_t) error {
	if st.Size == 0 {
		return nil
	}
	if !t.cannotClone {
		if unix.IoctlFileClone(out, in) == nil {
			return nil
		}
		t.cannotClone = true
	}
	b := make([]byte, min(st.Size, 256<<10))
	for at := int64(0); at < st.Size; {
		from, end := at, st.Size
		if st.Blocks*512 < st.Size { // it may have holes
			var err error
			if from, err = unix.Seek(in, at, unix.SEEK_DATA); err == unix.ENXIO {
				break
			} else if err == nil {
				end, err = unix.Seek(in, from, unix.SEEK_HOLE)
			}
			if err != nil {
				return err
			}
		}
		for at = from; at < end; {
			if !t.isWanted() {
				return unix.EINTR
			}
			n, err := unix.Pread(in, b[:min(int64(len(b)), end-at)], at)
			if err != nil {
				return err
			}
			if n == 0 {
				return errLink // it is shorter now
			}
			for rest := b[:n]; len(rest) > 0; {
				n, err := unix.Pwrite(out, rest, at)
				if err != nil {
					return err
				}
				if n == 0 {
					return io.ErrShortWrite
				}
				rest, at = rest[n:], at+int64(n)
			}
		}
	}
	return unix.Ftruncate(out, st.Size)
}

// copyAttributes gives an open file the group, extended attributes, mode and times of
// another one.
func copyAttributes(from, to int, st unix.Stat_t) error {
	var now unix.Stat_t
	if err := unix.Fstat(to, &now); err != nil {
		return err
	}
	if now.Gid != st.Gid {
		if err := unix.Fchown(to, -1, int(st.Gid)); err != nil {
			return err
		}
	}
	has, err := attributesOf(to)
	if err != nil {
		return err
	}
	want, err := attributesOf(from)
	if err != nil {
		return err
	}
	for name := range has {
		if _, ok := want[name]; !ok && !strings.HasPrefix(name, "security.") {
			if err := unix.Fremovexattr(to, name); err != nil { // inherited from the directory above
				return err
			}
		}
	}
	for name, value := range want {
		if has[name] == value {
			continue
		}
		err := unix.Fsetxattr(to, name, []byte(value), 0)
		if err != nil && !(st.Mode&unix.S_IFMT == unix.S_IFDIR && strings.HasPrefix(name, "security.")) {
			return err
		}
	}
	if err := unix.Fchmod(to, st.Mode&0o7777); err != nil {
		return err
	}
	return setTimes(to, timesOf(st))
}

// attributesOf returns the extended attributes of an open file.
func attributesOf(fd int) (map[string]string, error) {
	size, err := unix.Flistxattr(fd, nil)
	if err == unix.EOPNOTSUPP || err == nil && size == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list := make([]byte, size)
	if size, err = unix.Flistxattr(fd, list); err != nil {
		return nil, err
	}
	all := make(map[string]string)
	for name := range strings.SplitSeq(string(list[:size]), "\x00") {
		if name == "" { // after the last one; an overlay counts attributes of its own and does not list them
			continue
		}
		size, err := unix.Fgetxattr(fd, name, nil)
		if err != nil {
			return nil, err
		}
		value := make([]byte, size)
		if size, err = unix.Fgetxattr(fd, name, value); err != nil {
			return nil, err
		}
		all[name] = string(value[:size])
	}
	return all, nil
}
