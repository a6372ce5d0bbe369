package git_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/sandbox"
)

// TestBorrowedObjectsAreRefused checks that a target is refused if it reads objects
// from elsewhere, in any of the ways that git has.
func TestBorrowedObjectsAreRefused(t *testing.T) {
	other := newRepository(t)
	runGit(t, other, "repack", "-q", "-a", "-d")
	objects := filepath.Join(other, ".git/objects")
	link := func(to, name string) {
		t.Helper()
		if err := errors.Join(os.RemoveAll(name), os.Symlink(to, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, borrow := range map[string]func(own string){
		"alternates":             func(own string) { writeFile(t, own+"/info/alternates", objects+"\n") },
		"relative":               func(own string) { writeFile(t, own+"/info/alternates", "../../../../x/.git/objects\n") },
		"behind a comment":       func(own string) { writeFile(t, own+"/info/alternates", "# none\n\n"+objects) },
		"quoted":                 func(own string) { writeFile(t, own+"/info/alternates", `"`+objects+`"`+"\n") },
		"a directory":            func(own string) { writeFile(t, own+"/info/alternates/x", "") },
		"too large":              func(own string) { writeFile(t, own+"/info/alternates", strings.Repeat("#\n", 1<<20)) },
		"alternates, by symlink": func(own string) { link(other+"/a.txt", own+"/info/alternates") },
		"packs":                  func(own string) { link(objects+"/pack", own+"/pack") },
		"info":                   func(own string) { link(objects+"/info", own+"/info") },
		"loose objects":          func(own string) { link(objects, own+"/ab") },
		"one pack":               func(own string) { link(objects+"/x", own+"/pack/pack-x.pack") },
	} {
		for _, bare := range []bool{false, true} {
			dir := newRepository(t)
			borrow(filepath.Join(dir, ".git/objects"))
			if bare {
				dir = filepath.Join(dir, ".git")
			}
			_, err := openStore(t).Target(t.Context(), dir, bare)
			if sandbox.CodeOf(err) != git.ErrUnsupported || !strings.Contains(err.Error(), "objects from elsewhere") {
				t.Errorf("%s, bare %v: got %v", name, bare, err)
			}
		}
	}
}
