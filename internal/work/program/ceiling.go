package program

import (
	"slices"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/work/project"
)

// ceiling reads the layers above the project.
func (o Options) ceiling() (project.Ceiling, error) {
	return project.ReadCeiling(o.Config, o.Home, policyTools())
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

// CheckConfig returns what is wrong with a text for the user's configuration.
func (o Options) CheckConfig(data []byte) error {
	_, err := project.ParseConfig(o.Config, data, o.Home, policyTools())
	return err
}

// CheckProjectFile returns what is wrong with a text for the project file with a name below a directory. It
// does not find workers that ask for more than the project gets.
func (o Options) CheckProjectFile(root, name string, data []byte) error {
	env, err := o.projectEnv(), error(nil)
	if env.Ceiling, err = o.ceiling(); err != nil {
		return err
	}
	_, err = project.Parse(root, name, data, env, nil)
	return err
}

// UnseenOff returns the line of a policy of this machine that does not allow approving what
// golem did not show, "" for none.
func (o Options) UnseenOff() (string, error) {
	c, err := o.ceiling()
	return unseenOff(c), err
}

func unseenOff(c project.Ceiling) string {
	if place, off := c.UnseenOff(); off {
		return place.String()
	}
	return ""
}

// networkTools are the tools that contact other machines themselves.
var networkTools = []string{"api_send"}

// workerTools are the tools with which a worker starts others, and proposes new ones.
var workerTools = []string{"call_worker", "worker_create"}

// denyTools blocks the tools of a gate that the ceiling forbids, for every caller.
func denyTools(g tool.Gate, c project.Ceiling) tool.Gate {
	var rules []policy.Rule
	for _, t := range g.Tools {
		var pushes []string
		if t.Name == "pull_request" {
			pushes = []string{"git_push", "git"}
		}
		place, denied := c.DeniedTool(t.RuleNames(), pushes...)
		if off, is := c.NetworkOff(); is && slices.Contains(networkTools, t.Name) {
			place, denied = off, true
		}
		if denied {
			rules = append(rules, policy.Rule{Verb: policy.Use, Target: t.Name, Approval: policy.Blocked, From: place.String()})
		}
	}
	for _, name := range workerTools { // a run adds them later; the tools named like workers have the rules of call_worker
		if place, denied := c.DeniedTool([]string{"workers", name}); denied {
			rules = append(rules, policy.Rule{Verb: policy.Use, Target: name, Approval: policy.Blocked, From: place.String()})
		}
	}
	g.Grant.Approvals = g.Grant.Approvals.With(rules...)
	return g
}
