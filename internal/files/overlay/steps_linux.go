package overlay

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/durable"
)

// Several overlays can be applied to a directory one after the other, and undone in the
// reverse order. The undo of one restores files that the ones before it have applied. Such
// a file is as it was, but its ctime is new, so the undo writes both times down in the
// older overlays.

const (
	beforeName   = "before"   // the directories around the moves, before the moves
	restoredName = "restored" // the times of what later undos restored
)

// A beforeApply describes the real directory before Apply.
type beforeApply struct {
	Size    int64       // the size of all files that Undo needs
	Parents []dirBefore // the directories in which Apply moves something
}

// A dirBefore is a directory with its times.
type dirBefore struct {
	Path         string
	Mtime, Ctime int64
}

// A restoredTime says that an undo restored a file or directory. While its ctime is After,
// nobody has changed it since Before.
type restoredTime struct {
	restoredFile
	Before int64
}

// A restoredFile is what an undo restored, with its ctime. A path may be restored several
// times, with the files of several steps.
type restoredFile struct {
	Path  string
	Inode uint64
	After int64
}

// writeBefore describes the directories around the moves, and how much they replace.
func (a *applier) writeBefore(moves []move) error {
	var b beforeApply
	known := map[string]bool{".": true}
	for _, m := range moves {
		if m.Action == exchange || m.Action == moveOut {
			b.Size += a.sizeOf(m.Path)
		}
		dir := path.Dir(m.Path)
		if known[dir] {
			continue
		}
		known[dir] = true
		if st, err := a.dir.stat(dir); err == nil {
			b.Parents = append(b.Parents, dirBefore{dir, st.Mtim.Nano(), st.Ctim.Nano()})
		}
	}
	data, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return os.WriteFile(a.Store+"/"+beforeName, data, 0o600) // without it older overlays cannot be undone after this one
}

// sizeOf returns the size of a file, or of all files in a directory.
func (a *applier) sizeOf(name string) (n int64) {
	st, err := a.dir.stat(name)
	switch {
	case err != nil:
		return 0
	case kindOf(st) != Dir:
		return min(st.Size, st.Blocks*512)
	}
	names, _ := a.dir.list(name)
	for _, base := range names {
		n += a.sizeOf(joinName(name, base))
	}
	return n
}

func readBefore(store string) (b beforeApply) {
	data, err := os.ReadFile(store + "/" + beforeName)
	if err != nil || json.Unmarshal(data, &b) != nil {
		return beforeApply{}
	}
	return b
}

// UndoSize returns the size of the files that are kept for Undo.
func UndoSize(o Overlay) int64 { return readBefore(o.Store).Size }

// readRestored reads what undos of later overlays restored.
func readRestored(store string) map[restoredFile]int64 {
	data, err := os.ReadFile(store + "/" + restoredName)
	var list []restoredTime
	if err != nil || json.Unmarshal(data, &list) != nil {
		return nil
	}
	all := make(map[restoredFile]int64, len(list))
	for _, r := range list {
		all[r.restoredFile] = r.Before
	}
	return all
}

// ctime returns when a path of the real directory changed. It does not count that the undo
// of a later overlay restored the path.
func (a *applier) ctime(name string, st unix.Stat_t) int64 {
	if before, ok := a.restored[restoredFile{name, st.Ino, st.Ctim.Nano()}]; ok {
		return before
	}
	return st.Ctim.Nano()
}

// UndoApply reverts an applied overlay as AbortApply does. Afterwards the overlays that
// were applied to the same directory before it can be undone. Moves whose files somebody
// changed stay in the list of moves, with their old files.
func UndoApply(o Overlay, older []Overlay) error {
	if !o.HasMoves() || o.IsFinal() {
		return o.AbortApply()
	}
	moves, a, err := resumeApply(o)
	if err != nil {
		return err
	}
	defer a.close()
	parents, err := a.unchangedParents()
	if err != nil {
		return err
	}
	stayed, err := a.revertUnchanged(moves)
	if err != nil {
		return err
	}
	list := a.restoredTimes(moves, parents)
	for _, before := range older {
		if before.Dir != o.Dir {
			continue
		}
		if err := addRestored(before, list); err != nil {
			return err
		}
	}
	return stayed
}

