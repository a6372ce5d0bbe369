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

	"github.com/golem-forge/golem/internal/files/durable"
)

// Init makes the store of an overlay and marks the start of the work on it.
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
	// The top directory of an overlay mount has the mode of the upperdir.
	if err := os.Chmod(o.UpperDir(), fs.FileMode(permissions(st))); err != nil {
		return err
	}
	return o.MarkStart()
}

// ResetWorkDir prepares a store for another mount after one that was not used: the kernel
// refuses to mount a volatile overlay twice with the same workdir.
func (o Overlay) ResetWorkDir() error {
	if !exists(o.WorkDir() + "/work") {
		return nil
	}
	if err := remove(o.WorkDir()); err != nil {
		return err
	}
	return os.Mkdir(o.WorkDir(), 0o700)
}

// MarkStart marks that the work begins now: later changes of files have later times.
func (o Overlay) MarkStart() error { return markTime(o.Store + "/" + clockName) }

// markTime gives a file a time that is later than the time of every earlier change, and
// not later than the time of any later one. The kernel counts file times in steps, so
// markTime waits for the next step.
func markTime(name string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	// The first change gets the time of the current step, which earlier changes may
	// share. A change after somebody read that time gets a later one.
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

// markTimeAtomically is markTime for a file that marks the end of some work: after a
// crash the file is there with its time, or not at all.
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

// readTime returns the time that markTime gave to a file.
func readTime(name string) (int64, error) {
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		return 0, fmt.Errorf("%s: %w", path.Base(name), err)
	}
	return st.Ctim.Nano(), nil
}

// PrepareApply is the first part of applying changes to the real directory. It looks for
// conflicts and writes the list of moves. It moves nothing yet. It skips special files, and
// changes at or below the skipped paths. If the directory changed meanwhile, it returns a
// ConflictError.
func (o Overlay) PrepareApply(changes []PathChange, skipped []string) error {
	if !CanUndo(o) {
		if err := o.checkApply(changes, skipped); err != nil {
			return err
		}
		if err := stage(o, changes, skipped); err != nil {
			remove(stagingOf(o).Store)
			return err
		}
	}
	a, err := openApplier(o)
	if err != nil {
		return err
	}
	defer a.close()
	moves, err := a.planMoves(changes, skipped)
	if err != nil {
		return err
	}
	if err := a.writeBefore(moves); err != nil {
		return err
	}
	return writeMoves(o.Store, movesName, moves)
}

