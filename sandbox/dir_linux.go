package sandbox

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// openDir opens a directory of the host as a backend. It uses openat2, or os.Root if the
// kernel or a seccomp filter refuses openat2.
func openDir(base, source Host) (Backend, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, ".", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: linkFree})
	if err != nil {
		return openRoot(base, source)
	}
	unix.Close(fd)
	return openTree(base, source)
}

// tree is a directory of the host that uses openat2. One system call resolves a whole
// name below the directory, and refuses a symlink in any part of it.
type tree struct {
	top    *os.File // the mount's directory, or the one above it that prefix starts from
	fd     int
	prefix string // path of the mount below top, or "."
	traits Traits
}

const linkFree = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS

func openTree(base, source Host) (*tree, error) {
	dir, prefix, err := findSource(base, source)
	if err != nil {
		return nil, err
	}
	top, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	d := &tree{top: top, fd: int(top.Fd()), prefix: prefix}
	d.traits = Traits{Host: Host(path.Join(dir, prefix)), FoldsCase: foldsCase(d.fd)}
	if fd, err := d.openat2(".", unix.O_PATH|unix.O_DIRECTORY); err == nil {
		unix.Close(fd)
	} else if err != unix.ENOENT || base == "" {
		return nil, sourceError(err)
	}
	return d, nil
}

// openAt returns a backend for an open directory.
func openAt(dir *os.File, t Traits) (Backend, error) {
	d := &tree{top: dir, fd: int(dir.Fd()), prefix: ".", traits: t}
	fd, err := d.openat2(".", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, mountError("", err)
	}
	return d, unix.Close(fd)
}

func (d *tree) Traits() Traits { return d.traits }

// Place implements Placed.
func (d *tree) Place() (Place, error) {
	fd, err := d.openat2(".", unix.O_PATH|unix.O_DIRECTORY)
	if err == unix.ENOENT && d.prefix != "." {
		top, err := placeOf(d.fd, Host(strings.TrimSuffix(strings.TrimSuffix(string(d.traits.Host), d.prefix), "/")))
		return Place{Host: Host(path.Join(string(top.Host), d.prefix))}, err
	}
	if err != nil {
		return Place{}, err
	}
	defer unix.Close(fd)
	return placeOf(fd, d.traits.Host)
}

// placeOf returns the place of an open directory. was is its earlier name.
func placeOf(fd int, was Host) (Place, error) {
	var own unix.Stat_t
	if err := unix.Fstat(fd, &own); err != nil {
		return Place{}, err
	}
	now, _ := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	for _, name := range []string{string(was), now} {
		at, err := unix.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
		if err != nil {
			continue
		}
		var st unix.Stat_t
		err = unix.Fstat(at, &st)
		unix.Close(at)
		if err == nil && st.Dev == own.Dev && st.Ino == own.Ino {
			return Place{Host(name), uint64(own.Dev), own.Ino}, nil
		}
	}
	return Place{}, &Error{Code: ErrConflict, Hint: "the directory was removed on the host, or another one was mounted over it; put it back, or start golem again"}
}

// Format hides the directory from package fmt.
func (d *tree) Format(w fmt.State, verb rune) { d.traits.Host.Format(w, verb) }

// openat2 opens name without following a symlink. It tries again if the kernel asks for
// it, which happens if somebody renames a directory in the path.
func (d *tree) openat2(name string, flags uint64) (int, error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: linkFree}
	if d.prefix != "." {
		name = path.Join(d.prefix, name)
	}
	for range 1000 {
		fd, err := unix.Openat2(d.fd, name, &how)
		switch err {
		case unix.EAGAIN, unix.EINTR:
			continue
		case unix.ELOOP:
			err = ErrLink
		case unix.EXDEV:
			err = ErrOutside
		}
		runtime.KeepAlive(d.top)
		return fd, err
	}
	return -1, unix.EAGAIN
}

