package sandbox

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// identify adds what the host's own record of a file says.
func identify(a *Attr, info fs.FileInfo) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		a.ID, a.Links, a.Changed = st.Ino, uint64(st.Nlink), st.Ctimespec.Nano()
	}
}

// rootFoldsCase is true: macOS ignores case unless a volume was made otherwise,
// and to assume it costs only the other spellings of mounts.
func rootFoldsCase(*os.Root) bool { return true }

// renameNew moves to a name that must not exist.
func renameNew(fromDir int, fromBase string, toDir int, toBase string) error {
	return unix.RenameatxNp(fromDir, fromBase, toDir, toBase, unix.RENAME_EXCL)
}
