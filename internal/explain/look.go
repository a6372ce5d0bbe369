package explain

import (
	"errors"
	"io"
	"io/fs"
	"path"

	"github.com/golem-forge/golem/internal/project"
	"github.com/golem-forge/golem/sandbox"
)

// A look is a folder of the host that cannot be changed: where a real backend
// would change something, look finds out whether it could, and leaves it. So a
// real sandbox can be asked a real question, and nothing happens.
type look struct {
	sandbox.Backend
	emptied bool // folders are asked about as if all in them were gone
}

// Folder shows the folder of a mount to be looked at.
func Folder(m project.Mount) (sandbox.Mount, error) {
	b, err := sandbox.DirIn(m.Base, m.Source)
	return sandbox.Mount{Backend: &look{Backend: b}, Access: m.Access()}, err
}

// Open opens only what is a file or a folder: to open a pipe or a device, even
// for a moment, may do something.
func (l *look) Open(name string) (sandbox.File, error) {
	attr, err := l.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case attr.Mode&fs.ModeSymlink != 0:
		return nil, sandbox.ErrLink
	case !attr.Mode.IsRegular() && !attr.Mode.IsDir():
		return nil, sandbox.ErrNotRegular
	}
	return l.Backend.Open(name)
}

// Write reports whether name could be written.
func (l *look) Write(name string, _ io.Reader, _ sandbox.How) (sandbox.Attr, error) {
	attr, err := l.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return sandbox.Attr{}, l.mayMakeIn(path.Dir(name))
	case err != nil:
		return sandbox.Attr{}, err
	case attr.Mode&fs.ModeSymlink != 0:
		return sandbox.Attr{}, sandbox.ErrLink
	case attr.Mode.IsDir():
		return sandbox.Attr{}, sandbox.ErrIsDir
	case !attr.Mode.IsRegular():
		return sandbox.Attr{}, sandbox.ErrNotRegular
	case attr.Mode.Perm()&0o222 == 0:
		return sandbox.Attr{}, &sandbox.Error{Code: sandbox.ErrReadOnly, Hint: "its permission bits let nobody write it"}
	}
	return attr, l.mayChange(path.Dir(name))
}

// mayMakeIn reports whether the folder, and those above it that are missing,
// could be made, and a file in it.
func (l *look) mayMakeIn(dir string) error {
	_, err := l.Lstat(dir)
	for errors.Is(err, fs.ErrNotExist) && dir != "." {
		dir = path.Dir(dir)
		_, err = l.Lstat(dir)
	}
	if err != nil {
		return err
	}
	return l.mayChange(dir)
}

// mayChange reports whether the host lets us change the entries of a folder.
func (l *look) mayChange(dir string) error {
	return hostWritable(path.Join(string(l.Traits().Host), dir))
}

// Mkdir is never asked: Write looks at the folders above a file itself.
func (l *look) Mkdir(string) error { return sandbox.ErrInternal }

// Rename is never asked: no question is about two names.
func (l *look) Rename(_, _ string) error { return sandbox.ErrInternal }

// Remove reports whether name could be removed.
func (l *look) Remove(name string) error {
	attr, err := l.Lstat(name)
	if err != nil {
		return err
	}
	if attr.Mode.IsDir() && !l.emptied {
		f, err := l.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		entries, err := f.ReadDir()
		if err != nil {
			return err
		}
		if len(entries) > 0 {
			return sandbox.ErrNotEmpty
		}
	}
	return l.mayChange(path.Dir(name))
}
