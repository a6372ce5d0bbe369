package file

import (
	"os"
	"testing"

	"github.com/golem-forge/golem/sandbox"
)

// TestInvalidNames: no call can use a name that is not UTF-8, so a list reports how many there
// are. A directory that holds only such names is not empty.
func TestInvalidNames(t *testing.T) {
	s := newScene(t, map[string]string{"d/a": "a"})
	check(t, os.MkdirAll(s.host("proj/only"), 0o777))
	for _, name := range []string{"only/\xff\xfe", "d/\xff", "d/\xfe"} {
		check(t, os.WriteFile(s.host("proj/"+name), []byte("x"), 0o666))
	}
	r := s.must("list_files", args{"path": "/only"})
	if want := "[1 name not shown, not UTF-8"; r.Data.(*listData).Unnamed != 1 || r.Text[:len(want)] != want {
		t.Errorf("%+v %q", r.Data, r.Text)
	}
	if r := s.must("list_files", args{"depth": 2}); r.Data.(*listData).Unnamed != 3 {
		t.Errorf("%+v", r.Data)
	}
	s.fails(sandbox.ErrNotEmpty, "delete_file", args{"path": "/only"}, "1 entries in all", "set recursive")
	s.must("delete_file", args{"path": "/only", "recursive": true})
	if _, err := os.Stat(s.host("proj/only")); !os.IsNotExist(err) {
		t.Errorf("it is there: %v", err)
	}
}
