package overlay

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/layers"
)

// A session may have frozen layers between its upperdir and the real directory: see package
// layers. A tree with a stack shows the upperdir and the layers as one upperdir, with the
// whiteouts and opaque directories that it would have. Nothing changes a layer. To remove something
// from one, flatten makes a new layer that takes the place of all.

// openUpper opens the upperdir of a session with the layers below it, or its copy.
func openUpper(o Overlay) (*tree, error) {
	if o.IsCopy {
		return openTree(o.SessionDir())
	}
	below, err := layers.Read(o.Store)
	if err == nil {
		err = below.Begin(o.Store)
	}
	if err != nil {
		return nil, err
	}
	t, err := openTree(o.UpperDir())
	if err != nil {
		return nil, err
	}
	dirs, err := below.Uppers(o.Store)
	if err == nil && len(dirs) > 0 {
		t.stack, err = openStack(slices.Insert(dirs, 0, o.UpperDir()))
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// A stack is an upperdir and the layers below it, from the top.
type stack struct {
	trees  []*tree
	levels map[string]level // of the directories that levelOf was asked for
}

// openStack opens directories as the layers of a stack, the top one first.
func openStack(dirs []string) (*stack, error) {
	s := &stack{levels: make(map[string]level)}
	for _, dir := range dirs {
		t, err := openTree(dir)
		if err != nil {
			s.each((*tree).close)
			return nil, err
		}
		s.trees = append(s.trees, t)
	}
	return s, nil
}

// each calls do for the upperdir and each layer, and forgets what levelOf found.
func (s *stack) each(do func(*tree)) {
	clear(s.levels)
	for _, t := range s.trees {
		do(t)
	}
}

// own returns the upperdir without the layers below it.
func (t *tree) own() *tree {
	if t.stack == nil {
		return t
	}
	clear(t.stack.levels)
	return t.stack.trees[0]
}

// A level says what a directory of a stack consists of.
type level struct {
	trees    []*tree // the upperdir and the layers that have a part of it, from the top
	isOpaque bool    // it hides the real directory
}

// maxLevels is how many directories a stack remembers.
const maxLevels = 4096

// levelOf returns the level of a directory.
func (s *stack) levelOf(name string) (l level, err error) {
	if name == "" || name == "." {
		return level{trees: s.trees}, nil
	}
	if l, ok := s.levels[name]; ok {
		return l, nil
	}
	above, err := s.levelOf(parentName(name))
	if err != nil {
		return l, err
	}
	for _, in := range above.trees {
		st, err := in.stat(name)
		if err == unix.ENOENT {
			continue
		}
		if err != nil {
			return l, err
		}
		kind := kindOf(st)
		if kind != Dir && len(l.trees) == 0 && kind != Nothing {
			return l, unix.ENOTDIR
		}
		if kind != Dir {
			l.isOpaque = true
			break
		}
		if l.trees = append(l.trees, in); isOpaque(name, in) {
			l.isOpaque = true
			break
		}
	}
	if len(l.trees) == 0 {
		return l, unix.ENOENT
	}
	if len(s.levels) >= maxLevels {
		clear(s.levels)
	}
	s.levels[name] = l
	return l, nil
}

// find returns the upperdir or the layer that shows a path, and its state there.
func (s *stack) find(name string) (in *tree, st unix.Stat_t, err error) {
	if name == "" || name == "." {
		st, err = s.trees[0].stat("")
		return s.trees[0], st, err
	}
	l, err := s.levelOf(parentName(name))
	if err != nil {
		return nil, st, err
	}
	for _, in := range l.trees {
		if st, err = in.stat(name); err != unix.ENOENT {
			return in, st, err
		}
	}
	return nil, st, unix.ENOENT
}

// list returns the names in a directory, sorted.
func (s *stack) list(name string) ([]string, error) {
	l, err := s.levelOf(name)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, in := range l.trees {
		names, err := in.list(name)
		if err != nil {
			return nil, err
		}
		all = append(all, names...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// lowest returns the lowest layer with a part of what a path shows. The kernel marks a file that
// it copies from a layer as it marks one from the real directory.
func (s *stack) lowest(name string) *tree {
	lowest := s.trees[0]
	l, _ := s.levelOf(parentName(name))
	for _, in := range l.trees {
		st, err := in.stat(name)
		if err == unix.ENOENT {
			continue
		}
		if err != nil || kindOf(st) == Nothing {
			break
		}
		if lowest = in; kindOf(st) == Dir && isOpaque(name, in) {
			break
		}
	}
	return lowest
}

// hasFrozen reports whether a layer below the upperdir has something at a path, which the
// upperdir only hides.
func (s *stack) hasFrozen(name string) bool {
	if s == nil {
		return false
	}
	_, err := s.trees[0].stat(name)
	return s.count(name) > 1 || err != nil
}

// count returns how many layers have something at a path, with the upperdir.
func (s *stack) count(name string) (n int) {
	l, _ := s.levelOf(parentName(name))
	for _, in := range l.trees {
		if _, err := in.stat(name); err != unix.ENOENT {
			n++
		}
	}
	return n
}

// isDenied reports whether this process was not allowed to access a path.
func (s *stack) isDenied() bool {
	return s != nil && slices.ContainsFunc(s.trees, func(t *tree) bool { return t.isDenied })
}

// isDeep reports whether the stack has so many layers that golem folds them.
func (s *stack) isDeep() bool { return s != nil && len(s.trees) > layers.MaxDepth }

// isOpaque reports whether a directory of an upperdir hides those below it.
func isOpaque(name string, in *tree) bool {
	fd, err := in.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var value [4]byte
	n, err := unix.Fgetxattr(fd, opaqueAttribute, value[:])
	return err == nil && n == 1 && value[0] == 'y'
}

// isMountPoint reports whether something is mounted at a directory, in the mount namespace of
// this process. parent is the directory above it.
func isMountPoint(dir, parent string) bool {
	var ids [2]uint64
	for i, name := range []string{dir, parent} {
		var st unix.Statx_t
		if err := unix.Statx(unix.AT_FDCWD, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_MNT_ID, &st); err != nil {
			return true
		}
		ids[i] = st.Mnt_id
	}
	return ids[0] != ids[1]
}

// servedName is a file in the store that is locked while a service writes to the upperdir. Its
// view cannot be switched to another upperdir.
const servedName = "served"

var errServed = errors.New("a program that a worker started still runs in the session; end it first")

// flatten replaces the frozen layers and the upperdir by one layer, which shows the same, and
// opens it in place of them. So what they hold can be changed, and steps and other sessions
// keep the old layers. The files of the new layer are hard links: nothing writes to the files
// of a layer. Without frozen layers it does nothing. While a service runs, the error is
// errServed, and the caller works above the layers.
func (s *walk) flatten() error {
	if s.upper.stack == nil {
		return nil
	}
	served, err := os.OpenFile(s.Store+"/"+servedName, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer served.Close()
	if err := Lock(served, unix.LOCK_EX, 0); err != nil {
		return errServed
	}
	unchanged := s.picks.unchanged(s.upper)
	if _, err := layers.Freeze(s.Store); err != nil {
		return err
	}
	all, err := openUpper(s.Overlay)
	if err != nil {
		return err
	}
	defer all.close()
	below, err := layers.Fold(s.Store, func(upper, bases, contents string) error {
		to, err := openTree(upper)
		if err != nil {
			return err
		}
		defer to.close()
		return errors.Join((&folding{all.stack, to}).fold(""), s.bases.writeTo(bases, contents))
	})
	if err != nil {
		return fmt.Errorf("fold the layers of the session: %w", err)
	}
	if err := below.Write(s.Store); err != nil {
		return err
	}
	now, err := openTree(layers.Upper(s.Store, below.Layers[0]))
	if err != nil {
		return err
	}
	s.upper.close()
	s.upper = now
	if s.bases, err = readBases(s.Store); err != nil || len(unchanged) == 0 {
		return err
	}
	return s.picks.stamp(unchanged) // a new hard link changes the ctime of a file
}

// writeTo writes all versions to a file, and their contents to a directory.
func (b *baseSet) writeTo(name, contents string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	var list []*version
	for _, p := range b.sortPaths() {
		v := *b.all[p]
		if v.Content > 0 {
			if err := os.Link(b.contentPath(&v), contents+"/"+strconv.Itoa(v.Content)); err != nil {
				v.Content = 0
			}
		}
		list = append(list, &v)
	}
	return writeVersions(f, list)
}

// A folding makes a directory that shows what a stack shows.
type folding struct {
	from *stack
	to   *tree
}

// fold fills a directory, and then gives it its attributes.
func (f *folding) fold(name string) error {
	names, err := f.from.list(name)
	if err != nil {
		return err
	}
	hides := false
	for _, base := range names {
		at := joinName(name, base)
		in, st, err := f.from.find(at)
		if err != nil {
			return err
		}
		hides = hides || kindOf(st) == Nothing
		if kindOf(st) != Dir {
			err = f.link(in, at)
		} else if err = f.to.withParent(at, func(dir int, base string) error { return unix.Mkdirat(dir, base, 0o700) }); err == nil {
			err = f.fold(at)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", base, err)
		}
	}
	if hides && name != "" {
		if err := f.to.markOrigin(name); err != nil {
			return err
		}
	}
	return f.copyAttributes(name)
}

// link makes a hard link of a file. A file that has too many already is copied.
func (f *folding) link(in *tree, name string) error {
	return in.withParent(name, func(from int, base string) error {
		return f.to.withParent(name, func(to int, _ string) error {
			err := unix.Linkat(from, base, to, base, 0)
			var st unix.Stat_t
			if err != unix.EMLINK || unix.Fstatat(from, base, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
				return err
			}
			switch kindOf(st) {
			case Nothing:
				return unix.Mknodat(to, base, unix.S_IFCHR, 0)
			case File:
				return copyFileAt(from, base, to, base, st)
			}
			return err
		})
	})
}

// copyFileAt copies a file to another directory, under another name.
func copyFileAt(from int, old string, to int, base string, st unix.Stat_t) error {
	fd, err := unix.Openat(from, old, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	in := os.NewFile(uintptr(fd), base)
	defer in.Close()
	if fd, err = unix.Openat(to, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600); err != nil {
		return err
	}
	out := os.NewFile(uintptr(fd), base)
	defer out.Close()
	if err := copyFile(out, in, 1<<62); err != nil {
		return err
	}
	if err := unix.Fchmod(fd, permissions(st)); err != nil {
		return err
	}
	return unix.UtimesNanoAt(to, base, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}

// copyAttributes gives a directory the mode, the times and the attributes that the stack shows.
func (f *folding) copyAttributes(name string) error {
	l, err := f.from.levelOf(name)
	if err != nil {
		return err
	}
	st, err := l.trees[0].stat(name)
	if err != nil {
		return err
	}
	fd, err := f.to.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lowest := l.trees[len(l.trees)-1].attributes(name)
	for attribute, value := range l.trees[0].attributes(name) {
		if _, real := lowest[attribute]; attribute != opaqueAttribute && (real || attribute != originAttribute) {
			unix.Fsetxattr(fd, attribute, []byte(value), 0)
		}
	}
	if l.isOpaque {
		if err := unix.Fsetxattr(fd, opaqueAttribute, []byte("y"), 0); err != nil {
			return err
		}
	}
	if err := unix.Fchmod(fd, permissions(st)); err != nil {
		return err
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), []unix.Timespec{st.Atim, st.Mtim}, 0)
}
