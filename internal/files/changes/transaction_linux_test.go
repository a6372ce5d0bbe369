package changes

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/golem-forge/golem/sandbox"
)

// TestListNames checks that names are counted, and listed as in the sandbox.
func TestListNames(t *testing.T) {
	var inside []string
	for i := range 12 {
		inside = append(inside, fmt.Sprint("/", i))
	}
	if got := ListNames(inside); !strings.HasPrefix(got, "/0, /1, ") || !strings.HasSuffix(got, "/9 and 2 more") {
		t.Errorf("got %s", got)
	}
}

// TestApplierError checks that the error of a transaction that golem cannot apply names the
// tool, and says that nothing was applied.
func TestApplierError(t *testing.T) {
	missing := &Transaction{store: &store{dir: t.TempDir() + "/missing"}}
	err := missing.Applier("shell", nil)(nil)
	var known *sandbox.Error
	if !errors.As(err, &known) || known.Op != "shell" || known.Code != sandbox.ErrInternal || !strings.HasSuffix(known.Hint, "; nothing was applied") {
		t.Errorf("got %v", err)
	}
}

// TestApplierConflict checks that golem names a file that the user made before the session's
// file of the same name was applied, and keeps it.
func TestApplierConflict(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k, err := Look(sandbox.Host(dir+"/session"), []Directory{changedSession(t, dir, 1)})
	must(t, err)
	defer k.Close()
	change, err := k.Begin(sandbox.Host(dir+"/records"), []Pick{{Name: "/f0"}})
	must(t, err)
	must(t, os.WriteFile(dir+"/real/f0", []byte("mine"), 0o600))
	err = change.Applier("apply_changes", nil)(nil)
	if sandbox.CodeOf(err) != sandbox.ErrConflict || !strings.Contains(err.Error(), "/f0; nothing was applied") {
		t.Errorf("got %v", err)
	}
	if text, err := os.ReadFile(dir + "/real/f0"); err != nil || string(text) != "mine" {
		t.Errorf("the file is %q, %v", text, err)
	}
}
