package overlay

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/durable"
)

// Where there are no overlays a session may work on a copy of the folder. What the
// folder had is written down when the copy is made, as the versions that things are
// changed from; no content is kept besides. So what the user changes later is not seen
// in the copy, and is a clash where the session has changed the same.

// InitCopy makes the store of a copy, and the copy in it, but for what is at paths where
// other folders will stand. It is there as a whole or not at all; what somebody has left
// who was killed at it is removed. It tells how far it is; an error of who is told ends
// it. It returns what could not be copied.
func (l Overlay) InitCopy(without []string, tell func(Progress) error) (left []SkippedPath, err error) {
	if err := l.Remove(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Remove())
		}
	}()
	for _, name := range []string{l.Store, l.SessionDir() + ".new", l.Store + "/" + textsName} {
		if err := os.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	c := &copier{bases: &bases{store: l.Store, all: map[string]*version{}}, tell: tell, without: map[string]bool{}}
	for _, name := range without {
		c.without[path.Clean(name)] = true
	}
	if c.from, err = l.openFolder(); err != nil {
		return nil, err
	}
	defer c.from.close()
	c.from.stays = true
	if c.to, err = openTree(l.SessionDir() + ".new"); err != nil {
		return nil, err
	}
	defer c.to.close()
	if err := c.room(l.Store); err != nil {
		return nil, err
	}
	if err := c.all(); err != nil {
		return nil, err
	}
	for name := range c.without {
		if c.bases.all[name] == nil { // it will be made
			c.bases.put(&version{Path: name, Covered: true})
		}
	}
	covered, err := json.Marshal(slices.Sorted(maps.Keys(c.without)))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(c.bases.flush(), durable.WriteAlone(l.Store+"/"+coveredName, covered, 0o600), l.MarkStart()); err != nil {
		return nil, c.full(err)
	}
	// After a power failure a file that was not written back would look like a change of
	// the session's.
	if err := syncAll(l.Store); err != nil {
		return nil, c.full(err)
	}
	return c.left, durable.Rename(l.SessionDir()+".new", l.SessionDir())
}

// syncAll writes everything back that is in the file system of a directory.
func syncAll(name string) error {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Syncfs(fd)
}

// CoveredPaths returns the paths that were not copied because other folders would stand
// there.
func (l Overlay) CoveredPaths() (list []string, err error) {
	data, err := os.ReadFile(l.Store + "/" + coveredName)
	if err != nil {
		return nil, err
	}
	return list, json.Unmarshal(data, &list)
}

// MakeMountPoint makes the place in a copy at which another folder stands: an empty folder to
// mount it on, or, where nothing can be mounted, a link to it. What a command has put
// there instead of that link gets another name. A place that was copied stays as it is,
// and can have no link.
func (l Overlay) MakeMountPoint(name string, link string) error {
	covered, err := l.CoveredPaths()
	if err != nil {
		return err
	}
	if !slices.Contains(covered, name) {
		if link == "" {
			return nil
		}
		return errors.New("nothing stood there when the copy was made; --session new --copy makes another")
	}
	t, err := openTree(l.SessionDir())
	if err != nil {
		return err
	}
	defer t.close()
	now, broken := t.link(name)
	if now == link {
		return nil // with no link none is wanted
	}
	err = t.within(name, func(dir int, base string) error {
		how := 0
		if broken != nil {
			how = unix.AT_REMOVEDIR
		}
		err := unix.Unlinkat(dir, base, how)
		for other := base + "~"; err == unix.ENOTEMPTY || err == unix.ENOTDIR || err == unix.EEXIST; other += "~" {
			err = rename(dir, base, dir, other, unix.RENAME_NOREPLACE)
		}
		if err != nil && err != unix.ENOENT {
			return err
		}
		if link == "" {
			return unix.Mkdirat(dir, base, 0o755)
		}
		return unix.Symlinkat(link, dir, base)
	})
	if err != nil {
		return err
	}
	return l.MarkStart() // no call has changed that
}

