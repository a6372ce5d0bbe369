package parcel

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// noWait is the flag that keeps an open of a pipe from waiting.
const noWait = syscall.O_NONBLOCK

// stampOf returns the stamp of a file, and whether it shows every change.
func stampOf(info fs.FileInfo) (stamp, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return stamp{}, false
	}
	return stamp{info.Size(), st.Mtim.Nano(), st.Ctim.Nano(), st.Ino, info.Mode()}, true
}

// isMark reports whether a file is the mark of a deleted file.
func isMark(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode()&fs.ModeCharDevice != 0 && st.Rdev == 0
}

// hasOtherNames reports whether a file has more than one hard link.
func hasOtherNames(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return !ok || st.Nlink > 1
}

// makeMark makes the mark of a deleted file in a directory.
func makeMark(dir *os.File, base string) error {
	return unix.Mknodat(int(dir.Fd()), base, unix.S_IFCHR, 0)
}

// readAttributes returns the attributes of a file that a Tree keeps.
func readAttributes(f *os.File) (map[string][]byte, error) {
	var found map[string][]byte
	for name, want := range attributeValues {
		var value [256]byte
		n, err := unix.Fgetxattr(int(f.Fd()), name, value[:])
		switch {
		case err == unix.ENODATA || err == unix.EOPNOTSUPP:
			continue
		case err != nil && err != unix.ERANGE: // an origin may be long
			return nil, err
		case want != "" && (err != nil || string(value[:n]) != want):
			continue
		}
		if found == nil {
			found = make(map[string][]byte)
		}
		found[name] = []byte(want)
	}
	return found, nil
}

// writeAttributes gives a file these attributes, and removes others that a Tree keeps.
func writeAttributes(f *os.File, attributes map[string][]byte) error {
	for name := range attributeValues {
		value, set := attributes[name]
		var err error
		if set {
			err = unix.Fsetxattr(int(f.Fd()), name, value, 0)
		} else if err = unix.Fremovexattr(int(f.Fd()), name); err == unix.ENODATA || err == unix.EOPNOTSUPP {
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
