package state

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/golem-forge/golem/internal/files/durable"
)

// A Dir is a directory of documents with names. Only its user can read it.
type Dir struct {
	root  *os.Root
	locks *locks
	waits *waits // for its own locks and those of its subdirectories
}

// maxDocument limits the size of a document, because a state directory may be damaged.
const maxDocument = 64 << 20

// Open opens the state directory at path and creates it if it is missing. It refuses a
// directory that other users can write to, because the data there decides what a program
// may do.
func Open(path string) (*Dir, error) { return OpenNamed(path, "state directory", "--state") }

// OpenNamed is Open for a directory that the user knows by another name, and chooses with
// another flag.
func OpenNamed(path, name, flag string) (*Dir, error) {
	unusable := func(path string, err error) error { return unusable(path, name, flag, err) }
	if err := CheckOwner(path); err != nil {
		return nil, fmt.Errorf("%s %w, or choose another with %s", name, err, flag)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, unusable(path, err)
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, unusable(path, err)
	}
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil, unusable(path, err)
	case !info.IsDir():
		return nil, fmt.Errorf("%s %s: not a directory; choose another with %s", name, path, flag)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("%s %s: others may write to it; chmod 700 it if it is yours, or choose another with %s", name, path, flag)
	}
	// A user who can write to the parent directory could replace this one.
	above, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return nil, unusable(path, err)
	}
	if above.Mode().Perm()&0o002 != 0 && above.Mode()&fs.ModeSticky == 0 {
		return nil, fmt.Errorf("%s %s: everybody may replace it; choose one in a directory of your own with %s", name, path, flag)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, unusable(path, err)
	}
	return &Dir{root, new(locks), &waits{patience: patience}}, nil
}

// unusable adds advice to the error of an unusable directory. The message has the path,
// because only the user sees it.
func unusable(path, name, flag string, err error) error {
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	if flag == "--state" {
		flag += " or GOLEM_STATE"
	}
	return fmt.Errorf("%s %s: %w; choose another with %s", name, path, err, flag)
}

// Close closes the directory.
func (f *Dir) Close() error { return f.root.Close() }

// Read returns a document, nil if there is none.
func (f *Dir) Read(name string) ([]byte, error) {
	file, err := open(f.root, name, toRead)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxDocument+1))
	if err == nil && len(data) > maxDocument {
		err = fmt.Errorf("%s: larger than %d bytes; move it away to start again", name, maxDocument)
	}
	return data, err
}

// Update replaces a document with the result of change, which gets nil if there is no
// document. Only one process at a time runs a change in this directory, so change must
// not update another document of it. When Update returns, the new document is synced. If
// it fails, the old document stays. If change returns nil, Update removes the document,
// and does not wait for the disk: a crash of the machine may bring the document back.
func (f *Dir) Update(name string, change func(old []byte) ([]byte, error)) error {
	free, err := f.guard(name)
	if err != nil {
		return err
	}
	defer free()
	old, err := f.Read(name)
	if err != nil {
		return err
	}
	data, err := change(old)
	if err == nil && len(data) > maxDocument {
		err = fmt.Errorf("%s: more than %d bytes; it was not changed", name, maxDocument)
	}
	if err != nil {
		return err
	}
	if data == nil {
		err := f.root.Remove(name)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return trouble(name, err)
	}
	return f.replace(name, data)
}

// replace writes a new document next to the old one and renames it. The temporary name is
// fixed, because the holder of the lock is the only writer. So a killed writer leaves
// nothing that the next one does not replace.
func (f *Dir) replace(name string, data []byte) error {
	return trouble(name, durable.ReplaceIn(f.root, name, name+".new", 0o600, func(file *os.File) error {
		_, err := file.Write(data)
		return err
	}))
}
