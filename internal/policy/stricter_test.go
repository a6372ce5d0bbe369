package policy_test

import (
	"slices"
	"testing"

	"github.com/golem-forge/golem/internal/policy"
)

// What is written below a folder and is stricter than the folder's own consent
// is not covered by an effect on the folder.
func TestStricter(t *testing.T) {
	g := policy.Grant{Files: policy.AllFiles(), Consent: policy.Consents{}.With(
		policy.Rule{Verb: policy.Read, Target: "/in", Consent: policy.PreApproved},
		policy.Rule{Verb: policy.Read, Target: "/in/private", Consent: policy.Blocked},
		policy.Rule{Verb: policy.Read, Target: "/in/asks", Consent: policy.Ask},
		policy.Rule{Verb: policy.Write, Target: "/in/private", Consent: policy.Ask},
		policy.Rule{Verb: policy.Read, Target: "/other", Consent: policy.Blocked},
	).With(
		policy.Rule{Verb: policy.Read, Target: "/in/late", Consent: policy.Ask},
		policy.Rule{Verb: policy.Read, Target: "/in/same", Consent: policy.PreApproved},
	)}
	for _, test := range []struct {
		effect policy.Effect
		want   []string
	}{
		{policy.Effect{Verb: policy.Read, Target: "/in"}, []string{"/in/private", "/in/asks", "/in/late"}},
		{policy.Effect{Verb: policy.Read, Target: "/"}, []string{"/in/private", "/in/asks", "/other", "/in/late"}},
		{policy.Effect{Verb: policy.Read, Target: "/in/asks"}, nil},
		{policy.Effect{Verb: policy.Attach, Target: "/in"}, []string{"/in/private", "/in/asks", "/in/late"}},
		{policy.Effect{Verb: policy.Write, Target: "/in"}, nil}, // ask is the default too
		{policy.Effect{Verb: policy.Use, Target: "x"}, nil},
	} {
		if got := g.Stricter(test.effect); !slices.Equal(got, test.want) {
			t.Errorf("Stricter(%v): got %v, want %v", test.effect, got, test.want)
		}
	}
}

// Verbs and origins are written as words, and read back.
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
		t.Error("a word in another case was read")
	}
}
