package parcel

import (
	"bytes"
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
	"strings"
	"time"
)

// A Reader lists a directory, again and again. It remembers the hashes of files that have
// not changed. One goroutine at a time may use it.
type Reader struct {
	// Put stores a content that the last tree of the Reader did not have: the others may be
	// removed by then. The content ends with an error if it does not have the hash any more. Put is not called for empty files. If it
	// is nil, contents are only hashed.
	Put func(ctx context.Context, hash string, size int64, content io.Reader) error
	// Known reports whether a content is stored already, so that Put is not needed; nil if
	// none is.
	Known func(hash string) bool
	// Skip reports whether to skip a name, with everything in it; nil for none.
	Skip func(name string) bool
	// Now is the clock. Without one, the Reader remembers nothing.
	Now    func() time.Time
	Limits Limits

	seen  map[string]seenEntry
	known map[string]bool // hashes of the last tree that Put has stored
}

// A seenEntry is an entry with the stamp that its file had.
type seenEntry struct {
	stamp stamp
	entry Entry
}

// A stamp is equal for two looks at a file only if nobody changed the file in between.
type stamp struct {
	size, modified, changed int64
	inode                   uint64
	mode                    fs.FileMode
}

// settleTime is how old the last change of a file must be to be remembered. The times of
// files are not exact: a second change soon after the first may leave them as they are.
const settleTime = 50 * time.Millisecond

// maxHeld is the size of a file that the Reader reads once. It reads a larger one first for
// the hash, and then for Put.
const maxHeld = 1 << 20

// errChanged is the error of a file that changes while the Reader reads it.
var errChanged = errors.New("it changes all the time; stop the program that writes it, and try again")

// Read lists a directory. It follows no symlink. Processes may change the directory
// meanwhile: each file then has one of the contents that it had.
func (r *Reader) Read(ctx context.Context, dir string) (Tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	scan := &scan{Reader: r, ctx: ctx, next: make(map[string]seenEntry, len(r.seen)), room: r.Limits.bytes()}
	if r.known == nil {
		r.known = make(map[string]bool)
	}
	if r.Now != nil {
		scan.settled = r.Now().Add(-settleTime).UnixNano()
	}
	if err := scan.dir(root, ""); err != nil {
		return nil, err
	}
	slices.SortFunc(scan.tree, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	r.seen = scan.next
	known := make(map[string]bool, len(r.known)) // a content that no tree has may be removed
	for _, e := range scan.tree {
		if r.known[e.Hash] {
			known[e.Hash] = true
		}
	}
	r.known = known
	return scan.tree, nil
}

// A scan is one call of Read.
type scan struct {
	*Reader
	ctx     context.Context
	tree    Tree
	next    map[string]seenEntry
	settled int64 // a file that changed later is not remembered
	room    int64 // bytes that files may still have
}

// dir reads what is in a directory.
func (s *scan) dir(root *os.Root, name string) error {
	names, err := listNames(root)
	if err != nil {
		return fmt.Errorf("%s: %w", shown(name), err)
	}
	for _, base := range names {
		at := path.Join(name, base)
		if s.Skip != nil && s.Skip(at) {
			continue
		}
		if err := s.ctx.Err(); err != nil {
			return err
		}
		err := s.entry(root, at, base)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // it may be gone by now
			return err
		}
	}
	return nil
}

// entry reads a file, a directory or a symlink.
func (s *scan) entry(root *os.Root, name, base string) error {
	if err := checkName(name); err != nil {
		return fmt.Errorf("%.200q: %w", name, err)
	}
	info, err := root.Lstat(base)
	if err != nil {
		return err
	}
	e := Entry{Name: name, Mode: uint32(info.Mode().Perm()), Modified: info.ModTime().UTC()}
	switch {
	case info.IsDir():
		e.Kind = Dir
		return s.subdir(root, base, info, e)
	case info.Mode().IsRegular():
		e.Kind = File
		return s.file(root, base, info, e)
	case info.Mode()&fs.ModeSymlink != 0:
		e = Entry{Name: name, Kind: Link}
		if e.Target, err = root.Readlink(base); err != nil {
			return err
		}
	case isMark(info):
		e = Entry{Name: name, Kind: Gone}
	default:
		return nil // a socket, a pipe or a device
	}
	return s.add(e)
}

func (s *scan) add(e Entry) error {
	if len(s.tree) >= s.Limits.entries() {
		return fmt.Errorf("more than %d files and directories; no more are allowed", s.Limits.entries())
	}
	if s.room -= e.Size; s.room < 0 {
		return fmt.Errorf("more than %d bytes; no more are allowed", s.Limits.bytes())
	}
	s.tree = append(s.tree, e)
	return nil
}

// recall returns the entry that a file had at the last look, if it has not changed.
func (s *scan) recall(name string, info fs.FileInfo) (Entry, bool) {
	seen, ok := s.seen[name]
	now, can := stampOf(info)
	if !ok || !can || seen.stamp != now {
		return Entry{}, false
	}
	s.next[name] = seen
	return seen.entry, true
}

// remember keeps an entry for the next look.
func (s *scan) remember(e Entry, info fs.FileInfo) {
	if now, can := stampOf(info); can && now.changed < s.settled {
		s.next[e.Name] = seenEntry{now, e}
	}
}

