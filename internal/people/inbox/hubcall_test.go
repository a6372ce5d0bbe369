package inbox

import (
	"testing"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/tool"
)

// TestReportedRead checks that a plain yes is not enough for a file of another machine, if its
// content is not in the request.
func TestReportedRead(t *testing.T) {
	for _, row := range []struct {
		change tool.Change
		want   bool // a plain yes counts
	}{
		{tool.Change{Path: "/a", Op: tool.Read, About: "1 byte"}, false},
		{tool.Change{Path: "/a", Op: tool.Attach, About: "1 byte"}, false},
		{tool.Change{Path: "/a", Op: tool.Read, Diff: "+a\n"}, true},
		{tool.Change{Path: "/a", Op: tool.Delete}, true},
	} {
		r := reportedBy(tool.Request{Digest: "0123456789abcdef", Tool: "x", Changes: []tool.Change{row.change}}, "the node")
		if _, err := approval.CheckSeen(r, approval.Reply{Answer: tool.Answer{Verdict: tool.Approved}, Rendered: r.Items()}); (err == nil) != row.want {
			t.Errorf("%+v: got %v", row.change, err)
		}
	}
}