// revertUnchanged reverts moves, last first, and keeps the list of all of them. It
// lists in a ConflictError those whose files somebody changed after an undo was interrupted.
func (a *applier) revertUnchanged(moves []move) (stayed, err error) {
	since, err := readTime(a.Store + "/" + appliedName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var conflict ConflictError
	var left []move
	for _, m := range slices.Backward(moves) {
		err := error(errReplaced)
		if st, e := a.dir.stat(m.Path); e != nil || since == 0 || m.NewInode == 0 || st.Ino != m.NewInode || kindOf(st) != Dir || a.isUntouched(m, since) {
			err = a.revertMove(m)
		}
		switch {
		case errors.Is(err, errReplaced):
			conflict.Paths, left = append(conflict.Paths, m.Path), append(left, m)
		case err != nil:
			return nil, fmt.Errorf("restore %s: %w", m.Path, err)
		}
	}
	isKnown := exists(a.Store + "/" + revertedName) // an interrupted undo has written it
	if len(left) > 0 {
		if !isKnown {
			if err := writeMoves(a.Store, revertedName, moves); err != nil {
				return nil, err
			}
		}
		slices.Reverse(left)
		return &conflict, writeMoves(a.Store, movesName, left)
	}
	if !isKnown { // a rename works on a full disk, too
		if err := durable.Rename(a.Store+"/"+movesName, a.Store+"/"+revertedName); err != nil {
			return nil, err
		}
	}
	return nil, a.removeMoves()
}

// An undoneApply is what UndoApply has done to the directory of an overlay.
type undoneApply struct {
	since    int64                  // the start of the work on the overlay
	reverted map[string]move        // all moves; those that are left, too
	isLeft   func(name string) bool // the move of the path or of a directory above it is not reverted
}

func readUndone(o Overlay) (u undoneApply, err error) {
	u.reverted = make(map[string]move)
	reverted, err := readMoves(o.Store, revertedName)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	} else if err == nil {
		u.since, err = readTime(o.Store + "/" + clockName)
	}
	for _, m := range reverted {
		u.reverted[m.Path] = m
	}
	u.isLeft = matchPaths(LeftPaths(o))
	return u, err
}

// isChanged reports whether somebody changed what the undo has restored at a path of the
// real directory.
func (u undoneApply) isChanged(real *tree, name string) bool {
	m, ok := u.reverted[name]
	if !ok {
		return false
	}
	st, err := real.stat(name)
	switch {
	case m.OldInode == 0:
		return !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR)
	case err != nil || st.Ino != m.OldInode:
		return true
	case m.Action == changeMode:
		return permissions(st) != m.OldMode&0o777
	case kindOf(st) == Dir:
		return !(&applier{}).isOlder(real, name, u.since, mtimeOf)
	}
	return !m.OldFingerprint.matches(st)
}

// LeftPaths returns the paths that UndoApply did not revert.
func LeftPaths(o Overlay) (paths []string) {
	moves, _ := readMoves(o.Store, movesName)
	for _, m := range moves {
		paths = append(paths, m.Path)
	}
	return paths
}

// EndUndo forgets what UndoApply has reverted, so that the rest can be undone later.
func EndUndo(o Overlay) error {
	err := os.Remove(o.Store + "/" + revertedName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// unchangedParents returns the directories around the moves that nobody else has changed
// since the moves were made.
func (a *applier) unchangedParents() (list []dirBefore, err error) {
	since, err := readTime(a.Store + "/" + appliedName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // an earlier undo was interrupted
	}
	if err != nil {
		return nil, err
	}
	for _, d := range readBefore(a.Store).Parents {
		if st, err := a.dir.stat(d.Path); err == nil && a.ctime(d.Path, st) < since {
			list = append(list, d)
		}
	}
	return list, nil
}

// restoredTimes gives the parents their old modification times, and returns the times of
// everything that was restored.
func (a *applier) restoredTimes(moves []move, parents []dirBefore) (list []restoredTime) {
	a.dir.closeLast()
	for _, d := range parents {
		times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(d.Mtime)}
		err := a.dir.withParent(d.Path, func(dir int, base string) error {
			return unix.UtimesNanoAt(dir, base, times, unix.AT_SYMLINK_NOFOLLOW)
		})
		if st, e := a.dir.stat(d.Path); err == nil && e == nil && kindOf(st) == Dir {
			list = append(list, restoredTime{restoredFile{d.Path, st.Ino, st.Ctim.Nano()}, d.Ctime})
		}
	}
	for _, m := range moves {
		st, err := a.dir.stat(m.Path)
		if err != nil || m.OldInode == 0 || st.Ino != m.OldInode || m.OldTime == 0 {
			continue
		}
		if m.Action == changeMode && permissions(st) == m.OldMode&0o777 || m.Action != changeMode && m.OldFingerprint.matches(st) {
			list = append(list, restoredTime{restoredFile{m.Path, st.Ino, st.Ctim.Nano()}, m.OldTime})
		}
	}
	return list
}

// addRestored adds the times of paths that matter for the undo of the overlay.
func addRestored(o Overlay, list []restoredTime) error {
	isMoved, around := matchPaths(LeftPaths(o)), map[string]bool{}
	for _, d := range readBefore(o.Store).Parents {
		around[d.Path] = true
	}
	earlier, changed := readRestored(o.Store), false
	all := map[restoredFile]int64{}
	maps.Copy(all, earlier)
	for _, r := range list {
		if !isMoved(r.Path) && !around[r.Path] {
			continue
		}
		if before, ok := earlier[restoredFile{r.Path, r.Inode, r.Before}]; ok {
			r.Before = before
		}
		all[r.restoredFile], changed = r.Before, true
	}
	if !changed {
		return nil
	}
	list = nil
	for file, before := range all {
		list = append(list, restoredTime{file, before})
	}
	data, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return durable.WriteAlone(o.Store+"/"+restoredName, data, 0o600)
}
