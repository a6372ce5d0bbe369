package file

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// TestNamesInABlockedDirectory: if the names in a directory are not readable, no tool
// reveals whether one exists.
func TestNamesInABlockedDirectory(t *testing.T) {
	calls := func(name string) map[string]args {
		return map[string]args{
			"copy_file":       {"from": "/a", "to": "/box/" + name},
			"move_file":       {"from": "/a", "to": "/box/" + name},
			"make_directory":  {"path": "/box/" + name},
			"delete_file":     {"path": "/box/" + name},
			"delete_file all": {"path": "/box/" + name, "recursive": true},
			"move_file from":  {"from": "/box/" + name, "to": "/b"},
			"copy_file from":  {"from": "/box/" + name, "to": "/b"},
			"edit_file":       {"path": "/box/" + name, "edits": []args{{"old": "x", "new": "y"}}},
			"file_info":       {"path": "/box/" + name},
			"file_exists":     {"path": "/box/" + name},
			"read_file":       {"path": "/box/" + name},
			"read_files":      {"paths": []string{"/box/" + name}},
			"list_files":      {"path": "/box/" + name},
			"find_files":      {"path": "/box/" + name, "pattern": "*"},
			"search_files":    {"path": "/box/" + name, "pattern": "x"},
		}
	}
	for tool := range calls("") {
		var said []string
		for _, name := range []string{"there", "gone", "dir"} {
			s := newScene(t, map[string]string{"a": "a\n", "box/there": "x\n", "box/dir/x": "x\n"})
			s.gate.Grant.Approvals = s.gate.Grant.Approvals.With(policy.Rule{Verb: policy.Write, Target: "/", Approval: policy.PreApproved})
			s.gate.Grant.Approvals = s.gate.Grant.Approvals.With(policy.Rule{Verb: policy.Read, Target: "/box", Approval: policy.Blocked})
			s.gate.Grant.Approvals = s.gate.Grant.Approvals.With(policy.Rule{Verb: policy.Delete, Target: "/", Approval: policy.PreApproved})
			plain, _, _ := strings.Cut(tool, " ")
			r := s.do(plain, calls(name)[tool])
			if r.Err == nil {
				t.Errorf("%s %s: the call succeeded", tool, name)
			}
			said = append(said, strings.ReplaceAll(r.String(), "/box/"+name, "/box/…"))
		}
		if said[0] != said[1] || said[0] != said[2] {
			t.Errorf("%s: existing and missing names have different results: %q", tool, said)
		}
	}
}

// TestWritingBlindly: if a file is writable and not readable, the result of a write
// does not reveal whether it existed.
func TestWritingBlindly(t *testing.T) {
	var said []string
	for _, name := range []string{"there", "gone"} {
		s := newScene(t, map[string]string{"box/there": "x\n"})
		s.gate.Grant.Approvals = s.gate.Grant.Approvals.With(policy.Rule{Verb: policy.Write, Target: "/", Approval: policy.PreApproved})
		s.gate.Grant.Approvals = s.gate.Grant.Approvals.With(policy.Rule{Verb: policy.Read, Target: "/box", Approval: policy.Blocked})
		r := s.do("write_file", args{"path": "/box/" + name, "content": "y\n"})
		if r.Err != nil {
			t.Errorf("%s: %s", name, r)
		}
		s.want("proj/box/"+name, "y\n")
		text, err := json.Marshal([]any{r.Changes, r.Data, r.Notes})
		if err != nil {
			t.Fatal(err)
		}
		said = append(said, strings.ReplaceAll(string(text)+r.String(), "/box/"+name, "/box/…"))
	}
	if said[0] != said[1] {
		t.Errorf("existing and missing names have different results: %q", said)
	}
}
