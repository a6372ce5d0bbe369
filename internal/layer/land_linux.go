package layer

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A move brings one thing to its place. It is written down with what it moves, by
// the kernel's numbers, so that whoever reads the list later sees whether it has
// been made: it is made once, however often it is tried.
type move struct {
	Path string
	Do   deed
	New  uint64 // the inode that comes, 0 for none
	Old  uint64 // the one that goes
	Mode uint32
	Was  uint32 // the mode before
	N    int    // what goes is kept as the n-th
}

// A deed is a kind of move.
type deed string

const (
	put   deed = "put"   // to a place where nothing is
	swap  deed = "swap"  // for what is there, which is kept where it came from
	take  deed = "take"  // away, and keep it
	chmod deed = "chmod" // nothing moves
)

// Begin makes a store, and says when the work on it began.
func (l Layer) Begin() error {
	for _, name := range []string{l.Store, l.Upper(), l.Work(), l.Store + "/" + oldName} {
		if err := os.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	var st unix.Stat_t
	if err := unix.Stat(l.Folder, &st); err != nil {
		return err
	}
	// The top of an overlay is the layer's.
	if err := os.Chmod(l.Upper(), fs.FileMode(bits(st))); err != nil {
		return err
	}
	return l.Stamp()
}

// Again makes a store ready for another overlay, where one was mounted and not used:
// the kernel does not take a folder twice for work that need not reach the disk.
func (l Layer) Again() error {
	if !there(l.Work() + "/work") {
		return nil
	}
	if err := remove(l.Work()); err != nil {
		return err
	}
	return os.Mkdir(l.Work(), 0o700)
}

// Stamp says that the work begins now.
func (l Layer) Stamp() error { return stamp(l.Store + "/" + clockName) }

// stamp gives a file a time that is later than that of every change before, and
// not later than that of any after. Where the kernel counts in steps it waits for
// the next.
func stamp(name string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	// The first change has the time of the last step, which others before it may have
	// too; one that comes after somebody has looked has a later one.
	var first int64
	for {
		if err := f.Chmod(0o600); err != nil {
			return err
		}
		now, err := ctime(f)
		if err != nil || first != 0 && now > first {
			return err
		}
		if first == 0 {
			first = now
			continue
		}
		time.Sleep(time.Millisecond)
	}
}

func ctime(f *os.File) (int64, error) {
	var st unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &st)
	return st.Ctim.Nano(), err
}

// stampOf reads a stamp.
func stampOf(name string) (int64, error) {
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		return 0, fmt.Errorf("%s: %w", path.Base(name), err)
	}
	return st.Ctim.Nano(), nil
}

// Land brings changes into the real folder, but for those at or below the dropped
// paths and those that never land. Where the folder has changed meanwhile it is a
// Conflict, and nothing is moved.
func (l Layer) Land(changes []Change, dropped []string) error {
	o, err := l.openAll()
	if err != nil {
		return err
	}
	defer o.close()
	moves, err := o.moves(changes, dropped)
	if err != nil {
		return err
	}
	if err := l.writeMoves(moves); err != nil {
		return err
	}
	return o.finish(moves)
}

// Check returns the Conflict that Land would meet, nil for none.
func (l Layer) Check(changes []Change, dropped []string) error {
	o, err := l.openAll()
	if err != nil {
		return err
	}
	defer o.close()
	_, err = o.moves(changes, dropped)
	return err
}

// Recover carries on with what was interrupted, and reports whether there was
// something.
func (l Layer) Recover() (bool, error) {
	moves, err := l.readMoves()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	o, err := l.openAll()
	if err != nil {
		return false, err
	}
	defer o.close()
	switch {
	case there(l.Store+"/"+undoneName+".begun") && !there(l.Store+"/"+undoneName):
		return true, o.unfinish(moves)
	case !there(l.Store + "/" + landedName):
		return true, o.finish(moves)
	}
	return false, nil
}

