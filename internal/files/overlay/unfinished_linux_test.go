package overlay_test

import (
	"os"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/files/overlay"
)

// TestUnfinished checks that golem lists no unfinished copy of the jail, at the top, in a
// directory of both and in a new one, and that RemoveUnfinished removes them and nothing
// else.
func TestUnfinished(t *testing.T) {
	if !testutil.Mounts(t) {
		return
	}
	b := newSession(t)
	const name = overlay.UnfinishedPrefix + "x"
	b.steps("!mkdir both; echo 1 >both/f", ">mkdir new; echo 2 >new/f")
	want := b.changes()
	var copies []string
	for _, dir := range []string{"", "/both", "/new"} {
		b.steps("~mkdir -p ." + dir + "/" + name + "/d; echo 3 >." + dir + "/" + name + "/d/f; chmod 500 ." + dir + "/" + name)
		copies = append(copies, b.UpperDir()+dir+"/"+name)
	}
	b.steps("tidy")
	if got := b.changes(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if names, err := b.RecentPaths(1000); err != nil || strings.Join(names, " ") != "new" {
		t.Errorf("recent paths: got %q, %v, want new", names, err)
	}
	for _, c := range copies {
		if _, err := os.Stat(c); err != nil {
			t.Error(err)
		}
	}
	b.unmount()
	must(t, overlay.RemoveUnfinished(b.Overlay))
	for _, c := range copies {
		if _, err := os.Stat(c); !os.IsNotExist(err) {
			t.Errorf("%s: got %v, want that it does not exist", c, err)
		}
	}
	if got := b.changes(); got != want {
		t.Errorf("after the removal: got %s, want %s", got, want)
	}
}
