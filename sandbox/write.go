package sandbox

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
)

// Write makes name a file with this content, whether or not there was one. The
// directories above it are made. It is one step: a reader, another process or a
// kill finds the old file or the new one. A file that is replaced keeps its
// permission bits; set-id bits are never kept.
func (s *Sandbox) Write(name string, data []byte) (Info, error) {
	return s.write(name, bytes.NewReader(data), int64(len(data)), How{})
}

// WriteNew is Write for a file that must not exist: otherwise it is ErrExists.
func (s *Sandbox) WriteNew(name string, data []byte) (Info, error) {
	return s.write(name, bytes.NewReader(data), int64(len(data)), How{New: true})
}

// WriteProgram is WriteNew for a file that is executable.
func (s *Sandbox) WriteProgram(name string, data []byte) (Info, error) {
	return s.write(name, bytes.NewReader(data), int64(len(data)), How{New: true, Mode: 0o777})
}

// WriteIf is Write for a file that must still be at the version that an earlier
// read or write returned: otherwise it is ErrConflict and nothing is lost.
func (s *Sandbox) WriteIf(name string, data []byte, v Version) (Info, error) {
	if v.IsZero() {
		return Info{}, &Error{Op: "write", Path: name, Code: ErrInvalid, Hint: "the version is missing; read the file first"}
	}
	return s.write(name, bytes.NewReader(data), int64(len(data)), How{If: v})
}

// write writes content of size bytes.
func (s *Sandbox) write(name string, content io.ReadSeeker, size int64, how How) (info Info, err error) {
	err = s.do(request{op: "write", access: ReadWrite}, name, func(p location) error {
		info, err = s.put(p, content, size, how)
		return err
	})
	if err != nil {
		return Info{}, err
	}
	return info, nil
}

// put writes content at p, and makes the directories above it.
func (s *Sandbox) put(p location, content io.ReadSeeker, size int64, how How) (Info, error) {
	if err := s.checkNewFile(p); err != nil {
		return Info{}, err
	}
	most := int64(MaxCopy)
	if limit := p.rule.maxBytes(); limit > 0 {
		most = min(most, limit)
	}
	if size > most {
		return Info{}, tooLarge(size, most, "")
	}
	b := p.rule.mount.Backend
	attempt := func() (Attr, error) {
		// One that failed late has read the content already.
		if _, err := content.Seek(0, io.SeekStart); err != nil {
			return Attr{}, err
		}
		return b.Write(p.rel, content, how)
	}
	attr, err := attempt()
	if errors.Is(err, fs.ErrNotExist) && how.If.IsZero() {
		if err = makeDirs(b, path.Dir(p.rel)); err == nil {
			attr, err = attempt()
		}
	}
	return Info{p.name, attr}, err
}

// mayHold reports whether the place may hold a file of its name: no directory that
// is always there, no suffix that is not allowed, and no new file with a name
// that is not one everywhere.
func (s *Sandbox) checkNewFile(p location) error {
	if s.table.permanent[p.name] {
		return ErrIsDir
	}
	if err := p.checkSuffix(); err != nil {
		return err
	}
	return s.checkNewName(p)
}

// mayMake reports whether the place may be made, as a file or a directory.
func (s *Sandbox) checkNewName(p location) error {
	if portablePath(p.rel) {
		return nil
	}
	if _, err := p.rule.mount.Backend.Lstat(p.rel); errors.Is(err, fs.ErrNotExist) {
		return &Error{Code: ErrInvalid, Hint: "the name is a device, drive or share on other systems; choose another"}
	}
	return nil
}

func portablePath(rel string) bool {
	for part := range strings.SplitSeq(rel, "/") {
		if !portable(part) {
			return false
		}
	}
	return true
}

// makeFolders makes the directory rel of a mount, and those above it where they
// are missing.
func makeDirs(b Backend, rel string) error {
	err := b.Mkdir(rel)
	if errors.Is(err, fs.ErrNotExist) && rel != "." {
		if err = makeDirs(b, path.Dir(rel)); err == nil {
			err = b.Mkdir(rel)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// MakeDir makes a directory and those above it. One that is there already is fine.
func (s *Sandbox) MakeDir(name string) error {
	return s.do(request{op: "make", access: ReadWrite}, name, func(p location) error {
		if err := s.checkNewName(p); err != nil {
			return err
		}
		b := p.rule.mount.Backend
		attr, err := s.attr(p)
		if errors.Is(err, fs.ErrNotExist) {
			if err := makeDirs(b, p.rel); err != nil {
				return err
			}
			attr, err = b.Lstat(p.rel)
		}
		switch {
		case err != nil:
			return err
		case attr.Mode&fs.ModeSymlink != 0:
			return ErrLink
		case !attr.Mode.IsDir():
			return ErrExists
		}
		return nil
	})
}

// MaxCopy is the largest file that is copied: by Copy, and by Move between two
// mounts. A file of holes is as large as it says.
const MaxCopy = 4 << 30

// Copy copies a file to a name that must not exist. Permission bits come along.
func (s *Sandbox) Copy(from, to string) (Info, error) {
	var info Info
	err := s.do(request{op: "copy", access: ReadOnly}, from, func(p location) error {
		f, err := s.open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		attr := f.Attr()
		content := io.NewSectionReader(f, 0, attr.Size)
		info, err = s.write(to, content, attr.Size, How{New: true, Mode: attr.Mode.Perm()})
		return err
	})
	if err != nil {
		return Info{}, err
	}
	return info, nil
}
