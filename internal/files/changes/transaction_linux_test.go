package changes

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/golem-forge/golem/sandbox"
)

// TestC10ListNames checks that names are counted, and listed as in the sandbox.
func TestC10ListNames(t *testing.T) {
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
