package program

import (
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/project"
	"github.com/golem-forge/golem/internal/strictyaml"
	"github.com/golem-forge/golem/internal/tool"
)

// ceiling reads the layers above the project: the administrator's policy and the user's
// configuration. It is an error if one of them is wrong, because golem would not know
// what is allowed.
func (o Options) ceiling() (project.Ceiling, error) {
	var c project.Ceiling
	data, err := project.ReadPolicy()
	if err != nil {
		return nil, err
	}
	if data != nil {
		l, err := project.ParsePolicy(project.PolicyFile, data, policyTools())
		if err != nil {
			return nil, err
		}
		c = append(c, l)
	}
	if o.Config == "" {
		return c, nil
	}
	info, err := os.Stat(o.Config)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	wrong := func(what, hint string) error {
		return strictyaml.Problems{{Place: strictyaml.Place{Source: o.Config}, What: what, Hint: hint}}
	}
	switch {
	case err != nil:
		return nil, wrong("cannot be read", "check its permissions")
	case !info.Mode().IsRegular():
		return nil, wrong("is not a file", "replace or remove it")
	case os.PathSeparator == '/' && info.Mode().Perm()&0o022 != 0:
		return nil, wrong("can be changed by other users", "chmod go-w "+o.Config)
	case info.Size() > strictyaml.MaxFile:
		return nil, wrong("is too large", "it has at most 1 MiB")
	}
	if data, err = os.ReadFile(o.Config); err != nil {
		return nil, wrong("cannot be read", "check its permissions")
	}
	l, err := project.ParseConfig(o.Config, data, o.Home, policyTools())
	if err != nil {
		return nil, err
	}
	return append(c, l), nil
}

// Preferences returns the preferences of the user. If the user's configuration cannot be
// read, it returns none: Load reports that.
func (o Options) Preferences() project.Preferences {
	c, err := o.ceiling()
	if err != nil {
		return project.Preferences{}
	}
	return c.Preferences()
}

// policyTools returns the names of tools and toolsets that a policy may list.
func policyTools() []string {
	names := []string{"exec", "custom", "mcp"}
	for _, t := range Tools() {
		names = append(names, t.Name, t.Toolset)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// networkTools are the tools that contact other machines themselves.
var networkTools = []string{"api_send"}

// denyTools blocks the tools of a gate that the ceiling forbids, for every caller.
func denyTools(g tool.Gate, c project.Ceiling) tool.Gate {
	var rules []policy.Rule
	for _, t := range g.Tools {
		place, denied := c.DeniedTool(t.RuleNames()...)
		if off, is := c.NetworkOff(); is && slices.Contains(networkTools, t.Name) {
			place, denied = off, true
		}
		if denied {
			rules = append(rules, policy.Rule{Verb: policy.Use, Target: t.Name, Approval: policy.Blocked, From: place.String()})
		}
	}
	g.Grant.Approvals = g.Grant.Approvals.With(rules...)
	return g
}
