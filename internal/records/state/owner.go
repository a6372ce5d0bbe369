package state

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
)

// A ForeignError says that a file or directory of the state belongs to another user. It is
// fs.ErrPermission.
type ForeignError struct {
	Path  string
	Owner int // the number of its user
}

// Error implements error.
func (e *ForeignError) Error() string {
	me := os.Geteuid()
	text := e.Path + " belongs to " + userName(e.Owner) + ", and golem runs as " + userName(me)
	if me == 0 {
		return text + "; run golem as " + userName(e.Owner)
	}
	return text + "; sudo chown -R " + strconv.Itoa(me) + " " + e.Path + " makes it yours"
}

// Is implements the interface of errors.Is.
func (e *ForeignError) Is(other error) bool { return other == fs.ErrPermission }

// userName returns the name of a user, or the number if the system knows no name.
func userName(id int) string {
	if u, err := user.LookupId(strconv.Itoa(id)); err == nil {
		return u.Username
	}
	return "user " + strconv.Itoa(id)
}

// CheckOwner returns a ForeignError if a file or directory of the state belongs to another
// user, or is in a directory of another user that this one cannot enter. Root must not make a
// directory in the state directory of another user, either.
func CheckOwner(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) && os.Geteuid() == 0 {
		path = filepath.Dir(path)
		info, err = os.Lstat(path)
	}
	for errors.Is(err, fs.ErrPermission) && path != filepath.Dir(path) {
		path = filepath.Dir(path)
		info, err = os.Lstat(path)
	}
	if err == nil {
		if owner, ok := ownerOf(info); ok && owner != os.Geteuid() {
			return &ForeignError{path, owner}
		}
	}
	return nil
}
