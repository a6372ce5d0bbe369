package file

import (
	"context"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
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
		if len(first.Changes) == 0 || first.Changes[0].Op != tool.Read || first.Changes[0].Path != "/a.txt" || first.Changes[0].About != "6 bytes" {
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

// TestShownRead checks that the question has the content of a file if the user cannot look at
// it elsewhere, or says that it is not shown.
func TestShownRead(t *testing.T) {
	s := newScene(t, map[string]string{"a.txt": "first\n", "b": "\x00\x01", "d/x": "x"})
	s.gate.ShowReads = true
	s.gate.Grant.Approvals = s.gate.Grant.Approvals.With(policy.Rule{Verb: policy.Read, Target: "/", Approval: policy.Ask})
	for _, row := range []struct{ tool, args, diff, omitted string }{
		{"read_file", `{"path":"/a.txt"}`, "+first", ""},
		{"file_info", `{"path":"/b"}`, "", "binary"},
		{"search_files", `{"pattern":"x","path":"/d"}`, "", "what is in the directory"},
	} {
		s.asked = nil
		s.gate.Do(context.Background(), policy.Model, tool.Call{Tool: row.tool, Args: []byte(row.args)})
		if len(s.asked) != 1 || len(s.asked[0].Changes) != 1 {
			t.Fatalf("%s: asked %+v", row.tool, s.asked)
		}
		q := s.asked[0]
		if c := q.Changes[0]; (c.Diff == "") != (row.diff == "") || !strings.Contains(c.Diff, row.diff) || c.Omitted != row.omitted || !q.ShowsArguments() {
			t.Errorf("%s: got %+v", row.tool, c)
		}
	}
}

// TestApprovedTreeIsForItsContent checks that an approval to search or list a directory is
// bound to what the call reads there, and to nothing else.
func TestApprovedTreeIsForItsContent(t *testing.T) {
	const content, names, top = 1, 2, 3 // what the call reads: files, all names, names in the directory itself
	for _, c := range []struct {
		tool, args string
		reads      int
		about      string
	}{
		{"search_files", `{"pattern":"t","path":"/d"}`, content, "2 files, 12 bytes"},
		{"search_files", `{"pattern":"t"}`, content, "2 files, 12 bytes"},
		{"find_files", `{"pattern":"*","path":"/d"}`, names, "3 names"},
		{"list_files", `{"path":"/d","pattern":"*"}`, names, "3 names"},
		{"list_files", `{"path":"/d","depth":2}`, names, "3 names"},
		{"list_files", `{"path":"/d"}`, top, "2 names"},
		{"sandbox_list", `{"path":"/d"}`, names, "3 names"},
	} {
		s := newScene(t, map[string]string{"d/a.txt": "first\n", "d/e/b.txt": "other\n"})
		s.gate.Grant.Approvals = s.gate.Grant.Approvals.With(policy.Rule{Verb: policy.Read, Target: "/", Approval: policy.Ask})
		call := func() (tool.Result, string) {
			n := len(s.asked)
			r := s.gate.Do(context.Background(), policy.Model, tool.Call{Tool: c.tool, Args: []byte(c.args)})
			if len(s.asked) != n+1 {
				t.Fatalf("%s %s: golem did not ask: %+v", c.tool, c.args, r)
			}
			return r, s.asked[n].Digest
		}
		r, first := call()
		if r.Err != nil || !strings.Contains(r.Text, "a.txt") {
			t.Fatalf("%s %s: got %+v", c.tool, c.args, r)
		}
		if list := s.asked[0].Changes; len(list) != 1 || list[0].Op != tool.Read || !strings.HasPrefix(list[0].About, c.about) {
			t.Errorf("%s %s: the question does not say how much it reads: %+v", c.tool, c.args, list)
		}
		if _, again := call(); again != first {
			t.Errorf("%s %s: the same content has another digest", c.tool, c.args)
		}
		for _, change := range []struct {
			file, text string
			counts     bool
		}{
			{"proj/d/a.txt", "third\n", c.reads == content},
			{"proj/d/e/new.txt", "new\n", c.reads != top},
			{"proj/d/new.txt", "new\n", true},
		} {
			s.put(change.file, change.text)
			_, now := call()
			if (now != first) != change.counts {
				t.Errorf("%s %s: after a change of %s the digest changed: %v, want %v", c.tool, c.args, change.file, now != first, change.counts)
			}
			first = now
		}
		s.during = func() { s.put("proj/d/late.txt", "late\n") }
		if r, _ := call(); r.Err == nil || r.Err.Code != sandbox.ErrConflict || strings.Contains(r.Text, "late") {
			t.Errorf("%s %s: changed while golem asked: got %+v", c.tool, c.args, r)
		}
	}
}
