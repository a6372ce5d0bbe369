package sandbox

import (
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// rootDir is a directory of the host that uses os.Root, on systems other than Linux and
// on kernels without openat2. os.Root keeps every name inside the directory but follows
// symlinks there. So rootDir opens a name part by part. It calls Lstat for a part,
// refuses a symlink, opens the part, and continues only if the opened file is the one
// that Lstat described.
type rootDir struct {
	top    *os.Root
	prefix string
	traits Traits
}

func openRoot(base, source Host) (*rootDir, error) {
	dir, prefix, err := findSource(base, source)
	if err != nil {
		return nil, err
	}
	// os.OpenRoot has no error that identifies this case.
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return nil, ErrNotDir
	}
	top, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	d := &rootDir{top: top, prefix: prefix}
	d.traits = Traits{Host: Host(filepath.Join(dir, filepath.FromSlash(prefix))), FoldsCase: rootFoldsCase(top)}
	switch attr, err := d.Lstat("."); {
	case err != nil && (base == "" || !os.IsNotExist(err)):
		return nil, sourceError(err)
	case err == nil && attr.Mode&fs.ModeSymlink != 0:
		return nil, sourceError(ErrLink)
	case err == nil && !attr.Mode.IsDir():
		return nil, ErrNotDir
	}
	return d, nil
}

func (d *rootDir) Traits() Traits { return d.traits }

// Format hides the directory from package fmt.
func (d *rootDir) Format(w fmt.State, verb rune) { d.traits.Host.Format(w, verb) }

// in opens the directory of name, calls act with it and the last part, and closes the
// directory. The last part of the mount's own directory is ".".
func (d *rootDir) in(name string, act func(dir *os.Root, base string) error) error {
	dir, base := path.Split(path.Join(d.prefix, name))
	at := d.top
	for part := range strings.SplitSeq(strings.TrimSuffix(dir, "/"), "/") {
		if part == "" {
			continue
		}
		next, err := step(at, part)
		if at != d.top {
			at.Close()
		}
		if err != nil {
			return err
		}
		at = next
	}
	if at != d.top {
		defer at.Close()
	}
	return act(at, base)
}

// step opens a directory inside another. It refuses a symlink.
func step(at *os.Root, part string) (*os.Root, error) {
	seen, err := at.Lstat(part)
	switch {
	case err != nil:
		return nil, err
	case seen.Mode()&fs.ModeSymlink != 0:
		return nil, ErrLink
	case !seen.IsDir():
		return nil, ErrNotDir
	}
	next, err := at.OpenRoot(part)
	if err != nil {
		return nil, err
	}
	opened, err := next.Stat(".")
	if err == nil && !os.SameFile(seen, opened) {
		err = ErrLink // somebody replaced the directory in between
	}
	if err != nil {
		next.Close()
		return nil, err
	}
	return next, nil
}

func (d *rootDir) Open(name string) (file File, err error) {
	err = d.in(name, func(dir *os.Root, base string) error {
		file, err = openRootFile(dir, base)
		return err
	})
	return file, err
}

// openRootFile opens a file or directory. It tries again if the file was replaced in
// between, which happens whenever somebody writes it.
func openRootFile(dir *os.Root, base string) (File, error) {
	for range maxAttempts {
		f, err := openChecked(dir, base)
		if f != nil || err != nil {
			return f, err
		}
	}
	return nil, ErrLink
}

