package program

import (
	"cmp"
	"context"
	"strings"

	"github.com/golem-forge/golem/internal/explain"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/project"
	"github.com/golem-forge/golem/internal/strictyaml"
	"github.com/golem-forge/golem/sandbox"
)

// Explain answers for a worker of the program: "" for the entry worker, or for
// the project itself where there is none. As long as the program is not
// trusted the answer says what would hold, and that it does not yet.
func (p *Program) Explain(ctx context.Context, op, path, name string) (explain.Answer, error) {
	a, err := p.explainFile(ctx, op, path, name)
	if err != nil {
		return a, err
	}
	return a, p.explainTrust(&a)
}

// explainFile answers as if the program were trusted.
func (p *Program) explainFile(ctx context.Context, op, path, name string) (explain.Answer, error) {
	step, err := p.reach(name)
	if err != nil {
		return explain.Answer{}, err
	}
	given := p.given()
	s, err := explain.Look(given, p.Project.Protect)
	if err != nil {
		return explain.Answer{}, err
	}
	grant := p.Project.Grant()
	if step != nil {
		grant = step.Grant
	}
	if s, err = grant.Files.Apply(s); err != nil {
		return explain.Answer{}, err
	}
	a := explain.Ask(ctx, op, path, s, given)
	explainStep(&a, step)
	if _, held := s.MountOf(a.End); held {
		p.explainConsent(&a, grant)
	} // a folder above mounts holds nothing to consent to
	return a, nil
}

// given returns the project's mounts, to look at.
func (p *Program) given() []*explain.Given {
	var given []*explain.Given
	for _, m := range p.Project.Mounts {
		given = append(given, &explain.Given{Said: m.From.String(), Source: m.Source, Base: m.Base, Target: m.Target,
			Access: m.Access(), Layer: m.Mode == project.Overlay, Suffixes: m.Suffixes, MaxFileBytes: m.MaxFileBytes})
	}
	return given
}

// reach returns the step of a worker; nil for a program without an entry.
func (p *Program) reach(name string) (*Step, error) {
	if name == "" && p.Entry == nil {
		return nil, nil
	}
	if name == "" {
		name = p.Entry.Name
	}
	w := p.Worker(name)
	if w == nil {
		return nil, p.unknownWorker(name)
	}
	if s := p.Tree().Find(name); s != nil {
		return s, nil
	}
	return nil, &sandbox.Error{Op: "worker", Path: name, Code: sandbox.ErrNotFound,
		Hint: "no worker may call it; name it under workers.allowed_workers of one that is called, or choose it with --entry"}
}

// explainStep adds what is left of the name for each worker on the way to this
// one: every grant has the project's folders in it.
func explainStep(a *explain.Answer, s *Step) {
	if s == nil {
		return
	}
	a.Worker = strings.Join(s.Chain(), " → ")
	var way []*Step
	for at := s; at != nil; at = at.Parent {
		way = append([]*Step{at}, way...)
	}
	for _, at := range way {
		left := "—" // of what is no name
		if a.End != "" {
			left = at.Grant.Files.Access(a.End).String()
		}
		a.Facts = append(a.Facts, explain.Fact{Kind: "worker", Path: at.Worker.Name, Is: left, From: at.Worker.Sandbox.Place.String()})
		for _, problem := range at.Problems {
			a.Facts = append(a.Facts, explain.Fact{Kind: "error", Path: at.Worker.Name, Is: problem.What, From: problem.Place.String()})
		}
	}
}

// explainConsent adds what an approver is asked, and what the approval mode
// answers.
func (p *Program) explainConsent(a *explain.Answer, grant policy.Grant) {
	verb := map[string]policy.Verb{"read": policy.Read, "write": policy.Write, "delete": policy.Delete}[a.Op]
	if !a.Allowed {
		return
	}
	d := grant.Decide(policy.Effect{Verb: verb, Target: a.End})
	a.Consent = d.Approval.String()
	from := cmp.Or(d.Rule.From, strictyaml.Default.String())
	a.Facts = append(a.Facts, explain.Fact{Kind: "approval", Path: sandbox.Shown(a.End), Is: a.Op + " " + a.Consent, From: from})
	mode := explain.Fact{Kind: "approval", Path: "mode", Is: p.Project.Approval, From: p.Project.PlaceOf("approval.mode").String()}
	switch {
	case d.Approval == policy.Blocked:
		a.Refuse("blocked", "it is blocked", "no approval changes that; "+listOf("writable", a.Writable))
	case d.Approval == policy.Ask && p.Project.Approval == "auto_deny":
		a.Facts = append(a.Facts, mode)
		a.Refuse("declined", "it asks, and auto_deny answers no", "nobody is asked here; "+listOf("readable", a.Readable))
	case d.Approval == policy.Ask && p.Project.Approval == "approve_all":
		a.Facts = append(a.Facts, mode)
		a.Consent = policy.PreApproved.String()
	}
}

func listOf(what string, names []string) string {
	if len(names) == 0 {
		return what + ": nothing"
	}
	return what + ": " + strings.Join(names, ", ")
}

// explainTrust adds whether the program is trusted: as long as it is not, what
// its files allow does not hold.
func (p *Program) explainTrust(a *explain.Answer) error {
	trusted, err := p.IsTrusted()
	if err != nil {
		return err
	}
	a.Trusted = &trusted
	if trusted {
		return nil
	}
	a.Facts = append(a.Facts, explain.Fact{Kind: "trust", Is: "not yet: until golem trust, a program may only read its own folder"})
	if a.Allowed {
		a.Refuse("untrusted", "not yet: this program is not trusted; once it is, "+a.Reason, "golem trust shows what it asks for")
	}
	return nil
}
