package overlay

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// OpenFile opens a regular file below a directory for reading, without following
// symlinks.
func OpenFile(dir, name string) (*os.File, error) {
	t, err := openTree(dir)
	if err != nil {
		return nil, err
	}
	defer t.close()
	return t.openFile(name)
}

// ReadReal returns the content of a regular file in the real directory, if it has at most so
// many bytes. It follows no symlinks in any part of the name.
func (o Overlay) ReadReal(name string, most int64) ([]byte, error) {
	t, err := openDir(o)
	if err != nil {
		return nil, err
	}
	defer t.close()
	return t.readFile(name, most)
}

// A Reader reads many files below a directory, without following symlinks.
type Reader struct{ tree *tree }

// OpenReader opens a directory.
func OpenReader(dir string) (*Reader, error) {
	t, err := openTree(dir)
	if err != nil {
		return nil, err
	}
	return &Reader{t}, nil
}

// Open is OpenFile.
func (r *Reader) Open(name string) (*os.File, error) { return r.tree.openFile(name) }

// ReadFile returns the content of a regular file, if it has at most so many bytes.
func (r *Reader) ReadFile(name string, most int64) ([]byte, error) {
	return r.tree.readFile(name, most)
}

// Walk calls visit for everything below a directory, in the order of the paths, until visit
// returns false. It skips directories that cannot be read.
func (r *Reader) Walk(dir string, visit func(s State) bool) {
	r.tree.walk(dir, visit)
}

func (t *tree) walk(dir string, visit func(s State) bool) bool {
	names, err := t.list(dir)
	if err != nil {
		return true
	}
	for _, base := range names {
		name := joinName(dir, base)
		st, err := t.stat(name)
		if err != nil {
			continue
		}
		kind := kindOf(st)
		if !visit(State{Path: name, Kind: kind, Mode: permissions(st), Size: st.Size}) || kind == Dir && !t.walk(name, visit) {
			return false
		}
	}
	return true
}

// Close closes the directory.
func (r *Reader) Close() { r.tree.close() }

// openRegular opens a regular file for reading.
func (t *tree) openRegular(name string) (fd int, size int64, err error) {
	if fd, err = t.openNear(name, unix.O_RDONLY|unix.O_NONBLOCK); err != nil {
		return -1, 0, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || kindOf(st) != File {
		unix.Close(fd)
		return -1, 0, errors.Join(err, errors.New("not a regular file"))
	}
	return fd, st.Size, nil
}

func (t *tree) openFile(name string) (*os.File, error) {
	fd, _, err := t.openRegular(name)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// readFile returns the content of a regular file, if it has at most so many bytes.
func (t *tree) readFile(name string, most int64) ([]byte, error) {
	fd, size, err := t.openRegular(name)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if size > most {
		return nil, errors.New("file is too large to show")
	}
	data := make([]byte, size+1) // one byte more, to see the end
	for at := 0; ; {
		n, err := unix.Pread(fd, data[at:min(len(data), at+1<<30)], int64(at))
		switch at += max(n, 0); {
		case err == unix.EINTR:
		case err != nil:
			return nil, err
		case n == 0 || at > int(size) || size < 1<<20 && at == int(size): // a short read ends a small file
			return data[:min(at, int(size))], nil
		}
	}
}

// RecentPaths lists paths that changed since MarkStart, as far as it finds them among the
// first so many entries. It lists a new directory without its content.
func (o Overlay) RecentPaths(visits int) (names []string, err error) {
	since, err := readTime(o.Store + "/" + clockName)
	if err != nil {
		return nil, err
	}
	upper, err := openTree(o.UpperOrCopy())
	if err != nil {
		return nil, err
	}
	defer upper.close()
	lower, err := openDir(o)
	if err != nil {
		return nil, err
	}
	defer lower.close()
	for queue := []string{""}; len(queue) > 0 && visits > 0; queue = queue[1:] {
		dir, err := upper.stat(queue[0])
		if err != nil {
			continue
		}
		list, err := upper.list(queue[0])
		if err != nil {
			continue
		}
		for _, base := range list {
			name := joinName(queue[0], base)
			st, err := upper.stat(name)
			if visits--; err != nil || visits < 0 || IsUnfinished(base) {
				continue
			}
			_, below := lower.stat(name)
			switch kind := kindOf(st); {
			case kind == Dir && (below == nil || st.Ctim.Nano() < since):
				queue = append(queue, name)
			case kind == Nothing && dir.Mtim.Nano() < since: // whiteouts share one inode
			case st.Ctim.Nano() >= since:
				names = append(names, name)
			}
		}
		if o.IsCopy && dir.Mtim.Nano() >= since {
			names = append(names, deletedFromCopy(o.Store, lower, queue[0], list)...)
			slices.Sort(names)
		}
	}
	return names, nil
}

// deletedFromCopy lists files of a directory that were copied and are no longer in the
// copy.
func deletedFromCopy(store string, lower *tree, dir string, has []string) (names []string) {
	var copied *baseSet
	real, _ := lower.list(dir)
	for _, base := range real {
		if _, found := slices.BinarySearch(has, base); found {
			continue
		}
		if copied == nil {
			var err error
			if copied, err = readBases(store); err != nil {
				return nil
			}
		}
		name := joinName(dir, base)
		if v := copied.all[name]; v != nil && !v.Skipped && !v.Covered {
			names = append(names, name)
		}
	}
	return names
}
