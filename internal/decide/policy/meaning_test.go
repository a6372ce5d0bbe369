package policy_test

import (
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/sandbox"
)

// The meaning of a grant is all its answers. The samples below distinguish any two grants
// that the tests make: they contain every name that a grant may mention, and one of each
// kind that none mentions.

var (
	paths   = []string{"/", "/a", "/a/b", "/ab", "/b"}
	names   = append([]string{"/a/b/c", "/a/c", "/abc", "/c"}, paths...)
	words   = []string{"t", "u", "other"}
	hosts   = []string{"example.com", "a.example.com", "b.example.com", "x.a.example.com", "evilexample.com", "other.org"}
	files   = []string{"x", "x.pdf", "x.PDF", "x.gz", "x.tar.gz", "x.md"}
	effects = allEffects()
)

func allEffects() []policy.Effect {
	list := []policy.Effect{{}, {Verb: policy.Run, Target: "t"}, {Verb: policy.Run, Target: "other"}}
	for _, verb := range []policy.Verb{policy.Read, policy.Write, policy.Delete, policy.Attach} {
		for _, name := range names {
			list = append(list, policy.Effect{Verb: verb, Target: name})
		}
	}
	for _, host := range hosts {
		list = append(list, policy.Effect{Verb: policy.Connect, Target: host})
	}
	for _, word := range words {
		list = append(list, policy.Effect{Verb: policy.Call, Target: word}, policy.Effect{Verb: policy.Use, Target: word})
	}
	return list
}

// A meaning is all answers of a grant to the samples. Two can be compared with ==.
type meaning struct {
	access  [9]sandbox.Access
	written [51]policy.Approval
	decided [51]policy.Approval
	forbids [51]bool // by the grant itself, not by a rule
	shell   [3]policy.Approval
	sets    [3][3]bool
	hosts   [6]bool
	asked   [6][3][8]string // the answers of answerTo
	limits  policy.Limits
	depth   int
	level   policy.Level
	attach  [6][4]bool
}

func meaningOf(g policy.Grant) meaning {
	m := meaning{limits: g.Limits, depth: g.Depth, level: g.Level}
	for i, name := range names {
		m.access[i] = g.Files.Access(name)
	}
	for i, e := range effects {
		d := g.Decide(e)
		m.written[i], m.decided[i], m.forbids[i] = g.Approvals.Written(e), d.Approval, d.Why != ""
	}
	for i, word := range words {
		m.shell[i] = shellOf(g.Shell, word)
		m.sets[0][i], m.sets[1][i], m.sets[2][i] = g.Tools.Has(word), g.Workers.Has(word), g.Credentials.Has(word)
	}
	for i, host := range hosts {
		m.hosts[i] = g.Hosts.Allows(host)
		if !m.hosts[i] {
			continue
		}
		for j, port := range []uint16{443, 80, 8443} {
			rules := g.Hosts.Find(host, port)
			for k, q := range requests {
				m.asked[i][j][k] = answerTo(rules, q)
			}
		}
	}
	for i, file := range files {
		for j, size := range attachSizes {
			m.attach[i][j] = g.Attachments.RefusalReason(file, size.count, size.bytes) == ""
		}
	}
	return m
}

var requests = []policy.Request{
	{Method: "GET", Path: "/a/b"}, {Method: "POST", Path: "/a/b"}, {Method: "PUT", Path: "/a/b"},
	{Method: "GET", Path: "/a/c"}, {Method: "POST", Path: "/c/b"}, {Method: "GET", Path: "/c"},
	{Method: "POST", Path: "/a/git-upload-pack", Type: fetchType}, {Method: "GET", Path: "/a/git-receive-pack"},
}

// answerTo returns "yes" with the credential of the first rule that allows a request, ""
// if none does.
func answerTo(rules []policy.HostRule, q policy.Request) string {
	for _, r := range rules {
		if r.AllowsRequest(q) {
			return "yes" + r.Credential
		}
	}
	return ""
}

var attachSizes = []struct {
	count int
	bytes int64
}{{1, 1}, {1, 50}, {2, 1}, {9, 999}}

// shellOf reads patterns as words. Patterns mean something else, but the laws of layers
// do not depend on it.
func shellOf(s policy.Shell, command string) policy.Approval {
	least := policy.Unset
	for _, layer := range s.Layers {
		approval := layer.Default
		for _, r := range layer.Rules {
			if r.Pattern == command {
				approval = r.Approval
			}
		}
		least = min(least, approval)
	}
	return least
}