// FinishApply makes the moves that PrepareApply planned. If a file cannot be moved, it
// returns an error and moves everything back. AbortApply can revert it until RemoveStaging,
// which is the last part.
func (o Overlay) FinishApply() error {
	moves, a, err := resumeApply(o)
	if err != nil {
		return err
	}
	defer a.close()
	meter := startMeter(o.Store, phaseFinish, len(moves))
	defer meter.close()
	for _, m := range moves {
		err := a.makeMove(m)
		meter.add()
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

// AbortApply moves everything back that was moved, and removes the list of moves. Files
// that somebody changed after the move stay, and AbortApply lists them in a
// ConflictError.
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

// resumeApply opens an overlay whose list of moves is written.
func resumeApply(o Overlay) ([]move, *applier, error) {
	moves, err := readMoves(o.Store, movesName)
	if err != nil {
		return nil, nil, err
	}
	a, err := openApplier(o)
	return moves, a, err
}

// abort reverts the moves of a list.
func (a *applier) abort(moves []move) error {
	kept, err := a.revertMoves(moves)
	if err != nil {
		return err
	}
	a.renewCopyBases(moves)
	return errors.Join(kept, a.removeMoves())
}

// removeMoves removes the list of moves, which are all reverted.
func (a *applier) removeMoves() error {
	// The staging directory must exist as long as the list of moves does.
	for _, name := range []string{appliedName, movesName} {
		if err := os.Remove(a.Store + "/" + name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return removeStagingDir(a.Overlay)
}

// checkApply returns the ConflictError that PrepareApply would return, or nil.
func (o Overlay) checkApply(changes []PathChange, skipped []string) error {
	a, err := openApplier(o)
	if err != nil {
		return err
	}
	defer a.close()
	_, err = a.planMoves(changes, skipped)
	return err
}

// Recover completes an interrupted apply. It keeps files that somebody changed meanwhile, and
// lists them in a ConflictError, also if it is called again. Undo does not count them as
// applied. If no change was applied, AbortApply may follow.
func (o Overlay) Recover() (err error) {
	var made, unmade []move
	switch {
	case !o.HasMoves():
		return nil
	case exists(o.Store + "/" + appliedName):
		if made, err = readMoves(o.Store, movesName); err == nil {
			unmade, err = readUnmade(o.Store)
		}
	default:
		var a *applier
		if made, a, err = resumeApply(o); err == nil {
			defer a.close()
			made, unmade, err = a.finishMoves(made)
		}
	}
	if err == nil && (len(made) > 0 || len(unmade) == 0) {
		err = o.RemoveStaging()
	}
	if err != nil {
		return err
	}
	var conflict ConflictError
	for _, m := range unmade {
		conflict.Paths = append(conflict.Paths, m.Path)
	}
	return conflict.orNil()
}

// HasMoves reports whether there is a list of moves, some of which may be made.
func (o Overlay) HasMoves() bool { return exists(o.Store + "/" + movesName) }

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// CheckUndo returns a ConflictError if the directory changed since the changes were applied.
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
	return conflict.orNil()
}

// An applier makes and reverts the moves of an overlay. Its directories are open.
type applier struct {
	Overlay
	dir, upper, old *tree
	restored        map[restoredFile]int64
	lockDir         string   // the directory of the last move
	lockFile        *os.File // lockDir, nil if it is not locked
}

func openApplier(o Overlay) (*applier, error) {
	a := &applier{Overlay: o, restored: readRestored(o.Store)}
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

// planMoves returns the moves that apply the changes, and cleans the files that they
// move.
func (a *applier) planMoves(changes []PathChange, skipped []string) ([]move, error) {
	since, err := readTime(a.Store + "/" + clockName)
	if err != nil {
		return nil, err
	}
	isClean, err := inPlaceCleaner(a.Overlay)
	if err != nil {
		return nil, err
	}
	out := pathSet(matchPaths(skipped))
	for i, c := range changes { // before the directories that contain them are checked
		if c.NewDir != "" && out.skips(c) {
			if err := a.setAside(c.Path, i); err != nil {
				return nil, err
			}
		}
	}
	var list []move
	var conflict ConflictError
	meter := startMeter(a.Store, phasePrepare, len(changes))
	defer meter.close()
	for i, c := range changes {
		meter.add()
		if out.skips(c) {
			continue
		}
		if c.hasNewFile() && !isClean(c) {
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
			m.OldInode, m.OldMode, m.OldFingerprint, m.OldTime = now.Ino, now.Mode&0o7777, fingerprintOf(now), now.Ctim.Nano()
		case !errors.Is(err, unix.ENOENT):
			conflict.Paths = append(conflict.Paths, c.Path) // its directory is gone
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
			m.Mode |= m.OldMode &^ 0o777 // keep the set-group-ID and sticky bits
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
	if stagingOf(a.Overlay) == a.Overlay { // otherwise Undo is not possible
		for i, m := range list { // everything in new directories is clean now
			if m.NewInode != 0 {
				list[i].NewDigest = a.upper.digest(m.Path)
			}
		}
	}
	return list, nil
}

// Applicable returns the changes that golem applies: those that are not special files and
// not at or below the skipped paths.
func Applicable(changes []PathChange, skipped []string) []PathChange {
	return slices.DeleteFunc(slices.Clone(changes), pathSet(matchPaths(skipped)).skips)
}

// A pathSet reports whether a path is at or below one that Apply skips.
type pathSet func(name string) bool

// skips reports whether Apply skips a change: it is a special file, or at or below a path
// of the set.
func (n pathSet) skips(c PathChange) bool { return c.Kind == Special || n(c.Path) }

// setAside moves a skipped file out of a new directory that is applied without it. The
// file may be gone with a skipped directory above it.
func (a *applier) setAside(name string, i int) error {
	if stagingOf(a.Overlay) != a.Overlay {
		return nil // stage did not copy it
	}
	if err := os.Mkdir(a.Store+"/"+droppedName, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	to, err := openTree(a.Store + "/" + droppedName)
	if err != nil {
		return err
	}
	defer to.close()
	defer a.upper.dropMarks(0)
	err = a.upper.withParent(name, func(dir int, base string) error {
		return unix.Renameat(dir, base, to.fd, strconv.Itoa(i))
	})
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// cleanAttributes removes the attributes of overlayfs and the set-ID bits.
func (a *applier) cleanAttributes(c PathChange) error {
	if c.Kind == Symlink {
		return nil
	}
	fd, err := a.upper.open(c.Path, unix.O_RDONLY|unix.O_NONBLOCK)
	if errors.Is(err, unix.ENOENT) && c.NewDir != "" {
		return nil // setAside moved it with its directory
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
	var had map[string]string
	if c.OldKind == File || c.OldKind == Dir {
		had = a.dir.attributes(c.Path)
	}
	for name := range strings.SplitSeq(string(names[:max(n, 0)]), "\x00") {
		if !isOwnAttribute(name) {
			continue
		}
		// Nobody was shown attributes and access control lists that the command added or
		// changed, so they become what they were.
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

// isOwnAttribute reports whether an extended attribute is one that users set, or an access
// control list.
func isOwnAttribute(name string) bool {
	return strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "system.posix_acl_")
}

// attributes returns the extended attributes of a file or directory, as far as they can be read.
func (t *tree) attributes(name string) map[string]string {
	fd, err := t.open(name, unix.O_RDONLY|unix.O_NONBLOCK)
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

// attribute returns the value of one extended attribute.
func attribute(fd int, name string) (value string, ok bool) {
	buf := make([]byte, 64<<10)
	n, err := unix.Fgetxattr(fd, name, buf)
	return string(buf[:max(n, 0)]), err == nil
}

// ctimeOf returns when a file, its attributes or its name changed. mtimeOf returns when
// its content changed.
func ctimeOf(_ string, st unix.Stat_t) int64 { return st.Ctim.Nano() }

func mtimeOf(_ string, st unix.Stat_t) int64 { return st.Mtim.Nano() }

// isOlder reports whether nothing at or below a name changed since a time.
func (a *applier) isOlder(t *tree, name string, since int64, changed func(name string, st unix.Stat_t) int64) bool {
	st, err := t.stat(name)
	if err != nil || changed(name, st) >= since {
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
		if !a.isOlder(t, joinName(name, base), since, changed) {
			return false
		}
	}
	return true
}

// isUntouched reports whether the result of a move is unchanged, so that the move can be
// reverted. A result with new times and the same content is unchanged.
func (a *applier) isUntouched(m move, since int64) bool {
	st, err := a.dir.stat(m.Path)
	switch m.Action {
	case moveOut:
		return errors.Is(err, unix.ENOENT)
	case changeMode:
		return err == nil && st.Ino == m.OldInode && permissions(st) == m.Mode&0o777
	}
	return err == nil && (st.Ino == m.NewInode && m.NewFingerprint.matches(st) && a.isOlder(a.dir, m.Path, since, a.ctime) || a.hasNewContent(m))
}

// hasNewContent reports whether the real directory has what the move put there, maybe written
// again by somebody else.
func (a *applier) hasNewContent(m move) bool {
	return m.NewDigest != "" && a.dir.digest(m.Path) == m.NewDigest
}