// Pending reports whether something was interrupted.
func (l Layer) Pending() bool {
	begun := there(l.Store + "/" + movesName)
	undoing := there(l.Store + "/" + undoneName + ".begun")
	return begun && (!there(l.Store+"/"+landedName) || undoing && !there(l.Store+"/"+undoneName))
}

func there(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// Landed reports whether changes have landed, and not been undone.
func (l Layer) Landed() bool {
	return there(l.Store+"/"+landedName) && !there(l.Store+"/"+undoneName)
}

// Undo brings back what was there before. Where the folder has changed since, it is
// a Conflict, and nothing is moved.
func (l Layer) Undo() error {
	if err := l.CheckUndo(); err != nil {
		return err
	}
	moves, err := l.readMoves()
	if err != nil {
		return err
	}
	o, err := l.openAll()
	if err != nil {
		return err
	}
	defer o.close()
	if err := stamp(l.Store + "/" + undoneName + ".begun"); err != nil {
		return err
	}
	return o.unfinish(moves)
}

// CheckUndo returns the Conflict that Undo would meet, nil for none.
func (l Layer) CheckUndo() error {
	moves, err := l.readMoves()
	if err != nil {
		return err
	}
	o, err := l.openAll()
	if err != nil {
		return err
	}
	defer o.close()
	since, err := stampOf(l.Store + "/" + landedName)
	if err != nil {
		return err
	}
	var conflict Conflict
	for _, m := range moves {
		if !o.untouched(m, since) {
			conflict.Paths = append(conflict.Paths, m.Path)
		}
	}
	if len(conflict.Paths) > 0 {
		return &conflict
	}
	return nil
}

// opened is a layer with its folders open.
type opened struct {
	Layer
	folder, upper, old tree
}

func (l Layer) openAll() (*opened, error) {
	o := &opened{l, tree{-1}, tree{-1}, tree{-1}}
	var err error
	for _, t := range []struct {
		to   *tree
		name string
	}{{&o.folder, l.Folder}, {&o.upper, l.Upper()}, {&o.old, l.Store + "/" + oldName}} {
		if *t.to, err = openTree(t.name); err != nil {
			o.close()
			return nil, err
		}
	}
	return o, nil
}

func (o *opened) close() {
	for _, t := range []tree{o.folder, o.upper, o.old} {
		if t.fd >= 0 {
			t.close()
		}
	}
}

// moves makes the list, and cleans what comes.
func (o *opened) moves(changes []Change, dropped []string) ([]move, error) {
	since, err := stampOf(o.Store + "/" + clockName)
	if err != nil {
		return nil, err
	}
	var list []move
	var conflict Conflict
	for i, c := range changes {
		if slices.ContainsFunc(dropped, func(d string) bool { return c.Path == d || strings.HasPrefix(c.Path, d+"/") }) || c.Kind == Special {
			if c.In != "" {
				if err := o.aside(c.Path, i); err != nil {
					return nil, err
				}
			}
			continue
		}
		if c.Op != Delete && c.Op != Mode {
			if err := o.clean(c); err != nil {
				return nil, fmt.Errorf("%s: %w", c.Path, err)
			}
		}
		if c.In != "" {
			continue
		}
		m := move{Path: c.Path, Mode: c.Mode, N: i}
		now, err := o.folder.stat(c.Path)
		switch {
		case err == nil:
			m.Old, m.Was = now.Ino, bits(now)
		case !errors.Is(err, unix.ENOENT):
			conflict.Paths = append(conflict.Paths, c.Path) // the folder it was in is gone
			continue
		}
		if (c.Was == Nothing) != (m.Old == 0) || m.Old != 0 && !o.olderThan(o.folder, c.Path, since) {
			conflict.Paths = append(conflict.Paths, c.Path)
			continue
		}
		if c.Op != Delete && c.Op != Mode {
			st, err := o.upper.stat(c.Path)
			if err != nil {
				return nil, err
			}
			m.New = st.Ino
		}
		switch {
		case c.Op == Delete:
			m.Do = take
		case c.Op == Mode:
			m.Do = chmod
		case m.Old == 0:
			m.Do = put
		default:
			m.Do = swap
		}
		list = append(list, m)
	}
	if len(conflict.Paths) > 0 {
		return nil, &conflict
	}
	return list, nil
}

// aside takes something out of a new folder that comes without it. It may have
// gone with the folder that it was in.
func (o *opened) aside(name string, i int) error {
	if err := os.Mkdir(o.Store+"/"+droppedName, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	to, err := openTree(o.Store + "/" + droppedName)
	if err != nil {
		return err
	}
	defer to.close()
	err = o.upper.within(name, func(dir int, base string) error {
		return unix.Renameat(dir, base, to.fd, strconv.Itoa(i))
	})
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// clean takes from something what is overlayfs's own, and the bits by which a file
// runs as who owns it.
func (o *opened) clean(c Change) error {
	if c.Kind == Link {
		return nil
	}
	fd, err := o.upper.open(c.Path, unix.O_RDONLY|unix.O_NONBLOCK)
	if errors.Is(err, unix.ENOENT) && c.In != "" {
		return nil // dropped, with the folder that it was in
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var names [64 << 10]byte
	n, err := unix.Flistxattr(fd, names[:])
	if err != nil && err != unix.EOPNOTSUPP {
		return err
	}
	for name := range strings.SplitSeq(string(names[:max(n, 0)]), "\x00") {
		if strings.HasPrefix(name, "user.overlay.") {
			if err := unix.Fremovexattr(fd, name); err != nil {
				return err
			}
		}
	}
	return unix.Fchmod(fd, c.Mode)
}

// olderThan reports whether nothing at or below a name has changed since a time.
func (o *opened) olderThan(t tree, name string, since int64) bool {
	st, err := t.stat(name)
	if err != nil || st.Ctim.Nano() >= since {
		return false
	}
	if kindOf(st) != Folder {
		return true
	}
	names, err := t.names(name)
	if err != nil {
		return false
	}
	for _, base := range names {
		if !o.olderThan(t, path.Join(name, base), since) {
			return false
		}
	}
	return true
}

// untouched reports whether what a move has made is still so, and its place free
// for what goes back.
func (o *opened) untouched(m move, since int64) bool {
	st, err := o.folder.stat(m.Path)
	switch m.Do {
	case take:
		return errors.Is(err, unix.ENOENT)
	case chmod:
		return err == nil && st.Ino == m.Old && bits(st) == m.Mode && st.Ctim.Nano() < since
	}
	return err == nil && st.Ino == m.New && o.olderThan(o.folder, m.Path, since)
}

// writeMoves writes the list down for good: from here on it will be carried out.
func (l Layer) writeMoves(moves []move) error {
	f, err := os.OpenFile(l.Store+"/"+movesName+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	e := json.NewEncoder(w)
	for _, m := range moves {
		if err := e.Encode(m); err != nil {
			return err
		}
	}
	if err := errors.Join(w.Flush(), f.Sync()); err != nil {
		return err
	}
	if err := os.Rename(l.Store+"/"+movesName+".new", l.Store+"/"+movesName); err != nil {
		return err
	}
	return syncFolder(l.Store)
}

func syncFolder(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

func (l Layer) readMoves() ([]move, error) {
	f, err := os.Open(l.Store + "/" + movesName)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []move
	d := json.NewDecoder(bufio.NewReader(f))
	for d.More() {
		var m move
		if err := d.Decode(&m); err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

// finish makes the moves that are not made yet. One whose place is not as it was
// is left out and told, in a Conflict: the others are made.
func (o *opened) finish(moves []move) error {
	var conflict Conflict
	for _, m := range moves {
		if err := o.make(m); errors.Is(err, errOther) {
			conflict.Paths = append(conflict.Paths, m.Path)
		} else if err != nil {
			return fmt.Errorf("%s: %w", m.Path, err)
		}
	}
	if err := stamp(o.Store + "/" + landedName + ".new"); err != nil {
		return err
	}
	if err := os.Rename(o.Store+"/"+landedName+".new", o.Store+"/"+landedName); err != nil {
		return err
	}
	if err := stamp(o.Store + "/" + landedName); err != nil { // a rename is a change, too
		return err
	}
	remove(o.Work()) // the kernel's, which the user could not remove; it is of no use any more
	if len(conflict.Paths) > 0 {
		return &conflict
	}
	return nil
}

// unfinish makes the moves backwards.
func (o *opened) unfinish(moves []move) error {
	for _, m := range slices.Backward(moves) {
		if err := o.unmake(m); err != nil {
			return fmt.Errorf("%s: %w", m.Path, err)
		}
	}
	return stamp(o.Store + "/" + undoneName)
}

// errOther says that something else stands at a place than was looked at.
var errOther = errors.New("something else is there now")

// make makes a move, unless it is made.
func (o *opened) make(m move) error {
	here, err := o.inode(o.folder, m.Path)
	if err != nil {
		return err
	}
	switch {
	case m.Do == chmod && here == m.Old:
		return o.chmod(m.Path, m.Mode)
	case m.Do == take && here == 0, m.New != 0 && here == m.New:
		return nil
	case here != m.Old:
		return errOther
	}
	return o.folder.within(m.Path, func(dir int, base string) error {
		switch m.Do {
		case take:
			return rename(dir, base, o.old.fd, strconv.Itoa(m.N), unix.RENAME_NOREPLACE)
		case put:
			return o.upper.within(m.Path, func(from int, base string) error { return rename(from, base, dir, base, unix.RENAME_NOREPLACE) })
		}
		return o.upper.within(m.Path, func(from int, base string) error {
			if err := rename(from, base, dir, base, unix.RENAME_EXCHANGE); err != nil {
				return err
			}
			// What came out must be what was looked at.
			if out, err := o.inode(o.upper, m.Path); err == nil && out == m.Old {
				return nil
			}
			if err := rename(from, base, dir, base, unix.RENAME_EXCHANGE); err != nil {
				return err
			}
			return errOther
		})
	})
}

// unmake makes a move backwards, unless that is done.
func (o *opened) unmake(m move) error {
	here, err := o.inode(o.folder, m.Path)
	if err != nil {
		return err
	}
	if m.Do == chmod {
		if here != m.Old {
			return errOther
		}
		return o.chmod(m.Path, m.Was)
	}
	if here == m.Old {
		return nil
	}
	if here != m.New {
		return errOther
	}
	return o.folder.within(m.Path, func(dir int, base string) error {
		switch m.Do {
		case take:
			return rename(o.old.fd, strconv.Itoa(m.N), dir, base, unix.RENAME_NOREPLACE)
		case put:
			return o.upper.within(m.Path, func(to int, base string) error { return rename(dir, base, to, base, unix.RENAME_NOREPLACE) })
		}
		return o.upper.within(m.Path, func(to int, base string) error { return rename(dir, base, to, base, unix.RENAME_EXCHANGE) })
	})
}

// inode returns the number of what is at a name, 0 for nothing.
func (o *opened) inode(t tree, name string) (uint64, error) {
	st, err := t.stat(name)
	if errors.Is(err, unix.ENOENT) {
		return 0, nil
	}
	return st.Ino, err
}

func (o *opened) chmod(name string, mode uint32) error {
	fd, err := o.folder.open(name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fchmod(fd, mode)
}

func rename(from int, name string, to int, new string, flags uint) error {
	return unix.Renameat2(from, name, to, new, flags)
}
