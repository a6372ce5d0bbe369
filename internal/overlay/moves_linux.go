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
	Path string
	Do   deed
	New  uint64 // the inode that comes, 0 for none
	Old  uint64 // the one that goes
	Mode uint32
	Was  uint32 // the mode before
	N    int    // what goes is kept as the n-th
	Came seen   `json:",omitzero"` // what comes, when it was decided on
	Gone seen   `json:",omitzero"` // and what goes
}

// A seen is how something was when it was looked at. Where it is moved that stays;
// where somebody writes to it, it does not.
type seen struct{ Time, Size int64 }

func seenOf(st unix.Stat_t) seen { return seen{st.Mtim.Nano(), st.Size} }

// is reports whether something is as it was seen.
func (s seen) is(st unix.Stat_t) bool { return s == seenOf(st) }

// A deed is a kind of move.
type deed string

const (
	put   deed = "put"   // to a place where nothing is
	swap  deed = "swap"  // for what is there, which is kept where it came from
	take  deed = "take"  // away, and keep it
	chmod deed = "chmod" // nothing moves
)

// writeMoves writes the list down for good: from here on it will be carried out.
func (l Overlay) writeMoves(moves []move) error {
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
	// None of the moves that follow is on the disk before this one is.
	return durable.Rename(l.Store+"/"+movesName+".new", l.Store+"/"+movesName)
}

func (l Overlay) readMoves() ([]move, error) {
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
	since, err := stampOf(o.Store + "/" + clockName)
	if err != nil {
		return err
	}
	var conflict ConflictError
	for _, m := range moves {
		err := error(errOther)
		if !o.touched(m, since) {
			err = o.make(m)
		}
		if errors.Is(err, errOther) {
			conflict.Paths = append(conflict.Paths, m.Path)
		} else if err != nil {
			return fmt.Errorf("%s: %w", m.Path, err)
		}
	}
	if err := o.settled(); err != nil {
		return err
	}
	return conflict.err()
}

// touched reports whether somebody has changed something in a folder that is to go,
// in the time that nobody carried on. That files of it were moved under other names
// does not count.
func (o *opened) touched(m move, since int64) bool {
	st, err := o.folder.stat(m.Path)
	return err == nil && m.Do != chmod && m.Old == st.Ino && kindOf(st) == Dir && !o.olderThan(o.folder, m.Path, since, mtimeOf)
}

// err returns the Conflict, nil where it is none.
func (c *ConflictError) err() error {
	if len(c.Paths) == 0 {
		return nil
	}
	return c
}

// settled says that all is moved.
func (o *opened) settled() error {
	if err := stampWhole(o.Store + "/" + landedName); err != nil {
		return err
	}
	remove(o.WorkDir()) // the kernel's, which the user could not remove; it is of no use any more
	return nil
}

// unfinish makes the moves backwards.
func (o *opened) unfinish(moves []move) error {
	kept, err := o.unmakeAll(moves)
	if err != nil {
		return err
	}
	return errors.Join(kept, stampWhole(o.Store+"/"+undoneName))
}

// unmakeAll makes the moves backwards that are made. What somebody has changed since
// stays, and is told in a Conflict.
func (o *opened) unmakeAll(moves []move) (kept, err error) {
	var conflict ConflictError
	for _, m := range slices.Backward(moves) {
		if err := o.unmake(m); errors.Is(err, errOther) {
			conflict.Paths = append(conflict.Paths, m.Path)
		} else if err != nil {
			return nil, fmt.Errorf("%s could not be brought back: %w", m.Path, err)
		}
	}
	return conflict.err(), nil
}

// errOther says that something else stands at a place than was looked at.
var errOther = errors.New("something else is there now")

// make makes a move, unless it is made.
func (o *opened) make(m move) error {
	here, err := o.find(o.folder, m.Path)
	switch {
	case err != nil:
		return elsewhere(err)
	case m.Do == chmod:
		return o.chmod(m, here, m.Mode)
	case m.Do == take && here.Ino == 0, m.New != 0 && here.Ino == m.New:
		return nil
	case !m.goes(here):
		return errOther
	}
	if m.Old != 0 { // where nothing was, nobody is overwritten
		defer o.lock(m.Path)()
	}
	return elsewhere(o.folder.within(m.Path, func(dir int, base string) error {
		switch m.Do {
		case take:
			kept := strconv.Itoa(m.N)
			if err := rename(dir, base, o.old.fd, kept, unix.RENAME_NOREPLACE); err != nil {
				return err
			}
			if out, err := o.find(o.old, kept); err == nil && m.goes(out) {
				return nil
			}
			if err := rename(o.old.fd, kept, dir, base, unix.RENAME_NOREPLACE); err != nil {
				return err
			}
			return errOther
		case put:
			return o.upper.within(m.Path, func(from int, base string) error { return rename(from, base, dir, base, unix.RENAME_NOREPLACE) })
		}
		return o.upper.within(m.Path, func(from int, base string) error {
			if err := rename(from, base, dir, base, unix.RENAME_EXCHANGE); err != nil {
				return err
			}
			// What came out must be what was looked at.
			if out, err := o.find(o.upper, m.Path); err == nil && m.goes(out) {
				return nil
			}
			if err := rename(from, base, dir, base, unix.RENAME_EXCHANGE); err != nil {
				return err
			}
			return errOther
		})
	}))
}

