package program

import (
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/session"
	"github.com/golem-forge/golem/internal/strictyaml"
)

// RequiredLevel returns the weakest level of the jail that commands of the entry worker
// accept; without an entry worker, that of the project.
func (p *Program) RequiredLevel() policy.Level {
	if p.Project == nil {
		return policy.AnyLevel
	}
	if p.Entry != nil {
		return p.calls().Step(nil, p.Entry).Grant.Level
	}
	return p.Project.Grant().Level
}

// UnmetLevels returns a problem for each required level that this version does not have.
// The files are valid, but no command would run.
func (p *Program) UnmetLevels() strictyaml.Problems {
	var problems strictyaml.Problems
	add := func(place strictyaml.Place, l policy.Level) {
		if l > policy.Namespaces {
			problems.Add(strictyaml.Node{Place: place}, "require_os_sandbox: "+l.String()+", which this version does not have; no command would run", session.NoContainer)
		}
	}
	if p.Project != nil {
		for _, v := range p.Project.Values() {
			if v.Key == "sandbox.require_os_sandbox" {
				add(v.From, p.Project.Grant().Level)
			}
		}
	}
	for _, w := range p.Workers {
		add(w.Sandbox.Place, w.Sandbox.Level)
	}
	return problems
}
