package git

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/golem-forge/golem/sandbox"
)

// A content is the mode and hash of the file at a path.
type content struct {
	mode Mode
	hash Hash
}

// state returns the content at a path of the work tree.
func (w *worktree) state(path string) (content, error) {
	unseen := func(err error) error {
		return refusal("push", path, sandbox.ErrInternal, "it cannot be read in the target's work tree: "+cause(err).Error()+"; fix that, and push again")
	}
	dir, base, err := w.openParent(path, false)
	if err != nil || dir == nil {
		return content{mode: None}, err
	}
	defer dir.Close()
	info, err := dir.Lstat(base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return content{mode: None}, nil
	case err != nil:
		return content{}, unseen(err)
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := dir.Readlink(base)
		if err != nil {
			return content{}, unseen(err)
		}
		return content{Link, BlobHash(int64(len(to)), strings.NewReader(to))}, nil
	case info.IsDir():
		return content{mode: None}, nil // changes name the files in it, not the directory
	case !info.Mode().IsRegular():
		return content{}, nil
	}
	f, err := dir.Open(base)
	if err != nil {
		return content{}, unseen(err)
	}
	defer f.Close()
	if now, err := f.Stat(); err != nil || !os.SameFile(info, now) {
		return content{}, dirtyError(path)
	}
	mode := Plain
	if info.Mode()&0o100 != 0 {
		mode = Executable
	}
	return content{mode, BlobHash(info.Size(), f)}, nil
}

// BlobHash returns the hash that git gives to a blob with this content.
func BlobHash(size int64, from io.Reader) Hash {
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", size)
	io.Copy(h, from)
	return Hash(hex.EncodeToString(h.Sum(nil)))
}

// openParent opens the directory of a path without following symlinks, and returns it
// with the last name of the path. If the directory does not exist, openParent creates it
// if create is set, and returns nil otherwise.
func (w *worktree) openParent(path string, create bool) (*os.Root, string, error) {
	dir, err := w.root.OpenRoot(".")
	for at := 0; err == nil; {
		first, _, more := strings.Cut(path[at:], "/")
		if !more {
			return dir, first, nil
		}
		prefix := path[:at+len(first)]
		info, look := dir.Lstat(first)
		if errors.Is(look, fs.ErrNotExist) && create {
			if look = dir.Mkdir(first, 0o777); look == nil {
				info, look = dir.Lstat(first)
			}
		}
		switch {
		case !create && (errors.Is(look, fs.ErrNotExist) || look == nil && (info.Mode().IsRegular() || w.deleted[prefix] && !info.IsDir())):
			return nil, "", dir.Close()
		case look != nil:
			dir.Close()
			return nil, "", directoryError(path, look)
		case !info.IsDir():
			dir.Close()
			return nil, "", refusal("push", path, ErrDirty, "a symlink or a file is in the place of its directory in the target's work tree; move it away first")
		}
		var next *os.Root
		next, err = dir.OpenRoot(first)
		dir.Close()
		if err != nil {
			break
		}
		if is, look := next.Stat("."); look != nil || !os.SameFile(info, is) {
			next.Close()
			return nil, "", dirtyError(path)
		}
		dir, at = next, len(prefix)+1
	}
	return nil, "", directoryError(path, err)
}

// directoryError is the error for a path whose directory cannot be opened.
func directoryError(path string, err error) error {
	return refusal("push", path, sandbox.ErrInternal, "its directory cannot be opened in the target's work tree: "+cause(err).Error()+"; fix that, and push again")
}

// refuseOccupied refuses a path at which a directory holds files that the commit does not
// delete.
func (w *worktree) refuseOccupied(path string) error {
	dir, base, err := w.openParent(path, false)
	if err != nil || dir == nil {
		return err
	}
	defer dir.Close()
	if info, err := dir.Lstat(base); err != nil || !info.IsDir() {
		return nil
	}
	opened, err := dir.Open(base)
	if err != nil {
		return dirtyError(path)
	}
	defer opened.Close()
	list, err := opened.ReadDir(-1)
	for _, e := range list {
		switch name := path + "/" + e.Name(); {
		case e.IsDir():
			err = errors.Join(err, w.refuseOccupied(name))
		case !w.deleted[name]:
			return dirtyError(name)
		}
	}
	return err
}

// removeEmpty removes a directory and the directories in it, if there are no files in
// them.
func removeEmpty(dir *os.Root, name string) {
	if info, err := dir.Lstat(name); err != nil || !info.IsDir() {
		return
	}
	if inside, err := dir.OpenRoot(name); err == nil {
		defer inside.Close()
		if opened, err := inside.Open("."); err == nil {
			list, _ := opened.ReadDir(-1)
			opened.Close()
			for _, e := range list {
				removeEmpty(inside, e.Name())
			}
		}
	}
	dir.Remove(name)
}
