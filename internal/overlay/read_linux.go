package overlay

import (
	"errors"
	"io"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// ReadFile returns what a regular file below a folder holds, if that is not more than
// so many bytes. No link is followed, in whatever part of the name.
func ReadFile(folder, name string, most int64) ([]byte, error) {
	return Overlay{Dir: folder}.ReadReal(name, most)
}

// OpenFile opens a regular file below a folder for reading, as Read does.
func OpenFile(folder, name string) (*os.File, error) { return Overlay{Dir: folder}.OpenReal(name) }

// OpenReal is Open below the real folder.
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

// ReadReal is Read below the real folder.
func (o Overlay) ReadReal(name string, most int64) ([]byte, error) {
	f, err := o.OpenReal(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() > most {
		return nil, errors.Join(err, errors.New("too large to be shown"))
	}
	return io.ReadAll(io.LimitReader(f, most))
}

// RecentPaths names some of what was changed since the stamp: as much as is found among
// so many entries. A new folder stands for what is in it.
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
			case kind == Nothing && dir.Mtim.Nano() < since: // marks share one inode
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

// deletedFromCopy names what was copied in a folder, and is not in the copy any more.
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
