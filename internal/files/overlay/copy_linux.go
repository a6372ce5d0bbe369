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

	"github.com/golem-forge/golem/internal/files/durable"
)

// On machines without overlay mounts a session may work on a copy of the directory. The
// versions of all files are recorded when the copy is made, without their contents. Later
// changes of the user do not show in the copy. If the session changed the same file, they
// are conflicts.

// InitCopy makes the store of a copy, and the copy in it. It does not copy the
// directories at the covered paths, at which other directories will be mounted. The copy
// appears as a whole or not at all. InitCopy removes what a killed process left. It calls
// report with its progress, and stops if report returns an error. It returns the paths
// that it could not copy.
func (o Overlay) InitCopy(covered []string, report func(Progress) error) (skipped []SkippedPath, err error) {
	if err := o.Remove(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.Remove())
		}
	}()
	for _, name := range []string{o.Store, o.SessionDir() + ".new", o.Store + "/" + contentsName} {
		if err := os.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	c := &copier{bases: &baseSet{store: o.Store, all: map[string]*version{}}, report: report, covered: map[string]bool{}}
	for _, name := range covered {
		c.covered[path.Clean(name)] = true
	}
	if c.from, err = openDir(o); err != nil {
		return nil, err
	}
	defer c.from.close()
	c.from.noMounts = true
	if c.to, err = openTree(o.SessionDir() + ".new"); err != nil {
		return nil, err
	}
	defer c.to.close()
	if err := c.checkSpace(o.Store); err != nil {
		return nil, err
	}
	if err := c.copyAll(); err != nil {
		return nil, err
	}
	for name := range c.covered {
		if c.bases.all[name] == nil { // MakeMountPoint will make it
			c.bases.put(&version{Path: name, Covered: true})
		}
	}
	data, err := json.Marshal(slices.Sorted(maps.Keys(c.covered)))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(c.bases.flush(), durable.WriteAlone(o.Store+"/"+coveredName, data, 0o600), o.MarkStart()); err != nil {
		return nil, c.spaceError(err)
	}
	// After a power failure, a file that was not synced would look like a change of the
	// session.
	if err := syncAll(o.Store); err != nil {
		return nil, c.spaceError(err)
	}
	return c.skipped, durable.Rename(o.SessionDir()+".new", o.SessionDir())
}

// syncAll syncs the file system of a directory.
func syncAll(name string) error {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Syncfs(fd)
}

// CoveredPaths returns the paths that InitCopy did not copy because other directories
// cover them.
func (o Overlay) CoveredPaths() (list []string, err error) {
	data, err := os.ReadFile(o.Store + "/" + coveredName)
	if err != nil {
		return nil, err
	}
	return list, json.Unmarshal(data, &list)
}

