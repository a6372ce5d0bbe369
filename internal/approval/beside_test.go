package approval_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/approval"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/tool"
)

// beside is somebody who is asked while a request waits, and is shown all of it.
type beside func(ctx context.Context, r tool.Request, id string, answered func() bool) approval.Reply

func (b beside) AskWhilePending(ctx context.Context, r tool.Request, id string, answered func() bool) approval.Reply {
	reply := b(ctx, r, id, answered)
	if reply.Rendered == nil {
		reply.Rendered = r.Items()
	}
	return reply
}

// Whoever answers first is believed, and once.
func TestBeside(t *testing.T) {
	yes := approval.Reply{Answer: tool.Answer{Verdict: tool.Approved, By: "here"}}
	no := approval.Reply{Answer: tool.Answer{By: "here"}}
	nobody := approval.Reply{Answer: tool.Answer{By: "nobody", Unattended: true}}
	for name, test := range map[string]struct {
		reply     approval.Reply
		meanwhile func(t *testing.T, d *desk, id string, cancel func())
		want      tool.Verdict
		by        string
	}{
		"yes":                      {reply: yes, want: tool.Approved, by: "here"},
		"no":                       {reply: no, want: tool.Declined, by: "here"},
		"nobody":                   {reply: nobody, want: tool.Undecided, by: "nobody"},
		"yes elsewhere":            {reply: nobody, meanwhile: answered(true), want: tool.Approved, by: "elsewhere"},
		"no elsewhere":             {reply: nobody, meanwhile: answered(false), want: tool.Declined, by: "elsewhere"},
		"no elsewhere, then yes":   {reply: yes, meanwhile: answered(false), want: tool.Declined, by: "elsewhere"},
		"yes elsewhere, then no":   {reply: no, meanwhile: answered(true), want: tool.Approved, by: "elsewhere"},
		"taken back, then yes":     {reply: yes, meanwhile: revoked, want: tool.Declined, by: "nobody"},
		"taken back":               {reply: nobody, meanwhile: revoked, want: tool.Declined, by: "nobody"},
		"the call has ended":       {reply: yes, meanwhile: func(_ *testing.T, _ *desk, _ string, cancel func()) { cancel() }, want: tool.Declined, by: "nobody"},
		"another has used it, yes": {reply: yes, meanwhile: used, want: tool.Declined, by: "nobody"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, t.TempDir())
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			asked := 0
			d.PendingAsker = beside(func(_ context.Context, _ tool.Request, id string, answered func() bool) approval.Reply {
				asked++
				if answered() {
					t.Error("answered before anybody has")
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

func answered(yes bool) func(*testing.T, *desk, string, func()) {
	return func(t *testing.T, d *desk, id string, _ func()) {
		if err := answer(d.store, id, yes, "elsewhere", ""); err != nil {
			t.Error(err)
		}
	}
}

func revoked(t *testing.T, d *desk, id string, _ func()) {
	if err := d.store.Revoke(id); err != nil {
		t.Error(err)
	}
}

// used is the same call, made by another process.
func used(t *testing.T, d *desk, id string, _ func()) {
	answered(true)(t, d, id, nil)
	other := newDesk(t, d.dir)
	if a := other.approve(writeA); a.Verdict != tool.Approved {
		t.Errorf("got %+v", a)
	}
}

// The same call in another session is another: what it finds there is not what was asked
// about.
func TestBesideInAnotherSession(t *testing.T) {
	dir := t.TempDir()
	nobody := beside(func(context.Context, tool.Request, string, func() bool) approval.Reply {
		return approval.Reply{Answer: tool.Answer{By: "nobody", Unattended: true}}
	})
	in := func(session string) *desk {
		d := newDesk(t, dir)
		d.Session, d.PendingAsker = session, nobody
		return d
	}
	one, other := in("one"), in("other")
	waits, too := one.approve(writeA), other.approve(writeA)
	if waits.Verdict != tool.Undecided || too.Verdict != tool.Undecided || waits.ID == too.ID {
		t.Fatalf("got %+v and %+v, want two that wait", waits, too)
	}
	answered(true)(t, one, waits.ID, nil)
	if a := other.approve(writeA); a.Verdict != tool.Undecided || a.ID != too.ID {
		t.Errorf("in another session: got %+v, want that it waits", a)
	}
	if a := in("one").approve(writeA); a.Verdict != tool.Approved {
		t.Errorf("in its session: got %+v, want yes", a)
	}
	if list, err := one.store.Pending(); err != nil || len(list) != 1 || list[0].Session != "other" {
		t.Errorf("got %+v, %v, want the other's", list, err)
	}
	// who asks for too much is in nobody else's way
	for i := range 100 {
		other.approve(newRequest("write_file", fmt.Sprint(i), "main", effect(policy.Write, "/drafts/a.md")))
	}
	if a := one.approve(writeA); a.Verdict != tool.Undecided {
		t.Errorf("beside one with many requests: got %+v, want that it waits", a)
	}
}

// Who waits for an answer to a request that is not there any more is told.
func TestBesideOfNothing(t *testing.T) {
	for name, meanwhile := range map[string]func(*testing.T, *desk, string, func()){"taken back": revoked, "used": used} {
		d := newDesk(t, t.TempDir())
		d.PendingAsker = beside(func(_ context.Context, _ tool.Request, id string, answered func() bool) approval.Reply {
			meanwhile(t, d, id, nil)
			for range 100 {
				if answered() {
					return approval.Reply{Answer: tool.Answer{Unattended: true}}
				}
			}
			t.Errorf("%s: nobody says so", name)
			return approval.Reply{}
		})
		if a := d.approve(writeA); a.Verdict != tool.Declined {
			t.Errorf("%s: got %+v", name, a)
		}
	}
}

// What is listed of a request is short, however much it would do: the list is read for
// every question. All of it is in the request.
func TestListedInBrief(t *testing.T) {
	d := newDesk(t, t.TempDir())
	d.Asker = nil
	var effects []policy.Effect
	for i := range 1000 {
		effects = append(effects, effect(policy.Read, fmt.Sprintf("/%d/%s", i, strings.Repeat("a", 1000))))
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
