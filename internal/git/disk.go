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

// A content is what is at a path.
type content struct {
	mode Mode
	hash Hash
}

// state returns what is at a path of the work tree.
func (w *worktree) state(path string) (content, error) {
	unseen := func(err error) error {
		return refusal("push", path, sandbox.ErrInternal, "it cannot be looked at in the target's work tree: "+cause(err).Error()+"; make that possible, and push again")
	}
	dir, base, err := w.enter(path, false)
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
		return content{mode: None}, nil // what is in it counts for itself
	case !info.Mode().IsRegular():
		return content{}, nil
	}
	f, err := dir.Open(base)
	if err != nil {
		return content{}, unseen(err)
	}
	defer f.Close()
	if now, err := f.Stat(); err != nil || !os.SameFile(info, now) {
		return content{}, dirty(path)
	}
	mode := Plain
	if info.Mode()&0o100 != 0 {
		mode = Executable
	}
	return content{mode, BlobHash(info.Size(), f)}, nil
}

// BlobHash returns the name that git gives to a content.
func BlobHash(size int64, from io.Reader) Hash {
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", size)
	io.Copy(h, from)
	return Hash(hex.EncodeToString(h.Sum(nil)))
}

// enter opens the directory of a path without following a link, and returns the name that is
// left of it. Where the directory is not there, it is made if asked to, or else nil.
func (w *worktree) enter(path string, create bool) (*os.Root, string, error) {
	dir, err := w.root.OpenRoot(".")
	for at := 0; err == nil; {
		first, _, more := strings.Cut(path[at:], "/")
		if !more {
			return dir, first, nil
		}
		folder := path[:at+len(first)]
		info, look := dir.Lstat(first)
		if errors.Is(look, fs.ErrNotExist) && create {
			if look = dir.Mkdir(first, 0o777); look == nil {
				info, look = dir.Lstat(first)
			}
		}
		switch {
		case !create && (errors.Is(look, fs.ErrNotExist) || look == nil && (info.Mode().IsRegular() || w.goes[folder] && !info.IsDir())):
			return nil, "", dir.Close()
		case look != nil:
			dir.Close()
			return nil, "", shut(path, look)
		case !info.IsDir():
			dir.Close()
			return nil, "", refusal("push", path, ErrDirty, "a link or a file is in the place of its folder in the target's work tree; move it away first")
		}
		var next *os.Root
		next, err = dir.OpenRoot(first)
		dir.Close()
		if err != nil {
			break
		}
		if is, look := next.Stat("."); look != nil || !os.SameFile(info, is) {
			next.Close()
			return nil, "", dirty(path)
		}
		dir, at = next, len(folder)+1
	}
	return nil, "", shut(path, err)
}

// shut is the error of a path whose directory cannot be had.
func shut(path string, err error) error {
	return refusal("push", path, sandbox.ErrInternal, "its folder cannot be had in the target's work tree: "+cause(err).Error()+"; make that possible, and push again")
}

// vacant refuses a path at which there is a directory with more in it than goes.
func (w *worktree) vacant(path string) error {
	dir, base, err := w.enter(path, false)
	if err != nil || dir == nil {
		return err
	}
	defer dir.Close()
	if info, err := dir.Lstat(base); err != nil || !info.IsDir() {
		return nil
	}
	folder, err := dir.Open(base)
	if err != nil {
		return dirty(path)
	}
	defer folder.Close()
	list, err := folder.ReadDir(-1)
	for _, e := range list {
		switch name := path + "/" + e.Name(); {
		case e.IsDir():
			err = errors.Join(err, w.vacant(name))
		case !w.goes[name]:
			return dirty(name)
		}
	}
	return err
}

// hollow removes a directory that holds nothing but such directories.
func hollow(dir *os.Root, name string) {
	if info, err := dir.Lstat(name); err != nil || !info.IsDir() {
		return
	}
	if inside, err := dir.OpenRoot(name); err == nil {
		defer inside.Close()
		if folder, err := inside.Open("."); err == nil {
			list, _ := folder.ReadDir(-1)
			folder.Close()
			for _, e := range list {
				hollow(inside, e.Name())
			}
		}
	}
	dir.Remove(name)
}
