package policy_test

import (
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// TestRenameTargets checks that RenameTargets changes the targets of file rules, and
// nothing else.
func TestRenameTargets(t *testing.T) {
	c := policy.Approvals{}.With(
		policy.Rule{Verb: policy.Read, Target: "/IN", Approval: policy.Blocked},
		policy.Rule{Verb: policy.Call, Target: "IN", Approval: policy.Blocked})
	got := c.RenameTargets(strings.ToLower).Rules()
	if got[0].Target != "/in" || got[1].Target != "IN" || c.Rules()[0].Target != "/IN" {
		t.Errorf("got %v, the original has %v", got, c.Rules())
	}
}

// TestWordsInText checks that verbs and origins can be written as words and read back.
func TestWordsInText(t *testing.T) {
	for v := policy.Nothing; v <= policy.Use; v++ {
		text, _ := v.MarshalText()
		var back policy.Verb
		if err := back.UnmarshalText(text); err != nil || back != v {
			t.Errorf("verb %s: got %v, %v", text, back, err)
		}
	}
	for o := policy.Nobody; o <= policy.Peer; o++ {
		text, _ := o.MarshalText()
		var back policy.Origin
		if err := back.UnmarshalText(text); err != nil || back != o {
			t.Errorf("origin %s: got %v, %v", text, back, err)
		}
	}
	var v policy.Verb
	if err := v.UnmarshalText([]byte("Read")); err == nil {
		t.Error("a word in another case was accepted")
	}
}