// A copier copies things from one folder to the same names in another.
type copier struct {
	from, to *tree
	bases    *bases          // notes what is copied
	without  map[string]bool // what other folders will stand at
	tell     func(Progress) error
	far      Progress
	left     []SkippedPath
	needs    int64  // bytes, of blocks
	store    string // where they must be free
	shares   shares
}

// shares says whether files can share their blocks.
type shares int

const (
	untried shares = iota
	can
	cannot
)

// room finds out how much there is to copy, and whether there is room for it.
func (c *copier) room(store string) error {
	c.store = store
	first, err := c.count("")
	if err == nil {
		err = c.say(0, 0)
	}
	if err != nil {
		return err
	}
	if c.shared(store+"/"+copyName+".try", first) {
		return nil
	}
	if free, err := freeAt(store); err == nil && free < c.needs {
		return &NoSpaceError{c.needs, free}
	}
	return nil
}

// full returns the error of a copy for which there was no room after all.
func (c *copier) full(err error) error {
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return err
	}
	free, _ := freeAt(c.store)
	return &NoSpaceError{c.needs, free}
}

// freeAt returns how many bytes are free, as far as the file system counts them.
func freeAt(name string) (int64, error) {
	var st unix.Statfs_t
	err := unix.Statfs(name, &st)
	if err == nil && st.Blocks == 0 {
		err = errors.ErrUnsupported
	}
	return int64(st.Bavail) * st.Bsize, err
}

// count counts what is in a folder, and returns the path of a file with content.
func (c *copier) count(name string) (some string, err error) {
	if err := c.say(0, 0); err != nil {
		return "", err
	}
	names, err := c.from.names(name)
	if err != nil {
		return "", nil // who copies it will tell
	}
	for _, base := range names {
		at := path.Join(name, base)
		st, err := c.from.stat(at)
		if err != nil || len(at) >= maxPath || c.without[at] {
			continue
		}
		switch kindOf(st) {
		case Dir:
			c.needs += 4096
			more, err := c.count(at)
			if err != nil {
				return "", err
			}
			some = cmp.Or(some, more)
		case File, Symlink:
			c.needs += st.Blocks * 512
			c.far.TotalFiles++
			c.far.TotalBytes += weight(st)
			c.far.Size += st.Size
			if st.Size > 0 && kindOf(st) == File {
				some = at
			}
		}
	}
	return some, nil
}

// weight is how many bytes of a file there are to copy.
func weight(st unix.Stat_t) int64 { return min(st.Size, st.Blocks*512) }

// shared tries whether a file shares its blocks with a copy of it.
func (c *copier) shared(at, name string) bool {
	fd, err := c.open(name, unix.O_NONBLOCK)
	if name == "" || err != nil {
		return false
	}
	in := os.NewFile(uintptr(fd), name)
	defer in.Close()
	out, err := os.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return false
	}
	defer os.Remove(at)
	defer out.Close()
	return c.clone(out, in)
}

// clone lets a file share the blocks of another, where that can be.
func (c *copier) clone(out, in *os.File) bool {
	if c.shares == cannot {
		return false
	}
	if err := unix.IoctlFileClone(int(out.Fd()), int(in.Fd())); err != nil {
		if c.shares == untried {
			c.shares = cannot
		}
		return false
	}
	c.shares = can
	return true
}

// say tells that so much more is done.
func (c *copier) say(files int, bytes int64) error {
	c.far.Files += files
	c.far.Bytes += bytes
	if c.tell == nil {
		return nil
	}
	return c.tell(c.far)
}

// all copies what is in the folder.
func (c *copier) all() error {
	st, err := c.from.stat("")
	if err != nil {
		return err
	}
	if err := c.inside(""); err != nil {
		return c.full(err)
	}
	return c.owned("", st)
}

// inside copies what is in a folder.
func (c *copier) inside(name string) error {
	names, err := c.from.names(name)
	if err != nil {
		return err
	}
	for _, base := range names {
		if err := c.thing(path.Join(name, base)); err != nil {
			return err
		}
	}
	return nil
}

