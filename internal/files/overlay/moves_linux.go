package overlay

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/durable"
)

// A move puts one file or directory in its place. It names what it moves by inode, so
// that a later reader of the list can see whether the move is made. Making a move twice
// does no harm.
type move struct {
	Path           string
	Action         action
	NewInode       uint64 // the inode of the new file, 0 for none
	OldInode       uint64 // the inode of the old file, 0 for none
	Mode           uint32
	OldMode        uint32
	Number         int         `json:",omitzero"`  // the name of a deleted file in the directory of old files
	NewFingerprint fingerprint `json:",omitzero"`  // the new file when the move was planned
	NewDigest      string      `json:",omitempty"` // the digest of the new file or directory, "" if it is not known
	OldFingerprint fingerprint `json:",omitzero"`  // the old file when the move was planned
	OldTime        int64       `json:",omitzero"`  // its ctime
}

// A fingerprint changes if a process writes to a file. It stays the same if the file is
// moved.
type fingerprint struct{ Time, Size int64 }

func fingerprintOf(st unix.Stat_t) fingerprint { return fingerprint{st.Mtim.Nano(), st.Size} }

// matches reports whether a file still has the fingerprint. The size of a directory says
// nothing: some file systems never make a directory smaller.
func (s fingerprint) matches(st unix.Stat_t) bool {
	now := fingerprintOf(st)
	return s.Time == now.Time && (s.Size == now.Size || kindOf(st) == Dir)
}

// An action is a kind of move.
type action string

const (
	moveIn     action = "put"   // to a path where nothing is
	exchange   action = "swap"  // with the old file, which is kept at the path that the new one came from
	moveOut    action = "take"  // to the directory of old files
	changeMode action = "chmod" // moves nothing
)

