package policy

import (
	"slices"

	"github.com/golem-forge/golem/sandbox"
)

// A Grant is everything that a worker may do. The zero Grant allows nothing.
type Grant struct {
	Files       Files
	Approvals   Approvals
	Shell       Shell
	Tools       Set
	Workers     Set
	Hosts       Hosts
	Credentials Set
	Limits      Limits
	Depth       int // the maximum depth of nested calls of workers below this one
	Attachments Attachments
	Level       Level // the weakest jail that its commands accept; of two grants the stronger holds
}

// Meet returns the greatest grant that is within both.
func (g Grant) Meet(h Grant) Grant {
	return Grant{
		Files:       g.Files.meet(h.Files),
		Approvals:   g.Approvals.meet(h.Approvals),
		Shell:       g.Shell.meet(h.Shell),
		Tools:       g.Tools.meet(h.Tools),
		Workers:     g.Workers.meet(h.Workers),
		Hosts:       g.Hosts.meet(h.Hosts),
		Credentials: g.Credentials.meet(h.Credentials),
		Limits:      g.Limits.Meet(h.Limits),
		Depth:       min(g.Depth, h.Depth),
		Attachments: g.Attachments.meet(h.Attachments),
		Level:       max(g.Level, h.Level),
	}
}

// An Excess is one way in which a grant exceeds another.
type Excess struct {
	What  string // file, tool, worker, host, credential
	Which string
	Wants string
	Has   string
}

// Error returns what was wanted and what the parent has.
func (e Excess) Error() string {
	return e.What + " " + sandbox.Shown(e.Which) + ": exceeds_parent; asks for " + e.Wants + ", the parent has " + e.Has
}

// Unwrap returns the code, for errors.Is.
func (e Excess) Unwrap() error { return sandbox.ErrExceedsParent }

// Within returns every way in which g exceeds the parent in files, tools, workers, hosts
// and credentials. For the rest, which is approvals, commands, limits, depth and
// attachments, the lower value holds without an error: see Meet.
func (g Grant) Within(parent Grant) []Excess {
	return slices.Concat(
		g.Files.within(parent.Files),
		g.Tools.within("tool", parent.Tools),
		g.Workers.within("worker", parent.Workers),
		g.Hosts.within(parent.Hosts),
		g.Credentials.within("credential", parent.Credentials),
	)
}

// A Decision says whether effects may happen.
type Decision struct {
	Approval Approval
	Effect   Effect // the effect that decides: the first with the strictest approval
	Rule     Rule   // the rule for it, if a rule decides
	Why      string // the reason why the grant itself forbids the effect
}

// Decide returns the strictest approval that the effects need. Without effects it is
// PreApproved.
func (g Grant) Decide(effects ...Effect) Decision {
	least := Decision{Approval: unset}
	for _, e := range effects {
		if d := g.decide(e); d.Approval < least.Approval {
			least = d
		}
	}
	if least.Approval == unset {
		least.Approval = PreApproved
	}
	return least
}

func (g Grant) decide(e Effect) Decision {
	if why := g.whyForbidden(e); why != "" {
		return Decision{Approval: Blocked, Effect: e, Why: why}
	}
	approval, rule := g.Approvals.Of(e)
	return Decision{Approval: approval, Effect: e, Rule: rule}
}

// whyForbidden returns why the grant itself forbids an effect, "" if it does not.
func (g Grant) whyForbidden(e Effect) string {
	if e.Verb.isFileVerb() && !isName(e.Target) {
		return "not a name of a file"
	}
	switch e.Verb {
	case Read, Attach:
		if g.Files.Access(e.Target) < sandbox.ReadOnly {
			return "not among its files"
		}
	case Write, Delete:
		if g.Files.Access(e.Target) < sandbox.ReadWrite {
			return "not among the files it may change"
		}
	case Connect:
		isPattern := func(r HostRule) bool { return r.Host == e.Target && !r.nothing }
		if !g.Hosts.Allows(e.Target) && !slices.ContainsFunc(g.Hosts.rules, isPattern) {
			return "not among its hosts"
		}
	case Call:
		if !g.Workers.Has(e.Target) {
			return "not among the workers it may call"
		}
		if g.Depth < 1 {
			return "no deeper call is left"
		}
	case Use:
		if !g.Tools.Has(e.Target) {
			return "not among its tools"
		}
	case Run:
		// The tool that runs the command is not known here. Without any tool, none does.
		if g.Tools.IsEmpty() {
			return "it has no tools"
		}
	default:
		return "no such effect"
	}
	return ""
}

// Shell is layers of rules for commands. The patterns are interpreted by the package that
// runs commands. Here they are only passed on.
type Shell struct{ Layers []ShellLayer }

// A ShellLayer is the rules of one worker or project.
type ShellLayer struct {
	Rules     []ShellRule
	Default   Approval // for commands that no rule matches
	NoDefault bool     // no default is written, so the layer does not decide about other commands
	From      string
}

// A ShellRule gives an approval to the commands that match a pattern, or that are in a
// predefined set.
type ShellRule struct {
	Pattern  string
	Use      string // the name of the set, in place of a pattern
	Approval Approval
	From     string
}

// With returns the shell rules with one more layer.
func (s Shell) With(l ShellLayer) Shell { return Shell{append(slices.Clip(s.Layers), l)} }

// HighestApproval returns the highest approval that any command can get, if it has the
// approval without when no rule matches, and byDefault says whether that is a default.
func (s Shell) HighestApproval(without Approval, byDefault bool) Approval {
	ceiling, raised := PreApproved, false
	for _, l := range s.Layers {
		most := l.Default
		for _, r := range l.Rules {
			most = max(most, r.Approval)
		}
		raised = raised || most == PreApproved
		if !l.NoDefault {
			ceiling = min(ceiling, most)
		}
	}
	if raised && byDefault && without > Blocked {
		without = PreApproved
	}
	return min(without, ceiling)
}

func (s Shell) meet(t Shell) Shell { return Shell{slices.Concat(s.Layers, t.Layers)} }
