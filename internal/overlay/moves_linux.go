package overlay

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/durable"
)

// A move brings one thing to its place. It is written down with what it moves, by
// the kernel's numbers, so that whoever reads the list later sees whether it has
// been made: it is made once, however often it is tried.
type move struct {
	Path           string
	Action         action `json:"Do"`
	NewInode       uint64 `json:"New"` // the inode that comes, 0 for none
	OldInode       uint64 `json:"Old"` // the one that goes
	Mode           uint32
	OldMode        uint32      `json:"Was"`           // the mode before
	Number         int         `json:"N"`             // what goes is kept as the n-th
	NewFingerprint fingerprint `json:"Came,omitzero"` // what comes, when it was decided on
	OldFingerprint fingerprint `json:"Gone,omitzero"` // and what goes
}

// A seen is how something was when it was looked at. Where it is moved that stays;
// where somebody writes to it, it does not.
type fingerprint struct{ Time, Size int64 }

func fingerprintOf(st unix.Stat_t) fingerprint { return fingerprint{st.Mtim.Nano(), st.Size} }

// matches reports whether something is as it was seen.
func (s fingerprint) matches(st unix.Stat_t) bool { return s == fingerprintOf(st) }

// A deed is a kind of move.
type action string

const (
	moveIn     action = "put"   // to a place where nothing is
	exchange   action = "swap"  // for what is there, which is kept where it came from
	moveOut    action = "take"  // away, and keep it
	changeMode action = "chmod" // nothing moves
)

// writeMoves writes the list down for good: from here on it will be carried out.
func writeMoves(store string, moves []move) error {
	f, err := os.OpenFile(store+"/"+movesName+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
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
	// None of the moves that follow is on the disk before this one is.
	return durable.Rename(store+"/"+movesName+".new", store+"/"+movesName)
}

func readMoves(store string) ([]move, error) {
	f, err := os.Open(store + "/" + movesName)
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

// finishMoves makes the moves that are not made yet. One whose place is not as it was
// matches left out and told, in a Conflict: the others are made.
func (a *applier) finishMoves(moves []move) error {
	since, err := readTime(a.Store + "/" + clockName)
	if err != nil {
		return err
	}
	var conflict ConflictError
	for _, m := range moves {
		err := error(errReplaced)
		if !a.isModifiedDir(m, since) {
			err = a.makeMove(m)
		}
		if errors.Is(err, errReplaced) {
			conflict.Paths = append(conflict.Paths, m.Path)
		} else if err != nil {
			return fmt.Errorf("%s: %w", m.Path, err)
		}
	}
	if err := a.markApplied(); err != nil {
		return err
	}
	return conflict.orNil()
}

// isModifiedDir reports whether somebody has changed something in a folder that is to go,
// in the time that nobody carried on. That files of it were moved under other names
// does not count.
func (a *applier) isModifiedDir(m move, since int64) bool {
	st, err := a.dir.stat(m.Path)
	return err == nil && m.Action != changeMode && m.OldInode == st.Ino && kindOf(st) == Dir && !a.isOlder(a.dir, m.Path, since, mtimeOf)
}

// orNil returns the Conflict, nil where it is none.
func (c *ConflictError) orNil() error {
	if len(c.Paths) == 0 {
		return nil
	}
	return c
}

// markApplied says that all is moved.
func (a *applier) markApplied() error {
	if err := markTimeAtomically(a.Store + "/" + appliedName); err != nil {
		return err
	}
	remove(a.WorkDir()) // the kernel's, which the user could not remove; it is of no use any more
	return nil
}

// undoMoves makes the moves backwards.
func (a *applier) undoMoves(moves []move) error {
	kept, err := a.revertMoves(moves)
	if err != nil {
		return err
	}
	return errors.Join(kept, markTimeAtomically(a.Store+"/"+undoneName))
}

// revertMoves makes the moves backwards that are made. What somebody has changed since
// stays, and is told in a Conflict.
func (a *applier) revertMoves(moves []move) (kept, err error) {
	var conflict ConflictError
	for _, m := range slices.Backward(moves) {
		if err := a.revertMove(m); errors.Is(err, errReplaced) {
			conflict.Paths = append(conflict.Paths, m.Path)
		} else if err != nil {
			return nil, fmt.Errorf("%s could not be brought back: %w", m.Path, err)
		}
	}
	return conflict.orNil(), nil
}

// errOther says that something else stands at a place than was looked at.
var errReplaced = errors.New("something else is there now")

// makeMove makes a move, unless it is made.
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
	if m.OldInode != 0 { // where nothing was, nobody is overwritten
		defer a.lockParent(m.Path)()
	}
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
			// What came out must be what was looked at.
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

// matchesOld reports whether something is what a move takes away, as it was.
func (m move) matchesOld(st unix.Stat_t) bool {
	return st.Ino == m.OldInode && (m.OldInode == 0 || m.OldFingerprint.matches(st))
}

// asReplaced returns errOther for errors that say that a place is not there any more,
// or is taken.
func asReplaced(err error) error {
	for _, e := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EEXIST, unix.ENOTEMPTY} {
		if errors.Is(err, e) {
			return errReplaced
		}
	}
	return err
}

// revertMove makes a move backwards, unless that is done.
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
	case here.Ino != m.NewInode || m.NewInode != 0 && !m.NewFingerprint.matches(here):
		return errReplaced
	}
	defer a.lockParent(m.Path)()
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

// lockParent takes the lock of the folder that a name is in, which who writes a file of it
// holds between the last look at it and the change. Somebody who never lets go of it
// matches waited for once, and a file system without such locks does without.
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

// isMade reports whether a move has been made, by where the things are that it moves.
func (a *applier) isMade(m move) (bool, error) {
	if m.Action == moveOut {
		kept, err := a.statOrZero(a.old, strconv.Itoa(m.Number))
		return kept.Ino != 0, err
	}
	left, err := a.statOrZero(a.upper, m.Path)
	return left.Ino == m.OldInode, err
}

// statOrZero says what is at a name. What is not there has no number.
func (a *applier) statOrZero(t *tree, name string) (unix.Stat_t, error) {
	st, err := t.stat(name)
	if errors.Is(err, unix.ENOENT) {
		return unix.Stat_t{}, nil
	}
	return st, err
}

// setMode gives what a move is about a mode, unless somebody else has.
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
