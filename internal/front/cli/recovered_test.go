package cli

import (
	"bytes"
	"io"
	"testing"

	"github.com/golem-forge/golem/internal/work/session"
)

// TestRecovered checks that golem prints each line about a completed apply once, with the
// directory if that is another one than the user's.
func TestRecovered(t *testing.T) {
	var out bytes.Buffer
	d := &recovered{errs: func() io.Writer { return &out }, dir: func() (string, error) { return "/home/a/sub", nil }}
	for _, root := range []string{"/home/a", "/home/a", "/home/b", "/home/c"} {
		d.add(session.Recovery{Root: root, Notes: []string{"applied the rest"}})
	}
	want := "golem: applied the rest\ngolem: in /home/b: applied the rest\ngolem: in /home/c: applied the rest\n"
	if got := out.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
