package overlay

import (
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

	"github.com/golem-forge/golem/internal/durable"
)

// Init makes a store, and says when the work on it began.
func (l Overlay) Init() error {
	for _, name := range []string{l.Store, l.UpperDir(), l.WorkDir(), l.Store + "/" + oldName} {
		if err := os.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	var st unix.Stat_t
	if err := unix.Stat(l.Dir, &st); err != nil {
		return err
	}
	// The top of an overlay is the layer's.
	if err := os.Chmod(l.UpperDir(), fs.FileMode(bits(st))); err != nil {
		return err
	}
	return l.MarkStart()
}

// ResetWorkDir makes a store ready for another overlay, where one was mounted and not used:
// the kernel does not take a folder twice for work that need not reach the disk.
func (l Overlay) ResetWorkDir() error {
	if !there(l.WorkDir() + "/work") {
		return nil
	}
	if err := remove(l.WorkDir()); err != nil {
		return err
	}
	return os.Mkdir(l.WorkDir(), 0o700)
}

// MarkStart says that the work begins now.
func (l Overlay) MarkStart() error { return stamp(l.Store + "/" + clockName) }

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

// stampWhole is stamp for a file that says that something is done: it is there with
// its time, or not at all.
func stampWhole(name string) error {
	if err := stamp(name + ".new"); err != nil {
		return err
	}
	return durable.Move(name+".new", name)
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

// Apply brings changes into the real folder, but for those at or below the dropped
// paths and those that never land. Where the folder has changed meanwhile it is a
// Conflict, and nothing is moved.
func (l Overlay) Apply(changes []Change, dropped []string) error {
	if err := l.PrepareApply(changes, dropped); err != nil {
		return err
	}
	if err := l.FinishApply(); err != nil {
		return err
	}
	return l.RemoveStaging()
}

// PrepareApply is the first half of Land: it looks for conflicts and writes down what is
// to be moved. Nothing is moved yet.
func (l Overlay) PrepareApply(changes []Change, dropped []string) error {
	if !l.near() {
		if err := l.CheckApply(changes, dropped); err != nil {
			return err
		}
		if err := l.carry(changes, dropped); err != nil {
			remove(l.carried().Store)
			return err
		}
	}
	o, err := l.openAll()
	if err != nil {
		return err
	}
	defer o.close()
	moves, err := o.moves(changes, dropped)
	if err != nil {
		return err
	}
	return l.writeMoves(moves)
}

// FinishApply is the second half of Land. What cannot be moved is an error, and then
// all is as it was. Until Clear it can be aborted.
func (l Overlay) FinishApply() error {
	moves, o, err := l.resume()
	if err != nil {
		return err
	}
	defer o.close()
	for _, m := range moves {
		err := o.make(m)
		if err == nil {
			continue
		}
		if errors.Is(err, errOther) {
			err = &ConflictError{[]string{m.Path}}
		} else {
			err = fmt.Errorf("%s: %w", m.Path, err)
		}
		return errors.Join(err, o.abort(moves))
	}
	return o.settled()
}

// AbortApply brings back what was moved, if anything was, and forgets what was to be.
// What somebody has changed after it was moved stays, and is told in a Conflict.
func (l Overlay) AbortApply() error {
	if !l.HasMoves() {
		return l.clearCarried()
	}
	if l.IsFinal() {
		return ErrCannotUndo
	}
	moves, o, err := l.resume()
	if err != nil {
		return err
	}
	defer o.close()
	return o.abort(moves)
}

// resume opens a layer whose moves are written down.
func (l Overlay) resume() ([]move, *opened, error) {
	moves, err := l.readMoves()
	if err != nil {
		return nil, nil, err
	}
	o, err := l.openAll()
	return moves, o, err
}

// abort is Abort for a list.
func (o *opened) abort(moves []move) error {
	kept, err := o.unmakeAll(moves)
	if err != nil {
		return err
	}
	// While there is a list, what it moves is there as well.
	for _, name := range []string{landedName, movesName} {
		if err := os.Remove(o.Store + "/" + name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return errors.Join(kept, o.clearCarried())
}

// CheckApply returns the Conflict that Land would meet, nil for none.
func (l Overlay) CheckApply(changes []Change, dropped []string) error {
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
func (l Overlay) Recover() (bool, error) {
	undoing := there(l.Store+"/"+undoneName+".begun") && !there(l.Store+"/"+undoneName)
	if there(l.Store+"/"+landedName) && !undoing {
		return false, l.RemoveStaging()
	}
	moves, o, err := l.resume()
	if errors.Is(err, fs.ErrNotExist) && moves == nil {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer o.close()
	if undoing {
		return true, o.unfinish(moves)
	}
	return true, errors.Join(o.finish(moves), l.RemoveStaging())
}

// IsInterrupted reports whether something was interrupted.
func (l Overlay) IsInterrupted() bool {
	begun := there(l.Store + "/" + movesName)
	undoing := there(l.Store + "/" + undoneName + ".begun")
	carried := l.carried()
	return begun && (!there(l.Store+"/"+landedName) || undoing && !there(l.Store+"/"+undoneName) || carried != l && there(carried.Store))
}

// HasMoves reports whether there is a list of moves: some may have been made.
func (l Overlay) HasMoves() bool { return there(l.Store + "/" + movesName) }

func there(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// IsApplied reports whether changes have landed, and not been undone.
func (l Overlay) IsApplied() bool {
	return there(l.Store+"/"+landedName) && !there(l.Store+"/"+undoneName)
}

// Undo brings back what was there before. Where the folder has changed since, it is
// a Conflict, and nothing is moved.
func (l Overlay) Undo() error {
	if err := l.CheckUndo(); err != nil {
		return err
	}
	moves, o, err := l.resume()
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
func (l Overlay) CheckUndo() error {
	if l.IsFinal() {
		return ErrCannotUndo
	}
	moves, o, err := l.resume()
	if err != nil {
		return err
	}
	defer o.close()
	since, err := stampOf(l.Store + "/" + landedName)
	if err != nil {
		return err
	}
	var conflict ConflictError
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
	Overlay
	folder, upper, old *tree
	lockDir            string   // the folder of the last move
	locks              *os.File // the same, nil where it is not locked
}

func (l Overlay) openAll() (*opened, error) {
	o := &opened{Overlay: l}
	var err error
	if o.folder, err = l.openFolder(); err != nil {
		return nil, err
	}
	for _, t := range []struct {
		to   **tree
		name string
	}{{&o.upper, l.carried().UpperDir()}, {&o.old, l.carried().Store + "/" + oldName}} {
		if *t.to, err = openTree(t.name); err != nil {
			o.close()
			return nil, err
		}
	}
	return o, nil
}

func (o *opened) close() {
	o.locks.Close()
	for _, t := range []*tree{o.folder, o.upper, o.old} {
		t.close()
	}
}

// moves makes the list, and cleans what comes.
func (o *opened) moves(changes []Change, dropped []string) ([]move, error) {
	since, err := stampOf(o.Store + "/" + clockName)
	if err != nil {
		return nil, err
	}
	out := namesOf(dropped)
	for i, c := range changes { // before the folders are looked at that it is in
		if c.NewDir != "" && out.drop(c) {
			if err := o.aside(c.Path, i); err != nil {
				return nil, err
			}
		}
	}
	var list []move
	var conflict ConflictError
	for i, c := range changes {
		if out.drop(c) {
			continue
		}
		if c.brings() {
			if err := o.clean(c); err != nil {
				return nil, fmt.Errorf("%s: %w", c.Path, err)
			}
		}
		if c.NewDir != "" {
			continue
		}
		m := move{Path: c.Path, Mode: c.Mode, N: i}
		now, err := o.folder.stat(c.Path)
		switch {
		case err == nil:
			m.Old, m.Was, m.Gone = now.Ino, now.Mode&0o7777, seenOf(now)
		case !errors.Is(err, unix.ENOENT):
			conflict.Paths = append(conflict.Paths, c.Path) // the folder it was in is gone
			continue
		}
		if (c.OldKind == Nothing) != (m.Old == 0) || m.Old != 0 && !o.olderThan(o.folder, c.Path, since, ctimeOf) {
			conflict.Paths = append(conflict.Paths, c.Path)
			continue
		}
		if c.brings() {
			st, err := o.upper.stat(c.Path)
			if err != nil {
				return nil, err
			}
			m.New, m.Came = st.Ino, seenOf(st)
		}
		switch {
		case c.Op == Delete:
			m.Do = take
		case !c.brings():
			m.Do = chmod
			m.Mode |= m.Was &^ 0o777 // it goes on to say whose group new files are of
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

// Applicable returns those of the changes that land, without the dropped paths and what
// is below them, and without what never does.
func Applicable(changes []Change, dropped []string) []Change {
	return slices.DeleteFunc(slices.Clone(changes), namesOf(dropped).drop)
}

// names are those of things that do not land.
type names map[string]bool

func namesOf(list []string) names {
	n := make(names, len(list))
	for _, name := range list {
		n[name] = true
	}
	return n
}

// drop reports whether a change does not land: because of what it is, or because
// it is at or below one of the names.
func (n names) drop(c Change) bool {
	if c.Kind == Special {
		return true
	}
	if len(n) == 0 {
		return false
	}
	for at := c.Path; at != "."; at = path.Dir(at) {
		if n[at] {
			return true
		}
	}
	return false
}

// aside takes something out of a new folder that comes without it. It may have
// gone with the folder that it was in.
func (o *opened) aside(name string, i int) error {
	if o.carried() != o.Overlay {
		return nil // it was not copied
	}
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
	if c.Kind == Symlink {
		return nil
	}
	fd, err := o.upper.open(c.Path, unix.O_RDONLY|unix.O_NONBLOCK)
	if errors.Is(err, unix.ENOENT) && c.NewDir != "" {
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
	had := o.attributes(c)
	for name := range strings.SplitSeq(string(names[:max(n, 0)]), "\x00") {
		if !strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "system.posix_acl_") {
			continue
		}
		// Attributes and access lists that the command has added or changed nobody was
		// shown: they are as they were.
		before, there := had[name]
		if strings.HasPrefix(name, "user.overlay.") || !there {
			err = unix.Fremovexattr(fd, name)
		} else if now, known := attribute(fd, name); !known || now != before {
			err = unix.Fsetxattr(fd, name, []byte(before), 0)
		}
		if err != nil && err != unix.ENODATA && err != unix.EOPNOTSUPP {
			return err
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&0o7777 == c.Mode {
		return err
	}
	return unix.Fchmod(fd, c.Mode)
}

// attributes are those that a file or folder had before.
func (o *opened) attributes(c Change) map[string]string {
	if c.OldKind != File && c.OldKind != Dir {
		return nil
	}
	fd, err := o.folder.open(c.Path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var names [16 << 10]byte
	n, _ := unix.Flistxattr(fd, names[:])
	had := make(map[string]string)
	for name := range strings.SplitSeq(string(names[:max(n, 0)]), "\x00") {
		if value, ok := attribute(fd, name); ok && name != "" {
			had[name] = value
		}
	}
	return had
}

// attribute returns the value of one of a file.
func attribute(fd int, name string) (value string, ok bool) {
	buf := make([]byte, 64<<10)
	n, err := unix.Fgetxattr(fd, name, buf)
	return string(buf[:max(n, 0)]), err == nil
}

// ctimeOf and mtimeOf tell when something has changed: itself or where it stands, and
// what is in it.
func ctimeOf(st unix.Stat_t) int64 { return st.Ctim.Nano() }

func mtimeOf(st unix.Stat_t) int64 { return st.Mtim.Nano() }

// olderThan reports whether nothing at or below a name has changed since a time.
func (o *opened) olderThan(t *tree, name string, since int64, changed func(unix.Stat_t) int64) bool {
	st, err := t.stat(name)
	if err != nil || changed(st) >= since {
		return false
	}
	if kindOf(st) != Dir {
		return true
	}
	names, err := t.names(name)
	if err != nil {
		return false
	}
	for _, base := range names {
		if !o.olderThan(t, path.Join(name, base), since, changed) {
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
		return err == nil && st.Ino == m.Old && bits(st) == m.Mode&0o777 && st.Ctim.Nano() < since
	}
	return err == nil && st.Ino == m.New && m.Came.is(st) && o.olderThan(o.folder, m.Path, since, ctimeOf)
}
