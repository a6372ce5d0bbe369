package program

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/golem-forge/golem/internal/audit"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/sandbox"
)

// A signer is a journal that signs the list before the first change, and knows which
// changes were made.
type journalWriter struct {
	*audit.Journal
	sign func() error
	done *doneCalls
}

// Write implements tool.Journal.
func (s journalWriter) Write(r audit.Record, wait audit.Wait) error {
	if wait == audit.Durable {
		if err := s.sign(); err != nil {
			return err
		}
	}
	err := s.Journal.Write(r, wait)
	if err == nil && wait == audit.Durable && r.Kind == audit.Intent {
		s.done.begin(r)
	}
	if r.Kind == audit.Outcome { // it has happened, whether or not the journal took it
		s.done.end(r)
	}
	return err
}

// made are the calls of a door that have changed something. An error that comes when they
// are done must not hide them: whoever reads it would make them again.
type doneCalls struct {
	mu      sync.Mutex
	pending map[string]string // the call and its effects, by its id
	last    []string          // the newest that are done
	more    int               // how many are older
}

// maxMade is how many calls are named, maxEffects how many effects of each.
const maxDone, maxEffects = 3, 5

// begin notes that a call is about to be made.
func (m *doneCalls) begin(r audit.Record) {
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

// end notes that a call has ended.
func (m *doneCalls) end(r audit.Record) {
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

// explainError says of an error that came after calls which calls were done.
func (m *doneCalls) explainError(err error) error {
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
