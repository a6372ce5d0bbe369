package overlay

import (
	"errors"
	"io"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// ReadFile returns the content of a regular file below a directory, if it has at most so
// many bytes. It follows no symlinks in any part of the name.
func ReadFile(dir, name string, most int64) ([]byte, error) {
	return Overlay{Dir: dir}.ReadReal(name, most)
}

// OpenFile opens a regular file below a directory for reading, without following
// symlinks.
func OpenFile(dir, name string) (*os.File, error) { return Overlay{Dir: dir}.OpenReal(name) }

// OpenReal is OpenFile for the real directory.
func (o Overlay) OpenReal(name string) (*os.File, error) {
	t, err := openDir(o)
	if err != nil {
		return nil, err
	}
	defer t.close()
	fd, err := t.open(name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, errors.Join(err, errors.New("not a regular file"))
	}
	return f, nil
}

// ReadReal is ReadFile for the real directory.
func (o Overlay) ReadReal(name string, most int64) ([]byte, error) {
	f, err := o.OpenReal(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() > most {
		return nil, errors.Join(err, errors.New("file is too large to show"))
	}
	return io.ReadAll(io.LimitReader(f, most))
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
			name := path.Join(queue[0], base)
			st, err := upper.stat(name)
			if visits--; err != nil || visits < 0 {
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
		name := path.Join(dir, base)
		if v := copied.all[name]; v != nil && !v.Skipped && !v.Covered {
			names = append(names, name)
		}
	}
	return names
}
