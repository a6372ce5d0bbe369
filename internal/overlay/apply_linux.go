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
func (o Overlay) Init() error {
	for _, name := range []string{o.Store, o.UpperDir(), o.WorkDir(), o.Store + "/" + oldName} {
		if err := os.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	var st unix.Stat_t
	if err := unix.Stat(o.Dir, &st); err != nil {
		return err
	}
	// The top of an overlay is the layer's.
	if err := os.Chmod(o.UpperDir(), fs.FileMode(permissions(st))); err != nil {
		return err
	}
	return o.MarkStart()
}

// ResetWorkDir makes a store ready for another overlay, where one was mounted and not used:
// the kernel does not take a folder twice for work that need not reach the disk.
func (o Overlay) ResetWorkDir() error {
	if !exists(o.WorkDir() + "/work") {
		return nil
	}
	if err := remove(o.WorkDir()); err != nil {
		return err
	}
	return os.Mkdir(o.WorkDir(), 0o700)
}

// MarkStart says that the work begins now.
func (o Overlay) MarkStart() error { return markTime(o.Store + "/" + clockName) }

// markTime gives a file a time that is later than that of every change before, and
// not later than that of any after. Where the kernel counts in steps it waits for
// the next.
func markTime(name string) error {
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
		now, err := readCtime(f)
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

// markTimeAtomically is stamp for a file that says that something is done: it is there with
// its time, or not at all.
func markTimeAtomically(name string) error {
	if err := markTime(name + ".new"); err != nil {
		return err
	}
	return durable.Move(name+".new", name)
}

func readCtime(f *os.File) (int64, error) {
	var st unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &st)
	return st.Ctim.Nano(), err
}

// readTime reads a stamp.
func readTime(name string) (int64, error) {
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		return 0, fmt.Errorf("%s: %w", path.Base(name), err)
	}
	return st.Ctim.Nano(), nil
}

// Apply brings changes into the real folder, but for those at or below the dropped
// paths and those that never land. Where the folder has changed meanwhile it is a
// Conflict, and nothing is moved.
func (o Overlay) Apply(changes []Change, dropped []string) error {
	if err := o.PrepareApply(changes, dropped); err != nil {
		return err
	}
	if err := o.FinishApply(); err != nil {
		return err
	}
	return o.RemoveStaging()
}

// PrepareApply is the first half of Land: it looks for conflicts and writes down what is
// to be moved. Nothing is moved yet.
func (o Overlay) PrepareApply(changes []Change, dropped []string) error {
	if !canRename(o) {
		if err := o.CheckApply(changes, dropped); err != nil {
			return err
		}
		if err := stage(o, changes, dropped); err != nil {
			remove(stagingOf(o).Store)
			return err
		}
	}
	a, err := openApplier(o)
	if err != nil {
		return err
	}
	defer a.close()
	moves, err := a.planMoves(changes, dropped)
	if err != nil {
		return err
	}
	return writeMoves(o.Store, moves)
}

// FinishApply is the second half of Land. What cannot be moved is an error, and then
// all is as it was. Until Clear it can be aborted.
func (o Overlay) FinishApply() error {
	moves, a, err := resumeApply(o)
	if err != nil {
		return err
	}
	defer a.close()
	for _, m := range moves {
		err := a.makeMove(m)
		if err == nil {
			continue
		}
		if errors.Is(err, errReplaced) {
			err = &ConflictError{[]string{m.Path}}
		} else {
			err = fmt.Errorf("%s: %w", m.Path, err)
		}
		return errors.Join(err, a.abort(moves))
	}
	return a.markApplied()
}

// AbortApply brings back what was moved, if anything was, and forgets what was to be.
// What somebody has changed after it was moved stays, and is told in a Conflict.
func (o Overlay) AbortApply() error {
	if !o.HasMoves() {
		return removeStagingDir(o)
	}
	if o.IsFinal() {
		return ErrCannotUndo
	}
	moves, a, err := resumeApply(o)
	if err != nil {
		return err
	}
	defer a.close()
	return a.abort(moves)
}

// resumeApply opens a layer whose moves are written down.
func resumeApply(o Overlay) ([]move, *applier, error) {
	moves, err := readMoves(o.Store)
	if err != nil {
		return nil, nil, err
	}
	a, err := openApplier(o)
	return moves, a, err
}