// thing copies what is at a name, with all in it. What is not there any more is left
// out, and so is what cannot be copied, which is noted.
func (c *copier) thing(name string) error {
	st, err := c.from.stat(name)
	if gone(err) || err == unix.ENAMETOOLONG {
		return nil
	}
	if err != nil {
		return err
	}
	v := noted(name, st)
	switch {
	case c.without[name]:
		v.Covered = true
		c.bases.put(v)
		if v.Kind == Dir {
			return c.folder(name)
		}
		return nil
	case len(name) >= maxPath:
		return c.leave(v, "its name is too long")
	case v.Kind == File:
		err = c.file(v)
	case v.Kind == Symlink:
		err = c.link(v, st)
	case v.Kind == Dir:
		err = c.whole(v, st)
	default:
		return c.leave(v, "a pipe, socket or device")
	}
	switch {
	case gone(err):
		return nil
	case errors.Is(err, errUnread), errors.Is(err, errMounted):
		return c.leave(v, err.Error())
	}
	var number unix.Errno
	if v.Kind != Dir && errors.As(err, &number) {
		return fmt.Errorf("%s: %w", name, err)
	}
	return err
}

// Why something cannot be copied that others can.
var (
	errUnread  = errors.New("it cannot be read")
	errMounted = errors.New("another file system is mounted there")
)

// open opens something that is to be copied.
func (c *copier) open(name string, flags int) (int, error) {
	fd, err := c.from.open(name, unix.O_RDONLY|flags)
	switch err {
	case unix.EACCES, unix.EPERM:
		err = errUnread
	case unix.EXDEV:
		err = errMounted
	}
	return fd, err
}

// gone reports whether something is not there any more, or something else is.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, errOther)
}

// noted returns the version of something that is copied.
func noted(name string, st unix.Stat_t) *version {
	v := versionOf(name, st, math.MaxInt64)
	v.At = 0
	return v
}

// leave notes that something is not copied.
func (c *copier) leave(v *version, why string) error {
	v.Left = true
	c.bases.put(v)
	c.left = append(c.left, SkippedPath{v.Path, why})
	return c.say(1, 0)
}

// folder makes a folder.
func (c *copier) folder(name string) error {
	return c.to.within(name, func(dir int, base string) error { return unix.Mkdirat(dir, base, 0o700) })
}

