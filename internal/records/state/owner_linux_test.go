package state_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/records/state"
)

// TestCheckOwner checks that golem uses no state directory of another user, names the owner,
// and makes nothing in such a directory.
func TestCheckOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to another user")
	}
	base := t.TempDir()
	for _, name := range []string{"own", "theirs", "their-base/theirs", "their-base/own"} {
		if err := os.MkdirAll(filepath.Join(base, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"theirs", "their-base", "their-base/theirs"} {
		if err := os.Chown(filepath.Join(base, name), 54321, 54321); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ name, foreign string }{
		{"own", ""}, {"own/new", ""}, {"theirs", "theirs"}, {"theirs/new", "theirs"}, {"their-base/own", ""}, {"their-base/new", "their-base"},
	} {
		dir := filepath.Join(base, test.name)
		_, before := os.Lstat(dir)
		d, err := state.Open(dir)
		if err == nil {
			d.Close()
		}
		checked := state.CheckOwner(dir)
		if test.foreign == "" {
			if err != nil || checked != nil {
				t.Errorf("%s: got %v, %v", test.name, err, checked)
			}
			continue
		}
		want := filepath.Join(base, test.foreign) + " belongs to user 54321, and golem runs as root; run golem as user 54321"
		if !errors.Is(checked, fs.ErrPermission) || checked.Error() != want {
			t.Errorf("%s: got %v, want %s", test.name, checked, want)
		}
		if err == nil || !strings.Contains(err.Error(), "state directory "+want+", or choose another with --state") {
			t.Errorf("%s: opened: %v", test.name, err)
		}
		if _, after := os.Lstat(dir); (before == nil) != (after == nil) {
			t.Errorf("%s: golem has made it", test.name)
		}
	}
}