// abort is Abort for a list.
func (a *applier) abort(moves []move) error {
	kept, err := a.revertMoves(moves)
	if err != nil {
		return err
	}
	// While there is a list, what it moves is there as well.
	for _, name := range []string{appliedName, movesName} {
		if err := os.Remove(a.Store + "/" + name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return errors.Join(kept, removeStagingDir(a.Overlay))
}

// CheckApply returns the Conflict that Land would meet, nil for none.
func (o Overlay) CheckApply(changes []Change, dropped []string) error {
	a, err := openApplier(o)
	if err != nil {
		return err
	}
	defer a.close()
	_, err = a.planMoves(changes, dropped)
	return err
}

// Recover carries on with what was interrupted, and reports whether there was
// something.
func (o Overlay) Recover() (bool, error) {
	undoing := exists(o.Store+"/"+undoneName+".begun") && !exists(o.Store+"/"+undoneName)
	if exists(o.Store+"/"+appliedName) && !undoing {
		return false, o.RemoveStaging()
	}
	moves, a, err := resumeApply(o)
	if errors.Is(err, fs.ErrNotExist) && moves == nil {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer a.close()
	if undoing {
		return true, a.undoMoves(moves)
	}
	return true, errors.Join(a.finishMoves(moves), o.RemoveStaging())
}

// IsInterrupted reports whether something was interrupted.
func (o Overlay) IsInterrupted() bool {
	begun := exists(o.Store + "/" + movesName)
	undoing := exists(o.Store + "/" + undoneName + ".begun")
	carried := stagingOf(o)
	return begun && (!exists(o.Store+"/"+appliedName) || undoing && !exists(o.Store+"/"+undoneName) || carried != o && exists(carried.Store))
}

// HasMoves reports whether there is a list of moves: some may have been made.
func (o Overlay) HasMoves() bool { return exists(o.Store + "/" + movesName) }

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// IsApplied reports whether changes have landed, and not been undone.
func (o Overlay) IsApplied() bool {
	return exists(o.Store+"/"+appliedName) && !exists(o.Store+"/"+undoneName)
}

// Undo brings back what was there before. Where the folder has changed since, it is
// a Conflict, and nothing is moved.
func (o Overlay) Undo() error {
	if err := o.CheckUndo(); err != nil {
		return err
	}
	moves, a, err := resumeApply(o)
	if err != nil {
		return err
	}
	defer a.close()
	if err := markTime(o.Store + "/" + undoneName + ".begun"); err != nil {
		return err
	}
	return a.undoMoves(moves)
}

// CheckUndo returns the Conflict that Undo would meet, nil for none.
func (o Overlay) CheckUndo() error {
	if o.IsFinal() {
		return ErrCannotUndo
	}
	moves, a, err := resumeApply(o)
	if err != nil {
		return err
	}
	defer a.close()
	since, err := readTime(o.Store + "/" + appliedName)
	if err != nil {
		return err
	}
	var conflict ConflictError
	for _, m := range moves {
		if !a.isUntouched(m, since) {
			conflict.Paths = append(conflict.Paths, m.Path)
		}
	}
	if len(conflict.Paths) > 0 {
		return &conflict
	}
	return nil
}

// opened is a layer with its folders open.
type applier struct {
	Overlay
	dir, upper, old *tree
	lockDir         string   // the folder of the last move
	lockFile        *os.File // the same, nil where it is not locked
}

func openApplier(o Overlay) (*applier, error) {
	a := &applier{Overlay: o}
	var err error
	if a.dir, err = openDir(o); err != nil {
		return nil, err
	}
	for _, t := range []struct {
		to   **tree
		name string
	}{{&a.upper, stagingOf(o).UpperDir()}, {&a.old, stagingOf(o).Store + "/" + oldName}} {
		if *t.to, err = openTree(t.name); err != nil {
			a.close()
			return nil, err
		}
	}
	return a, nil
}

func (a *applier) close() {
	a.lockFile.Close()
	for _, t := range []*tree{a.dir, a.upper, a.old} {
		t.close()
	}
}

// planMoves makes the list, and cleans what comes.
func (a *applier) planMoves(changes []Change, dropped []string) ([]move, error) {
	since, err := readTime(a.Store + "/" + clockName)
	if err != nil {
		return nil, err
	}
	out := newPathSet(dropped)
	for i, c := range changes { // before the folders are looked at that it is in
		if c.NewDir != "" && out.skips(c) {
			if err := a.setAside(c.Path, i); err != nil {
				return nil, err
			}
		}
	}
	var list []move
	var conflict ConflictError
	for i, c := range changes {
		if out.skips(c) {
			continue
		}
		if c.hasNewFile() {
			if err := a.cleanAttributes(c); err != nil {
				return nil, fmt.Errorf("%s: %w", c.Path, err)
			}
		}
		if c.NewDir != "" {
			continue
		}
		m := move{Path: c.Path, Mode: c.Mode, Number: i}
		now, err := a.dir.stat(c.Path)
		switch {
		case err == nil:
			m.OldInode, m.OldMode, m.OldFingerprint = now.Ino, now.Mode&0o7777, fingerprintOf(now)
		case !errors.Is(err, unix.ENOENT):
			conflict.Paths = append(conflict.Paths, c.Path) // the folder it was in is gone
			continue
		}
		if (c.OldKind == Nothing) != (m.OldInode == 0) || m.OldInode != 0 && !a.isOlder(a.dir, c.Path, since, ctimeOf) {
			conflict.Paths = append(conflict.Paths, c.Path)
			continue
		}
		if c.hasNewFile() {
			st, err := a.upper.stat(c.Path)
			if err != nil {
				return nil, err
			}
			m.NewInode, m.NewFingerprint = st.Ino, fingerprintOf(st)
		}
		switch {
		case c.Op == Delete:
			m.Action = moveOut
		case !c.hasNewFile():
			m.Action = changeMode
			m.Mode |= m.OldMode &^ 0o777 // it goes on to say whose group new files are of
		case m.OldInode == 0:
			m.Action = moveIn
		default:
			m.Action = exchange
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
	return slices.DeleteFunc(slices.Clone(changes), newPathSet(dropped).skips)
}

// names are those of things that do not land.
type pathSet map[string]bool

func newPathSet(list []string) pathSet {
	n := make(pathSet, len(list))
	for _, name := range list {
		n[name] = true
	}
	return n
}

// skips reports whether a change does not land: because of what it is, or because
// it is at or below one of the names.
func (n pathSet) skips(c Change) bool {
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

// setAside takes something out of a new folder that comes without it. It may have
// gone with the folder that it was in.
func (a *applier) setAside(name string, i int) error {
	if stagingOf(a.Overlay) != a.Overlay {
		return nil // it was not copied
	}
	if err := os.Mkdir(a.Store+"/"+droppedName, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	to, err := openTree(a.Store + "/" + droppedName)
	if err != nil {
		return err
	}
	defer to.close()
	err = a.upper.withParent(name, func(dir int, base string) error {
		return unix.Renameat(dir, base, to.fd, strconv.Itoa(i))
	})
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// cleanAttributes takes from something what is overlayfs's own, and the bits by which a file
// runs as who owns it.
func (a *applier) cleanAttributes(c Change) error {
	if c.Kind == Symlink {
		return nil
	}
	fd, err := a.upper.open(c.Path, unix.O_RDONLY|unix.O_NONBLOCK)
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
	had := a.oldAttributes(c)
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

// oldAttributes are those that a file or folder had before.
func (a *applier) oldAttributes(c Change) map[string]string {
	if c.OldKind != File && c.OldKind != Dir {
		return nil
	}
	fd, err := a.dir.open(c.Path, unix.O_RDONLY|unix.O_NONBLOCK)
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

// isOlder reports whether nothing at or below a name has changed since a time.
func (a *applier) isOlder(t *tree, name string, since int64, changed func(unix.Stat_t) int64) bool {
	st, err := t.stat(name)
	if err != nil || changed(st) >= since {
		return false
	}
	if kindOf(st) != Dir {
		return true
	}
	names, err := t.list(name)
	if err != nil {
		return false
	}
	for _, base := range names {
		if !a.isOlder(t, path.Join(name, base), since, changed) {
			return false
		}
	}
	return true
}

// isUntouched reports whether what a move has made is still so, and its place free
// for what goes back.
func (a *applier) isUntouched(m move, since int64) bool {
	st, err := a.dir.stat(m.Path)
	switch m.Action {
	case moveOut:
		return errors.Is(err, unix.ENOENT)
	case changeMode:
		return err == nil && st.Ino == m.OldInode && permissions(st) == m.Mode&0o777 && st.Ctim.Nano() < since
	}
	return err == nil && st.Ino == m.NewInode && m.NewFingerprint.matches(st) && a.isOlder(a.dir, m.Path, since, ctimeOf)
}
