package approval_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/sandbox"
)

// drawRequest returns a random request.
func drawRequest(t *rapid.T) tool.Request {
	text, some := rapid.StringMatching(`[a-z/]{0,8}`), rapid.SliceOfN(rapid.StringMatching(`[a-z ]{1,8}`), 0, 3)
	r := tool.Request{Digest: rapid.StringMatching(`[0-9a-f]{64}`).Draw(t, "digest"), CallDigest: "same", Workers: []string{"main"}, Tool: "tool",
		Why: text.Draw(t, "why"), Summary: text.Draw(t, "wish"), Problem: text.Draw(t, "problem"), Warnings: some.Draw(t, "warnings"),
		MoreWarnings: rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "more"),
		OnlyUser:     rapid.Bool().Draw(t, "clears"), Args: []byte(rapid.SampledFrom([]string{"{}", `{"a":1}`}).Draw(t, "args"))}
	r.Unknown = r.Problem != "" && rapid.Bool().Draw(t, "unknown")
	for i := range rapid.IntRange(0, 4).Draw(t, "effects") {
		r.Effects = append(r.Effects, newEffect(rapid.SampledFrom([]policy.Verb{policy.Write, policy.Delete, policy.Run}).Draw(t, "verb"), fmt.Sprintf("/f%d", i)))
	}
	r.ToApprove = slices.Clone(r.Effects)
	for i := range rapid.IntRange(0, 5).Draw(t, "changes") {
		c := tool.Change{Path: fmt.Sprintf("/f%d", i), Op: rapid.SampledFrom([]tool.Op{tool.Create, tool.Update, tool.Delete, tool.Move}).Draw(t, "op")}
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 1:
			c.Diff = "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n"
		case 2:
			c.Omitted = "too large"
		}
		r.Changes = append(r.Changes, c)
	}
	return r
}

// TestApprovalCoversWhatWasShown checks that an approval counts only if each item was
// rendered, or if it names the digest. This holds for anything shown and answered, at
// once or later.
func TestApprovalCoversWhatWasShown(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		r := drawRequest(t)
		n++
		r.CallDigest = fmt.Sprint(n)
		items := r.Items()
		if len(items) == 0 || len(slices.Compact(slices.Sorted(slices.Values(items)))) != len(items) {
			t.Fatalf("the items are %q", items)
		}
		shown := slices.DeleteFunc(slices.Clone(items), func(string) bool { return rapid.IntRange(0, 9).Draw(t, "hidden") == 0 })
		if rapid.Bool().Draw(t, "boasts") {
			shown = append(shown, items...)
		}
		reply := approval.Reply{Answer: tool.Answer{Verdict: tool.Approved, By: "user"}, Rendered: shown}
		reply.DigestPrefix = rapid.SampledFrom([]string{"", "", r.Digest[:7], r.Digest[:8], strings.ToUpper(r.Digest[:12]), r.Digest, r.Digest + "0", "zzzzzzzz", r.Digest[1:9] + "x"}).Draw(t, "named")

		whole := len(r.Omitted()) == 0
		for _, item := range items {
			whole = whole && slices.Contains(shown, item)
		}
		named := len(reply.DigestPrefix) >= 8 && strings.HasPrefix(r.Digest, strings.ToLower(reply.DigestPrefix))
		want := named || whole && reply.DigestPrefix == ""

		check := func(how string, a tool.Answer) {
			if (a.Verdict == tool.Approved) != want {
				t.Fatalf("%s: got %+v for %d of %d items, named %q, omitted %q", how, a, len(shown), len(items), reply.DigestPrefix, r.Omitted())
			}
			if want && (a.Seen.IsUnseen() == whole || a.Seen.IsComplete() != whole) {
				t.Fatalf("%s: recorded as %q, whole is %v", how, a.Seen, whole)
			}
		}
		seen, err := approval.CheckSeen(r, reply)
		if (err == nil) != want || want && seen.IsUnseen() == whole {
			t.Fatalf("got %v, %v", seen, err)
		}
		d := openApprover(t.Fatal, dir)
		defer d.close()
		d.Asker = fakeAsker(func() approval.Reply { return reply })
		check("at a terminal", d.Approve(context.Background(), r))

		if rapid.IntRange(0, 4).Draw(t, "also in a client") > 0 { // this case writes to the disk
			return
		}
		d.Asker, d.PendingAsker = nil, fakePendingAsker(func(context.Context, tool.Request, string, func() bool) approval.Reply { return reply })
		a := d.Approve(context.Background(), r)
		check("in a client", a)
		if !want { // the request is still pending
			if a.Verdict != tool.Undecided {
				t.Fatalf("in a client: got %+v, want a waiting call", a)
			}
			if err := d.store.Answer(a.ID, reply, start); err == nil {
				t.Fatal("the store accepted the answer")
			}
			if err := d.store.Answer(a.ID, approval.Reply{Answer: tool.Answer{Verdict: tool.Approved}, DigestPrefix: r.Digest}, start); err != nil {
				t.Fatal(err)
			}
			if a := d.Approve(context.Background(), r); a.Verdict != tool.Approved || !a.Seen.IsUnseen() && len(items) > 0 {
				t.Fatalf("after golem approve: got %+v", a)
			}
		}
	})
}

