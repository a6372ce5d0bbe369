package layer

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

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
	// The moves that follow are renames as well: none of them is on the disk before
	// this one is.
	return os.Rename(l.Store+"/"+movesName+".new", l.Store+"/"+movesName)
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
	if err := o.settled(); err != nil {
		return err
	}
	if len(conflict.Paths) > 0 {
		return &conflict
	}
	return nil
}

// settled says that all is moved.
func (o *opened) settled() error {
	if o.carried() != o.Layer {
		if err := os.WriteFile(o.Store+"/"+finalName, nil, 0o600); err != nil {
			return err
		}
	}
	if err := stamp(o.Store + "/" + landedName); err != nil {
		return err
	}
	remove(o.Work()) // the kernel's, which the user could not remove; it is of no use any more
	return o.clearCarried()
}

// clearCarried removes the place in the folder that things were moved from.
func (o *opened) clearCarried() error {
	if from := o.carried(); from != o.Layer {
		return remove(from.Store)
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
	made, err := o.made(m)
	if err != nil || !made {
		return err
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
		return o.upper.within(m.Path, func(to int, base string) error {
			return rename(dir, base, to, base, unix.RENAME_EXCHANGE)
		})
	})
}

// made reports whether a move has been made, by where the things are that it moves.
func (o *opened) made(m move) (bool, error) {
	if m.Do == take {
		kept, err := o.inode(o.old, strconv.Itoa(m.N))
		return kept != 0, err
	}
	left, err := o.inode(o.upper, m.Path)
	return left == m.Old, err
}

// inode returns the number of what is at a name, 0 for nothing.
func (o *opened) inode(t *tree, name string) (uint64, error) {
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
