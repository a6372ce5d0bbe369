package sandbox

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
)

// A Restorer is a backend that can restore symlinks and attributes, which no other
// operation can. The backends of [Dir] and of a Mount with a Source are Restorers.
type Restorer interface {
	// Symlink makes name a symlink to target. If name exists, it returns ErrExists.
	Symlink(target, name string) error
	// SetAttr gives the file or directory at name the permission bits of was and, if the
	// process may do that, its owner and group. Set-id bits of a file are not set.
	SetAttr(name string, was Attr) error
}

// Restore restores a deleted file with this content, a directory, or a symlink with any
// target. Nothing may exist at name. Restore makes the directories above it. Only the
// owner can use a restored directory until the caller restores everything in it and calls
// [Sandbox.RestoreAttr].
func (s *Sandbox) Restore(name string, content []byte, was Attr) error {
	return s.do(request{op: "restore", access: ReadWrite, noFollow: true}, name, func(p location) error {
		b := p.rule.mount.Backend
		r, ok := b.(Restorer)
		if !ok {
			return &Error{Code: ErrInvalid, Hint: "this mount cannot restore files"}
		}
		if s.table.permanent[p.name] {
			return ErrExists
		}
		if was.Mode.IsRegular() {
			if _, err := s.put(p, bytes.NewReader(content), int64(len(content)), How{New: true, Mode: 0o600}); err != nil {
				return err
			}
			return r.SetAttr(p.rel, was)
		}
		if err := s.checkNewName(p); err != nil {
			return err
		}
		make := func() error {
			if was.Mode&fs.ModeSymlink != 0 {
				return r.Symlink(was.Target, p.rel)
			}
			return b.Mkdir(p.rel)
		}
		err := make()
		if errors.Is(err, fs.ErrNotExist) {
			if err = makeDirs(b, path.Dir(p.rel)); err == nil {
				err = make()
			}
		}
		if err != nil || was.Mode&fs.ModeSymlink != 0 {
			return err
		}
		private := was
		private.Mode = fs.ModeDir | 0o700
		return r.SetAttr(p.rel, private)
	})
}

// RestoreAttr gives a file or directory the permission bits of was, and its owner if the
// process may do that.
func (s *Sandbox) RestoreAttr(name string, was Attr) error {
	return s.do(request{op: "restore", access: ReadWrite, noFollow: true}, name, func(p location) error {
		r, ok := p.rule.mount.Backend.(Restorer)
		if !ok {
			return &Error{Code: ErrInvalid, Hint: "this mount cannot restore permission bits"}
		}
		return r.SetAttr(p.rel, was)
	})
}