// A fakeAsker returns a given reply.
type fakeAsker func() approval.Reply

func (a fakeAsker) Ask(context.Context, tool.Request) approval.Reply { return a() }

// TestUnseenIsNotRemembered checks that an approval of something unseen is not
// remembered.
func TestUnseenIsNotRemembered(t *testing.T) {
	d := newApprover(t, t.TempDir())
	r := writeA
	r.Digest, r.Changes = strings.Repeat("ab", 32), []tool.Change{{Path: "/drafts/a.md", Op: tool.Create, Omitted: "too large"}}
	rule := approval.ExactRule(r)
	rule.Scope = approval.Project
	d.asker.reply = approval.Reply{Answer: tool.Answer{Verdict: tool.Approved, By: "user"}, Remember: &rule, DigestPrefix: r.Digest[:8]}
	if a := d.approve(r); a.Verdict != tool.Approved || !a.Seen.IsUnseen() || a.Keep != nil {
		t.Errorf("got %+v", a)
	}
	if rules, err := d.store.Rules(); err != nil || len(rules) > 0 {
		t.Errorf("got rules %v, %v", rules, err)
	}
}

// TestModesApproveUnseen checks that the answers of modes say that nobody has seen the
// request.
func TestModesApproveUnseen(t *testing.T) {
	d := newApprover(t, t.TempDir())
	d.Mode = approval.ApproveAll
	if a := d.approve(writeA); a.Verdict != tool.Approved || a.Seen.String() != "unseen" {
		t.Errorf("approve_all: got %+v", a)
	}
}

// TestUnseenOff checks that no digest approves what was not shown if a policy forbids it, and
// that golem names no digest to type then.
func TestUnseenOff(t *testing.T) {
	r, err := tool.NewCommandRequest("trust", "trust it", []string{"risky"}, []string{"one", "two"}, nil, map[string]string{"content": "c"})
	if err != nil || !r.IsCommand() {
		t.Fatalf("got %+v, %v", r, err)
	}
	unseen := approval.Reply{Answer: tool.Answer{Verdict: tool.Approved}, DigestPrefix: r.Digest, Rendered: r.Items()[1:]}
	whole := approval.Reply{Answer: tool.Answer{Verdict: tool.Approved}, Rendered: r.Items()}
	if seen, err := approval.CheckSeen(r, unseen); err != nil || !seen.IsUnseen() || r.UnseenDigest() != r.Digest[:tool.MinDigestPrefix] {
		t.Errorf("without a policy: got %v, %v, and the digest %q", seen, err, r.UnseenDigest())
	}
	r.UnseenOff = "policy.yaml:2"
	if _, err := approval.CheckSeen(r, unseen); sandbox.CodeOf(err) != "blocked" || !strings.Contains(err.Error(), "policy.yaml:2") {
		t.Errorf("got %v, want that the policy forbids it", err)
	}
	if _, err := approval.CheckSeen(r, whole); err != nil || r.UnseenDigest() != "" {
		t.Errorf("everything was shown: got %v, and the digest %q", err, r.UnseenDigest())
	}
	other, err := tool.NewCommandRequest("trust", "trust it", []string{"risky"}, []string{"one", "three"}, nil, map[string]string{"content": "c"})
	if err != nil || other.Digest == r.Digest {
		t.Errorf("other details have the same digest, or %v", err)
	}
}
