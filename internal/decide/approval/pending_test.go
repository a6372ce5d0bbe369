package approval_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
)

// A fakePendingAsker answers while a request is pending, and renders all of it.
type fakePendingAsker func(ctx context.Context, r tool.Request, id string, answered func() bool) approval.Reply

func (b fakePendingAsker) AskWhilePending(ctx context.Context, r tool.Request, id string, answered func() bool) approval.Reply {
	reply := b(ctx, r, id, answered)
	if reply.Rendered == nil {
		reply.Rendered = r.Items()
	}
	return reply
}

// TestAskWhilePending checks that the first answer counts, and only once.
func TestAskWhilePending(t *testing.T) {
	yes := approval.Reply{Answer: tool.Answer{Verdict: tool.Approved, By: "here"}}
	no := approval.Reply{Answer: tool.Answer{By: "here"}}
	nobody := approval.Reply{Answer: tool.Answer{By: "nobody", Unattended: true}}
	for name, test := range map[string]struct {
		reply     approval.Reply
		meanwhile func(t *testing.T, d *testApprover, id string, cancel func())
		want      tool.Verdict
		by        string
	}{
		"yes":                      {reply: yes, want: tool.Approved, by: "here"},
		"no":                       {reply: no, want: tool.Declined, by: "here"},
		"nobody":                   {reply: nobody, want: tool.Undecided, by: "nobody"},
		"yes elsewhere":            {reply: nobody, meanwhile: answerElsewhere(true), want: tool.Approved, by: "elsewhere"},
		"no elsewhere":             {reply: nobody, meanwhile: answerElsewhere(false), want: tool.Declined, by: "elsewhere"},
		"no elsewhere, then yes":   {reply: yes, meanwhile: answerElsewhere(false), want: tool.Declined, by: "elsewhere"},
		"yes elsewhere, then no":   {reply: no, meanwhile: answerElsewhere(true), want: tool.Approved, by: "elsewhere"},
		"revoked, then yes":        {reply: yes, meanwhile: revoke, want: tool.Declined, by: "nobody"},
		"revoked":                  {reply: nobody, meanwhile: revoke, want: tool.Declined, by: "nobody"},
		"the call has ended":       {reply: yes, meanwhile: func(_ *testing.T, _ *testApprover, _ string, cancel func()) { cancel() }, want: tool.Declined, by: "nobody"},
		"another has used it, yes": {reply: yes, meanwhile: useAnswer, want: tool.Declined, by: "nobody"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newApprover(t, t.TempDir())
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			asked := 0
			d.PendingAsker = fakePendingAsker(func(_ context.Context, _ tool.Request, id string, answered func() bool) approval.Reply {
				asked++
				if answered() {
					t.Error("answered before any answer")
				}
				if test.meanwhile != nil {
					test.meanwhile(t, d, id, cancel)
				}
				return test.reply
			})
			if a := d.Approve(ctx, writeA); a.Verdict != test.want || a.By != test.by || a.ID == "" {
				t.Errorf("got %+v, want %v by %s", a, test.want, test.by)
			}
			if d.asker.asked != 0 || asked != 1 {
				t.Errorf("asked %d and %d times", d.asker.asked, asked)
			}
			if list, err := d.store.Pending(); err != nil || (len(list) > 0) != (test.want == tool.Undecided || name == "the call has ended") {
				t.Errorf("%d requests wait, %v", len(list), err)
			}
		})
	}
}

