package overlay_test

import (
	"path"
	"testing"

	"github.com/golem-forge/golem/internal/files/overlay"
)

// TestJoin checks that Join and Parent do what package path does with clean names.
func TestJoin(t *testing.T) {
	for _, dir := range []string{"", ".", "/", "a", "a/b", "/a", "/a/b"} {
		got := overlay.Join(dir, "c")
		if want := path.Join(dir, "c"); got != want {
			t.Errorf("Join(%q, c) = %q, want %q", dir, got, want)
		}
		for _, name := range []string{dir, got} {
			if got, want := overlay.Parent(name), path.Dir(name); got != want {
				t.Errorf("Parent(%q) = %q, want %q", name, got, want)
			}
		}
	}
}
