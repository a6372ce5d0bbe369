package approval_test

import (
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
)

// TestAnswerIsBoundToItsDigest answers one request, and asks for others that differ only
// in what would be done. The answer counts for the request that was shown, once.
func TestAnswerIsBoundToItsDigest(t *testing.T) {
	for _, yes := range []bool{true, false} {
		d := newApprover(t, t.TempDir())
		d.Asker = nil
		shown := newRequest("write_file", "a", "main", newEffect(policy.Write, "/drafts/a.md"))
		other := shown
		other.Digest = "d-other" // the same call, with another change
		first := d.approve(shown)
		if first.Verdict != tool.Undecided || first.ID == "" {
			t.Fatalf("got %+v", first)
		}
		if err := answerRequest(d.store, first.ID, yes, "user", ""); err != nil {
			t.Fatal(err)
		}
		kept, err := d.store.FindPending(first.ID)
		if err != nil || kept.Digest != shown.Digest {
			t.Errorf("got %+v, %v", kept, err)
		}
		elsewhere := newRequest("write_file", "b", "main", newEffect(policy.Write, "/drafts/b.md"))
		if a := d.approve(elsewhere); a.Verdict != tool.Undecided {
			t.Errorf("another call: got %+v", a)
		}
		want := tool.Declined
		if yes {
			want = tool.Approved
		}
		if a := d.approve(shown); a.Verdict != want || a.ID != first.ID {
			t.Errorf("shown request: got %+v, want %v", a, want)
		}
		if a := d.approve(shown); a.Verdict != tool.Undecided || a.ID == first.ID {
			t.Errorf("once more: got %+v", a)
		}
		if a := d.approve(other); a.Verdict != tool.Undecided || a.By == "user" {
			t.Errorf("another change: got %+v", a)
		}
	}
}

// TestChangedCallNeedsItsOwnAnswer asks for another change of a call that was answered:
// the answer does not count for it.
func TestChangedCallNeedsItsOwnAnswer(t *testing.T) {
	for _, digest := range []string{"d-other", "", "d-", "d-aa", "D-a"} {
		d := newApprover(t, t.TempDir())
		d.Asker = nil
		shown := newRequest("write_file", "a", "main", newEffect(policy.Write, "/drafts/a.md"))
		first := d.approve(shown)
		if err := answerRequest(d.store, first.ID, true, "user", ""); err != nil {
			t.Fatal(err)
		}
		other := shown
		other.Digest = digest
		if a := d.approve(other); a.Verdict == tool.Approved {
			t.Errorf("%q: got %+v", digest, a)
		}
	}
}