// TestRememberWhilePending checks that a rule is remembered if the reply that chose it is the
// answer that counts, and only then.
func TestRememberWhilePending(t *testing.T) {
	host := newRequest(tool.ConnectTool, "h", "main", newEffect(policy.Connect, "a.example:443"))
	always, _ := approval.AlwaysRule(writeA)
	never, _ := approval.RefusalRule(host, approval.Project)
	yes := approval.Reply{Answer: tool.Answer{Verdict: tool.Approved, By: "user"}, Remember: &always}
	no := approval.Reply{Answer: tool.Answer{By: "user"}, Remember: &never}
	for name, test := range map[string]struct {
		request   tool.Request
		reply     approval.Reply
		meanwhile func(t *testing.T, d *testApprover, id string, cancel func())
		again     tool.Verdict // of the same call later, which nobody answers
	}{
		"always":                   {writeA, yes, nil, tool.Approved},
		"never":                    {host, no, nil, tool.Declined},
		"declined":                 {host, approval.Reply{Answer: tool.Answer{By: "user"}}, nil, tool.Declined}, // in the run
		"always, after another no": {writeA, yes, answerElsewhere(false), tool.Undecided},
		"never, after another yes": {host, no, answerElsewhere(true), tool.Undecided},
		"revoked":                  {writeA, yes, revoke, tool.Undecided},
		"a rule of the other kind": {host, approval.Reply{Answer: tool.Answer{Verdict: tool.Approved, By: "user"}, Remember: &never}, nil, tool.Undecided},
	} {
		t.Run(name, func(t *testing.T) {
			d := newApprover(t, t.TempDir())
			d.PendingAsker = fakePendingAsker(func(_ context.Context, _ tool.Request, id string, _ func() bool) approval.Reply {
				if test.meanwhile != nil {
					test.meanwhile(t, d, id, nil)
				}
				return test.reply
			})
			d.approve(test.request)
			d.PendingAsker, d.Asker = nil, nil
			if a := d.approve(test.request); a.Verdict != test.again {
				t.Errorf("the same call later: got %+v, want %v", a, test.again)
			}
		})
	}
}

func answerElsewhere(yes bool) func(*testing.T, *testApprover, string, func()) {
	return func(t *testing.T, d *testApprover, id string, _ func()) {
		if err := answerRequest(d.store, id, yes, "elsewhere", ""); err != nil {
			t.Error(err)
		}
	}
}

func revoke(t *testing.T, d *testApprover, id string, _ func()) {
	if err := d.store.Revoke(id); err != nil {
		t.Error(err)
	}
}

// useAnswer makes the same call in another process.
func useAnswer(t *testing.T, d *testApprover, id string, _ func()) {
	answerElsewhere(true)(t, d, id, nil)
	other := newApprover(t, d.dir)
	if a := other.approve(writeA); a.Verdict != tool.Approved {
		t.Errorf("got %+v", a)
	}
}

// TestAskInAnotherSession checks that the same call in another session is another
// request.
func TestAskInAnotherSession(t *testing.T) {
	dir := t.TempDir()
	nobody := fakePendingAsker(func(context.Context, tool.Request, string, func() bool) approval.Reply {
		return approval.Reply{Answer: tool.Answer{By: "nobody", Unattended: true}}
	})
	in := func(session string) *testApprover {
		d := newApprover(t, dir)
		d.Session, d.PendingAsker = session, nobody
		return d
	}
	one, other := in("one"), in("other")
	waits, too := one.approve(writeA), other.approve(writeA)
	if waits.Verdict != tool.Undecided || too.Verdict != tool.Undecided || waits.ID == too.ID {
		t.Fatalf("got %+v and %+v, want two waiting requests", waits, too)
	}
	answerElsewhere(true)(t, one, waits.ID, nil)
	if a := other.approve(writeA); a.Verdict != tool.Undecided || a.ID != too.ID {
		t.Errorf("in another session: got %+v, want a waiting request", a)
	}
	if a := in("one").approve(writeA); a.Verdict != tool.Approved {
		t.Errorf("in its session: got %+v, want yes", a)
	}
	if list, err := one.store.Pending(); err != nil || len(list) != 1 || list[0].Session != "other" {
		t.Errorf("got %+v, %v, want the request of the other session", list, err)
	}
	// a session with many requests does not block others
	for i := range 100 {
		other.approve(newRequest("write_file", fmt.Sprint(i), "main", newEffect(policy.Write, "/drafts/a.md")))
	}
	if a := one.approve(writeA); a.Verdict != tool.Undecided {
		t.Errorf("next to a session with many requests: got %+v, want a waiting request", a)
	}
}

