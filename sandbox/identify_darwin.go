package sandbox

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// identify adds ID, link count and change time from the system's own record.
func identify(a *Attr, info fs.FileInfo) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		a.ID, a.Links, a.Changed = st.Ino, uint64(st.Nlink), st.Ctimespec.Nano()
	}
}

// rootFoldsCase returns true. macOS ignores case unless a volume was made otherwise. If the
// assumption is wrong, the only cost is that other spellings of a mount name it, too.
func rootFoldsCase(*os.Root) bool { return true }

// renameNew renames a file to a name that must not exist.
func renameNew(fromDir int, fromBase string, toDir int, toBase string) error {
	return unix.RenameatxNp(fromDir, fromBase, toDir, toBase, unix.RENAME_EXCL)
}
