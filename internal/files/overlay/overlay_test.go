package overlay

import (
	"path"
	"testing"
)

// TestJoin checks that joinName and parentName do what package path does with clean names.
func TestJoin(t *testing.T) {
	for _, dir := range []string{"", ".", "/", "a", "a/b", "/a", "/a/b"} {
		got := joinName(dir, "c")
		if want := path.Join(dir, "c"); got != want {
			t.Errorf("joinName(%q, c) = %q, want %q", dir, got, want)
		}
		for _, name := range []string{dir, got} {
			if got, want := parentName(name), path.Dir(name); got != want {
				t.Errorf("parentName(%q) = %q, want %q", name, got, want)
			}
		}
	}
}
