package sandbox

import (
	"io"
	"io/fs"
	"slices"
	"strings"
)

// Open implements [fs.FS]. Its names are those of io/fs, such as "." and "a/b". It does
// not accept the other forms that the operations accept. Files also implement
// [io.ReaderAt] and [io.Seeker].
func (s *Sandbox) Open(name string) (fs.File, error) {
	var file fs.File
	err := s.doFS(request{op: "open", access: ReadOnly, dirs: true}, name, func(asked string, p location) error {
		attr, err := s.attr(p)
		if err != nil {
			return err
		}
		switch {
		case attr.Mode&fs.ModeSymlink != 0:
			return ErrLink
		case attr.Mode.IsDir():
			entries, err := s.entriesAt(p, nil)
			if err != nil {
				return err
			}
			slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
			file = &fsDir{sandbox: s, info: Info{asked, attr}, rest: entries}
			return nil
		}
		f, err := s.open(p)
		if err != nil {
			return err
		}
		info := Info{asked, f.Attr()}
		file = &fsFile{SectionReader: io.NewSectionReader(f, 0, info.Size()), file: f, info: info}
		return nil
	})
	return file, err
}

// ReadFile implements [fs.ReadFileFS], with the size limit of [Sandbox.Read].
func (s *Sandbox) ReadFile(name string) ([]byte, error) {
	var data []byte
	err := s.doFS(request{op: "open", access: ReadOnly}, name, func(_ string, p location) (err error) {
		data, _, err = s.readAt(p)
		return err
	})
	return data, err
}

// Lstat implements [fs.ReadLinkFS]: it describes a symlink itself.
func (s *Sandbox) Lstat(name string) (fs.FileInfo, error) {
	var info Info
	req := request{op: "lstat", access: ReadOnly, dirs: true, noFollow: true}
	err := s.doFS(req, name, func(asked string, p location) error {
		attr, err := s.attr(p)
		info = Info{asked, attr}
		return err
	})
	if err != nil {
		return nil, err
	}
	return info, nil
}

// ReadLink implements [fs.ReadLinkFS]. For a symlink that leaves its mount it returns an
// error, because the target is a path of the host.
func (s *Sandbox) ReadLink(name string) (string, error) {
	var target string
	req := request{op: "readlink", access: ReadOnly, noFollow: true}
	err := s.doFS(req, name, func(_ string, p location) error {
		attr, err := s.attr(p)
		switch {
		case err != nil:
			return err
		case attr.Mode&fs.ModeSymlink == 0:
			return &Error{Code: ErrInvalid, Hint: "it is not a symlink"}
		}
		if strings.HasPrefix(attr.Target, "/") {
			return errLinkOutside
		}
		target = attr.Target
		_, err = s.followParts(p.rule.mount, parent(p.name), strings.Split(target, "/"), false)
		return err
	})
	if err != nil {
		return "", err
	}
	return target, nil
}

// doFS is do for the names and errors of io/fs. It passes act the name that the caller
// asked for, since io/fs expects results under that name.
func (s *Sandbox) doFS(req request, name string, act func(asked string, p location) error) error {
	err := error(s.invalid(req, name, "a name of io/fs is relative, such as a/b, without . and .."))
	if fs.ValidPath(name) {
		asked := "/" + name
		if name == "." {
			asked = "/"
		}
		err = s.do(req, asked, func(p location) error { return act(asked, p) })
	}
	if err != nil {
		return &fs.PathError{Op: req.op, Path: name, Err: err}
	}
	return nil
}

// fsFile is an open regular file. It keeps the length that the file had when it was
// opened.
type fsFile struct {
	*io.SectionReader
	file File
	info Info
}

func (f *fsFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *fsFile) Close() error               { return f.file.Close() }

// fsDir is an open directory, with the entries that it had when it was opened.
type fsDir struct {
	sandbox *Sandbox
	info    Info
	rest    []Entry
}

func (d *fsDir) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *fsDir) Close() error               { return nil }

func (d *fsDir) Read([]byte) (int, error) {
	e := &Error{Op: "read", Path: d.info.path, Code: ErrIsDir, Hint: "it is a directory; read its entries"}
	return 0, &fs.PathError{Op: e.Op, Path: d.info.Name(), Err: e}
}

// ReadDir returns the next n entries, or all if n <= 0.
func (d *fsDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		n = len(d.rest)
	} else if len(d.rest) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(d.rest))
	list := make([]fs.DirEntry, n)
	for i, e := range d.rest[:n] {
		list[i] = dirEntry{e, d.sandbox, join(d.info.path, e.Name)}
	}
	d.rest = d.rest[n:]
	return list, nil
}

// dirEntry is an Entry that implements fs.DirEntry.
type dirEntry struct {
	entry   Entry
	sandbox *Sandbox
	path    string
}

func (e dirEntry) Name() string      { return e.entry.Name }
func (e dirEntry) IsDir() bool       { return e.entry.IsDir() }
func (e dirEntry) Type() fs.FileMode { return e.entry.Type }

// Info describes the entry itself. It does not follow a symlink.
func (e dirEntry) Info() (fs.FileInfo, error) {
	return e.sandbox.Lstat(e.path[1:])
}
