package tool

import (
	"context"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// A Keeper is an Approver that can keep a request for a later answer.
type Keeper interface {
	Approver
	// Keep keeps a request without asking anybody now. The verdict is Undecided if the
	// request waits now. Any other verdict decides nothing.
	Keep(r Request) Answer
}

// KeepRequest plans a call and keeps its request for a later answer, so that a person can
// decide about a call before it is its turn. It makes no call and records no taint. It
// returns nil if the call needs no approval, cannot be made, or its request was not kept.
func (g Gate) KeepRequest(ctx context.Context, origin policy.Origin, call Call) *Pending {
	keeper, ok := g.Approver.(Keeper)
	if !ok {
		return nil
	}
	g.Approver = keepOnly{keeper}
	if g.Taint != nil {
		g.Taint = readOnlyTaint{g.Taint}
	}
	in := newInvocation(g, origin, call.Tool)
	plan, prepared, decision, err := in.consider(ctx, call)
	if err != nil || ctx.Err() != nil {
		return nil
	}
	_, err = in.approve(ctx, plan, prepared, decision)
	if err == nil || in.record.Decision != "pending" {
		return nil
	}
	return in.refuse(err).Pending
}

// keepOnly is an Approver that asks nobody and keeps every request.
type keepOnly struct{ Keeper }

// Approve implements Approver.
func (k keepOnly) Approve(_ context.Context, r Request) Answer { return k.Keep(r) }

// readOnlyTaint is a Taint that records nothing.
type readOnlyTaint struct{ Taint }

func (readOnlyTaint) RecordSeen([]policy.Effect) {}
func (readOnlyTaint) AddBytes(int64)             {}
func (readOnlyTaint) MarkTainted(string)         {}