// MakeMountPoint prepares a path of a copy for another directory: it makes an empty
// directory to mount on or, on machines that cannot mount, a symlink to the other
// directory. If a command put something else there, MakeMountPoint renames that. If
// InitCopy copied the path, it stays as it is, and a symlink is an error.
func (o Overlay) MakeMountPoint(name string, link string) error {
	covered, err := o.CoveredPaths()
	if err != nil {
		return err
	}
	if !slices.Contains(covered, name) {
		if link == "" {
			return nil
		}
		return errors.New("the path did not exist when the copy was made; --session new --copy makes another")
	}
	t, err := openTree(o.SessionDir())
	if err != nil {
		return err
	}
	defer t.close()
	now, broken := t.readLink(name)
	if now == link {
		return nil // also if no symlink is wanted and none is there
	}
	err = t.withParent(name, func(dir int, base string) error {
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
	return o.MarkStart() // no command made this change
}

// A copier copies files from one directory to the same paths in another.
type copier struct {
	from, to *tree
	bases    *baseSet        // records what is copied
	covered  map[string]bool // the paths of other directories
	report   func(Progress) error
	progress Progress
	skipped  []SkippedPath
	needed   int64  // bytes of blocks
	store    string // must have that much free space
	cloning  cloneSupport
}

// A cloneSupport says whether files can share their blocks.
type cloneSupport int

const (
	cloneUntried cloneSupport = iota
	cloneWorks
	cloneFails
)

// checkSpace counts what there is to copy, and checks that it fits.
func (c *copier) checkSpace(store string) error {
	c.store = store
	first, err := c.count("")
	if err == nil {
		err = c.addProgress(0, 0)
	}
	if err != nil {
		return err
	}
	if c.tryClone(store+"/"+copyName+".try", first) {
		return nil
	}
	if free, err := freeSpace(store); err == nil && free < c.needed {
		return &NoSpaceError{c.needed, free}
	}
	return nil
}

// spaceError returns a NoSpaceError if err says that the file system is full, otherwise
// err.
func (c *copier) spaceError(err error) error {
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return err
	}
	free, _ := freeSpace(c.store)
	return &NoSpaceError{c.needed, free}
}

// freeSpace returns the number of free bytes, if the file system counts them.
func freeSpace(name string) (int64, error) {
	var st unix.Statfs_t
	err := unix.Statfs(name, &st)
	if err == nil && st.Blocks == 0 {
		err = errors.ErrUnsupported
	}
	return int64(st.Bavail) * st.Bsize, err
}

// count counts the files of a directory, and returns the path of a file with content.
func (c *copier) count(name string) (some string, err error) {
	if err := c.addProgress(0, 0); err != nil {
		return "", err
	}
	names, err := c.from.list(name)
	if err != nil {
		return "", nil // copyEntry will report it
	}
	for _, base := range names {
		at := joinName(name, base)
		st, err := c.from.stat(at)
		if err != nil || len(at) >= maxPath || c.covered[at] {
			continue
		}
		switch kindOf(st) {
		case Dir:
			c.needed += 4096
			more, err := c.count(at)
			if err != nil {
				return "", err
			}
			some = cmp.Or(some, more)
		case File, Symlink:
			c.needed += st.Blocks * 512
			c.progress.TotalFiles++
			c.progress.TotalBytes += dataSize(st)
			c.progress.Size += st.Size
			if st.Size > 0 && kindOf(st) == File {
				some = at
			}
		}
	}
	return some, nil
}

// dataSize is the number of bytes to copy of a file, without holes.
func dataSize(st unix.Stat_t) int64 { return min(st.Size, st.Blocks*512) }

// tryClone reports whether a file can share its blocks with a copy.
func (c *copier) tryClone(at, name string) bool {
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

// clone makes a file share the blocks of another, if the file system can.
func (c *copier) clone(out, in *os.File) bool {
	if c.cloning == cloneFails {
		return false
	}
	if err := unix.IoctlFileClone(int(out.Fd()), int(in.Fd())); err != nil {
		if c.cloning == cloneUntried {
			c.cloning = cloneFails
		}
		return false
	}
	c.cloning = cloneWorks
	return true
}

// addProgress adds to the progress and reports it.
func (c *copier) addProgress(files int, bytes int64) error {
	c.progress.Files += files
	c.progress.Bytes += bytes
	if c.report == nil {
		return nil
	}
	return c.report(c.progress)
}

// copyAll copies the whole directory.
func (c *copier) copyAll() error {
	st, err := c.from.stat("")
	if err != nil {
		return err
	}
	if err := c.copyChildren(""); err != nil {
		return c.spaceError(err)
	}
	return c.setOwnerAndMode("", st)
}

// copyChildren copies the content of a directory.
func (c *copier) copyChildren(name string) error {
	names, err := c.from.list(name)
	if err != nil {
		return err
	}
	for _, base := range names {
		if err := c.copyEntry(joinName(name, base)); err != nil {
			return err
		}
	}
	return nil
}

// copyEntry copies a path with everything in it. It skips paths that vanished, and paths
// that it cannot copy, which it records.
func (c *copier) copyEntry(name string) error {
	st, err := c.from.stat(name)
	if isVanished(err) || err == unix.ENAMETOOLONG {
		return nil
	}
	if err != nil {
		return err
	}
	v := copyVersion(name, st)
	switch {
	case c.covered[name]:
		v.Covered = true
		c.bases.put(v)
		if v.Kind == Dir {
			return c.makeDir(name)
		}
		return nil
	case len(name) >= maxPath:
		return c.skip(v, "its name is too long")
	case v.Kind == File:
		err = c.copyFile(v)
	case v.Kind == Symlink:
		err = c.copyLink(v, st)
	case v.Kind == Dir:
		err = c.copyDir(v, st)
	default:
		return c.skip(v, "a pipe, socket or device")
	}
	switch {
	case isVanished(err):
		return nil
	case errors.Is(err, errUnreadable), errors.Is(err, errMounted):
		return c.skip(v, err.Error())
	}
	var number unix.Errno
	if v.Kind != Dir && errors.As(err, &number) {
		return fmt.Errorf("%s: %w", name, err)
	}
	return err
}

// The reasons why copyEntry skips a path.
var (
	errUnreadable = errors.New("it cannot be read")
	errMounted    = errors.New("another file system is mounted there")
)

// open opens a file to copy.
func (c *copier) open(name string, flags int) (int, error) {
	fd, err := c.from.open(name, unix.O_RDONLY|flags)
	switch err {
	case unix.EACCES, unix.EPERM:
		err = errUnreadable
	case unix.EXDEV:
		err = errMounted
	}
	return fd, err
}

// isVanished reports whether an error means that a file is gone or was replaced.
func isVanished(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, errReplaced)
}

// copyVersion returns the version of a file to copy.
func copyVersion(name string, st unix.Stat_t) *version {
	v := versionOf(name, st, math.MaxInt64)
	v.Since = 0
	return v
}

// skip records that a path is not copied.
func (c *copier) skip(v *version, why string) error {
	v.Skipped = true
	c.bases.put(v)
	c.skipped = append(c.skipped, SkippedPath{v.Path, why})
	return c.addProgress(1, 0)
}

func (c *copier) makeDir(name string) error {
	return c.to.withParent(name, func(dir int, base string) error { return unix.Mkdirat(dir, base, 0o700) })
}

// copyDir copies a directory with everything in it.
func (c *copier) copyDir(v *version, st unix.Stat_t) error {
	fd, err := c.open(v.Path, unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	unix.Close(fd) // it only had to be readable
	if err := c.makeDir(v.Path); err != nil {
		return err
	}
	c.bases.put(v)
	if err := c.copyChildren(v.Path); err != nil {
		return err
	}
	return c.setOwnerAndMode(v.Path, st)
}

// setOwnerAndMode gives a directory the owner and the permission bits of the real one.
func (c *copier) setOwnerAndMode(name string, st unix.Stat_t) error {
	fd, err := c.to.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return errors.Join(chownLike(fd, "", st), unix.Fchmod(fd, permissions(st)))
}

// copyLink copies a symlink as it is.
func (c *copier) copyLink(v *version, st unix.Stat_t) error {
	to, err := c.from.readLink(v.Path)
	if err != nil {
		return err
	}
	v.LinkTarget = []byte(to)
	err = c.to.withParent(v.Path, func(dir int, base string) error {
		if err := unix.Symlinkat(to, dir, base); err != nil {
			return err
		}
		return chownLike(dir, base, st)
	})
	if err != nil {
		return err
	}
	c.bases.put(v)
	return c.addProgress(1, 0)
}

// copyFile copies a file, again if somebody writes to it meanwhile. After three tries it
// keeps the last copy, with an unknown version.
func (c *copier) copyFile(v *version) error {
	for tries := 0; ; tries++ {
		done, err := c.copyOnce(v, tries == 2)
		if err != nil || done {
			return err
		}
		time.Sleep(clockStep)
	}
}

// copyOnce copies a file. It reports whether the copy counts: the file did not change
// meanwhile, or take is true.
func (c *copier) copyOnce(v *version, take bool) (bool, error) {
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
		return false, errors.Join(err, errReplaced)
	}
	var to int
	err = c.to.withParent(v.Path, func(dir int, base string) (err error) {
		to, err = unix.Openat(dir, base, unix.O_CREAT|unix.O_TRUNC|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_RDWR, 0o600)
		return err
	})
	if err != nil {
		return false, err
	}
	out := os.NewFile(uintptr(to), v.Path)
	defer out.Close()
	far := c.progress
	if err := c.copyContent(out, in, before.Size); err != nil {
		return false, err
	}
	*v = *copyVersion(v.Path, before)
	if err := unix.Fstat(fd, &after); err != nil {
		return false, err
	}
	var made unix.Stat_t
	if err := unix.Fstat(to, &made); err != nil {
		return false, err
	}
	if made.Size != before.Size || !v.matches(after, File) || isJustChanged(before.Ctim.Nano(), now.Nano()) {
		if c.progress = far; !take {
			return false, nil
		}
		v.Unknown = true
	}
	times := []unix.Timespec{before.Atim, before.Mtim}
	err = errors.Join(chownLike(to, "", before), unix.Fchmod(to, permissions(before)), c.to.withParent(v.Path, func(dir int, base string) error {
		return unix.UtimesNanoAt(dir, base, times, unix.AT_SYMLINK_NOFOLLOW)
	}), unix.Fstat(to, &made))
	if err != nil {
		return false, err
	}
	v.Copy = copyStampOf(made)
	c.bases.put(v)
	c.progress.Bytes = far.Bytes + dataSize(before)
	return true, c.addProgress(1, 0)
}

// clockStep is how long the copier waits for the kernel's clock of file times to advance.
const clockStep = 10 * time.Millisecond

// maxClockLead is how far the time of a file may be ahead of the clock that the copier
// reads. The kernel can give files a finer time than that clock shows. On a busy virtual
// machine the clock itself stands still for a while.
const maxClockLead = time.Second

// isJustChanged reports whether a file changed in the current step of the kernel's clock. A
// second change in the same step leaves the file with the same time. A time further in
// the future differs from the time of any later change.
func isJustChanged(changed, now int64) bool {
	return changed >= now && changed <= now+int64(maxClockLead)
}

// copyContent copies the content of a file without its holes.
func (c *copier) copyContent(out, in *os.File, size int64) error {
	if size == 0 || c.clone(out, in) {
		return nil
	}
	const part = 32 << 20 // then report progress
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
			return nil // the file became shorter, which copyOnce notices
		}
		if err != nil {
			return err
		}
		if err := c.addProgress(0, n); err != nil {
			return err
		}
		at = end
	}
	return out.Truncate(size)
}
