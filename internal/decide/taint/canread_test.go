package taint

import (
	"testing"

	"github.com/golem-forge/golem/sandbox"
)

// TestCanReadPart: a worker sees an untrusted mount if it can read any of it, either the
// whole mount or one untrusted directory in it.
func TestCanReadPart(t *testing.T) {
	memory := func() sandbox.Backend { return sandbox.NewMemory(nil) }
	whole, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Backend: memory(), Access: sandbox.ReadWrite},
		{Target: "/web", Backend: memory(), Access: sandbox.ReadWrite}, {Target: "/web/mine", Backend: memory(), Access: sandbox.ReadWrite}}})
	if err != nil {
		t.Fatal(err)
	}
	trust := map[string]bool{"/": false, "/web": true, "/web/mine": false}
	for folder, want := range map[string]bool{"/": true, "/web": true, "/web/sub": true, "/web/sub/deep": true, "/web/mine": false, "/web/mine/a": false, "/src": false, "/website": false} {
		files, err := whole.Restrict(sandbox.Limit{Path: folder, Access: sandbox.ReadOnly})
		if err != nil {
			t.Fatal(err)
		}
		if got := canReadPart(files, trust, "/web"); got != want {
			t.Errorf("restricted to %s: got %v, want %v", folder, got, want)
		}
	}
}
