package storage

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/sandbox"
)

// A GateJournal is a journal that adds the gate to the list of writers before the first
// change, and records which calls are done.
type GateJournal struct {
	*audit.Journal
	Sign func() error // adds the gate to the list
	Done *DoneCalls
}

// Write implements tool.Journal.
func (s GateJournal) Write(r audit.Record, wait audit.Wait) error {
	if wait == audit.Durable {
		if err := s.Sign(); err != nil {
			return err
		}
	}
	err := s.Journal.Write(r, wait)
	if err == nil && wait == audit.Durable && r.Kind == audit.Intent {
		s.Done.begin(r)
	}
	if r.Kind == audit.Outcome { // the call was made, even if the journal could not record it
		s.Done.end(r)
	}
	return err
}

// DoneCalls are the calls of a gate that have changed something. A later error must not
// hide them, or the reader of the error would repeat the calls.
type DoneCalls struct {
	mu      sync.Mutex
	pending map[string]string // the call with its effects, by id
	last    []string          // the newest calls that are done
	more    int               // how many older calls are done
}

// maxDone is how many calls an error names, maxEffects how many effects of each.
const maxDone, maxEffects = 3, 5

// begin records that a call is about to be made.
func (m *DoneCalls) begin(r audit.Record) {
	effects := slices.DeleteFunc(slices.Clone(r.Effects), func(e string) bool { return strings.HasPrefix(e, policy.Read.String()+" ") })
	if more := len(effects) - maxEffects; more > 0 {
		effects = append(effects[:maxEffects], fmt.Sprintf("and %d more", more))
	}
	for i, e := range effects {
		effects[i] = sandbox.Shown(e)
	}
	call := r.Tool
	if len(effects) > 0 {
		call += " (" + strings.Join(effects, ", ") + ")"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pending == nil {
		m.pending = make(map[string]string)
	}
	m.pending[r.Call] = call
}

// end records that a call has ended.
func (m *DoneCalls) end(r audit.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	call, ok := m.pending[r.Call]
	delete(m.pending, r.Call)
	if !ok || r.Code != "" {
		return
	}
	m.last = append(m.last, call)
	if len(m.last) > maxDone {
		m.last = slices.Delete(m.last, 0, 1)
		m.more++
	}
}

// ExplainError adds to an error which calls were done before it.
func (m *DoneCalls) ExplainError(err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil || len(m.last) == 0 {
		return err
	}
	calls, were := strings.Join(m.last, ", "), " was"
	if m.more > 0 {
		calls += fmt.Sprintf(" and %d earlier calls", m.more)
	}
	if len(m.last) > 1 {
		were = " were"
	}
	return fmt.Errorf("%s%s done, but golem could not finish its records: %w", calls, were, err)
}
