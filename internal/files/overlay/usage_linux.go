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
	at, err := os.OpenFile(o.UpperDir(), os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return 0, 0, err
	}
	defer func() { at.Close() }()
	// Only one directory is open at a time, because they may be very deep.
	top, err := countDir(at)
	if err != nil {
		return 0, 0, err
	}
	files, size = top.files, top.size
	for way := []dirLevel{top}; ; {
		last, next := &way[len(way)-1], ".."
		if len(last.dirs) > 0 {
			next, last.dirs = last.dirs[0], last.dirs[1:]
		} else if way = way[:len(way)-1]; len(way) == 0 {
			return files, size, nil
		}
		fd, err := unix.Openat(int(at.Fd()), next, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil && next != ".." {
			continue // it vanished
		}
		if err != nil {
			return files, size, nil // the current directory vanished: return what was counted
		}
		at.Close()
		at = os.NewFile(uintptr(fd), next)
		if next == ".." {
			var st unix.Stat_t
			if err := unix.Fstat(fd, &st); err != nil || st.Ino != way[len(way)-1].ino {
				return files, size, err // somebody moved it
			}
			continue
		}
		now, err := countDir(at)
		if err != nil {
			return files, size, err
		}
		files, size, way = files+now.files, size+now.size, append(way, now)
	}
}

// A dirLevel is a directory on the way down.
type dirLevel struct {
	ino   uint64
	dirs  []string // still to visit
	files int
	size  int64
}

// countDir counts the files of a directory.
func countDir(at *os.File) (now dirLevel, err error) {
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
			now.dirs = append(now.dirs, name)
		default:
			now.files++
			now.size += min(st.Size, st.Blocks*512)
		}
	}
	return now, err
}
