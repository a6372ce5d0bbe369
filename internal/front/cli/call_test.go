package cli

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/golem-forge/golem/internal/records/storage"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/session"
)

// TestExplainFull checks that errors of a full disk name the state directory, but not if golem
// can write there, so that another disk is full.
func TestExplainFull(t *testing.T) {
	full := errors.New("write: " + syscall.ENOSPC.Error())
	dir := t.TempDir()
	for _, test := range []struct {
		state string
		err   error
		want  string
	}{
		{dir, full, ""},
		{dir + "/none", full, "; the disk with golem's state directory " + dir + "/none is full; free some space"},
		{dir + "/none", errors.New("write: file too large"), ""},
	} {
		p := &program.Program{Storage: storage.Storage{Sessions: session.Sessions{State: test.state}}}
		got := explainFull(p, test.err).Error()
		if rest := strings.TrimPrefix(got, test.err.Error()); !strings.HasPrefix(rest, test.want) || test.want == "" && rest != "" {
			t.Errorf("%s, %v: got %q, want %q", test.state, test.err, got, test.want)
		}
	}
	if explainFull(nil, nil) != nil {
		t.Error("got an error of nothing")
	}
}
