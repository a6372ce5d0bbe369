package gate

import (
	"slices"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/sandbox"
)

// Verb is a kind of effect. The zero Verb is none, and is always blocked.
type Verb uint8

// The verbs, with their targets.
const (
	Read    = Verb(policy.Read)    // a file, by its virtual name
	Write   = Verb(policy.Write)   // a file
	Delete  = Verb(policy.Delete)  // a file
	Run     = Verb(policy.Run)     // a command
	Connect = Verb(policy.Connect) // a host
	Use     = Verb(policy.Use)     // a tool, whatever else it does
)

// String returns the verb as requests and the journal show it.
func (v Verb) String() string { return policy.Verb(v).String() }

// isKnown reports whether the verb is one of the constants.
func (v Verb) isKnown() bool {
	return slices.Contains([]Verb{Read, Write, Delete, Run, Connect, Use}, v)
}

// An Effect is a verb with its target: write /out/a.md.
type Effect struct {
	Verb   Verb
	Target string
}

// String returns the effect as requests and the journal show it.
func (e Effect) String() string { return e.inner().String() }

func (e Effect) inner() policy.Effect {
	return policy.Effect{Verb: policy.Verb(e.Verb), Target: e.Target}
}

// isFile reports whether the target of the effect is a file.
func (e Effect) isFile() bool { return e.Verb >= Read && e.Verb <= Delete }

// Level says what must happen before an effect. The zero Level is Blocked.
type Level uint8

// The levels.
const (
	Blocked     = Level(policy.Blocked)     // it does not happen
	Ask         = Level(policy.Ask)         // the approver is asked
	PreApproved = Level(policy.PreApproved) // it happens
)

// A Rule says which level a verb has at a target and, for files, below it. The target is "/"
// for all files and "*" for all names of another kind.
type Rule struct {
	Verb   Verb
	Target string
	Level  Level
	From   string // where the rule stands, for requests and the journal
}

// rulesOf returns rules as package policy has them.
func rulesOf(rules []Rule) ([]policy.Rule, error) {
	var list []policy.Rule
	for _, r := range rules {
		if r.Level > PreApproved || r.Target == "" || !r.Verb.isKnown() {
			return nil, &sandbox.Error{Op: "call", Path: r.Target, Code: ErrBlocked, Hint: "a rule needs a verb, a target and a level; see gate.Rule"}
		}
		list = append(list, policy.Rule{Verb: policy.Verb(r.Verb), Target: r.Target, Approval: policy.Approval(r.Level), From: r.From})
	}
	return list, nil
}
