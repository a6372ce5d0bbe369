package sandbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"
)

// MaxRead is the size of the largest file that Read reads.
const MaxRead = 64 << 20

// Read returns the content of a file of at most MaxRead bytes. To read a part of a larger
// file use [Sandbox.ReadRange].
func (s *Sandbox) Read(name string) ([]byte, error) {
	data, _, err := s.readWhole(name)
	return data, err
}

// ReadVersion is like Read, and also returns the version of the content for
// [Sandbox.WriteIf].
func (s *Sandbox) ReadVersion(name string) ([]byte, Version, error) {
	data, attr, err := s.readWhole(name)
	if err != nil {
		return nil, Version{}, err
	}
	return data, attr.version().With(data), nil
}

func (s *Sandbox) readWhole(name string) (data []byte, attr Attr, err error) {
	err = s.do(request{op: "read", access: ReadOnly}, name, func(p location) (err error) {
		data, attr, err = s.readAt(p)
		return err
	})
	return data, attr, err
}

// readAt reads the whole file at p.
func (s *Sandbox) readAt(p location) ([]byte, Attr, error) {
	f, err := s.open(p)
	if err != nil {
		return nil, Attr{}, err
	}
	defer f.Close()
	attr := f.Attr()
	if attr.Size > MaxRead {
		return nil, attr, tooLarge(attr.Size, MaxRead, "read a part of it by offset")
	}
	data, err := readAll(f, attr.Size, p.rule.maxBytes())
	return data, attr, err
}

// ReadRange returns up to length bytes of a file, starting at offset. It returns fewer
// bytes at the end of the file and none after it. The Info describes the file that was
// read.
func (s *Sandbox) ReadRange(name string, offset int64, length int) ([]byte, Info, error) {
	var data []byte
	var info Info
	req := request{op: "read", access: ReadOnly}
	if offset < 0 || length < 0 || length > MaxRead {
		return nil, info, &Error{Op: req.op, Path: name, Code: ErrInvalid,
			Hint: fmt.Sprintf("the offset must not be negative, and the length must be between 0 and %d", MaxRead)}
	}
	err := s.do(req, name, func(p location) error {
		f, err := s.open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		info = Info{p.name, f.Attr()}
		left := max(0, info.Size()-offset)
		data = make([]byte, min(int64(length), left))
		n, err := io.ReadFull(io.NewSectionReader(f, offset, left), data)
		data = data[:n]
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil // the file became shorter after it was opened
		}
		return err
	})
	if err != nil {
		return nil, Info{}, err
	}
	return data, info, nil
}

// open opens a regular file if the suffix and size limits allow it.
func (s *Sandbox) open(p location) (File, error) {
	if s.table.permanent[p.name] {
		return nil, ErrIsDir
	}
	if err := p.checkSuffix(); err != nil {
		return nil, err
	}
	f, err := p.rule.mount.Backend.Open(p.rel)
	if err != nil {
		return nil, err
	}
	attr := f.Attr()
	if attr.Mode.IsDir() {
		err = ErrIsDir
	} else if most := p.rule.maxBytes(); most > 0 && attr.Size > most {
		err = tooLarge(attr.Size, most, "")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// checkSuffix returns an error if the suffix limits do not allow the name of p.
func (p location) checkSuffix() error {
	if allowed := p.rule.suffix(p.name); allowed != nil {
		return &Error{Code: ErrSuffix, Hint: "allowed: " + joinNames(allowed)}
	}
	return nil
}

func tooLarge(size, most int64, then string) *Error {
	hint := fmt.Sprintf("%d bytes, at most %d", size, most)
	if then != "" {
		hint += "; " + then
	}
	return &Error{Code: ErrTooLarge, Hint: hint}
}

// readAll reads a file of about the given size. It needs one call unless the file
// changes: a short read has met the end. If the file grows, readAll reads on up to the
// limit.
func readAll(f io.ReaderAt, size, most int64) ([]byte, error) {
	if most == 0 || most > MaxRead {
		most = MaxRead
	}
	buf := make([]byte, 0, size+1)
	for {
		n, err := f.ReadAt(buf[len(buf):cap(buf)], int64(len(buf)))
		buf = buf[:len(buf)+n]
		if int64(len(buf)) > most {
			return nil, tooLarge(int64(len(buf)), most, "it is growing")
		}
		if err == io.EOF {
			return buf, nil
		}
		if err != nil {
			return nil, err
		}
		if len(buf) == cap(buf) {
			buf = slices.Grow(buf, max(512, len(buf)))
		}
	}
}

// Stat describes a file or directory. It follows symlinks.
func (s *Sandbox) Stat(name string) (Info, error) {
	return s.stat(request{op: "stat", access: ReadOnly, dirs: true}, name)
}

func (s *Sandbox) stat(req request, name string) (Info, error) {
	var info Info
	err := s.do(req, name, func(p location) error {
		attr, err := s.attr(p)
		if err != nil {
			return err
		}
		if attr.Mode&fs.ModeSymlink != 0 {
			return ErrLink
		}
		info = Info{p.name, attr}
		return nil
	})
	return info, err
}

// attr returns the attributes at p. It returns syntheticDir for a directory that is shown
// only because a mount is in it.
func (s *Sandbox) attr(p location) (Attr, error) {
	err := error(ErrNotFound)
	var attr Attr
	if p.rule.mount != nil {
		attr, err = p.rule.mount.Backend.Lstat(p.rel)
	}
	if s.table.permanent[p.name] && (isMissing(err) || err == ErrLink || err == nil && !attr.Mode.IsDir()) {
		return syntheticDir, nil
	}
	if err == nil && p.rule.access == None {
		if !attr.Mode.IsDir() {
			return attr, ErrNotFound
		}
		return syntheticDir, nil // do not reveal attributes of a directory that is shown only for what is below it
	}
	return attr, err
}

// syntheticDir describes a directory that no backend has.
var syntheticDir = Attr{Mode: fs.ModeDir | 0o555}

func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNotDir) || isNotDir(err)
}

