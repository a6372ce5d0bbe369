package explain

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/sandbox"
)

// TestFileDecidesAsTheGate checks that a rule for one name of a file counts for its other
// names, as in the gate.
func TestFileDecidesAsTheGate(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sub", "a"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]bool{"/other": false, "/elsewhere": true} {
		grant := policy.Grant{Files: policy.AllFiles(),
			Approvals: policy.Approvals{}.With(policy.Rule{Verb: policy.Read, Target: target, Approval: policy.Blocked})}
		s := Subject{Grant: grant, Trusted: true, Mounts: []*Mount{
			{Source: sandbox.Host(dir), Target: "/", Access: sandbox.ReadWrite},
			{Source: sandbox.Host(filepath.Join(dir, "sub")), Target: "/other", Access: sandbox.ReadWrite},
		}}
		a, err := s.File(t.Context(), "read", "/sub/a")
		if err != nil || a.Allowed != want {
			t.Errorf("with a rule for %s: got %v (%s), %v, want %v", target, a.Allowed, a.Reason, err, want)
		}
	}
}
