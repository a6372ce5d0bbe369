package approval_test

import (
	"context"
	"testing"

	"github.com/golem-forge/golem/internal/approval"
	"github.com/golem-forge/golem/internal/tool"
)

// beside is somebody who is asked while a request waits.
type beside func(ctx context.Context, r tool.Request, id string, answered func() bool) approval.Reply

func (b beside) AskBeside(ctx context.Context, r tool.Request, id string, answered func() bool) approval.Reply {
	return b(ctx, r, id, answered)
}

// Whoever answers first is believed, and once.
func TestBeside(t *testing.T) {
	yes := approval.Reply{Answer: tool.Answer{Verdict: tool.Yes, By: "here"}}
	no := approval.Reply{Answer: tool.Answer{By: "here"}}
	nobody := approval.Reply{Answer: tool.Answer{By: "nobody", Nobody: true}}
	for name, test := range map[string]struct {
		reply     approval.Reply
		meanwhile func(t *testing.T, d *desk, id string, cancel func())
		want      tool.Verdict
		by        string
	}{
		"yes":                      {reply: yes, want: tool.Yes, by: "here"},
		"no":                       {reply: no, want: tool.No, by: "here"},
		"nobody":                   {reply: nobody, want: tool.Waits, by: "nobody"},
		"yes elsewhere":            {reply: nobody, meanwhile: answered(true), want: tool.Yes, by: "elsewhere"},
		"no elsewhere":             {reply: nobody, meanwhile: answered(false), want: tool.No, by: "elsewhere"},
		"no elsewhere, then yes":   {reply: yes, meanwhile: answered(false), want: tool.No, by: "elsewhere"},
		"yes elsewhere, then no":   {reply: no, meanwhile: answered(true), want: tool.Yes, by: "elsewhere"},
		"taken back, then yes":     {reply: yes, meanwhile: revoked, want: tool.No, by: "nobody"},
		"taken back":               {reply: nobody, meanwhile: revoked, want: tool.No, by: "nobody"},
		"the call has ended":       {reply: yes, meanwhile: func(_ *testing.T, _ *desk, _ string, cancel func()) { cancel() }, want: tool.No, by: "nobody"},
		"another has used it, yes": {reply: yes, meanwhile: used, want: tool.No, by: "nobody"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, t.TempDir())
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			asked := 0
			d.Beside = beside(func(_ context.Context, _ tool.Request, id string, answered func() bool) approval.Reply {
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
			if list, err := d.store.Pending(); err != nil || (len(list) > 0) != (test.want == tool.Waits || name == "the call has ended") {
				t.Errorf("%d requests wait, %v", len(list), err)
			}
		})
	}
}

func answered(yes bool) func(*testing.T, *desk, string, func()) {
	return func(t *testing.T, d *desk, id string, _ func()) {
		if err := d.store.Answer(id, approval.Given{Yes: yes, By: "elsewhere"}); err != nil {
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
	if a := other.approve(writeA); a.Verdict != tool.Yes {
		t.Errorf("got %+v", a)
	}
}
