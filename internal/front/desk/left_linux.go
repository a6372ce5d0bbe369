package desk

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/golem-forge/golem/internal/files/claim"
)

// hold marks the directory of a desk as in use until the file is closed.
func hold(dir string) (*os.File, error) { return claim.Hold(dir) }

// removeLeft removes the directories that killed desks of the user left. Another desk may be
// about to mark a new one.
func removeLeft(now time.Time) {
	list, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	fresh, _ := filepath.Glob(filepath.Join(os.TempDir(), newPrefix+"*"))
	for _, dir := range append(list, fresh...) {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || slices.Contains(fresh, dir) && now.Sub(info.ModTime()) < time.Minute {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
			continue
		}
		if held, ok := claim.Seize(dir); ok {
			os.RemoveAll(dir)
			held.Close()
		}
	}
}
