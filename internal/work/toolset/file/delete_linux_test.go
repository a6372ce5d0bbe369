package file

import "testing"

// TestDeleteInvalidNames checks that entries with names that no call could use are counted
// before they are deleted with their directory.
func TestDeleteInvalidNames(t *testing.T) {
	s := newScene(t, map[string]string{"d/x": "x", "d/\xff": "y"})
	s.must("delete_file", args{"path": "/d", "recursive": true})
	if got, want := s.asked[0].Changes[0].About, "a directory with 1 file, 0 directories, 1 byte, and 1 more that cannot be shown"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
