package approval_test

import (
	"testing"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
)

func taintRequest(r tool.Request, from string) tool.Request {
	r.Taint, r.Digest = from, r.Digest+from
	return r
}

// TestTaintNarrowsEveryRule checks that no rule for an untainted worker approves a
// request of a tainted one, whatever its scope. Neither --approve-reads, a mode of the
// project, nor an earlier answer approves it either.
func TestTaintNarrowsEveryRule(t *testing.T) {
	writes := newRequest("write_file", "w", "main", newEffect(policy.Write, "/out/a"))
	reads := newRequest("read_file", "r", "main", newEffect(policy.Read, "/keys/a"))
	yes := approval.Reply{Answer: tool.Answer{Verdict: tool.Approved, By: "user"}}
	remembered := func(rule approval.Rule, scope approval.Scope) approval.Reply {
		rule.Scope = scope
		return approval.Reply{Answer: yes.Answer, Remember: &rule}
	}
	for _, scope := range []approval.Scope{approval.Run, approval.Session, approval.Project} {
		rules := map[string]approval.Rule{"exact call": approval.ExactRule(writes)}
		for _, offer := range approval.OfferRules(writes) {
			rules[offer.String()] = offer
		}
		if len(rules) != 3 {
			t.Fatalf("got %d rules, want 3: %v", len(rules), rules)
		}
		for name, rule := range rules {
			d := newApprover(t, t.TempDir())
			d.Session = "s1"
			d.asker.reply = remembered(rule, scope)
			if a := d.approve(writes); a.Verdict != tool.Approved {
				t.Fatalf("%s, %s: %+v", scope, name, a)
			}
			d.asker.reply = approval.Reply{}
			if a := d.approve(writes); a.Verdict != tool.Approved {
				t.Errorf("%s, %s: a clean worker was asked again: %+v", scope, name, a)
			}
			d.asker.asked = 0
			if a := d.approve(taintRequest(writes, "/in")); a.Verdict == tool.Approved || d.asker.asked != 1 {
				t.Errorf("%s, %s: the rule answered for a tainted worker: %+v", scope, name, a)
			}
		}
	}
	t.Run("modes", func(t *testing.T) {
		d := newApprover(t, t.TempDir())
		d.ApproveReads = true
		if a := d.approve(reads); a.Verdict != tool.Approved {
			t.Errorf("--approve-reads: %+v", a)
		}
		if a := d.approve(taintRequest(reads, "/in")); a.Verdict == tool.Approved {
			t.Errorf("--approve-reads answered for a tainted worker: %+v", a)
		}
		d.Mode = approval.ApproveAll
		if a := d.approve(writes); a.Verdict != tool.Approved {
			t.Errorf("approve_all: %+v", a)
		}
		if a := d.approve(taintRequest(writes, "/in")); a.Verdict == tool.Approved {
			t.Errorf("approve_all of a file answered for a tainted worker: %+v", a)
		}
		d.ModeIsFlag = true
		if a := d.approve(taintRequest(writes, "/in")); a.Verdict != tool.Approved {
			t.Errorf("--approval approve_all: %+v", a)
		}
	})
	t.Run("exact call of a tainted worker", func(t *testing.T) {
		d := newApprover(t, t.TempDir())
		if offers := approval.OfferRules(taintRequest(writes, "/in")); offers != nil {
			t.Errorf("a tainted request offers rules: %v", offers)
		}
		d.asker.reply = remembered(approval.ExactRule(taintRequest(writes, "/in")), approval.Project)
		if a := d.approve(taintRequest(writes, "/in")); a.Verdict != tool.Approved {
			t.Fatalf("%+v", a)
		}
		d.asker.reply = approval.Reply{}
		if a := d.approve(taintRequest(writes, "/in")); a.Verdict != tool.Approved {
			t.Errorf("the same call with the same taint: %+v", a)
		}
		for _, r := range []tool.Request{taintRequest(writes, "/mail"), taintRequest(newRequest("write_file", "other", "main", newEffect(policy.Write, "/out/a")), "/in")} {
			if a := d.approve(r); a.Verdict == tool.Approved {
				t.Errorf("%s, %s: %+v", r.Taint, r.CallDigest, a)
			}
		}
	})
	t.Run("an earlier answer", func(t *testing.T) {
		d := newApprover(t, t.TempDir())
		d.Asker = nil
		answer := func(r tool.Request) {
			waits := d.approve(r)
			if waits.Verdict != tool.Undecided {
				t.Fatalf("%+v", waits)
			}
			if err := d.store.Answer(waits.ID, approval.Reply{Answer: yes.Answer, Rendered: r.Items()}, start); err != nil {
				t.Fatal(err)
			}
		}
		answer(writes)
		answer(taintRequest(writes, "/in")) // it still waits
		if a := d.approve(taintRequest(writes, "/in")); a.Verdict != tool.Approved {
			t.Errorf("an answer with the taint in view: %+v", a)
		}
	})
}
