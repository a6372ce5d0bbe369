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
// file with several names counts once, and holes count nothing. If it is the directory of a
// copy, only changed files count; of is the overlay, or the zero value. DiskUse reports false
// if it could not look at everything, because a directory cannot be read or was moved
// meanwhile.
func DiskUse(dir string, of Overlay) (bytes int64, whole bool) {
	copied := make(map[copyStamp]bool)
	if of.IsCopy {
		s, err := openSession(of, unix.LOCK_SH)
		if err != nil {
			return 0, false
		}
		s.close()
		for _, v := range s.bases.all {
			copied[v.Copy] = true
		}
	}
	const most = 100_000 // files with several names: further ones count once for each name
	seen := make(map[uint64]bool)
	w := usageWalk{dirs: true, size: func(st unix.Stat_t) int64 {
		if copied[copyStampOf(st)] || of.IsCopy && kindOf(st) == Dir {
			return 0
		}
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

// maxHeldDirs is how many directories a usageWalk holds open. It finds its way back to one of
// them even if somebody moves the directories below.
const maxHeldDirs = 64

// walk counts the files below a directory. One that vanishes meanwhile does not count.
func (w *usageWalk) walk(dir string) error {
	at, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	top, err := w.countDir(at)
	way := []dirLevel{top}
	defer func() {
		for _, l := range way {
			l.at.Close()
		}
	}()
	for err == nil && len(way) > 0 {
		last := &way[len(way)-1]
		if len(last.dirs) == 0 {
			way, err = w.leave(way)
			continue
		}
		name := last.dirs[0]
		last.dirs = last.dirs[1:]
		fd, failed := unix.Openat(int(last.at.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if failed != nil {
			w.partial = w.partial || !errors.Is(failed, unix.ENOENT)
			continue // it vanished
		}
		if len(way) > maxHeldDirs { // there may be very many
			last.at.Close()
		}
		var next dirLevel
		next, err = w.countDir(os.NewFile(uintptr(fd), name))
		way = append(way, next)
	}
	return err
}

// leave goes back from a directory to the one above. If somebody moved the directory out of
// one that is not open any more, leave goes back to the last one that is.
func (w *usageWalk) leave(way []dirLevel) ([]dirLevel, error) {
	from := way[len(way)-1].at
	defer from.Close()
	way = way[:len(way)-1]
	if len(way) <= maxHeldDirs {
		return way, nil
	}
	above := &way[len(way)-1]
	fd, err := unix.Openat(int(from.Fd()), "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		above.at = os.NewFile(uintptr(fd), "..")
		var st unix.Stat_t
		if err = unix.Fstat(fd, &st); err == nil && st.Ino == above.ino {
			return way, nil
		}
		above.at.Close()
	}
	w.partial = true
	return way[:maxHeldDirs], nil
}

// A dirLevel is a directory on the way down.
type dirLevel struct {
	at   *os.File
	ino  uint64
	dirs []string // still to visit
}

// countDir counts the files of a directory.
func (w *usageWalk) countDir(at *os.File) (now dirLevel, err error) {
	var st unix.Stat_t
	now.at = at
	if err := unix.Fstat(int(at.Fd()), &st); err != nil {
		return now, err
	}
	now.ino = st.Ino
	names, err := at.Readdirnames(-1)
	if errors.Is(err, unix.ENOENT) {
		err = nil // it vanished
	}
	for _, name := range names {
		if err := unix.Fstatat(int(at.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			w.partial = w.partial || !errors.Is(err, unix.ENOENT)
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
