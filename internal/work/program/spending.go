package program

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/jail/egress"
	"github.com/golem-forge/golem/internal/jail/network"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/spending"
)

// A meter counts what the program that the user runs asks of models. A nil meter counts
// nothing.
type meter struct {
	*spending.Meter
	gate   *OpenWorker
	dir    *state.Dir
	before spending.Account // of earlier programs in the session
}

// newMeter returns the meter of a gate, nil without a session.
func (d *OpenWorker) newMeter() (*meter, error) {
	if d.Session == nil {
		return nil, nil
	}
	dir, err := d.Session.OpenState()
	if err != nil {
		return nil, err
	}
	m := &meter{gate: d, dir: dir}
	if m.before, err = spending.Read(dir); err != nil {
		dir.Close()
		return nil, err
	}
	p := d.program.Project
	m.Meter = spending.New(spending.Options{State: dir, Limits: p.Limits, Fixed: p.Ceiling.FixedBudget(), Now: d.program.options.Now,
		IsAgents: func(name string) bool {
			c, ok := p.Credential(name)
			return ok && c.Agent
		},
		Raise: func(ctx context.Context, r spending.Raise) (approved, declined bool) {
			answer := d.networks.AskRaise(ctx, r.Key, r.Limit, r.More)
			return answer == egress.Once, answer == egress.No
		}})
	return m, nil
}

// measure returns the function for the networks of the gate.
func (m *meter) measure() func(*http.Request, egress.Metered) (egress.Measure, *http.Response) {
	if m == nil {
		return nil
	}
	return m.Meter.Meter
}

// lastAnswers is how long golem waits for the end of requests whose program has ended.
const lastAnswers = 10 * time.Second

// spent returns what the program has added to the account of the session.
func (m *meter) spent() (spending.Account, error) {
	if m == nil {
		return spending.Account{}, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastAnswers)
	defer cancel()
	m.Wait(ctx)
	all, err := spending.Read(m.dir)
	return all.Since(m.before), errors.Join(err, m.Failed())
}

// close writes what the program cost to the journal.
func (m *meter) close() error {
	if m == nil {
		return nil
	}
	defer m.dir.Close()
	now, err := m.spent()
	if err != nil || now.IsEmpty() {
		return err
	}
	d := m.gate
	return d.Journal.Write(audit.Record{Kind: audit.Outcome, Origin: policy.Model.String(), Workers: d.Workers, Tool: "cost",
		Args: map[string]any{"requests": now.Requests, "input_tokens": now.Input(), "output_tokens": now.Tokens.Output, "dollars": now.Cost, "program": d.exec.Command},
		Note: now.String()}, audit.Written)
}

// Record has requests of golem itself recorded in the journal.
func (d *OpenWorker) Record(o *network.OwnRequests) { o.RecordIn(d.networks, d.Workers) }

// Spent returns what the program that the user runs has asked of models, and what that cost.
func (d *OpenWorker) Spent() (spending.Account, error) { return d.spending.spent() }
