package overlay

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Usage returns how many files the overlay holds, and how many bytes they take. For a
// copy it counts only changed files.
func (o Overlay) Usage() (files int, size int64, err error) {
	if o.IsCopy {
		list, err := o.SessionChanges()
		for _, c := range list {
			if c.Op != Delete && c.Kind != Dir {
				files, size = files+1, size+c.Size
			}
		}
		var nameErr *NameError
		if errors.As(err, &nameErr) {
			err = nil
		}
		return files, size, err
	}
	w := usageWalk{size: func(st unix.Stat_t) int64 { return min(st.Size, st.Blocks*512) }}
	err = w.walk(o.UpperDir())
	return w.files, w.bytes, err
}

// DiskUse returns how many bytes a directory takes on the disk, with everything below it. A
// file with several names counts once, and holes count nothing. It reports false if it
// could not look at everything, because a directory cannot be read or was moved meanwhile.
func DiskUse(dir string) (bytes int64, whole bool) {
	const most = 100_000 // files with several names: further ones count once for each name
	seen := make(map[uint64]bool)
	w := usageWalk{dirs: true, size: func(st unix.Stat_t) int64 {
		if st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR {
			if seen[st.Ino] {
				return 0
			}
			if len(seen) < most {
				seen[st.Ino] = true
			}
		}
		return st.Blocks * 512
	}}
	err := w.walk(dir)
	return w.bytes, (err == nil || errors.Is(err, os.ErrNotExist)) && !w.partial
}

// A usageWalk adds up the files below a directory.
type usageWalk struct {
	size    func(unix.Stat_t) int64
	dirs    bool // directories have a size, too
	files   int
	bytes   int64
	partial bool // a part was not counted
}

// walk counts the files below a directory. One that vanishes meanwhile does not count.
func (w *usageWalk) walk(dir string) error {
	at, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { at.Close() }()
	// Only one directory is open at a time, because they may be very deep.
	top, err := w.countDir(at)
	if err != nil {
		return err
	}
	for way := []dirLevel{top}; ; {
		last, next := &way[len(way)-1], ".."
		if len(last.dirs) > 0 {
			next, last.dirs = last.dirs[0], last.dirs[1:]
		} else if way = way[:len(way)-1]; len(way) == 0 {
			return nil
		}
		fd, err := unix.Openat(int(at.Fd()), next, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil && next != ".." {
			w.partial = w.partial || !errors.Is(err, unix.ENOENT)
			continue // it vanished
		}
		if err != nil {
			w.partial = true
			return nil // the current directory vanished: return what was counted
		}
		at.Close()
		at = os.NewFile(uintptr(fd), next)
		if next == ".." {
			var st unix.Stat_t
			if err := unix.Fstat(fd, &st); err != nil || st.Ino != way[len(way)-1].ino {
				w.partial = true
				return err // somebody moved it
			}
			continue
		}
		now, err := w.countDir(at)
		if err != nil {
			return err
		}
		way = append(way, now)
	}
}

// A dirLevel is a directory on the way down.
type dirLevel struct {
	ino  uint64
	dirs []string // still to visit
}

// countDir counts the files of a directory.
func (w *usageWalk) countDir(at *os.File) (now dirLevel, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(at.Fd()), &st); err != nil {
		return now, err
	}
	now.ino = st.Ino
	names, err := at.Readdirnames(-1)
	if errors.Is(err, unix.ENOENT) {
		err = nil // it vanished
	}
	for _, name := range names {
		if unix.Fstatat(int(at.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue // it vanished
		}
		switch kindOf(st) {
		case Nothing:
		case Dir:
			if now.dirs = append(now.dirs, name); w.dirs {
				w.bytes += w.size(st)
			}
		default:
			w.files++
			w.bytes += w.size(st)
		}
	}
	return now, err
}
