package tui

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
)

// hubPatience is how long the screen waits for an answer of a hub.
const hubPatience = 10 * time.Second

// A waiting call is a call that waits for the user, here or at a hub.
type waiting struct {
	item inbox.Item
	call inbox.Call     // if it waits here
	hub  *inbox.HubCall // if it waits at the hub
}

// readCall reads a call that waits.
func (b *backend) readCall(it inbox.Item) (waiting, tool.Request, error) {
	w := waiting{item: it}
	if it.Job == "" {
		c, r, err := inbox.ReadCall(b.o.Options, it.Program, it.ID)
		w.call = c
		return w, r, err
	}
	c, err := b.o.Hub.Client()
	if err != nil {
		return w, tool.Request{}, err
	}
	ctx, cancel := context.WithTimeout(b.ctx, hubPatience)
	defer cancel()
	one, r, err := inbox.ReadHubCall(ctx, c, b.o.Options, it.Job, it.ID)
	if err == nil {
		err = inbox.CheckHubApprover(ctx, c, one)
	}
	w.hub = &one
	return w, r, err
}

// answer answers a call that waits. The reply counts only for the content that was shown.
func (b *backend) answer(w waiting, shown tool.Request, reply approval.Reply) error {
	if w.hub == nil {
		return inbox.AnswerCall(w.call, shown, reply, b.o.Gate.Secrets)
	}
	c, err := b.o.Hub.Client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), hubPatience) // the screen may close before the hub answers
	defer cancel()
	err = inbox.DecideHubCall(ctx, c, b.o.Options, *w.hub, shown, reply, b.o.Gate.Secrets)
	if err == nil {
		b.o.Hub.Settle(w.item.Job, w.item.ID)
	}
	return err
}

// fetch brings the changes of a job of the hub here.
func (b *backend) fetch(it inbox.Item) {
	b.do(func() tea.Msg {
		c, err := b.o.Hub.Client()
		if err != nil {
			return controlled{err: err}
		}
		_, one, err := b.o.Hub.Fetch(b.ctx, c, it.Job)
		note := "job " + it.Job + " is session " + one.Session + ", with its changes in this list"
		if n := len(one.Dropped); n > 0 {
			note += "; warning: the node changed " + visible.Count(n, "file") + " where the job may not write, which golem did not bring here"
		}
		return controlled{note, inbox.HubError(err)}
	})
}
