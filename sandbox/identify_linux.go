package sandbox

import (
	"io/fs"
	"os"
	"syscall"
)

// identify adds ID, link count and change time from the system's own record.
func identify(a *Attr, info fs.FileInfo) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		a.ID, a.Links, a.Changed = st.Ino, uint64(st.Nlink), st.Ctim.Nano()
	}
}

func rootFoldsCase(top *os.Root) bool {
	f, err := top.Open(".")
	if err != nil {
		return false
	}
	defer f.Close()
	return foldsCase(int(f.Fd()))
}
