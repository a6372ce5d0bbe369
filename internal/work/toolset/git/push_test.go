package git

import (
	"errors"
	"testing"

	"github.com/golem-forge/golem/internal/clearance/git"
	"github.com/golem-forge/golem/sandbox"
)

// TestVirtualNameInError checks that an error about a file of a work tree has the virtual
// name of the file. Names of branches and repositories stay.
func TestVirtualNameInError(t *testing.T) {
	target := Target{Name: "origin", At: "/site"}
	for _, row := range []struct{ wrong, want sandbox.Error }{
		{sandbox.Error{Code: git.ErrDirty, Path: "a/b"}, sandbox.Error{Code: git.ErrDirty, Path: "/site/a/b"}},
		{sandbox.Error{Code: sandbox.ErrInternal, Path: "a/b"}, sandbox.Error{Code: sandbox.ErrInternal, Path: "/site/a/b"}},
		{sandbox.Error{Code: sandbox.ErrInternal}, sandbox.Error{Code: sandbox.ErrInternal}},
		{sandbox.Error{Code: sandbox.ErrConflict, Path: "main"}, sandbox.Error{Code: sandbox.ErrConflict, Path: "main"}},
	} {
		var got *sandbox.Error
		if err := target.hidePath(&row.wrong); !errors.As(err, &got) || *got != row.want {
			t.Errorf("%v: got %v, want %v", row.wrong, got, row.want)
		}
	}
}
