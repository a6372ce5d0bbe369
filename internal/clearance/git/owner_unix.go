//go:build unix

package git

import (
	"io/fs"
	"os"
	"syscall"
)

// isOwned reports whether a file belongs to the user.
func isOwned(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