// whole copies a folder with all in it.
func (c *copier) whole(v *version, st unix.Stat_t) error {
	fd, err := c.open(v.Path, unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	unix.Close(fd) // it can be read
	if err := c.folder(v.Path); err != nil {
		return err
	}
	c.bases.put(v)
	if err := c.inside(v.Path); err != nil {
		return err
	}
	return c.owned(v.Path, st)
}

// owned gives a folder to who has the real one, with its permission bits.
func (c *copier) owned(name string, st unix.Stat_t) error {
	fd, err := c.to.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return errors.Join(ownedAs(fd, st), unix.Fchmod(fd, bits(st)))
}

// ownedAs gives something that is open to who owns what it was copied from, where
// that can be.
func ownedAs(fd int, st unix.Stat_t) error {
	return owned(func(_ string, uid, gid int) error { return unix.Fchown(fd, uid, gid) }, "", st)
}

// link copies a link as it is.
func (c *copier) link(v *version, st unix.Stat_t) error {
	to, err := c.from.link(v.Path)
	if err != nil {
		return err
	}
	v.To = []byte(to)
	err = c.to.within(v.Path, func(dir int, base string) error {
		if err := unix.Symlinkat(to, dir, base); err != nil {
			return err
		}
		return owned(func(_ string, uid, gid int) error {
			return unix.Fchownat(dir, base, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
		}, "", st)
	})
	if err != nil {
		return err
	}
	c.bases.put(v)
	return c.say(1, 0)
}

// file copies a file. One that somebody writes to is copied again; where there is no
// end of that, what it was changed from is not known.
func (c *copier) file(v *version) error {
	for tries := 0; ; tries++ {
		done, err := c.once(v, tries == 2)
		if err != nil || done {
			return err
		}
		time.Sleep(step)
	}
}

// once copies a file, and reports whether it has stayed the same meanwhile, or is
// taken as it is.
func (c *copier) once(v *version, take bool) (bool, error) {
	fd, err := c.open(v.Path, unix.O_NONBLOCK)
	if err != nil {
		return false, err
	}
	in := os.NewFile(uintptr(fd), v.Path)
	defer in.Close()
	var before, after unix.Stat_t
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now); err != nil {
		return false, err
	}
	if err := unix.Fstat(fd, &before); err != nil || kindOf(before) != File {
		return false, errors.Join(err, errOther)
	}
	var to int
	err = c.to.within(v.Path, func(dir int, base string) (err error) {
		to, err = unix.Openat(dir, base, unix.O_CREAT|unix.O_TRUNC|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_RDWR, 0o600)
		return err
	})
	if err != nil {
		return false, err
	}
	out := os.NewFile(uintptr(to), v.Path)
	defer out.Close()
	far := c.far
	if err := c.content(out, in, before.Size); err != nil {
		return false, err
	}
	*v = *noted(v.Path, before)
	if err := unix.Fstat(fd, &after); err != nil {
		return false, err
	}
	var made unix.Stat_t
	if err := unix.Fstat(to, &made); err != nil {
		return false, err
	}
	if made.Size != before.Size || !v.is(after, File) || justNow(before.Ctim.Nano(), now.Nano()) {
		if c.far = far; !take {
			return false, nil
		}
		v.Unknown = true
	}
	times := []unix.Timespec{before.Atim, before.Mtim}
	err = errors.Join(ownedAs(to, before), unix.Fchmod(to, bits(before)), c.to.within(v.Path, func(dir int, base string) error {
		return unix.UtimesNanoAt(dir, base, times, unix.AT_SYMLINK_NOFOLLOW)
	}), unix.Fstat(to, &made))
	if err != nil {
		return false, err
	}
	v.Own = ownOf(made)
	c.bases.put(v)
	c.far.Bytes = far.Bytes + weight(before)
	return true, c.say(1, 0)
}

// step is how long the copier waits for the kernel's clock of file times to advance.
const step = 10 * time.Millisecond

// ahead is how far the time of a file may be ahead of the clock that the copier reads.
// The kernel can give files a finer time than that clock shows, and on a busy virtual
// machine the clock itself stands still for a while.
const ahead = time.Second

// justNow reports whether a file changed in the current step of the kernel's clock. A
// second change in the same step leaves the file with the same time. A time further in
// the future differs from the time of any later change.
func justNow(changed, now int64) bool { return changed >= now && changed <= now+int64(ahead) }

// content copies what a file holds, and not what it does not: its holes.
func (c *copier) content(out, in *os.File, size int64) error {
	if size == 0 || c.clone(out, in) {
		return nil
	}
	const part = 32 << 20 // after which it is told
	for at := int64(0); at < size; {
		data, end := at, size
		if from, err := unix.Seek(int(in.Fd()), at, unix.SEEK_DATA); err == nil {
			data = from
			if to, err := unix.Seek(int(in.Fd()), data, unix.SEEK_HOLE); err == nil {
				end = min(to, size)
			}
		} else if err == unix.ENXIO {
			break // a hole to the end
		}
		end = min(end, data+part)
		for _, f := range []*os.File{in, out} {
			if _, err := f.Seek(data, io.SeekStart); err != nil {
				return err
			}
		}
		n, err := io.CopyN(out, in, end-data)
		if err == io.EOF {
			return nil // it was made shorter, which will be seen
		}
		if err != nil {
			return err
		}
		if err := c.say(0, n); err != nil {
			return err
		}
		at = end
	}
	return out.Truncate(size)
}
