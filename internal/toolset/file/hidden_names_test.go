package file

import (
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/policy"
)

// Where names may not be read, no tool says whether one is there.
func TestC14NamesInABlockedDirectory(t *testing.T) {
	calls := func(name string) map[string]args {
		return map[string]args{
			"copy_file":      {"from": "/a", "to": "/box/" + name},
			"move_file":      {"from": "/a", "to": "/box/" + name},
			"make_directory": {"path": "/box/" + name},
		}
	}
	for tool := range calls("") {
		var said []string
		for _, name := range []string{"there", "gone", "dir"} {
			s := newScene(t, map[string]string{"a": "a\n", "box/there": "x\n", "box/dir/x": "x\n"})
			s.gate.Grant.Consent = s.gate.Grant.Consent.With(policy.Rule{Verb: policy.Write, Target: "/", Consent: policy.PreApproved})
			s.gate.Grant.Consent = s.gate.Grant.Consent.With(policy.Rule{Verb: policy.Read, Target: "/box", Consent: policy.Blocked})
			r := s.do(tool, calls(name)[tool])
			if r.Err == nil {
				t.Errorf("%s %s: it was done", tool, name)
			}
			said = append(said, strings.ReplaceAll(r.String(), "/box/"+name, "/box/…"))
		}
		if said[0] != said[1] || said[0] != said[2] {
			t.Errorf("%s: names are told apart: %q", tool, said)
		}
	}
}
