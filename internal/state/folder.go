package state

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/golem-forge/golem/internal/durable"
)

// A Directory keeps documents by their names. Only its user can look into it.
type Folder struct {
	root  *os.Root
	locks *locks
	waits *waits // for its locks and those of the directories in it
}

// maxDocument bounds what is read back: a state directory may be damaged.
const maxDocument = 64 << 20

// Open opens the directory at path, and makes it where it is missing. A directory
// that others may write to is refused: what is kept there decides what a
// program may do.
func Open(path string) (*Folder, error) {
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
		return nil, fmt.Errorf("state folder %s: not a folder; choose another with --state", path)
	case info.Mode().Perm()&0o022 != 0 || !ours(info):
		return nil, fmt.Errorf("state folder %s: others may write to it; chmod 700 one of your own, or choose another with --state", path)
	}
	// Whoever may write to the directory above could put another one in its place.
	above, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return nil, unusable(path, err)
	}
	if above.Mode().Perm()&0o002 != 0 && above.Mode()&fs.ModeSticky == 0 {
		return nil, fmt.Errorf("state folder %s: everybody may replace it; choose one in a folder of your own with --state", path)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, unusable(path, err)
	}
	return &Folder{root, new(locks), &waits{patience: patience}}, nil
}

// unusable says what to do about a state directory that cannot be used. The path
// is the user's own choice, and only the user is told.
func unusable(path string, err error) error {
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	return fmt.Errorf("state folder %s: %w; choose another with --state or GOLEM_STATE", path, err)
}

// Close lets go of the directory.
func (f *Folder) Close() error { return f.root.Close() }

// Read returns a document, nil if there is none.
func (f *Folder) Read(name string) ([]byte, error) {
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
		err = fmt.Errorf("%s: larger than %d bytes; move it away to start anew", name, maxDocument)
	}
	return data, err
}

// Update replaces a document by what change makes of it, nil for one that is
// not there. Only one process is in a change of this directory at a time, so a
// change updates no other document of it. When Update returns, the new document
// is on the disk; when it fails, the old one stands.
func (f *Folder) Update(name string, change func(old []byte) ([]byte, error)) error {
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
	return f.replace(name, data)
}

// replace writes a document beside the old one and puts it in its place. The
// name of the new one is fixed: whoever holds the lock is the only writer, and
// what a killed one left behind goes.
func (f *Folder) replace(name string, data []byte) error {
	return trouble(name, durable.ReplaceIn(f.root, name, name+".new", 0o600, func(file *os.File) error {
		_, err := file.Write(data)
		return err
	}))
}