// Exists reports whether there is a file or directory at name. An invalid name, or a
// symlink that leaves its mount, is an error.
func (s *Sandbox) Exists(name string) (bool, error) {
	found := false
	err := s.do(request{op: "exists", access: ReadOnly, dirs: true, noSuggestions: true}, name, func(p location) error {
		attr, err := s.attr(p)
		switch {
		case isMissing(err):
			return nil
		case err == nil && attr.Mode&fs.ModeSymlink != 0:
			return ErrLink
		}
		found = err == nil
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return found, err
}

// List returns the entries of a directory, ordered by name. It includes mounts, even if
// they do not exist on disk. It lists symlinks as symlinks. It skips names that no caller
// could use, because they are not valid UTF-8 or too long.
func (s *Sandbox) List(name string) ([]Entry, error) {
	list, _, err := s.ListCount(name)
	return list, err
}

// ListCount is like List, and also returns the number of skipped names.
func (s *Sandbox) ListCount(name string) (list []Entry, unnamed int, err error) {
	var left atomic.Int64
	err = s.do(request{op: "list", access: ReadOnly, dirs: true}, name, func(p location) (err error) {
		list, err = s.entriesAt(p, &left)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	slices.SortFunc(list, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return list, int(left.Load()), nil
}

// entries lists the directory at a canonical name that has no symlinks in it.
func (s *Sandbox) entries(name string) ([]Entry, error) {
	p, err := s.authorize(request{access: ReadOnly, dirs: true}, name)
	if err != nil {
		return nil, err
	}
	return s.entriesAt(p, nil)
}

// entriesAt returns the entries that a caller may see in the directory at p, in any
// order. It counts the names that no caller could use in unnamed.
func (s *Sandbox) entriesAt(p location, unnamed *atomic.Int64) ([]Entry, error) {
	list, err := s.readDir(p)
	if err != nil && !(s.table.permanent[p.name] && (isMissing(err) || err == ErrLink)) {
		return nil, err
	}
	mounted := s.table.children[p.name]
	list = slices.DeleteFunc(list, func(e Entry) bool {
		if nameless := !utf8.ValidString(e.Name) || len(e.Name) > maxComponent; nameless {
			if unnamed != nil {
				unnamed.Add(1)
			}
			return true
		}
		return isTemp(e.Name) || !s.isShown(p, e, mounted)
	})
	for _, child := range mounted {
		list = append(list, Entry{child, fs.ModeDir})
	}
	return list, nil
}

// isShown reports whether the entry of the directory at p is visible and is not one of
// the mounts there.
func (s *Sandbox) isShown(p location, e Entry, mounted []string) bool {
	if !s.table.deeper[p.name] {
		return p.rule.access > None
	}
	name := s.table.spellings.spell(join(p.name, e.Name))
	if slices.Contains(mounted, relative(p.name, name)) {
		return false
	}
	return s.lookup(name).access > None || e.IsDir() && s.table.above[name]
}

func (s *Sandbox) readDir(p location) ([]Entry, error) {
	if p.rule.mount == nil {
		return nil, ErrNotFound
	}
	f, err := p.rule.mount.Backend.Open(p.rel)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !f.Attr().Mode.IsDir() {
		return nil, ErrNotDir
	}
	return f.ReadDir()
}

// Resolve returns the host path of a name, for the user and for programs of the user. The
// path is correct now and may be wrong later. The name need not exist. A mount without a
// directory on the host has no such path.
func (s *Sandbox) Resolve(name string) (Host, error) {
	var host Host
	err := s.do(request{op: "resolve", access: ReadOnly}, name, func(p location) error {
		attr, err := p.rule.mount.Backend.Lstat(p.rel)
		switch {
		case s.table.permanent[p.name] && isMissing(err):
		case err == nil && attr.Mode&fs.ModeSymlink != 0:
			return ErrLink
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		}
		if host = p.rule.mount.traits.Host; host == "" {
			return &Error{Code: ErrNotFound, Hint: "it is in memory, and has no path on the host"}
		}
		if p.rule.mount.traits.Through != "" {
			return &Error{Code: ErrNotFound, Hint: "it is in an overlay, not in the directory on the host"}
		}
		if p.rel != "." {
			host += Host("/" + p.rel)
		}
		return nil
	})
	return host, err
}
