package jail

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/sandbox"
)

// Foreign returns the names of directories directly below parent whose group an ordinary
// user cannot have in a session: nothing can be created in them through an overlay. It
// looks only at the first entries.
func Foreign(parent sandbox.Host) (names []string) {
	if os.Geteuid() == 0 {
		return nil
	}
	dir, err := os.Open(string(parent))
	if err != nil {
		return nil
	}
	defer dir.Close()
	const most = 1000
	entries, _ := dir.ReadDir(most)
	for _, e := range entries {
		var st unix.Stat_t
		if !e.IsDir() || unix.Lstat(filepath.Join(string(parent), e.Name()), &st) != nil {
			continue
		}
		if int(st.Gid) != os.Getegid() && int(st.Uid) == os.Geteuid() {
			names = append(names, e.Name())
		}
	}
	return names
}