// TestAskAboutRevokedRequest checks that somebody who waits for an answer to a request
// that is no longer pending gets an error.
func TestAskAboutRevokedRequest(t *testing.T) {
	for name, meanwhile := range map[string]func(*testing.T, *testApprover, string, func()){"revoked": revoke, "used": useAnswer} {
		d := newApprover(t, t.TempDir())
		d.PendingAsker = fakePendingAsker(func(_ context.Context, _ tool.Request, id string, answered func() bool) approval.Reply {
			meanwhile(t, d, id, nil)
			for range 100 {
				if answered() {
					return approval.Reply{Answer: tool.Answer{Unattended: true}}
				}
			}
			t.Errorf("%s: got no error", name)
			return approval.Reply{}
		})
		if a := d.approve(writeA); a.Verdict != tool.Declined {
			t.Errorf("%s: got %+v", name, a)
		}
	}
}

// TestListedEffectsAreShort checks that the document lists few effects of a request. It
// is read for every request. The request itself has all of them.
func TestListedEffectsAreShort(t *testing.T) {
	d := newApprover(t, t.TempDir())
	d.Asker = nil
	var effects []policy.Effect
	for i := range 1000 {
		effects = append(effects, newEffect(policy.Read, fmt.Sprintf("/%d/%s", i, strings.Repeat("a", 1000))))
	}
	d.approve(newRequest("read_files", "many", "main", effects...))
	list, err := d.store.Pending()
	if err != nil || len(list) != 1 {
		t.Fatalf("got %v, %v", list, err)
	}
	if text := strings.Join(list[0].Effects, ", "); len(text) > 10_000 || !strings.HasPrefix(text, "read /0/aaa") || !strings.HasSuffix(text, "and 980 more") {
		t.Errorf("got %d bytes: %.100s … %s", len(text), text, text[max(0, len(text)-100):])
	}
	if r, err := d.store.Request(list[0]); err != nil || len(r.Effects) != 1000 || r.Effects[999] != effects[999] {
		t.Errorf("the request has %d effects, %v", len(r.Effects), err)
	}
}

// TestEarlierAnswer checks that a request says why an answer to the same call does not
// count any more.
func TestEarlierAnswer(t *testing.T) {
	changed := func(r tool.Request) tool.Request {
		r.Digest += "2"
		r.Changes = append([]tool.Change{{Path: "/out/b.md", Op: tool.Update}}, r.Changes...)
		return r
	}
	for name, test := range map[string]struct {
		answer func(t *testing.T, d *testApprover, id string)
		then   func(d *testApprover)
		again  func(tool.Request) tool.Request
		want   string // "" for no note
	}{
		"not answered": {again: changed},
		"other changes": {answer: func(t *testing.T, d *testApprover, id string) { answerElsewhere(true)(t, d, id, nil) }, again: changed,
			want: "you approved this call before, but its change is different now: /out/b.md"},
		"declined": {answer: func(t *testing.T, d *testApprover, id string) { answerElsewhere(false)(t, d, id, nil) }, again: changed,
			want: "you declined this call before, but its change is different now: /out/b.md"},
		"another program": {answer: func(t *testing.T, d *testApprover, id string) { answerElsewhere(true)(t, d, id, nil) }, then: func(d *testApprover) { d.Policy += "2" },
			want: "you approved this call before, but the files of the program have changed since"},
		"tainted": {answer: func(t *testing.T, d *testApprover, id string) { answerElsewhere(true)(t, d, id, nil) },
			again: func(r tool.Request) tool.Request { r.Digest += "3"; r.Taint = "/in/offer.txt"; return r },
			want:  "you approved this call before, but the worker has read /in/offer.txt since, which is untrusted"},
	} {
		d := newApprover(t, t.TempDir())
		d.Asker = nil
		first := d.Approve(t.Context(), writeA)
		if test.answer != nil {
			test.answer(t, d, first.ID)
		}
		if test.then != nil {
			test.then(d)
		}
		r := writeA
		if test.again != nil {
			r = test.again(r)
		}
		a := d.Approve(t.Context(), r)
		if a.Verdict != tool.Undecided || a.Note != test.want {
			t.Errorf("%s: got %+v, want the note %q", name, a, test.want)
		}
		w, err := d.store.FindPending(a.ID)
		if err != nil {
			t.Fatal(err)
		}
		if kept, err := d.store.Request(w); err != nil || kept.Earlier != test.want {
			t.Errorf("%s: the stored request says %q, %v; want %q", name, kept.Earlier, err, test.want)
		}
	}
}
