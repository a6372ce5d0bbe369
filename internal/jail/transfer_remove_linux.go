package jail

import (
	"path"

	"golang.org/x/sys/unix"
)

// removeOriginal removes the original, and moves files that are not in the copy yet.
func (t *transfer) removeOriginal(source, target int) error {
	err := emptyDir(source, func(dir int, base, name string) (isDir bool, err error) {
		var st unix.Stat_t
		if err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return false, err
		}
		switch {
		case st.Mode&unix.S_IFMT == unix.S_IFDIR:
			return true, nil
		case t.linked[[2]uint64{uint64(st.Dev), st.Ino}] || st.Ctim.Nano() < t.began && !isWritten(dir, base):
			return false, unix.Unlinkat(dir, base, 0)
		}
		return false, moveChanged(dir, base, target, name)
	})
	if err != nil {
		return err
	}
	return unix.Unlinkat(t.fromDir, t.from, unix.AT_REMOVEDIR)
}

// emptyDir removes everything in a directory. remove removes the file base in the directory name,
// whose descriptor is dir, or reports that it is a directory.
func emptyDir(top int, remove func(dir int, base, name string) (isDir bool, err error)) error {
	return visit(func(name string) (dirs []string, err error) {
		dir, err := openToChange(top, name)
		if err != nil {
			return nil, err
		}
		defer unix.Close(dir)
		names, err := namesIn(dir)
		if err != nil {
			return nil, err
		}
		for _, base := range names {
			isDir, err := remove(dir, base, name)
			if err != nil && err != unix.ENOENT {
				return nil, err
			}
			if isDir {
				dirs = append(dirs, base)
			}
		}
		return dirs, nil
	}, func(name string) error {
		if name == "." {
			return nil
		}
		return removeIn(top, name)
	})
}

// isWritten reports whether a process has a file open for writing, also if golem cannot
// tell. The process may have opened it after it was copied, and may write later.
func isWritten(dir int, base string) bool {
	fd, err := openToCopy(dir, base)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	return hasWriter(fd)
}

// moveChanged moves a file over its copy, in the directory name of the copy.
func moveChanged(dir int, base string, top int, name string) error {
	to, err := openIn(top, name)
	if err == unix.ENOENT { // a directory that is not in the copy yet
		if err := makeIn(top, name); err != nil {
			return err
		}
		to, err = openIn(top, name)
	}
	if err != nil {
		return err
	}
	defer unix.Close(to)
	return unix.Renameat(dir, base, to, base)
}

// makeIn makes a directory and those above it.
func makeIn(top int, name string) error {
	if name == "." {
		return nil
	}
	for _, dir := range append(above("/"+name), "/"+name) {
		in, err := openIn(top, "."+path.Dir(dir))
		if err != nil {
			return err
		}
		err = unix.Mkdirat(in, path.Base(dir), 0o777)
		unix.Close(in)
		if err != nil && err != unix.EEXIST {
			return err
		}
	}
	return nil
}

// removeIn removes an empty directory.
func removeIn(top int, name string) error {
	dir, err := openIn(top, path.Dir(name))
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	err = unix.Unlinkat(dir, path.Base(name), unix.AT_REMOVEDIR)
	if err == unix.ENOENT {
		return nil
	}
	return err
}

// openToChange opens a directory, and lets its owner change its content.
func openToChange(top int, name string) (int, error) {
	fd, err := openIn(top, name)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&0o700 != 0o700 {
		err = unix.Fchmod(fd, st.Mode&0o7777|0o700)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// restore makes the original complete again after a failed removal, and removes the copy
// at the new name. The disk may be full. So it first removes the files of the copy that the
// original still has, and then moves the others back, which takes no room.
func (t *transfer) restore(source, target int) error {
	were := make(map[string]unix.Stat_t) // the directories of the copy
	for _, moves := range []bool{false, true} {
		err := visit(func(name string) (dirs []string, err error) {
			from, err := openIn(target, name)
			if err != nil {
				return nil, err
			}
			defer unix.Close(from)
			if _, ok := were[name]; !ok {
				var st unix.Stat_t
				if err := unix.Fstat(from, &st); err != nil {
					return nil, err
				}
				were[name] = st
				if err := unix.Fchmod(from, st.Mode&0o7777|0o700); err != nil {
					return nil, err
				}
			}
			if moves {
				if err := makeIn(source, name); err != nil {
					return nil, err
				}
			}
			to, err := openToChange(source, name)
			if err == unix.ENOENT && !moves {
				to, err = -1, nil
			}
			if err != nil {
				return nil, err
			}
			defer unix.Close(to)
			names, err := namesIn(from)
			if err != nil {
				return nil, err
			}
			for _, base := range names {
				var st unix.Stat_t
				if err := unix.Fstatat(from, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
					return nil, err
				}
				var has unix.Stat_t
				switch err := unix.Fstatat(to, base, &has, unix.AT_SYMLINK_NOFOLLOW); {
				case st.Mode&unix.S_IFMT == unix.S_IFDIR:
					dirs = append(dirs, base)
				case err == nil:
					if err := unix.Unlinkat(from, base, 0); err != nil {
						return nil, err
					}
				case moves:
					if err := unix.Renameat(from, base, to, base); err != nil {
						return nil, err
					}
				}
			}
			return dirs, nil
		}, func(name string) error {
			if !moves {
				return nil
			}
			from, err := openIn(target, name)
			if err != nil {
				return err
			}
			defer unix.Close(from)
			to, err := openIn(source, name)
			if err != nil {
				return err
			}
			defer unix.Close(to)
			return copyAttributes(from, to, were[name])
		})
		if err != nil {
			return err
		}
	}
	if err := unix.Renameat2(t.toDir, t.to, t.toDir, t.temp, unix.RENAME_NOREPLACE); err != nil {
		return err
	}
	if t.replaced != nil {
		if err := unix.Mkdirat(t.toDir, t.to, t.replaced.Mode&0o777); err != nil {
			return err
		}
	}
	return removeTree(t.toDir, t.temp)
}

// removeTree removes a directory with its content.
func removeTree(in int, name string) error {
	top, err := openToChange(in, name)
	if err != nil {
		return err
	}
	defer unix.Close(top)
	err = emptyDir(top, func(dir int, base, _ string) (isDir bool, err error) {
		if err = unix.Unlinkat(dir, base, 0); err == unix.EISDIR {
			return true, nil
		}
		return false, err
	})
	if err != nil {
		return err
	}
	return unix.Unlinkat(in, name, unix.AT_REMOVEDIR)
}