// goes reports whether something is what a move takes away, as it was.
func (m move) goes(st unix.Stat_t) bool { return st.Ino == m.Old && (m.Old == 0 || m.Gone.is(st)) }

// elsewhere returns errOther for errors that say that a place is not there any more,
// or is taken.
func elsewhere(err error) error {
	for _, e := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EEXIST, unix.ENOTEMPTY} {
		if errors.Is(err, e) {
			return errOther
		}
	}
	return err
}

// unmake makes a move backwards, unless that is done.
func (o *opened) unmake(m move) error {
	here, err := o.find(o.folder, m.Path)
	if m.Do == chmod {
		if err != nil {
			return elsewhere(err)
		}
		return o.chmod(m, here, m.Was)
	}
	made, e := o.made(m)
	switch {
	case e != nil || !made:
		return e
	case err != nil:
		return elsewhere(err)
	case here.Ino != m.New || m.New != 0 && !m.Came.is(here):
		return errOther
	}
	defer o.lock(m.Path)()
	return elsewhere(o.folder.within(m.Path, func(dir int, base string) error {
		switch m.Do {
		case take:
			return rename(o.old.fd, strconv.Itoa(m.N), dir, base, unix.RENAME_NOREPLACE)
		case put:
			return o.upper.within(m.Path, func(to int, base string) error { return rename(dir, base, to, base, unix.RENAME_NOREPLACE) })
		}
		return o.upper.within(m.Path, func(to int, base string) error {
			return rename(dir, base, to, base, unix.RENAME_EXCHANGE)
		})
	}))
}

// lock takes the lock of the folder that a name is in, which who writes a file of it
// holds between the last look at it and the change. Somebody who never lets go of it
// is waited for once, and a file system without such locks does without.
func (o *opened) lock(name string) (unlock func()) {
	if dir := path.Dir(name); o.lockDir != dir {
		o.locks.Close()
		o.locks, o.lockDir = nil, dir
		if fd, err := o.folder.open(dir, unix.O_RDONLY|unix.O_DIRECTORY); err == nil {
			o.locks = os.NewFile(uintptr(fd), dir)
		}
	}
	if o.locks == nil {
		return func() {}
	}
	fd := int(o.locks.Fd())
	for wait := 20 * time.Microsecond; wait < time.Second/4; wait += wait / 8 {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			return func() { unix.Flock(fd, unix.LOCK_UN) }
		}
		time.Sleep(wait)
	}
	o.locks.Close()
	o.locks = nil
	return func() {}
}

// made reports whether a move has been made, by where the things are that it moves.
func (o *opened) made(m move) (bool, error) {
	if m.Do == take {
		kept, err := o.find(o.old, strconv.Itoa(m.N))
		return kept.Ino != 0, err
	}
	left, err := o.find(o.upper, m.Path)
	return left.Ino == m.Old, err
}

// find says what is at a name. What is not there has no number.
func (o *opened) find(t *tree, name string) (unix.Stat_t, error) {
	st, err := t.stat(name)
	if errors.Is(err, unix.ENOENT) {
		return unix.Stat_t{}, nil
	}
	return st, err
}

// chmod gives what a move is about a mode, unless somebody else has.
func (o *opened) chmod(m move, here unix.Stat_t, mode uint32) error {
	if here.Ino != m.Old || bits(here) != m.Mode&0o777 && bits(here) != m.Was&0o777 {
		return errOther
	}
	fd, err := o.folder.open(m.Path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return elsewhere(err)
	}
	defer unix.Close(fd)
	return unix.Fchmod(fd, mode)
}

func rename(from int, name string, to int, new string, flags uint) error {
	return unix.Renameat2(from, name, to, new, flags)
}
