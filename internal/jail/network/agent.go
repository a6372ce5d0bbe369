package network

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/jail/egress"
	"github.com/golem-forge/golem/internal/jail/profile"
	"github.com/golem-forge/golem/internal/work/project"
)

// An Agent is a program of the user with its profile and the logins that the user has for
// it. Its network is limited unless the user says otherwise, and golem adds the logins to
// its requests.
type Agent struct {
	Profile profile.Profile
	Logins  []profile.Login

	getenv       func(string) string
	placeholders []profile.Replacement
}

// NewAgent finds the logins of the user for a profile. The function returns a secret by
// its name.
func NewAgent(p profile.Profile, getenv func(string) string, secret func(string) (string, error)) (Agent, error) {
	a := Agent{Profile: p, Logins: p.FindLogins(getenv, secret), getenv: getenv}
	for _, l := range a.Logins {
		placeholder, err := egress.NewPlaceholder(l.Value)
		if err != nil {
			return a, fmt.Errorf("%s: %w", l.Source(), err)
		}
		a.placeholders = append(a.placeholders, profile.Replacement{Value: l.Value, Placeholder: placeholder})
	}
	return a, nil
}

// Needs returns what the agent needs of a project. A project cannot name its credentials:
// their names have a colon.
func (a Agent) Needs() project.Agent {
	hosts := a.Profile.Needs(a.Logins, a.getenv)
	needs := project.Agent{Name: a.Profile.Name, Hosts: hosts.Rules, Optional: slices.Concat(a.Profile.Optional, hosts.Instead), Private: hosts.Private}
	name := func(key string) string { return a.Profile.Name + ":" + key }
	for i, r := range needs.Hosts {
		if r.Credential != "" {
			needs.Hosts[i].Credential = name(r.Credential)
		}
	}
	for i, l := range a.Logins {
		needs.Credentials = append(needs.Credentials, project.Credential{Name: name(l.Name), Variable: l.Variable, Secret: l.Secret, File: l.File, Header: l.Header, As: cmp.Or(l.As, l.Variable),
			Value: l.Value, Placeholder: a.placeholders[i].Placeholder, Plain: l.Plain, Agent: true})
	}
	return needs
}

// ProfileFor returns the profile of the agent for a network. Only with the whole network it
// has keys: golem adds them on a network of some hosts, and nothing needs them without one.
func (a Agent) ProfileFor(hosts policy.Hosts) profile.Profile {
	if hosts.IsAll() {
		return a.Profile
	}
	return a.Profile.WithoutKeys(a.Logins, a.placeholders, egress.NewPlaceholder, a.getenv)
}
