package parcel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"time"
)

// Write makes a directory exactly this tree, and creates it if it is missing. It changes
// only what differs. get returns a content by its hash; it need not check it. A tree may
// come from a machine that lies: Write refuses what Tree.Check refuses, and changes nothing
// outside the directory. Nobody else may change the directory meanwhile. After an error the
// directory has a part of the tree, and the next Write completes it.
func Write(ctx context.Context, dir string, t Tree, l Limits, get func(ctx context.Context, hash string) (io.ReadCloser, error)) error {
	if err := t.Check(l); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	w := &writer{ctx: ctx, root: root, want: make(map[string]*Entry, len(t)), have: make(map[string]bool), get: get}
	for i := range t {
		w.want[t[i].Name] = &t[i]
	}
	if err := w.clear(root, ""); err != nil {
		return err
	}
	for _, e := range t {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.make(e); err != nil {
			return fmt.Errorf("%s: %w", shown(e.Name), err)
		}
	}
	for _, e := range slices.Backward(t) { // a directory changes with what is made in it
		if e.Kind == Dir {
			if err := w.finishDir(e); err != nil {
				return fmt.Errorf("%s: %w", shown(e.Name), err)
			}
		}
	}
	return nil
}

// A writer is one call of Write.
type writer struct {
	ctx  context.Context
	root *os.Root
	want map[string]*Entry
	have map[string]bool // entries that exist as they should, except for modes and times of directories
	get  func(ctx context.Context, hash string) (io.ReadCloser, error)
}

// clear removes what the tree does not have from a directory, and notes what it has.
func (w *writer) clear(dir *os.Root, name string) error {
	names, err := listNames(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", shown(name), err)
	}
	for _, base := range names {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		at := path.Join(name, base)
		info, err := dir.Lstat(base)
		if err != nil {
			return fmt.Errorf("%s: %w", shown(at), err)
		}
		if info.IsDir() && info.Mode().Perm()&0o700 != 0o700 { // otherwise nothing in it can be changed
			if err := dir.Chmod(base, info.Mode().Perm()|0o700); err != nil {
				return err
			}
		}
		e := w.want[at]
		if e != nil && e.Kind == Dir && info.IsDir() {
			sub, err := dir.OpenRoot(base)
			if err != nil {
				return err
			}
			err = w.clear(sub, at)
			if sub.Close(); err != nil {
				return err
			}
			w.have[at] = true
			continue
		}
		if e != nil {
			same, err := isSame(dir, base, info, *e)
			if err != nil {
				return fmt.Errorf("%s: %w", shown(at), err)
			}
			if w.have[at] = same; same {
				continue
			}
		}
		if err := removeAll(dir, base, info); err != nil {
			return fmt.Errorf("%s: %w", shown(at), err)
		}
	}
	return nil
}

// removeAll removes a file or a directory, also one that a command has closed.
func removeAll(dir *os.Root, base string, info fs.FileInfo) error {
	if !info.IsDir() {
		return dir.Remove(base)
	}
	sub, err := dir.OpenRoot(base)
	if err != nil {
		return err
	}
	defer sub.Close()
	names, err := listNames(sub)
	if err != nil {
		return err
	}
	for _, name := range names {
		is, err := sub.Lstat(name)
		if err == nil && is.IsDir() && is.Mode().Perm()&0o700 != 0o700 {
			err = sub.Chmod(name, 0o700)
		}
		if err == nil {
			err = removeAll(sub, name, is)
		}
		if err != nil {
			return err
		}
	}
	return dir.Remove(base)
}

// isSame reports whether what exists is an entry that is no directory.
func isSame(dir *os.Root, base string, info fs.FileInfo, e Entry) (bool, error) {
	switch e.Kind {
	case Link:
		if info.Mode()&fs.ModeSymlink == 0 {
			return false, nil
		}
		target, err := dir.Readlink(base)
		return target == e.Target, err
	case Gone:
		return isMark(info), nil
	case File:
	default:
		return false, nil
	}
	if !info.Mode().IsRegular() || info.Size() != e.Size || uint32(info.Mode().Perm()) != e.Mode || hasOtherNames(info) {
		return false, nil
	}
	f, attributes, err := openFile(dir, base, info)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if !equalAttributes(attributes, e.Attributes) {
		return false, nil
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil || hex.EncodeToString(hash.Sum(nil)) != e.Hash {
		return false, err
	}
	if info.ModTime().Equal(e.Modified) {
		return true, nil
	}
	return true, dir.Chtimes(base, time.Time{}, e.Modified)
}

// make makes an entry that does not exist.
func (w *writer) make(e Entry) error {
	if w.have[e.Name] {
		return nil
	}
	switch e.Kind {
	case Dir:
		return w.root.Mkdir(e.Name, 0o700)
	case Link:
		return w.root.Symlink(e.Target, e.Name)
	case Gone:
		dir, err := w.root.Open(path.Dir(e.Name))
		if err != nil {
			return err
		}
		defer dir.Close()
		return makeMark(dir, path.Base(e.Name))
	}
	f, err := w.root.OpenFile(e.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(w.fill(f, e), f.Close())
	if err == nil {
		err = w.root.Chtimes(e.Name, time.Time{}, e.Modified)
	}
	if err != nil {
		w.root.Remove(e.Name)
	}
	return err
}

// fill writes a new file.
func (w *writer) fill(f *os.File, e Entry) error {
	if e.Size > 0 {
		content, err := w.get(w.ctx, e.Hash)
		if err != nil {
			return err
		}
		defer content.Close()
		hash := sha256.New()
		n, err := io.Copy(io.MultiWriter(f, hash), io.LimitReader(content, e.Size+1))
		if err != nil {
			return err
		}
		if n != e.Size || hex.EncodeToString(hash.Sum(nil)) != e.Hash {
			return errors.New("its content does not have its hash and size; store the content again")
		}
	}
	if err := writeAttributes(f, e.Attributes); err != nil {
		return err
	}
	return f.Chmod(fs.FileMode(e.Mode))
}

// finishDir gives a directory its attributes, mode and time.
func (w *writer) finishDir(e Entry) error {
	f, err := w.root.Open(e.Name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	has, err := readAttributes(f)
	if err == nil && !equalAttributes(has, e.Attributes) {
		err = writeAttributes(f, e.Attributes)
	}
	if err == nil && !info.ModTime().Equal(e.Modified) {
		err = w.root.Chtimes(e.Name, time.Time{}, e.Modified)
	}
	if err == nil && uint32(info.Mode().Perm()) != e.Mode {
		err = w.root.Chmod(e.Name, fs.FileMode(e.Mode))
	}
	return err
}
