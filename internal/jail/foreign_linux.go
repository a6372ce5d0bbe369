package jail

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/sandbox"
)

// Foreign names folders at the top of a parent whose group an ordinary user has no
// place for in a session: nothing can be made there through a layer. It looks at some
// of them only.
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
