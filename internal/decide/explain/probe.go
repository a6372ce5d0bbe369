package explain

import (
	"errors"
	"io"
	"io/fs"
	"path"

	"github.com/golem-forge/golem/internal/work/project"
	"github.com/golem-forge/golem/sandbox"
)

// A probe is a backend for a directory of the host that changes nothing: where a real
// backend would change a file, it checks whether it could.
type probe struct {
	sandbox.Backend
	emptied bool // directories count as empty
}

// ProbeMount returns a mount whose backend changes nothing.
func ProbeMount(m project.Mount) (sandbox.Mount, error) {
	b, err := sandbox.DirIn(m.Base, m.Source)
	return sandbox.Mount{Backend: &probe{Backend: b}, Access: m.Access()}, err
}

// Open opens only files and directories: opening a pipe or a device, even for a moment,
// may have an effect.
func (p *probe) Open(name string) (sandbox.File, error) {
	attr, err := p.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case attr.Mode&fs.ModeSymlink != 0:
		return nil, sandbox.ErrLink
	case !attr.Mode.IsRegular() && !attr.Mode.IsDir():
		return nil, sandbox.ErrNotRegular
	}
	return p.Backend.Open(name)
}

// Write checks whether name could be written.
func (p *probe) Write(name string, _ io.Reader, _ sandbox.How) (sandbox.Attr, error) {
	attr, err := p.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return sandbox.Attr{}, p.mayMakeIn(path.Dir(name))
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
	return attr, p.mayChange(path.Dir(name))
}

// mayMakeIn checks whether a file could be made in a directory that may be missing.
func (p *probe) mayMakeIn(dir string) error {
	_, err := p.Lstat(dir)
	for errors.Is(err, fs.ErrNotExist) && dir != "." {
		dir = path.Dir(dir)
		_, err = p.Lstat(dir)
	}
	if err != nil {
		return err
	}
	return p.mayChange(dir)
}

// mayChange checks whether the host lets this process change the entries of a directory.
func (p *probe) mayChange(dir string) error {
	return hostWritable(path.Join(string(p.Traits().Host), dir))
}

// Mkdir is never called: Write checks the directories above a file itself.
func (p *probe) Mkdir(string) error { return sandbox.ErrInternal }

// Rename is never called: no question is about two names.
func (p *probe) Rename(_, _ string) error { return sandbox.ErrInternal }

// Remove checks whether name could be removed.
func (p *probe) Remove(name string) error {
	attr, err := p.Lstat(name)
	if err != nil {
		return err
	}
	if attr.Mode.IsDir() && !p.emptied {
		f, err := p.Open(name)
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
	return p.mayChange(path.Dir(name))
}