// openChecked opens a file after a check. It returns nil if the opened file is another
// one than it checked.
func openChecked(dir *os.Root, base string) (File, error) {
	seen, err := dir.Lstat(base)
	switch {
	case err != nil:
		return nil, err
	case seen.Mode()&fs.ModeSymlink != 0:
		return nil, ErrLink
	case !seen.Mode().IsRegular() && !seen.IsDir():
		return nil, ErrNotRegular
	}
	f, err := dir.OpenFile(base, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	opened, err := f.Stat()
	if err != nil || !os.SameFile(seen, opened) {
		f.Close()
		return nil, err
	}
	return rootFile{f, infoAttr(opened)}, nil
}

func (d *rootDir) Lstat(name string) (attr Attr, err error) {
	err = d.in(name, func(dir *os.Root, base string) error {
		info, err := dir.Lstat(base)
		if err != nil {
			return err
		}
		attr = infoAttr(info)
		if attr.Mode&fs.ModeSymlink != 0 {
			attr.Target, err = dir.Readlink(base)
			if filepath.IsAbs(attr.Target) || filepath.VolumeName(attr.Target) != "" {
				attr.Target = "/"
			}
			attr.Target = filepath.ToSlash(attr.Target)
		}
		return err
	})
	return attr, err
}

func (d *rootDir) Write(name string, content io.Reader, how How) (attr Attr, err error) {
	if name == "." {
		return Attr{}, ErrIsDir
	}
	err = d.in(name, func(dir *os.Root, base string) error {
		old, err := statRootReplaced(dir, base, how)
		if err != nil {
			return err
		}
		perm := how.perm()
		if old != nil {
			perm = old.Mode().Perm()
		}
		f, temp, err := createRootTemp(dir, perm)
		if err != nil {
			return err
		}
		attr, err = finishRootWrite(dir, f, temp, base, content, how, old)
		f.Close()
		if err != nil {
			dir.Remove(temp)
		}
		return err
	})
	return attr, err
}

func statRootReplaced(dir *os.Root, base string, how How) (fs.FileInfo, error) {
	old, err := dir.Lstat(base)
	switch {
	case os.IsNotExist(err) && how.If.IsZero():
		return nil, nil
	case os.IsNotExist(err):
		return nil, ErrConflict
	case err != nil:
		return nil, err
	}
	return old, infoAttr(old).checkReplace(how)
}

func createRootTemp(dir *os.Root, perm fs.FileMode) (f *os.File, name string, err error) {
	for range 100 {
		name = tempPrefix + strconv.FormatUint(rand.Uint64(), 36)
		f, err = dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		if !os.IsExist(err) {
			break
		}
	}
	return f, name, err
}

// finishRootWrite writes the content into the temporary file and gives it its name.
func finishRootWrite(dir *os.Root, f *os.File, temp, base string, content io.Reader, how How, old fs.FileInfo) (Attr, error) {
	if _, err := io.Copy(f, content); err != nil {
		return Attr{}, err
	}
	if old != nil {
		keepOwner(f, old)
		if err := f.Chmod(old.Mode().Perm()); err != nil {
			return Attr{}, err
		}
	}
	unlock, err := lockDir(dir)
	if err != nil {
		return Attr{}, err
	}
	defer unlock()
	now, err := statRootReplaced(dir, base, how)
	if err != nil {
		return Attr{}, err
	}
	if !how.If.IsZero() {
		open := func() (io.ReadCloser, error) {
			f, err := openRootFile(dir, base)
			if err != nil {
				return nil, err
			}
			return f.(rootFile), nil
		}
		if err := how.If.check(infoAttr(now), open); err != nil {
			return Attr{}, err
		}
	}
	// Windows cannot rename an open file.
	if err := f.Close(); err != nil {
		return Attr{}, err
	}
	if err := dir.Rename(temp, base); err != nil {
		return Attr{}, err
	}
	info, err := dir.Lstat(base)
	if err != nil {
		return Attr{}, err
	}
	return infoAttr(info), nil
}

func (d *rootDir) Mkdir(name string) error {
	if name == "." {
		if d.prefix == "." {
			return fs.ErrExist
		}
		top := &rootDir{top: d.top, prefix: "."}
		if err := makeDirs(top, path.Dir(d.prefix)); err != nil {
			return err
		}
	}
	return d.in(name, func(dir *os.Root, base string) error { return dir.Mkdir(base, 0o777) })
}

func (d *rootDir) Rename(from, to string) error {
	if from == "." || to == "." {
		return ErrInvalid
	}
	return d.in(from, func(fromDir *os.Root, fromBase string) error {
		return d.in(to, func(toDir *os.Root, toBase string) error {
			if _, err := toDir.Lstat(toBase); !os.IsNotExist(err) {
				if err == nil {
					err = fs.ErrExist
				}
				return err
			}
			return d.rename(from, fromDir, fromBase, to, toDir, toBase)
		})
	})
}

func (d *rootDir) Remove(name string) error {
	if name == "." {
		return ErrInvalid
	}
	return d.in(name, func(dir *os.Root, base string) error { return dir.Remove(base) })
}

// rootFile is an open file of a rootDir.
type rootFile struct {
	*os.File
	attr Attr
}

// Symlink implements Restorer.
func (d *rootDir) Symlink(target, name string) error {
	return d.in(name, func(dir *os.Root, base string) error { return dir.Symlink(filepath.FromSlash(target), base) })
}

// SetAttr implements Restorer. It does not change owners.
func (d *rootDir) SetAttr(name string, was Attr) error {
	return d.in(name, func(dir *os.Root, base string) error {
		now, err := dir.Lstat(base)
		if err != nil {
			return err
		}
		if now.Mode()&fs.ModeSymlink != 0 {
			return ErrLink
		}
		return dir.Chmod(base, was.Mode.Perm())
	})
}

func (f rootFile) Attr() Attr { return f.attr }

func (f rootFile) ReadDir() ([]Entry, error) {
	if !f.attr.Mode.IsDir() {
		return nil, ErrNotDir
	}
	found, err := f.File.ReadDir(-1)
	list := make([]Entry, len(found))
	for i, e := range found {
		list[i] = Entry{e.Name(), e.Type()}
	}
	return list, err
}

// infoAttr returns the attributes in the result of a Stat.
func infoAttr(info fs.FileInfo) Attr {
	a := Attr{Size: info.Size(), Mode: info.Mode(), ModTime: info.ModTime(), Changed: info.ModTime().UnixNano()}
	identify(&a, info)
	return a
}
