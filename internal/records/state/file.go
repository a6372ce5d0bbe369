package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// How a file is opened.
const (
	toRead = os.O_RDONLY
	toMake = os.O_RDWR | os.O_CREATE // also for writing
)

// open opens a regular file of a root. It refuses everything else, without following a
// symlink or waiting for a pipe.
func open(root *os.Root, name string, how int) (*os.File, error) {
	for range 100 { // other processes create and rename files meanwhile
		before, err := root.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist) && how == toMake:
			file, err := root.OpenFile(name, how|os.O_EXCL, 0o600)
			if errors.Is(err, fs.ErrExist) {
				continue
			}
			return file, trouble(name, err)
		case err != nil:
			return nil, trouble(name, err)
		case !before.Mode().IsRegular():
			return nil, fmt.Errorf("%s: %s, not a file; move it away", name, kind(before.Mode()))
		}
		file, err := root.OpenFile(name, how&^os.O_CREATE|nonblock, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, trouble(name, err)
		}
		if after, err := file.Stat(); err == nil && os.SameFile(before, after) {
			return file, nil
		}
		file.Close()
	}
	return nil, fmt.Errorf("%s: it is replaced all the time; find out by whom", name)
}

// A held is an open file with its size and identity.
type held struct {
	*os.File
	is   fs.FileInfo
	size int64 // when its lock was taken last
}

// held opens a file like open.
func (f *Dir) held(name string, how int) (*held, error) {
	file, err := open(f.root, name, how)
	if err != nil {
		return nil, err
	}
	is, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, trouble(name, err)
	}
	return &held{File: file, is: is}, nil
}

// at returns the size of a file, and whether its name still refers to it.
func (f *Dir) at(name string, file *held) (size int64, ok bool) {
	there, err := f.root.Lstat(name)
	if err != nil || !os.SameFile(file.is, there) {
		return 0, false
	}
	return there.Size(), true
}

// lock locks the file of a name, which may be open already, and creates it if it is
// missing. Without wait, it returns nil if another process holds the lock. If the file
// has lost its name, its lock is useless, and lock tries the file that has the name now.
func (f *Dir) lock(name string, file *held, wait bool) (_ *held, err error) {
	for range 100 {
		if file == nil {
			if file, err = f.held(name, toMake); err != nil {
				return nil, err
			}
		}
		got := true
		if wait {
			err = f.await(file.File)
		} else {
			got, err = f.locks.take(file.File)
		}
		if err != nil || !got {
			file.Close()
			return nil, trouble(name, err)
		}
		if size, ok := f.at(name, file); ok {
			file.size = size
			return file, nil
		}
		f.unlock(file)
		file = nil
	}
	return nil, fmt.Errorf("%s: it is replaced all the time; find out by whom", name)
}

// errTaken is the error of a file that was deleted or replaced while it was written. The
// written data is lost or in the way of another writer.
var errTaken = errors.New("removed while it was written to")

// unlock releases a lock.
func (f *Dir) unlock(file *held) error {
	return errors.Join(f.locks.free(file.File), file.Close())
}

// write creates a file and syncs it. It replaces a file of the same name.
func (f *Dir) write(name string, data ...[]byte) error {
	if err := f.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	for _, d := range data {
		if err == nil {
			_, err = file.Write(d)
		}
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// room opens a subdirectory. If it is missing, create decides whether that is an error.
func (f *Dir) room(name string, create bool) (*Dir, error) {
	is, err := f.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) && create {
		if err = f.root.Mkdir(name, 0o700); err == nil {
			err = f.sync()
		}
		if err == nil || errors.Is(err, fs.ErrExist) {
			is, err = f.root.Lstat(name)
		}
	}
	if err != nil {
		return nil, trouble(name, err)
	}
	if !is.IsDir() {
		return nil, fmt.Errorf("%s: not a directory; move it away", name)
	}
	root, err := f.root.OpenRoot(name)
	if err != nil {
		return nil, trouble(name, err)
	}
	return &Dir{root, f.locks, f.waits}, nil
}

// kind names the type of something that is not a regular file.
func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeSymlink != 0:
		return "a symlink"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	}
	return "something special"
}

// trouble adds a hint to the error of an unusable file, unless it has one. The hint names
// the file, not the directory.
func trouble(name string, err error) error {
	if err == nil {
		return nil
	}
	var path *fs.PathError
	var link *os.LinkError
	if errors.As(err, &path) {
		err = path.Err
	} else if errors.As(err, &link) {
		err = link.Err
	}
	var told *hint
	switch {
	case errors.As(err, &told):
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		err = &hint{err, "free space on its disk"}
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		err = &hint{err, "make its directory writable for you, or choose another: --state of golem, --dir of golem node, --data of golem-hub"}
	}
	return fmt.Errorf("%s: %w", name, err)
}

// A hint is an error with advice.
type hint struct {
	err error
	do  string
}

func (h *hint) Error() string { return h.err.Error() + "; " + h.do }
func (h *hint) Unwrap() error { return h.err }

// plainName reports whether a name consists only of a-z, 0-9, - and _.
func plainName(name string) bool {
	return name != "" && len(name) <= 64 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}