// A spec holds the input that a grant is made from. It computes the answers of the grant
// by the definitions in the package comment, slowly and independently.
type spec struct {
	open   bool
	limits [][]sandbox.Limit
	rules  [][]policy.Rule
	grant  policy.Grant // a grant with these limits and rules, and with other settings
}

// access returns the lowest access of the layers, each at its longest path.
func (s spec) access(name string) sandbox.Access {
	if !s.open {
		return sandbox.None
	}
	least := sandbox.ReadWrite
	for _, layer := range s.limits {
		here := sandbox.None
		for _, above := range upwards(name) {
			var at []sandbox.Access
			for _, l := range layer {
				if l.Path == above {
					at = append(at, l.Access)
				}
			}
			if len(at) > 0 {
				here = slices.Min(at)
				break
			}
		}
		least = min(least, here)
	}
	return least
}

// ceiling returns the strictest approval that a rule gives an effect, Unset if there is
// none.
func (s spec) ceiling(e policy.Effect) policy.Approval {
	least := policy.Unset
	for _, layer := range s.rules {
		least = min(least, approvalIn(layer, e))
		if e.Verb == policy.Attach {
			least = min(least, approvalIn(layer, policy.Effect{Verb: policy.Read, Target: e.Target}))
		}
	}
	return least
}

// approvalIn returns the approval of one layer for an effect, the strictest at the
// closest target.
func approvalIn(layer []policy.Rule, e policy.Effect) policy.Approval {
	targets := []string{e.Target, "*"}
	switch {
	case strings.HasPrefix(e.Target, "/"):
		targets = upwards(e.Target)
	case e.Verb == policy.Connect:
		targets = []string{e.Target}
		for rest := e.Target; strings.Contains(rest, "."); {
			_, rest, _ = strings.Cut(rest, ".")
			targets = append(targets, "*."+rest)
		}
		targets = append(targets, "*")
	}
	for _, target := range targets {
		least := policy.Unset
		for _, r := range layer {
			if r.Verb == e.Verb && r.Target == target {
				least = min(least, r.Approval)
			}
		}
		if least != policy.Unset {
			return least
		}
	}
	return policy.Unset
}

// approval returns the ceiling, or the default if there is none. To delete a directory
// needs the approval to delete every name below it that has a rule.
func (s spec) approval(e policy.Effect) policy.Approval {
	approval := s.ceiling(e)
	if approval == policy.Unset || e.Verb == policy.Attach && s.ceilingOf(e) == policy.Unset {
		approval = min(approval, unwritten[e.Verb])
	}
	if e.Verb != policy.Delete {
		return approval
	}
	for _, layer := range s.rules {
		for _, r := range layer {
			if r.Verb == policy.Delete && r.Target != e.Target && slices.Contains(upwards(r.Target), e.Target) {
				approval = min(approval, r.Approval)
			}
		}
	}
	return approval
}

// ceilingOf returns the ceiling without the read rules that apply to Attach.
func (s spec) ceilingOf(e policy.Effect) policy.Approval {
	least := policy.Unset
	for _, layer := range s.rules {
		least = min(least, approvalIn(layer, e))
	}
	return least
}

var unwritten = map[policy.Verb]policy.Approval{
	policy.Read: policy.PreApproved, policy.Attach: policy.PreApproved,
	policy.Call: policy.PreApproved, policy.Use: policy.PreApproved,
	policy.Write: policy.Ask, policy.Delete: policy.Ask, policy.Run: policy.Ask, policy.Connect: policy.Ask,
}

// upwards returns a name and all directories above it, "/" last.
func upwards(name string) []string {
	var list []string
	for name != "" && name != "/" {
		list = append(list, name)
		name = name[:strings.LastIndexByte(name, '/')]
	}
	return append(list, "/")
}

// Random specs have few names and few layers, so that rules often overlap.

