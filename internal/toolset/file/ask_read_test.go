package file

import (
	"context"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/sandbox"
)

// TestApprovedReadIsForItsContent checks that an approval of a read is bound to the content,
// and that a file which changes while the question is open is not passed on.
func TestApprovedReadIsForItsContent(t *testing.T) {
	for name, args := range map[string]string{"read_file": `{"path":"/a.txt"}`, "read_files": `{"paths":["/a.txt","/b.txt"]}`} {
		s := newScene(t, map[string]string{"a.txt": "first\n", "b.txt": "other\n"})
		s.gate.Grant.Approvals = s.gate.Grant.Approvals.With(policy.Rule{Verb: policy.Read, Target: "/", Approval: policy.Ask})
		read := func() tool.Result {
			return s.gate.Do(context.Background(), policy.Model, tool.Call{Tool: name, Args: []byte(args)})
		}
		if r := read(); r.Err != nil || !strings.Contains(r.Text, "first") {
			t.Fatalf("%s: got %+v", name, r)
		}
		first := s.asked[0]
		if len(first.Changes) == 0 || first.Changes[0].Op != tool.Read || first.Changes[0].Path != "/a.txt" || !strings.HasPrefix(first.Changes[0].About, "6 bytes; ") {
			t.Errorf("%s: the question has no size: %+v", name, first.Changes)
		}
		if read(); s.asked[1].Digest != first.Digest {
			t.Errorf("%s: the same content has another digest", name)
		}
		s.put("proj/a.txt", "second, and secret\n")
		if read(); s.asked[2].Digest == first.Digest {
			t.Errorf("%s: other content has the same digest", name)
		}
		s.during = func() { s.put("proj/a.txt", "third\n") }
		if r := read(); r.Err == nil || r.Err.Code != sandbox.ErrConflict || strings.Contains(r.Text, "third") {
			t.Errorf("%s: changed while golem asked: got %+v", name, r)
		}
	}
}
