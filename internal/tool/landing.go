package tool

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/golem-forge/golem/internal/audit"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/sandbox"
)

// A Landing is what a call has made and not done yet: its effects were not known
// before it ran. The gate decides about them as about a plan. Either Land or Drop
// is called, once.
type Landing struct {
	Effects []policy.Effect // each of them
	Listed  []policy.Effect // the same for who reads them: folders in place of what is in them
	Changes func() []Change // what is shown to who decides
	Refused error           // why nobody can let it land, nil if one can
	Land    func(context.Context) error
	Drop    func() error
	Done    string // says what has landed
}

// landed decides about a landing, and lets it land. A result whose changes did not
// land keeps its text: it tells what was tried.
func (p *pass) landed(r Result) Result {
	l := r.Landing
	if l == nil {
		return r
	}
	r.Landing = nil
	if r.Err != nil { // it was not finished
		if err := l.Drop(); err != nil {
			r.Notes = append(r.Notes, "what it had changed could not be removed from where it is kept")
		}
		return r
	}
	q := &pass{Gate: p.Gate, ctx: p.ctx, origin: p.origin, id: newID(), tool: p.tool, args: p.args, plan: Plan{Effects: l.Listed}, lands: true}
	q.record = audit.Record{Call: q.id, Origin: p.origin.String(), Workers: p.Workers, Tool: p.tool.Name, Effects: spelled(l.Listed), Note: "lands what " + p.id + " has made"}
	refused := q.landing(l)
	if refused.Err == nil {
		r.Changes = append(r.Changes, refused.Changes...)
		r.Text = strings.TrimPrefix(strings.TrimSuffix(r.Text, "\n")+"\nlanded: "+l.Done, "\n")
		return r
	}
	if err := l.Drop(); err != nil {
		r.Notes = append(r.Notes, "its changes did not land, and could not be removed from where they are kept")
	}
	if !q.begun {
		r.Notes = append(r.Notes, q.refused(refused)...)
	}
	r.Err, r.Pending, r.Nobody, r.Stop = refused.Err, refused.Pending, refused.Nobody, refused.Stop
	return r
}

// landing takes the steps of a call that are about its effects. The result is an
// error where nothing has landed.
func (p *pass) landing(l *Landing) Result {
	if l.Refused != nil {
		return failed(p.tool.Name, l.Refused)
	}
	p.taint()
	p.decision = p.Judge(l.Effects...)
	if err := p.judged(); err != nil {
		return failed(p.tool.Name, err)
	}
	p.prepared.Changes = l.Changes()
	if r := p.consent(); r.Err != nil {
		return r
	}
	if err := p.begin(); err != nil {
		return failed(p.tool.Name, err)
	}
	r := Result{Changes: told(p.prepared.Changes)}
	if err := l.Land(p.ctx); err != nil {
		r = failed(p.tool.Name, err)
		var known *sandbox.Error
		if errors.As(err, &known) {
			r.Err = known
		}
	}
	return p.end(r)
}

// told returns changes as a result has them: not more than a caller can use.
func told(all []Change) []Change {
	list := make([]Change, 0, min(len(all), maxBrief+1))
	for i, c := range all {
		if i == maxBrief {
			return append(list, Change{Path: "/", Op: Update, About: fmt.Sprintf("and %d more changes", len(all)-i)})
		}
		c.Diff, c.Tree = cut(c.Diff, maxDiff), nil
		list = append(list, c)
	}
	return list
}