// parent opens the directory of name. It returns the directory and the last part of name.
func (d *tree) parent(name string, flags uint64) (int, string, error) {
	if name == "." {
		return -1, "", ErrInvalid
	}
	dir, base := path.Split(name)
	if dir == "" {
		dir = "."
	}
	fd, err := d.openat2(dir, unix.O_DIRECTORY|flags)
	return fd, base, err
}

func (d *tree) Open(name string) (File, error) {
	// O_NONBLOCK makes the open of a pipe without a writer return at once. O_NOCTTY keeps
	// a terminal from becoming the controlling terminal.
	fd, err := d.openat2(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err == unix.EACCES { // a device on a file system that is mounted nodev
		if a, known := d.Lstat(name); known == nil && a.Mode.Type()&(fs.ModeDevice|fs.ModeNamedPipe|fs.ModeSocket) != 0 {
			err = unix.ENXIO
		}
	}
	if err == unix.ENXIO {
		return nil, ErrNotRegular // a socket, or a device without a driver
	}
	if err != nil {
		return nil, err
	}
	attr, err := fstat(fd)
	if err == nil && !attr.Mode.IsRegular() && !attr.Mode.IsDir() {
		err = ErrNotRegular
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return newTreeFile(fd, attr), nil
}

func (d *tree) Lstat(name string) (Attr, error) {
	fd, err := d.openat2(name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return Attr{}, err
	}
	defer unix.Close(fd)
	a, err := fstat(fd)
	if err != nil {
		return Attr{}, err
	}
	if a.Mode&fs.ModeSymlink != 0 {
		buf := make([]byte, maxName+1)
		n, err := unix.Readlinkat(fd, "", buf)
		if err != nil {
			return Attr{}, err
		}
		a.Target = string(buf[:n])
	}
	return a, nil
}

func (d *tree) Write(name string, content io.Reader, how How) (Attr, error) {
	// Only a descriptor that is open for reading can be locked. If the directory cannot
	// be read, it is not locked.
	dir, base, err := d.parent(name, unix.O_RDONLY)
	if err == unix.EACCES {
		dir, base, err = d.parent(name, unix.O_PATH)
	}
	if err != nil {
		return Attr{}, err
	}
	defer unix.Close(dir)
	old, err := statReplaced(dir, base, how)
	if err != nil {
		return Attr{}, err
	}
	perm := uint32(how.perm())
	if old != nil {
		perm = old.Mode & 0o777
	}
	fd, temp, err := createTemp(dir, perm)
	if err != nil {
		return Attr{}, err
	}
	defer unix.Close(fd)
	if err := fillTemp(fd, content, old); err != nil {
		unix.Unlinkat(dir, temp, 0)
		return Attr{}, err
	}
	if err := renameTemp(dir, temp, base, how); err != nil {
		unix.Unlinkat(dir, temp, 0)
		return Attr{}, err
	}
	return fstat(fd)
}

// statReplaced returns the file that a write would replace, nil if there is none. It
// returns an error if the write may not replace it.
func statReplaced(dir int, base string, how How) (*unix.Stat_t, error) {
	var old unix.Stat_t
	switch err := unix.Fstatat(dir, base, &old, unix.AT_SYMLINK_NOFOLLOW); {
	case err == unix.ENOENT && how.If.IsZero():
		return nil, nil
	case err == unix.ENOENT:
		return nil, ErrConflict
	case err != nil:
		return nil, err
	}
	return &old, attrOf(&old).checkReplace(how)
}

// createTemp creates a new file with a random name.
func createTemp(dir int, perm uint32) (fd int, name string, err error) {
	for range 100 {
		name = tempPrefix + strconv.FormatUint(rand.Uint64(), 36)
		fd, err = unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, perm)
		if err != unix.EEXIST && err != unix.EINTR {
			break
		}
	}
	return fd, name, err
}

// fillTemp writes the content, and gives the file the permission bits and the owner of
// the file it replaces. The umask affects only the bits of a new file.
func fillTemp(fd int, content io.Reader, old *unix.Stat_t) error {
	if _, err := io.Copy(fdWriter(fd), content); err != nil {
		return err
	}
	if old == nil {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Uid != old.Uid || st.Gid != old.Gid {
		// Only root can give a file away. If this fails, the file belongs to the current
		// user.
		unix.Fchown(fd, int(old.Uid), int(old.Gid))
	}
	if perm := old.Mode & 0o777; st.Mode&0o7777 != perm {
		return unix.Fchmod(fd, perm)
	}
	return nil
}

// renameTemp gives the finished file its name. If it may replace a file, it locks the
// directory first, so that no other process that uses this package writes between the last
// check of the old file and the rename.
func renameTemp(dir int, temp, base string, how How) error {
	if how.New {
		err := unix.Renameat2(dir, temp, dir, base, unix.RENAME_NOREPLACE)
		if err != unix.EINVAL && err != unix.ENOSYS {
			return err
		}
		if err := unix.Linkat(dir, temp, dir, base, 0); err != nil {
			return err
		}
		return unix.Unlinkat(dir, temp, 0)
	}
	if err := lock(dir); err != nil {
		return err
	}
	if !how.If.IsZero() {
		now, err := statReplaced(dir, base, how)
		if err != nil {
			return err
		}
		if err := how.If.check(attrOf(now), func() (io.ReadCloser, error) { return openIn(dir, base) }); err != nil {
			return err
		}
	}
	return unix.Renameat(dir, temp, dir, base)
}

func openIn(dir int, base string) (io.ReadCloser, error) {
	fd, err := unix.Openat(dir, base, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	attr, err := fstat(fd)
	if err == nil && !attr.Mode.IsRegular() {
		err = ErrConflict // it was a regular file a moment ago
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	f := newTreeFile(fd, attr)
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, 0, math.MaxInt64), f}, nil
}

// lock locks a directory until its descriptor is closed. If another process never releases
// the lock, lock returns an error after some time. If the file system has no such locks, it
// returns nil.
func lock(dir int) error {
	for wait := 20 * time.Microsecond; wait < time.Second/2; wait += wait / 8 {
		err := unix.Flock(dir, unix.LOCK_EX|unix.LOCK_NB)
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			return nil
		}
		time.Sleep(wait)
	}
	return errLocked
}

func (d *tree) Mkdir(name string) error {
	if name == "." {
		return d.makePrefix()
	}
	dir, base, err := d.parent(name, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return unix.Mkdirat(dir, base, 0o777)
}

// makePrefix makes the mount's own directory, part by part, without following a symlink.
func (d *tree) makePrefix() error {
	if d.prefix == "." {
		return unix.EEXIST
	}
	top := &tree{top: d.top, fd: d.fd, prefix: "."}
	err := makeDirs(top, path.Dir(d.prefix))
	if err == nil {
		err = top.Mkdir(d.prefix)
	}
	return err
}

func (d *tree) Rename(from, to string) error {
	fromDir, fromBase, err := d.parent(from, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fromDir)
	toDir, toBase, err := d.parent(to, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(toDir)
	err = renameNew(fromDir, fromBase, toDir, toBase)
	if err == unix.EXDEV { // a directory that is shown through an overlay
		return d.renameParts(from, to)
	}
	return err
}

// renameParts moves a directory that the kernel cannot move as a whole. If it fails, a part
// of the directory has moved.
func (d *tree) renameParts(from, to string) error {
	f, err := d.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	entries, err := f.ReadDir()
	if err != nil {
		return err
	}
	if err := d.Mkdir(to); err != nil {
		return err
	}
	if fd, err := d.openat2(to, unix.O_RDONLY|unix.O_DIRECTORY); err == nil {
		unix.Fchmod(fd, uint32(f.Attr().Mode.Perm()))
		unix.Close(fd)
	}
	for _, e := range entries {
		if err := d.Rename(path.Join(from, e.Name), path.Join(to, e.Name)); err != nil {
			return err
		}
	}
	return d.Remove(from)
}

// renameNew renames a file to a name that must not exist.
func renameNew(fromDir int, fromBase string, toDir int, toBase string) error {
	err := unix.Renameat2(fromDir, fromBase, toDir, toBase, unix.RENAME_NOREPLACE)
	if err != unix.EINVAL && err != unix.ENOSYS {
		return err
	}
	// The file system has no rename that refuses to replace, so check first.
	var there unix.Stat_t
	if err := unix.Fstatat(toDir, toBase, &there, unix.AT_SYMLINK_NOFOLLOW); err != unix.ENOENT {
		if err == nil {
			err = unix.EEXIST
		}
		return err
	}
	return unix.Renameat(fromDir, fromBase, toDir, toBase)
}

func (d *tree) Remove(name string) error {
	dir, base, err := d.parent(name, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	err = unix.Unlinkat(dir, base, 0)
	if err == unix.EISDIR || err == unix.EPERM {
		if asFolder := unix.Unlinkat(dir, base, unix.AT_REMOVEDIR); asFolder != unix.ENOTDIR {
			err = asFolder
		}
	}
	return err
}

// treeFile is an open file descriptor, without the support for blocking files that
// os.File has.
type treeFile struct {
	fd     int
	attr   Attr
	closed atomic.Bool
	users  atomic.Int32 // number of calls that use fd, plus one until Close
}

func newTreeFile(fd int, attr Attr) *treeFile {
	f := &treeFile{fd: fd, attr: attr}
	f.users.Store(1)
	return f
}

func (f *treeFile) Attr() Attr { return f.attr }

// Close closes the file after the last call that uses it. The descriptor is not used
// after that, because the kernel may give its number to another file.
func (f *treeFile) Close() error {
	if f.closed.Swap(true) {
		return fs.ErrClosed
	}
	return f.release()
}

// use reports whether the descriptor may be used. If so, the caller must call release.
func (f *treeFile) use() bool {
	for {
		n := f.users.Load()
		if n == 0 || f.closed.Load() {
			return false
		}
		if f.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (f *treeFile) release() error {
	if f.users.Add(-1) > 0 {
		return nil
	}
	return unix.Close(f.fd)
}

func (f *treeFile) ReadAt(p []byte, off int64) (int, error) {
	if !f.use() {
		return 0, fs.ErrClosed
	}
	defer f.release()
	done := 0
	for done < len(p) {
		n, err := unix.Pread(f.fd, p[done:], off+int64(done))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return done, err
		}
		done += n
		// A short read of a regular file is the end of the file.
		if n == 0 || done < len(p) && off+int64(done) >= f.attr.Size {
			return done, io.EOF
		}
	}
	return done, nil
}

func (f *treeFile) ReadDir() ([]Entry, error) {
	if !f.use() {
		return nil, fs.ErrClosed
	}
	defer f.release()
	var list []Entry
	buf := make([]byte, 32<<10)
	for {
		n, err := unix.Getdents(f.fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return list, nil
		}
		if list, err = f.appendEntries(list, buf[:n]); err != nil {
			return nil, err
		}
	}
}

// appendEntries parses the records of getdents64: eight bytes of inode, eight of offset,
// two of length, one of type, and the name up to a NUL.
func (f *treeFile) appendEntries(list []Entry, buf []byte) ([]Entry, error) {
	const lengthAt, typeAt, nameAt = 16, 18, 19
	for len(buf) > nameAt {
		length := int(buf[lengthAt]) | int(buf[lengthAt+1])<<8
		kind, name := buf[typeAt], buf[nameAt:length]
		buf = buf[length:]
		if i := bytes.IndexByte(name, 0); i >= 0 {
			name = name[:i]
		}
		if len(name) == 1 && name[0] == '.' || len(name) == 2 && name[0] == '.' && name[1] == '.' {
			continue
		}
		e := Entry{string(name), kinds[kind&0xf]}
		if kind == unix.DT_UNKNOWN {
			var st unix.Stat_t
			if err := unix.Fstatat(f.fd, e.Name, &st, unix.AT_SYMLINK_NOFOLLOW); err == unix.ENOENT {
				continue
			} else if err != nil {
				return nil, err
			}
			e.Type = attrOf(&st).Mode.Type()
		}
		list = append(list, e)
	}
	return list, nil
}

type fdWriter int

func (fd fdWriter) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n, err := unix.Write(int(fd), p[done:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}
