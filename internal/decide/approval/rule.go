package approval

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/golem-forge/golem/internal/decide/command"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/people/visible"
)

// Scope says how long a rule holds. The zero value is not valid.
type Scope string

// The scopes.
const (
	Run     Scope = "run"     // this run of the program
	Session Scope = "session" // this session, also after it is resumed
	Project Scope = "project" // this program, until its policy changes
)

// A Rule is a remembered approval: of one exact call, or of effects of one tool when one
// chain of workers calls it. It holds for the policy under which it was made. It never
// approves a call that the grant blocks.
type Rule struct {
	ID         string        `json:"id"`
	Origin     policy.Origin `json:"origin"` // the caller: a rule made for the user is not for models
	Workers    []string      `json:"workers"`
	Tool       string        `json:"tool"`
	CallDigest string        `json:"same,omitempty"` // the digest of the exact call
	What       string        `json:"what,omitempty"` // the exact call, in words
	// Taint is the untrusted path that the worker had read when the user made the rule,
	// "" for none. See [Rule.permits].
	Taint   string            `json:"taint,omitempty"`
	Effects []PermittedEffect `json:"effects,omitempty"`
	// Refused are the effects of a rule that declines requests. Such a rule has no Effects,
	// and approves nothing.
	Refused []PermittedEffect `json:"refused,omitempty"`
	Scope   Scope             `json:"scope"`
	Session string            `json:"session,omitempty"`
	Policy  string            `json:"policy"`
	Made    time.Time         `json:"made"`
	Expires time.Time         `json:"expires"` // zero: never
}

// A PermittedEffect is an effect that a rule approves.
type PermittedEffect struct {
	policy.Effect
	Below bool `json:"below,omitempty"` // and on everything below the target
	// Words is true if the target is the words that a command begins with. See
	// [command.Covers].
	Words bool `json:"words,omitempty"`
}

func (p PermittedEffect) String() string {
	if p.Words {
		return p.Verb.String() + " " + visible.Line(p.Target, math.MaxInt) + " …"
	}
	text := p.Verb.String() + " " + visible.Name(p.Target)
	if p.Below {
		text += " and all below it"
	}
	return text
}

func (p PermittedEffect) covers(e policy.Effect) bool {
	if p.Verb != e.Verb || p.Words {
		return false
	}
	inside := strings.HasPrefix(e.Target, strings.TrimSuffix(p.Target, "/")+"/")
	return p.Below && inside || p.Target == e.Target && (p.Below || !e.Tree)
}

// String returns the whole rule: who may do what, and how long.
func (r Rule) String() string {
	var what []string
	for _, e := range r.Effects {
		what = append(what, e.String())
	}
	var chain []string
	for _, w := range r.Workers {
		chain = append(chain, visible.Name(w))
	}
	text := strings.Join(chain, " → ")
	if r.Origin == policy.User {
		text += ", by your hand"
	}
	text += ": " + visible.Name(r.Tool)
	if r.CallDigest != "" {
		text += " again, with exactly these arguments (" + r.What + ")"
		if r.Taint != "" {
			text += ", also after reading " + visible.Name(r.Taint)
		}
	} else if len(r.Refused) > 0 {
		for _, e := range r.Refused {
			what = append(what, e.String())
		}
		text += " may never " + strings.Join(what, ", ")
	} else {
		text += " may " + strings.Join(what, ", ")
	}
	switch r.Scope {
	case Run:
		text += ", in this run"
	case Session:
		text += ", in this session"
	case Project:
		text += ", in this project"
	}
	if !r.Expires.IsZero() {
		text += ", until " + r.Expires.UTC().Format("2006-01-02 15:04 UTC")
	}
	return text
}

// Note returns the text about the rule in the record of the answer that made it.
func (r Rule) Note() string { return "remembered as rule " + r.ID + ": " + r.String() }

// permits reports whether the rule approves a request. The user made the rule for a
// worker that was not tainted. For a tainted worker only the rule for an exact call
// counts, if the user made it after the worker had read the same untrusted path.
func (r Rule) permits(q tool.Request) bool {
	if q.Taint != "" && (r.CallDigest == "" || r.Taint != q.Taint) {
		return false
	}
	if r.Tool != q.Tool || r.Origin != q.Origin || !slices.Equal(r.Workers, q.Workers) {
		return false
	}
	if r.CallDigest != "" {
		return r.CallDigest == q.CallDigest
	}
	for _, e := range effectsToCover(q) {
		if !slices.ContainsFunc(r.Effects, func(p PermittedEffect) bool { return p.covers(e) }) && !r.coversCommand(e) {
			return false
		}
	}
	return len(q.ToApprove) > 0 && len(r.Effects) > 0
}

