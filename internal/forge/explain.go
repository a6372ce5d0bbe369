package forge

import (
	"cmp"
	"context"
	"path/filepath"
	"strings"

	"github.com/golem-forge/golem/internal/conf"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/project"
	"github.com/golem-forge/golem/sandbox"
)

// A Given is a mount that a question is about, and where it was said.
type Given struct {
	Said         string // a flag, word for word, or file:line
	Source, Base sandbox.Host
	Target       string
	Access       sandbox.Access
	Layer        bool // what is changed is kept in a layer of the session
	Suffixes     []string
	MaxFileBytes int64

	look *look // what is mounted: the folder, to look at
}

// mode is the word for how far the mount may be used.
func (g *Given) mode() string {
	if g.Layer {
		return project.Overlay
	}
	return g.Access.String()
}

// holds reports whether the host folder of g holds the file.
func (g *Given) holds(file sandbox.Host) bool {
	rel, err := filepath.Rel(string(g.look.Traits().Host), string(file))
	return err == nil && filepath.IsLocal(rel)
}

// lookAt makes the sandbox that the mounts describe, of backends that look and
// do not act.
func lookAt(given []*Given, protect []string) (*sandbox.Sandbox, error) {
	c := sandbox.Config{Protect: protect}
	for _, g := range given {
		dir, err := sandbox.DirIn(g.Base, g.Source)
		if err != nil {
			return nil, &GivenError{g, err}
		}
		g.look = &look{Backend: dir}
		c.Mounts = append(c.Mounts, sandbox.Mount{Target: g.Target, Backend: g.look, Access: g.Access,
			Suffixes: g.Suffixes, MaxFileBytes: g.MaxFileBytes})
	}
	return sandbox.New(c)
}

// A GivenError says of a mount that it cannot be made.
type GivenError struct {
	Given *Given
	Err   error
}

// Error names where the mount was said, and what the sandbox said of it.
func (e *GivenError) Error() string {
	text := e.Given.Said + ": " + string(sandbox.CodeOf(e.Err))
	if hint := hintOf(e.Err); hint != "" {
		text += "; " + hint
	}
	return text
}

// Unwrap returns what the sandbox said.
func (e *GivenError) Unwrap() error { return e.Err }

// Explain answers whether an operation may be done at a path of these mounts,
// and what decides it. It asks the sandbox that would be made, on the real
// folders; no content is read and nothing is changed.
func Explain(ctx context.Context, op, path string, given []*Given) (Answer, error) {
	s, err := lookAt(given, nil)
	if err != nil {
		return Answer{}, err
	}
	return question{op, path, s, given}.answer(ctx), nil
}

// Explain answers for a worker of the program: "" for the entry worker, or for
// the project itself where there is none. As long as the program is not
// trusted the answer says what would hold, and that it does not yet.
func (p *Program) Explain(ctx context.Context, op, path, name string) (Answer, error) {
	a, err := p.explainFile(ctx, op, path, name)
	if err != nil {
		return a, err
	}
	return a, p.explainTrust(&a)
}

// explainFile answers as if the program were trusted.
func (p *Program) explainFile(ctx context.Context, op, path, name string) (Answer, error) {
	step, err := p.reach(name)
	if err != nil {
		return Answer{}, err
	}
	given := p.given()
	s, err := lookAt(given, p.Project.Protect)
	if err != nil {
		return Answer{}, err
	}
	grant := p.Project.Grant()
	if step != nil {
		grant = step.Grant
	}
	if s, err = grant.Files.Apply(s); err != nil {
		return Answer{}, err
	}
	a := question{op, path, s, given}.answer(ctx)
	explainStep(&a, step)
	if _, held := s.MountOf(a.end); held {
		p.explainConsent(&a, grant)
	} // a folder above mounts holds nothing to consent to
	return a, nil
}

// given returns the project's mounts, to look at.
func (p *Program) given() []*Given {
	var given []*Given
	for _, m := range p.Project.Mounts {
		given = append(given, &Given{Said: m.From.String(), Source: m.Source, Base: m.Base, Target: m.Target,
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
func explainStep(a *Answer, s *Step) {
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
		if a.end != "" {
			left = at.Grant.Files.Access(a.end).String()
		}
		a.Facts = append(a.Facts, Fact{"worker", at.Worker.Name, left, at.Worker.Sandbox.Place.String()})
		for _, problem := range at.Problems {
			a.Facts = append(a.Facts, Fact{"error", at.Worker.Name, problem.What, problem.Place.String()})
		}
	}
}

// explainConsent adds what an approver is asked, and what the approval mode
// answers.
func (p *Program) explainConsent(a *Answer, grant policy.Grant) {
	verb := map[string]policy.Verb{"read": policy.Read, "write": policy.Write, "delete": policy.Delete}[a.Op]
	if !a.Allowed {
		return
	}
	d := grant.Decide(policy.Effect{Verb: verb, Target: a.end})
	a.Consent = d.Consent.String()
	from := cmp.Or(d.Rule.From, conf.Default.String())
	a.Facts = append(a.Facts, Fact{"approval", sandbox.Shown(a.end), a.Op + " " + a.Consent, from})
	mode := Fact{"approval", "mode", p.Project.Approval, p.placeOf("approval.mode")}
	switch {
	case d.Consent == policy.Blocked:
		a.refuse("blocked", "it is blocked", "no approval changes that; "+listOf("writable", a.Writable))
	case d.Consent == policy.Ask && p.Project.Approval == "auto_deny":
		a.Facts = append(a.Facts, mode)
		a.refuse("declined", "it asks, and auto_deny answers no", "nobody is asked here; "+listOf("readable", a.Readable))
	case d.Consent == policy.Ask && p.Project.Approval == "approve_all":
		a.Facts = append(a.Facts, mode)
		a.Consent = policy.PreApproved.String()
	}
}

// refuse turns an answer into no.
func (a *Answer) refuse(code sandbox.Code, reason, hint string) {
	a.Allowed = false
	a.Reason = reason
	e := &sandbox.Error{Op: a.Op, Path: a.end, Code: code, Hint: hint}
	a.Error = &Refusal{Code: code, Message: e.Error(), Hint: hint}
}

func listOf(what string, names []string) string {
	if len(names) == 0 {
		return what + ": nothing"
	}
	return what + ": " + strings.Join(names, ", ")
}

// explainTrust adds whether the program is trusted: as long as it is not, what
// its files allow does not hold.
func (p *Program) explainTrust(a *Answer) error {
	trusted, err := p.Trusted()
	if err != nil {
		return err
	}
	a.Trusted = &trusted
	if trusted {
		return nil
	}
	a.Facts = append(a.Facts, Fact{"trust", "", "not yet: until golem trust, a program may only read its own folder", ""})
	if a.Allowed {
		a.refuse("untrusted", "not yet: this program is not trusted; once it is, "+a.Reason, "golem trust shows what it asks for")
	}
	return nil
}