// subdir reads a directory and what is in it. A command may have closed it.
func (s *scan) subdir(root *os.Root, base string, info fs.FileInfo, e Entry) error {
	const needed = 0o500
	if info.Mode().Perm()&needed == needed {
		return s.openDir(root, base, info, e)
	}
	return withMode(root, base, info.Mode().Perm(), needed, func() error { return s.openDir(root, base, info, e) })
}

// openDir reads a directory that can be read.
func (s *scan) openDir(root *os.Root, base string, info fs.FileInfo, e Entry) error {
	sub, err := root.OpenRoot(base)
	if err != nil {
		return err
	}
	defer sub.Close()
	if is, err := sub.Stat("."); err != nil || !os.SameFile(is, info) {
		return err // somebody replaced it
	}
	if seen, ok := s.recall(e.Name, info); ok {
		e = seen
	} else {
		f, err := sub.Open(".")
		if err != nil {
			return err
		}
		e.Attributes, err = readAttributes(f)
		if f.Close(); err != nil {
			return fmt.Errorf("%s: %w", shown(e.Name), err)
		}
		s.remember(e, info)
	}
	if err := s.add(e); err != nil {
		return err
	}
	return s.dir(sub, e.Name)
}

// file reads a file.
func (s *scan) file(root *os.Root, base string, info fs.FileInfo, e Entry) error {
	if seen, ok := s.recall(e.Name, info); ok {
		return s.add(seen)
	}
	const tries = 3
	for range tries {
		f, attributes, err := openFile(root, base, info)
		if err != nil {
			return err
		}
		e.Attributes = attributes
		made, after, err := s.content(f, e)
		f.Close()
		switch {
		case errors.Is(err, errChanged):
			continue
		case err != nil:
			return fmt.Errorf("%s: %w", shown(e.Name), err)
		}
		s.remember(made, after)
		return s.add(made)
	}
	return fmt.Errorf("%s: %w", shown(e.Name), errChanged)
}

// content completes the entry of a file, and stores its content.
func (s *scan) content(f *os.File, e Entry) (Entry, fs.FileInfo, error) {
	info, err := f.Stat()
	if err != nil {
		return e, nil, err
	}
	e.Mode, e.Modified = uint32(info.Mode().Perm()), info.ModTime().UTC()
	var held bytes.Buffer
	hash := sha256.New()
	first := io.Writer(hash)
	if info.Size() <= maxHeld {
		first = io.MultiWriter(hash, &held)
	}
	if e.Size, err = io.Copy(first, io.LimitReader(f, max(info.Size(), maxHeld))); err != nil {
		return e, nil, err
	}
	e.Hash = hex.EncodeToString(hash.Sum(nil))
	if s.Put == nil || e.Size == 0 || s.known[e.Hash] || s.Known != nil && s.Known(e.Hash) {
		return e, info, nil
	}
	var content io.Reader = &held
	if info.Size() > maxHeld {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return e, nil, err
		}
		content = &checkedReader{from: f, left: e.Size, want: e.Hash, hash: sha256.New()}
	}
	if err := s.Put(s.ctx, e.Hash, e.Size, content); err != nil {
		return e, nil, err
	}
	s.known[e.Hash] = true
	return e, info, nil
}

// A checkedReader reads a content. It ends with errChanged if the content does not have its
// hash.
type checkedReader struct {
	from io.Reader
	left int64
	want string
	hash interface {
		io.Writer
		Sum([]byte) []byte
	}
}

// Read implements io.Reader. It returns the last bytes together with the end, so that a
// caller does not use them before they were checked.
func (r *checkedReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, r.end()
	}
	n, err := r.from.Read(p[:min(int64(len(p)), r.left)])
	r.hash.Write(p[:n])
	r.left -= int64(n)
	switch {
	case r.left == 0:
		return n, r.end()
	case err == io.EOF:
		return n, errChanged
	}
	return n, err
}

func (r *checkedReader) end() error {
	if hex.EncodeToString(r.hash.Sum(nil)) != r.want {
		return errChanged
	}
	return io.EOF
}

// openFile opens a file for reading, and returns its attributes. A command may have made it
// unreadable.
func openFile(root *os.Root, base string, info fs.FileInfo) (f *os.File, attributes map[string][]byte, err error) {
	open := func() error {
		f, err = root.OpenFile(base, os.O_RDONLY|noWait, 0)
		if err != nil {
			return err
		}
		is, err := f.Stat()
		if err == nil && !os.SameFile(is, info) {
			err = fs.ErrNotExist // somebody replaced it
		}
		if err == nil {
			attributes, err = readAttributes(f)
		}
		if err != nil {
			f.Close()
		}
		return err
	}
	if mode := info.Mode().Perm(); mode&0o400 == 0 {
		err = withMode(root, base, mode, 0o400, open)
	} else {
		err = open()
	}
	return f, attributes, err
}

// withMode calls do while a file or directory has more permission bits.
func withMode(root *os.Root, base string, mode, more fs.FileMode, do func() error) error {
	if err := root.Chmod(base, mode|more); err != nil {
		return err
	}
	return errors.Join(do(), root.Chmod(base, mode))
}

// listNames returns the names in a directory, sorted.
func listNames(root *os.Root) ([]string, error) {
	f, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// shown returns a name for messages.
func shown(name string) string {
	if name == "" {
		name = "."
	}
	return fmt.Sprintf("%.200q", name)
}
