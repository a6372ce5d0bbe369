package mcp

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/tool"
)

// approvalsURI names the calls of this server that returned as pending. A client that
// subscribes to it gets a notification when the user has decided about one.
const approvalsURI = "golem://approvals"

// checkEvery is the interval between checks whether the user has decided.
const checkEvery = 500 * time.Millisecond

// An undecided is a call that returned as pending.
type undecided struct {
	id, tool string
	state    approval.State
}

// An undecidedList holds the calls that returned as pending, the oldest first. A goroutine
// checks them as long as one waits.
type undecidedList struct {
	mu       sync.Mutex
	calls    []undecided
	checking bool
}

// follow adds a call to the list if it returned as pending.
func (s *server) follow(name string, r tool.Result) {
	if r.Pending == nil {
		return
	}
	l := &s.undecided
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		if c.id == r.Pending.ID {
			return
		}
	}
	l.calls = append(l.calls, undecided{r.Pending.ID, name, approval.Waits})
	if l.checking || !s.enter() {
		return
	}
	l.checking = true
	go func() {
		defer s.ending.Done()
		s.checkUndecided()
	}()
}

// checkUndecided notifies subscribers of decisions, until no call waits or the server ends.
func (s *server) checkUndecided() {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		changed, waits := s.updateUndecided()
		if changed {
			s.sdk.ResourceUpdated(s.ctx, &mcp.ResourceUpdatedNotificationParams{URI: approvalsURI}) // it returns no errors
		}
		if !waits {
			return
		}
	}
}

// updateUndecided looks up the state of each call. It removes a call that was made again
// or revoked, or whose request has expired. waits reports whether a call still waits.
func (s *server) updateUndecided() (changed, waits bool) {
	l := &s.undecided
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := l.calls[:0]
	for _, c := range l.calls {
		now := s.gate.RequestState(c.id)
		changed = changed || now != c.state
		waits = waits || now == approval.Waits
		if c.state = now; now != approval.Gone {
			kept = append(kept, c)
		}
	}
	l.calls, l.checking = kept, waits
	return changed, waits
}

// readUndecided returns the calls that returned as pending, a line each.
func (s *server) readUndecided(context.Context) ([]byte, error) {
	l := &s.undecided
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	for _, c := range l.calls {
		if c.state = s.gate.RequestState(c.id); c.state == approval.Gone {
			continue
		}
		next := map[approval.State]string{approval.Waits: "; the user decides with golem approve " + c.id, approval.Approved: "; make the same call again"}[c.state]
		fmt.Fprintf(&b, "%s %s: %s%s\n", c.id, c.tool, c.state, next)
	}
	return []byte(b.String()), nil
}
