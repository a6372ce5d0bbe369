package network

import (
	"fmt"
	"strings"
	"sync"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/jail/egress"
	"github.com/golem-forge/golem/internal/records/audit"
)

// A connectionLog writes the connections of a network to the journal.
type connectionLog struct {
	journal tool.Journal
	workers []string
	prefix  string

	mu   sync.Mutex
	open map[uint64]bool // connections with an intent in the journal
}

// record writes a step of a connection. If it fails, golem must not take the step.
func (l *connectionLog) record(r egress.Event) error {
	c := audit.Connection{Call: fmt.Sprintf("%s-%d", l.prefix, r.ID), Workers: l.workers, Program: r.Program, Host: r.Host, Port: r.Port,
		Decision: policy.PreApproved.String(), By: r.Decision, Sent: r.Sent, Received: r.Received, Took: r.Duration, Note: r.Why,
		Tainted: &r.Tainted, Read: r.Read, Requests: r.Passed}
	if strings.HasPrefix(r.Decision, "allowed ") { // by a person or a remembered rule
		c.Decision = "yes"
	}
	if r.More > 0 {
		c.Note = strings.TrimPrefix(fmt.Sprintf("%s; with %d further connections like it", r.Why, r.More), "; ")
	}
	if r.Request != "" {
		c.Note = r.Request + ": " + r.Why
	}
	switch r.Step {
	case egress.Opened:
		l.begin(r.ID)
		return l.journal.Write(c.Intent(), audit.Written)
	case egress.Closed:
		l.end(r.ID)
		return l.journal.Write(c.Outcome(), audit.Written)
	case egress.Noticed:
		c.Code = "notice"
	default:
		c.Code, c.Decision, c.By = "refused", policy.Blocked.String(), ""
		if r.Step == egress.Refused && l.end(r.ID) {
			return l.journal.Write(c.Outcome(), audit.Written)
		}
	}
	return l.journal.Write(c.Refusal(), audit.Written)
}

// begin records that a connection has an intent.
func (l *connectionLog) begin(id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = make(map[uint64]bool)
	}
	l.open[id] = true
}

// end reports whether a connection had an intent, and forgets it.
func (l *connectionLog) end(id uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	had := l.open[id]
	delete(l.open, id)
	return had
}
