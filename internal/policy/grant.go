package policy

import (
	"slices"

	"github.com/golem-forge/golem/sandbox"
)

// A Grant is all that a worker may do. The zero Grant allows nothing.
type Grant struct {
	Files       Files
	Approvals   Approvals
	Shell       Shell
	Tools       Set
	Workers     Set
	Hosts       Hosts
	Credentials Set
	Limits      Limits
	Depth       int // how many calls of workers may be nested below this one
	Attachments Attachments
	Level       Level // the least boundary its commands need; of two the stronger holds
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
		Limits:      g.Limits.meet(h.Limits),
		Depth:       min(g.Depth, h.Depth),
		Attachments: g.Attachments.meet(h.Attachments),
		Level:       max(g.Level, h.Level),
	}
}

// An Excess is one way in which a grant goes beyond another.
type Excess struct {
	What  string // file, tool, worker, host, credential
	Which string
	Wants string
	Has   string
}

// Error says what was asked for and what there is.
func (e Excess) Error() string {
	return e.What + " " + sandbox.Shown(e.Which) + ": exceeds_parent; asks for " + e.Wants + ", the parent has " + e.Has
}

// Unwrap returns the code, for errors.Is.
func (e Excess) Unwrap() error { return sandbox.ErrExceedsParent }

// Within returns every way in which g goes beyond the parent in files, tools,
// workers, hosts and credentials. In the rest, which is consent, commands,
// limits, depth and attachments, the lower holds without a word: see Meet.
func (g Grant) Within(parent Grant) []Excess {
	return slices.Concat(
		g.Files.within(parent.Files),
		g.Tools.within("tool", parent.Tools),
		g.Workers.within("worker", parent.Workers),
		g.Hosts.within(parent.Hosts),
		g.Credentials.within("credential", parent.Credentials),
	)
}

// A Decision is the answer to whether effects may happen.
type Decision struct {
	Approval Approval
	Effect   Effect // the one that decides: the first with the least consent
	Rule     Rule   // the rule for it, where a rule decides
	Why      string // where the grant itself forbids it
}

// Decide returns the least consent among the effects. No effects need none.
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
	consent, rule := g.Approvals.Of(e)
	return Decision{Approval: consent, Effect: e, Rule: rule}
}

// whyForbidden returns why the grant itself rules an effect out, "" if it does not.
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
		if !g.Hosts.Allows(e.Target) {
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
		// Which tool runs commands is not known here; without any, none does.
		if g.Tools.IsEmpty() {
			return "it has no tools"
		}
	default:
		return "no such effect"
	}
	return ""
}

// Shell are layers of rules for commands, one for each who had a say. What a
// pattern means is known to who runs commands; here they only pass through.
type Shell struct{ Layers []ShellLayer }

// A ShellLayer is the rules of one worker or project.
type ShellLayer struct {
	Rules     []ShellRule
	Default   Approval // for commands that no rule matches
	NoDefault bool     // no default is written: of such commands the layer says nothing
	From      string
}

// A ShellRule gives commands that match a pattern, or that are in a ready-made
// set, a consent.
type ShellRule struct {
	Pattern  string
	Use      string // the set, in place of a pattern
	Approval Approval
	From     string
}

// With returns the shell rules with one more layer.
func (s Shell) With(l ShellLayer) Shell { return Shell{append(slices.Clip(s.Layers), l)} }

// HighestApproval returns the most consent that any command can get, where without rules it
// has so much, by a rule or by default.
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