var specs = rapid.Custom(func(t *rapid.T) spec {
	s := spec{open: rapid.IntRange(0, 7).Draw(t, "open") > 0}
	g := policy.Grant{
		Shell:       policy.Shell{},
		Tools:       drawSet(t),
		Workers:     drawSet(t),
		Hosts:       drawHosts(t),
		Credentials: drawSet(t),
		Limits:      drawLimits(t),
		Depth:       rapid.IntRange(0, 2).Draw(t, "depth"),
		Level:       policy.Level(rapid.IntRange(0, 3).Draw(t, "level")),
		Attachments: drawAttachments(t),
	}
	if s.open {
		g.Files = policy.AllFiles()
	}
	for range rapid.IntRange(0, 2).Draw(t, "layers") {
		layer := rapid.SliceOfN(limits, 0, 3).Draw(t, "limits")
		s.limits, g.Files = append(s.limits, layer), g.Files.With(layer...)
	}
	for range rapid.IntRange(0, 2).Draw(t, "layers") {
		layer := rapid.SliceOfN(rules, 1, 4).Draw(t, "rules")
		s.rules, g.Approvals = append(s.rules, layer), g.Approvals.With(layer...)
	}
	if rapid.Bool().Draw(t, "shell") {
		g.Shell = g.Shell.With(policy.ShellLayer{Default: approvals.Draw(t, "default"),
			Rules: []policy.ShellRule{{Pattern: "t", Approval: approvals.Draw(t, "approval")}}})
	}
	s.grant = g
	return s
})

var (
	accesses  = rapid.SampledFrom([]sandbox.Access{sandbox.None, sandbox.ReadOnly, sandbox.ReadWrite})
	approvals = rapid.SampledFrom([]policy.Approval{policy.Blocked, policy.Ask, policy.PreApproved})
	limits    = rapid.Custom(func(t *rapid.T) sandbox.Limit {
		return sandbox.Limit{Path: rapid.SampledFrom(paths).Draw(t, "path"), Access: accesses.Draw(t, "access")}
	})
	rules = rapid.Custom(func(t *rapid.T) policy.Rule {
		r := rapid.SampledFrom(ruleHeads).Draw(t, "rule")
		r.Approval = approvals.Draw(t, "approval")
		return r
	})
	ruleHeads = allRuleHeads()
)

func allRuleHeads() []policy.Rule {
	var list []policy.Rule
	for _, verb := range []policy.Verb{policy.Read, policy.Write, policy.Delete, policy.Attach} {
		for _, path := range paths {
			list = append(list, policy.Rule{Verb: verb, Target: path})
		}
	}
	for _, verb := range []policy.Verb{policy.Run, policy.Call, policy.Use} {
		list = append(list, policy.Rule{Verb: verb, Target: "*"}, policy.Rule{Verb: verb, Target: "t"})
	}
	for _, host := range []string{"*", "*.example.com", "a.example.com"} {
		list = append(list, policy.Rule{Verb: policy.Connect, Target: host})
	}
	return list
}

func drawSet(t *rapid.T) policy.Set {
	return rapid.SampledFrom([]policy.Set{{}, policy.SetOf("t"), policy.SetOf("u"), policy.SetOf("t", "u"), policy.All()}).Draw(t, "set")
}

func drawHosts(t *rapid.T) policy.Hosts {
	if rapid.IntRange(0, 5).Draw(t, "all") == 0 {
		return policy.AllHosts()
	}
	patterns := []string{"*.example.com", "a.example.com", "example.com", "*.a.example.com", "other.org"}
	return policy.HostsOf(rapid.SliceOfN(rapid.SampledFrom(patterns), 0, 2).Draw(t, "hosts")...)
}

func drawLimits(t *rapid.T) policy.Limits {
	n := rapid.Int64Range(0, 2)
	return policy.Limits{
		CPU: time.Duration(n.Draw(t, "cpu")), Memory: n.Draw(t, "memory"), Pids: n.Draw(t, "pids"),
		Time: time.Duration(n.Draw(t, "time")), Output: n.Draw(t, "output"), FileSize: n.Draw(t, "size"),
		Turns: n.Draw(t, "turns"), Workers: n.Draw(t, "workers"), Tokens: n.Draw(t, "tokens"), Cost: float64(n.Draw(t, "cost")),
		Budget: time.Duration(n.Draw(t, "budget")),
	}
}

func drawAttachments(t *rapid.T) policy.Attachments {
	suffixes := rapid.SliceOfN(rapid.SampledFrom([]string{".pdf", ".gz", ".tar.gz", ".MD"}), 0, 2)
	a := policy.Attachments{Allowed: suffixes.Draw(t, "allowed"), Unlimited: rapid.Bool().Draw(t, "unlimited")}
	if rapid.IntRange(0, 3).Draw(t, "denies") == 0 {
		a.Denied = suffixes.Draw(t, "denied")
	}
	a.Max, a.Bytes = rapid.IntRange(0, 2).Draw(t, "max"), rapid.Int64Range(0, 99).Draw(t, "bytes")
	return a
}
