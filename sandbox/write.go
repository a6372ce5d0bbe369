package sandbox

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
)

// Write makes name a file with this content. It replaces an existing file and makes
// missing directories above it. The write is one step: readers see the old file or the
// new one, also if the process is killed. A replaced file keeps its permission bits,
// except set-id bits.
func (s *Sandbox) Write(name string, data []byte) (Info, error) {
	return s.write(name, bytes.NewReader(data), int64(len(data)), How{})
}

// WriteNew is like Write for a file that must not exist. If it exists, WriteNew returns
// ErrExists.
func (s *Sandbox) WriteNew(name string, data []byte) (Info, error) {
	return s.write(name, bytes.NewReader(data), int64(len(data)), How{New: true})
}

// WriteProgram is like WriteNew, and makes the file executable.
func (s *Sandbox) WriteProgram(name string, data []byte) (Info, error) {
	return s.write(name, bytes.NewReader(data), int64(len(data)), How{New: true, Mode: 0o777})
}

// WriteIf is like Write for a file that must still have the version that an earlier read
// or write returned. If it does not, WriteIf changes nothing and returns ErrConflict.
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
	err := s.content.check(p.name, func() (io.ReadCloser, error) {
		_, err := content.Seek(0, io.SeekStart)
		return io.NopCloser(content), err
	})
	if err != nil {
		return Info{}, err
	}
	b := p.rule.mount.Backend
	attempt := func() (Attr, error) {
		// A failed attempt may have read the content.
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

// checkNewFile returns an error if no file may be at p: because a mount or a directory
// above one is there, because of the suffix, or because the name is new and not portable.
func (s *Sandbox) checkNewFile(p location) error {
	if s.table.permanent[p.name] {
		return ErrIsDir
	}
	if err := p.checkSuffix(); err != nil {
		return err
	}
	return s.checkNewName(p)
}

// checkNewName returns an error if nothing exists at p and its name is not portable.
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

// makeDirs makes the directory rel of a mount, and the directories above it if they are
// missing.
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

// MakeDir makes a directory and the directories above it. It is not an error if the
// directory exists.
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

// MaxCopy is the size of the largest file that can be written, and that Copy, and Move
// between two mounts, copy. The holes of a sparse file count.
const MaxCopy = 4 << 30

// Copy copies a file to a name that must not exist. It also copies the permission bits.
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
