package desk

import (
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/golem-forge/golem/internal/claim"
)

// hold marks the directory of a desk as in use until the file is closed.
func hold(dir string) (*os.File, error) { return claim.Hold(dir) }

// removeLeft removes the directories that killed desks of the user left. A new one may not
// be marked yet.
func removeLeft(now time.Time) {
	list, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	for _, dir := range list {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || now.Sub(info.ModTime()) < time.Minute {
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