// writeMoves writes a list of moves to disk. If it is movesName, Recover completes the moves
// from now on.
func writeMoves(store, name string, moves []move) error {
	f, err := os.OpenFile(store+"/"+name+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := errors.Join(WriteLines(f, moves), f.Sync()); err != nil {
		return err
	}
	// The list must reach the disk before the first move does.
	return durable.Rename(store+"/"+name+".new", store+"/"+name)
}

func readMoves(store, name string) ([]move, error) { return ReadLines[move](store + "/" + name) }

// WriteLines writes each element of a list as a line of JSON.
func WriteLines[T any](to io.Writer, list []T) error {
	w := bufio.NewWriter(to)
	e := json.NewEncoder(w)
	for _, one := range list {
		if err := e.Encode(one); err != nil {
			return err
		}
	}
	return w.Flush()
}

// ReadLines reads a file with a list that WriteLines wrote.
func ReadLines[T any](name string) (list []T, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for d := json.NewDecoder(bufio.NewReader(f)); d.More(); {
		var one T
		if err := d.Decode(&one); err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

// finishMoves makes the moves that are not made yet, and marks them as made. If something else
// is at the path of a move now, it takes the move out of the list, and returns it among unmade.
func (a *applier) finishMoves(moves []move) (made, unmade []move, err error) {
	since, err := readTime(a.Store + "/" + clockName)
	if err != nil {
		return nil, nil, err
	}
	listed := make(map[string]bool)
	for _, m := range moves {
		listed[m.Path] = true
		err := error(errReplaced)
		if !a.isModifiedDir(m, since) {
			err = a.makeMove(m)
		}
		isMade := err == nil
		if errors.Is(err, errReplaced) {
			if err = nil; m.Action != changeMode { // somebody may have changed the file after the move
				isMade, err = a.isMade(m)
			}
		}
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("%s: %w", m.Path, err)
		case isMade:
			made = append(made, m)
		default:
			unmade = append(unmade, m)
		}
	}
	before, err := readUnmade(a.Store) // of a golem that was killed here
	if err != nil {
		return nil, nil, err
	}
	fresh := len(unmade)
	for _, m := range before {
		if !listed[m.Path] {
			unmade = append(unmade, m)
		}
	}
	if fresh > 0 {
		if err := writeMoves(a.Store, unmadeName, unmade); err != nil {
			return nil, nil, err
		}
		if err := writeMoves(a.Store, movesName, made); err != nil {
			return nil, nil, err
		}
	}
	return made, unmade, a.markApplied()
}

// readUnmade returns the moves that Recover did not make.
func readUnmade(store string) ([]move, error) {
	list, err := readMoves(store, unmadeName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return list, err
}

// isModifiedDir reports whether somebody changed the content of a directory that the move
// takes away, while the work was interrupted. It compares modification times: a rename
// changes only the ctime of the file that it moves.
func (a *applier) isModifiedDir(m move, since int64) bool {
	st, err := a.dir.stat(m.Path)
	return err == nil && m.Action != changeMode && m.OldInode == st.Ino && kindOf(st) == Dir && !a.isOlder(a.dir, m.Path, since, mtimeOf)
}

// orNil returns c, or nil if it lists no paths.
func (c *ConflictError) orNil() error {
	if len(c.Paths) == 0 {
		return nil
	}
	return c
}

// markApplied marks that all moves are made. On another file system than that of the store,
// the moves must be on the disk before the mark: golem then removes the staged files.
func (a *applier) markApplied() error {
	if stagingOf(a.Overlay) != a.Overlay {
		if err := syncAll(a.Dir); err != nil {
			return err
		}
	}
	if err := markTimeAtomically(a.Store + "/" + appliedName); err != nil {
		return err
	}
	remove(a.WorkDir()) // The kernel made it, nobody needs it now, and the user could not remove it.
	return nil
}

// revertMoves reverts the moves that are made, last first. Files that somebody changed
// since stay, and it lists them in a ConflictError.
func (a *applier) revertMoves(moves []move) (kept, err error) {
	var conflict ConflictError
	for _, m := range slices.Backward(moves) {
		if err := a.revertMove(m); errors.Is(err, errReplaced) {
			conflict.Paths = append(conflict.Paths, m.Path)
		} else if err != nil {
			return nil, fmt.Errorf("restore %s: %w", m.Path, err)
		}
	}
	return conflict.orNil(), nil
}

// errReplaced is the error of a move if another file is at its path now.
var errReplaced = errors.New("the file was replaced meanwhile")

// makeMove makes a move, unless it is made already.
func (a *applier) makeMove(m move) error {
	here, err := a.statOrZero(a.dir, m.Path)
	switch {
	case err != nil:
		return asReplaced(err)
	case m.Action == changeMode:
		return a.setMode(m, here, m.Mode)
	case m.Action == moveOut && here.Ino == 0, m.NewInode != 0 && here.Ino == m.NewInode:
		return nil
	case !m.matchesOld(here):
		return errReplaced
	}
	if m.OldInode != 0 { // a new file overwrites nothing
		defer a.lockParent(m.Path)()
	}
	defer a.dropMoved()
	return asReplaced(a.dir.withParent(m.Path, func(dir int, base string) error {
		switch m.Action {
		case moveOut:
			kept := strconv.Itoa(m.Number)
			if err := rename(dir, base, a.old.fd, kept, unix.RENAME_NOREPLACE); err != nil {
				return err
			}
			if out, err := a.statOrZero(a.old, kept); err == nil && m.matchesOld(out) {
				return nil
			}
			if err := rename(a.old.fd, kept, dir, base, unix.RENAME_NOREPLACE); err != nil {
				return err
			}
			return errReplaced
		case moveIn:
			return a.upper.withParent(m.Path, func(from int, base string) error { return rename(from, base, dir, base, unix.RENAME_NOREPLACE) })
		}
		return a.upper.withParent(m.Path, func(from int, base string) error {
			if err := rename(from, base, dir, base, unix.RENAME_EXCHANGE); err != nil {
				return err
			}
			// The file that came out must be the one that the plan saw.
			if out, err := a.statOrZero(a.upper, m.Path); err == nil && m.matchesOld(out) {
				return nil
			}
			if err := rename(from, base, dir, base, unix.RENAME_EXCHANGE); err != nil {
				return err
			}
			return errReplaced
		})
	}))
}

// matchesOld reports whether a file is the old file of the move, unchanged.
func (m move) matchesOld(st unix.Stat_t) bool {
	return st.Ino == m.OldInode && (m.OldInode == 0 || m.OldFingerprint.matches(st))
}

// asReplaced returns errReplaced for errors that mean that a path is gone or taken.
func asReplaced(err error) error {
	for _, e := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EEXIST, unix.ENOTEMPTY} {
		if errors.Is(err, e) {
			return errReplaced
		}
	}
	return err
}

// revertMove reverts a move, unless it is not made or already reverted.
func (a *applier) revertMove(m move) error {
	here, err := a.statOrZero(a.dir, m.Path)
	if m.Action == changeMode {
		if err != nil {
			return asReplaced(err)
		}
		return a.setMode(m, here, m.OldMode)
	}
	made, e := a.isMade(m)
	switch {
	case e != nil || !made:
		return e
	case err != nil:
		return asReplaced(err)
	case m.NewInode == 0 && here.Ino != 0, m.NewInode != 0 && (here.Ino != m.NewInode || !m.NewFingerprint.matches(here)) && !a.hasNewContent(m):
		return errReplaced
	}
	defer a.lockParent(m.Path)()
	defer a.dropMoved()
	return asReplaced(a.dir.withParent(m.Path, func(dir int, base string) error {
		switch m.Action {
		case moveOut:
			return rename(a.old.fd, strconv.Itoa(m.Number), dir, base, unix.RENAME_NOREPLACE)
		case moveIn:
			return a.upper.withParent(m.Path, func(to int, base string) error { return rename(dir, base, to, base, unix.RENAME_NOREPLACE) })
		}
		return a.upper.withParent(m.Path, func(to int, base string) error {
			return rename(dir, base, to, base, unix.RENAME_EXCHANGE)
		})
	}))
}

// lockParent locks the directory of a file. A process that writes a file through golem
// holds this lock between the last check of the file and the change. If another process
// never releases it, lockParent stops waiting after about two seconds and continues
// without the lock in this directory. It also continues without it on file systems that
// have no such locks.
func (a *applier) lockParent(name string) (unlock func()) {
	if dir := path.Dir(name); a.lockDir != dir {
		a.lockFile.Close()
		a.lockFile, a.lockDir = nil, dir
		if fd, err := a.dir.open(dir, unix.O_RDONLY|unix.O_DIRECTORY); err == nil {
			a.lockFile = os.NewFile(uintptr(fd), dir)
		}
	}
	if a.lockFile == nil {
		return func() {}
	}
	fd := int(a.lockFile.Fd())
	for wait := 20 * time.Microsecond; wait < time.Second/4; wait += wait / 8 {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			return func() { unix.Flock(fd, unix.LOCK_UN) }
		}
		time.Sleep(wait)
	}
	a.lockFile.Close()
	a.lockFile = nil
	return func() {}
}

// isMade reports whether a move is made, judged by where its files are.
func (a *applier) isMade(m move) (bool, error) {
	if m.Action == moveOut {
		kept, err := a.statOrZero(a.old, strconv.Itoa(m.Number))
		return kept.Ino != 0, err
	}
	remaining, err := a.statOrZero(a.upper, m.Path)
	return remaining.Ino == m.OldInode, err
}

// statOrZero returns the state of a name, and a zero inode if nothing is there.
func (a *applier) statOrZero(t *tree, name string) (unix.Stat_t, error) {
	st, err := t.stat(name)
	if errors.Is(err, unix.ENOENT) {
		return unix.Stat_t{}, nil
	}
	return st, err
}

// setMode changes the mode of a directory, unless somebody else changed it.
func (a *applier) setMode(m move, here unix.Stat_t, mode uint32) error {
	if here.Ino != m.OldInode || permissions(here) != m.Mode&0o777 && permissions(here) != m.OldMode&0o777 {
		return errReplaced
	}
	fd, err := a.dir.open(m.Path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return asReplaced(err)
	}
	defer unix.Close(fd)
	return unix.Fchmod(fd, mode)
}

func rename(from int, name string, to int, new string, flags uint) error {
	return unix.Renameat2(from, name, to, new, flags)
}

// dropMoved closes the directories that the trees keep open, because one of them may have
// been moved.
func (a *applier) dropMoved() {
	a.dir.dropMarks(0)
	a.upper.dropMarks(0)
}