// refuses reports whether the rule declines a request: if the request needs approval for
// one of its effects. Unlike an approval it also counts for a tainted worker.
func (r Rule) refuses(q tool.Request) bool {
	return r.Tool == q.Tool && slices.ContainsFunc(q.ToApprove, func(e policy.Effect) bool {
		return slices.ContainsFunc(r.Refused, func(p PermittedEffect) bool { return p.covers(e) })
	})
}

// coversCommand reports whether the rule approves each command of a line by its words.
func (r Rule) coversCommand(e policy.Effect) bool {
	var patterns []string
	for _, p := range r.Effects {
		if p.Words && p.Verb == policy.Run {
			patterns = append(patterns, p.Target)
		}
	}
	return e.Verb == policy.Run && len(patterns) > 0 && command.Covers(patterns, e.Target)
}

// effectsToCover returns the effects that a rule must cover: those that need approval or,
// if the use of the tool does, all of them.
func effectsToCover(q tool.Request) []policy.Effect {
	if slices.ContainsFunc(q.ToApprove, func(e policy.Effect) bool { return e.Verb == policy.Use }) {
		return q.Effects
	}
	return q.ToApprove
}

// OfferRules returns the rules by which a request can be remembered, the narrowest first.
// The user adds scope and expiry. For a tainted request there are none.
func OfferRules(q tool.Request) []Rule {
	if q.Taint != "" {
		return nil
	}
	var exact, folder []PermittedEffect
	for _, e := range effectsToCover(q) {
		tree := e.Tree
		e.Tree = false
		exact = append(exact, PermittedEffect{Effect: e, Below: tree})
		above := e
		if i := strings.LastIndex(e.Target, "/"); i > 0 && e.Verb != policy.Run {
			above.Target = e.Target[:i]
			if p := (PermittedEffect{Effect: above, Below: true}); !slices.Contains(folder, p) {
				folder = append(folder, p)
			}
		}
	}
	if len(exact) == 0 {
		return nil
	}
	list := []Rule{{Origin: q.Origin, Workers: q.Workers, Tool: q.Tool, Effects: exact}}
	if words := byCommandWords(exact); words != nil {
		list = append(list, Rule{Origin: q.Origin, Workers: q.Workers, Tool: q.Tool, Effects: words})
	}
	if len(folder) > 0 {
		list = append(list, Rule{Origin: q.Origin, Workers: q.Workers, Tool: q.Tool, Effects: folder})
	}
	return list
}

// AlwaysRule returns the narrowest rule for a request, in its project and until the user
// revokes it. ok is false if golem remembers nothing for the request.
func AlwaysRule(q tool.Request) (rule Rule, ok bool) {
	offers := OfferRules(q)
	if q.OnlyUser || len(offers) == 0 {
		return Rule{}, false
	}
	rule = offers[0]
	rule.Scope = Project
	return rule, true
}

// RefusalRule returns the rule that declines connections to the host of a request. ok is
// false for other requests.
func RefusalRule(q tool.Request, scope Scope) (rule Rule, ok bool) {
	if q.Tool != tool.ConnectTool {
		return Rule{}, false
	}
	rule = Rule{Origin: q.Origin, Workers: q.Workers, Tool: q.Tool, Scope: scope}
	for _, e := range q.ToApprove {
		rule.Refused = append(rule.Refused, PermittedEffect{Effect: e})
	}
	return rule, len(rule.Refused) > 0
}

// complete completes a rule that the user chose for a request in a scope. It refuses a rule
// that does not decide about the request.
func (r Rule) complete(q tool.Request, at requestScope, now time.Time) (Rule, error) {
	r.ID, r.Policy, r.Session, r.Made = newID(), at.Policy, at.Session, now
	known := r.Scope == Run || r.Scope == Project || r.Scope == Session && at.Session != ""
	if !known || q.OnlyUser || !r.permits(q) && !r.refuses(q) {
		return r, errOtherCall
	}
	return r, nil
}

// byCommandWords returns effects with the first words of commands in place of the whole
// line, nil if a command cannot be remembered that way.
func byCommandWords(exact []PermittedEffect) []PermittedEffect {
	var list []PermittedEffect
	found := false
	for _, p := range exact {
		if p.Verb != policy.Run {
			list = append(list, p)
			continue
		}
		patterns := command.Narrow(p.Target)
		if patterns == nil {
			return nil
		}
		for _, text := range patterns {
			found = true
			list = append(list, PermittedEffect{Effect: policy.Effect{Verb: policy.Run, Target: text}, Words: true})
		}
	}
	if !found {
		return nil
	}
	return list
}

// ExactRule returns the rule for exactly this call.
func ExactRule(q tool.Request) Rule {
	var effects []string
	for _, e := range q.Effects {
		effects = append(effects, PermittedEffect{Effect: e, Below: e.Tree}.String())
	}
	return Rule{Origin: q.Origin, Workers: q.Workers, Tool: q.Tool, CallDigest: q.CallDigest, What: strings.Join(effects, ", "), Taint: q.Taint}
}
