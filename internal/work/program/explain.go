package program

import (
	"slices"

	"github.com/golem-forge/golem/internal/decide/explain"
	"github.com/golem-forge/golem/internal/work/project"
)

// Subject returns a worker of the program whose rights golem explains. Name is "" for the entry
// worker, or for the program itself if it has none.
func (p *Program) Subject(name string) (explain.Subject, error) {
	step, err := p.reach(name)
	if err != nil {
		return explain.Subject{}, err
	}
	trusted, err := p.IsTrusted()
	if err != nil {
		return explain.Subject{}, err
	}
	s := explain.Subject{Protect: p.Project.Protect, Grant: p.Project.Grant(), Trusted: trusted,
		Approval: p.Project.Approval, ApprovalFrom: p.Project.PlaceOf("approval.mode").String(), HostsFrom: p.Project.NetworkPlace().String()}
	s.HostLimit = func(host string, port uint16) string {
		if place, denied := p.Project.Ceiling.DeniedHost(host, port); denied {
			return place.String()
		}
		return ""
	}
	for _, m := range p.Project.Mounts {
		s.Mounts = append(s.Mounts, &explain.Mount{From: m.From.String(), Source: m.Source, Base: m.Base, Target: m.Target,
			Access: m.Access(), Overlay: m.Mode == project.Overlay, Suffixes: m.Suffixes, MaxFileBytes: m.MaxFileBytes})
	}
	if step != nil {
		s.Grant = step.Grant
	}
	for at := step; at != nil; at = at.Parent {
		s.Chain = append([]explain.Link{{Worker: at.Worker.Name, Grant: at.Grant, From: at.Worker.Sandbox.Place.String(), Problems: slices.Concat(at.Problems, at.Missing())}}, s.Chain...)
	}
	return s, nil
}
