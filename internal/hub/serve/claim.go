package serve

import (
	"fmt"

	"github.com/golem-forge/golem/internal/hub"
)

// maxCall limits the id of a call.
const maxCall = 1000

// claim lets a node make a call with an effect, if no other attempt has begun it. It returns the
// revision of the data with this claim.
func (b *board) claim(u hub.User, c hub.Claim) (now hub.Revision, err error) {
	j, err := b.look(u, c.Attempt)
	if err != nil {
		return now, err
	}
	if _, err := (revisions{b}).compare(u, c.Known); err != nil {
		return now, err
	}
	if !isLine(c.Call, maxCall) || !isLine(c.Nonce, 100) || !isLine(c.Tool, maxTool) {
		return now, invalid("the request is too long, or no plain line")
	}
	mine, only := fmt.Sprintf("%d %s", c.Number, c.Nonce), ""
	if c.Local { // every attempt has its own copy of the files, so each may make the call once
		only = fmt.Sprintf(" attempt %d", c.Number)
	}
	kept, first, err := b.fence.Decide(fenceKey(j, c.Call, only), []byte(mine))
	if err != nil {
		return now, err
	}
	if first || string(kept) == mine {
		return revisions{b}.compare(u, nil)
	}
	return now, &hub.Error{Code: hub.CodeDoubt, Text: fmt.Sprintf("attempt %d began the call %s (%s) and was cut off, so nobody knows whether it was done; golem jobs retry %s makes it again, golem jobs cancel %s ends the job", claimant(kept), c.Call, c.Tool, j.ID, j.ID)}
}

// fenceKey returns the key of a call in the fence. A call that a person lets a job make again
// has a new one.
func fenceKey(j hub.Job, call, only string) string {
	round := 0
	for _, d := range j.Doubts {
		if d.Call == call && d.Again {
			round++
		}
	}
	return fmt.Sprintf("%s %q%s round %d", j.ID, call, only, round)
}

// claimant returns the number of the attempt that made a claim.
func claimant(kept []byte) (attempt int) {
	fmt.Sscan(string(kept), &attempt)
	return attempt
}
