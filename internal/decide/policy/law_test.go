package policy_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/sandbox"
)

const lawCases = 10_000

// A fataler is what a law needs of a test, random or exhaustive.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func mustMean(t fataler, law string, got policy.Grant, want meaning) {
	t.Helper()
	if g := meaningOf(got); g != want {
		t.Fatalf("%s:\ngot  %+v\nwant %+v", law, g, want)
	}
}

// TestChainOnlyNarrows checks a chain of workers, each within the grant above it. No
// worker may do something that a worker above it may not. No worker needs less approval
// than a rule above it says.
func TestChainOnlyNarrows(t *testing.T) {
	testutil.Law(t, lawCases, func(t *rapid.T) {
		chain := rapid.SliceOfN(specs, 2, 6).Draw(t, "chain")
		have, means := chain[0].grant, meaningOf(chain[0].grant)
		for _, declared := range chain[1:] {
			parent, meant := have, means
			have = declared.grant.Meet(parent)
			means = meaningOf(have)
			mustNarrow(t, means, meant)
			if excess := have.Within(parent); len(excess) > 0 {
				t.Fatalf("within: %v", excess)
			}
		}
		for i, e := range effects {
			ceiling := policy.Unset
			for _, s := range chain {
				ceiling = min(ceiling, s.ceiling(e))
			}
			if ceiling == policy.Unset {
				ceiling = unwritten[e.Verb]
			}
			if got := means.decided[i]; got > ceiling {
				t.Fatalf("%s: got %s, but somebody in the chain wrote %s", e, got, ceiling)
			}
		}
	})
}

// mustNarrow checks in every dimension that the child has no more than the parent.
func mustNarrow(t fataler, c, p meaning) {
	t.Helper()
	for i := range c.access {
		if c.access[i] > p.access[i] {
			t.Fatalf("%s: %s below a parent with %s", names[i], c.access[i], p.access[i])
		}
	}
	for i, e := range effects {
		if c.written[i] > p.written[i] {
			t.Fatalf("%s: the rules say %s, and %s above it", e, c.written[i], p.written[i])
		}
		if p.forbids[i] && !c.forbids[i] {
			t.Fatalf("%s: the parent's grant forbids it, the child's does not", e)
		}
	}
	for i := range words {
		if c.shell[i] > p.shell[i] {
			t.Fatalf("command %s: %s below %s", words[i], c.shell[i], p.shell[i])
		}
		for set := range c.sets {
			if c.sets[set][i] && !p.sets[set][i] {
				t.Fatalf("set %d has %s, the parent's has not", set, words[i])
			}
		}
	}
	for i := range c.hosts {
		if c.hosts[i] && !p.hosts[i] {
			t.Fatalf("%s can be reached, not by the parent", hosts[i])
		}
		for j := range c.asked[i] {
			for k, got := range c.asked[i][j] {
				if want := p.asked[i][j][k]; got != "" && got != want && want != "yes" {
					t.Fatalf("%v to %s: got %q, with the parent %q", requests[k], hosts[i], got, want)
				}
			}
		}
	}
	for i := range c.attach {
		for j := range c.attach[i] {
			if c.attach[i][j] && !p.attach[i][j] {
				t.Fatalf("%s passes, not with the parent", files[i])
			}
		}
	}
	mustLimit(t, c.limits, p.limits)
	if c.depth > p.depth {
		t.Fatalf("depth %d below %d", c.depth, p.depth)
	}
	if c.level < p.level {
		t.Fatalf("got the level %s, the parent needs %s", c.level, p.level)
	}
}

func mustLimit(t fataler, c, p policy.Limits) {
	t.Helper()
	for i, pair := range [][2]float64{
		{float64(c.CPU), float64(p.CPU)}, {float64(c.Memory), float64(p.Memory)}, {float64(c.Pids), float64(p.Pids)},
		{float64(c.Time), float64(p.Time)}, {float64(c.Output), float64(p.Output)}, {float64(c.FileSize), float64(p.FileSize)},
		{float64(c.Turns), float64(p.Turns)}, {float64(c.Tokens), float64(p.Tokens)}, {c.Cost, p.Cost},
		{float64(c.Budget), float64(p.Budget)},
	} {
		if pair[1] != 0 && (pair[0] == 0 || pair[0] > pair[1]) {
			t.Fatalf("limit %d: %v below %v", i, pair[0], pair[1])
		}
	}
}

// TestLattice checks that Meet and Within form a lattice.
func TestLattice(t *testing.T) {
	testutil.Law(t, lawCases/5, func(t *rapid.T) {
		a, b, c := specs.Draw(t, "a").grant, specs.Draw(t, "b").grant, specs.Draw(t, "c").grant
		mustMeet(t, a, b)
		mustMean(t, "associative", a.Meet(b).Meet(c), meaningOf(a.Meet(b.Meet(c))))
		if len(a.Within(b)) == 0 && len(b.Within(c)) == 0 && len(a.Within(c)) > 0 {
			t.Fatalf("transitive: a within b within c, but %v", a.Within(c))
		}
	})
}

// mustMeet checks the laws of two grants.
func mustMeet(t fataler, a, b policy.Grant) {
	t.Helper()
	both, am, bm := a.Meet(b), meaningOf(a), meaningOf(b)
	bothm := meaningOf(both)
	mustMean(t, "commutative", b.Meet(a), bothm)
	mustMean(t, "idempotent", a.Meet(a), am)
	mustMean(t, "absorbing", both.Meet(a), bothm)
	mustNarrow(t, bothm, am)
	mustNarrow(t, bothm, bm)
	for _, excess := range [][]policy.Excess{both.Within(a), both.Within(b), a.Within(a)} {
		if len(excess) > 0 {
			t.Fatalf("within: %v", excess)
		}
	}
	within := len(a.Within(b)) == 0
	if more := mayMore(a, b); within == more {
		t.Fatalf("within says %v, the effects %v", a.Within(b), more)
	}
	if within != (bothm.ordered() == am.ordered()) {
		t.Fatalf("within says %v, but the meet is\n%+v of\n%+v", a.Within(b), bothm, am)
	}
}

// mayMore reports whether a allows an effect that b forbids. It ignores the depth, for
// which the lower number holds without an error. It compares credentials by name, because
// they have no verb.
func mayMore(a, b policy.Grant) bool {
	a.Depth, b.Depth = 1, 1
	for _, e := range effects {
		if b.Decide(e).Why != "" && a.Decide(e).Why == "" {
			return true
		}
	}
	for _, word := range words {
		if a.Credentials.Has(word) && !b.Credentials.Has(word) {
			return true
		}
	}
	if !b.Hosts.IsAll() && !a.Hosts.IsEmpty() {
		for _, host := range hosts {
			for _, port := range []uint16{443, 80, 8443} {
				for _, q := range requests {
					if got := answerTo(a.Hosts.Find(host, port), q); got != "" && got != answerTo(b.Hosts.Find(host, port), q) {
						return true
					}
				}
			}
		}
	}
	return false
}

// ordered returns the part of a meaning that Within compares.
func (m meaning) ordered() meaning {
	return meaning{access: m.access, sets: m.sets, hosts: m.hosts, asked: m.asked}
}

// TestGrantMeansItsDefinition checks that a grant decides as its definition says.
func TestGrantMeansItsDefinition(t *testing.T) {
	testutil.Law(t, lawCases/4, func(t *rapid.T) {
		s := specs.Draw(t, "spec")
		for _, name := range names {
			if got, want := s.grant.Files.Access(name), s.access(name); got != want {
				t.Fatalf("access at %s: got %s, want %s", name, got, want)
			}
		}
		for _, e := range effects {
			got, rule := s.grant.Approvals.Of(e)
			if want := s.approval(e); got != want {
				t.Fatalf("%s: got %s by %+v, want %s", e, got, rule, want)
			}
			if rule.Approval != got {
				t.Fatalf("%s: got %s, but the rule says %s", e, got, rule.Approval)
			}
		}
		mustBeFewer(t, s)
	})
}

// mustBeFewer checks that a further effect never raises a decision, and that the decision
// is the decision about one of the effects.
func mustBeFewer(t *rapid.T, s spec) {
	list := rapid.SliceOfN(rapid.SampledFrom(effects), 1, 4).Draw(t, "effects")
	least := policy.PreApproved
	for i, e := range list {
		one := s.grant.Decide(e)
		least = min(least, one.Approval)
		all := s.grant.Decide(list[:i+1]...)
		if all.Approval != least {
			t.Fatalf("%v: got %s, want the least of each, %s", list[:i+1], all.Approval, least)
		}
		if s.grant.Decide(all.Effect) != all {
			t.Fatalf("%v: decided by %s, which by itself is %+v", list[:i+1], all.Effect, s.grant.Decide(all.Effect))
		}
	}
}

// TestFilesAreWhatTheSandboxShows checks that a restricted sandbox shows exactly the
// files of the grant.
func TestFilesAreWhatTheSandboxShows(t *testing.T) {
	whole, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{
		{Target: "/", Backend: sandbox.NewMemory(nil), Access: sandbox.ReadWrite},
	}})
	if err != nil {
		t.Fatal(err)
	}
	liberal := rapid.SampledFrom([]string{"/", "/a", "/a/", "//a//b", "a/b", "/a/../b", "/a/./b", ".", "/ab/../../b", "", "..", "/a/b/.."})
	testutil.Law(t, lawCases/4, func(t *rapid.T) {
		f := policy.Files{}
		if rapid.IntRange(0, 7).Draw(t, "open") > 0 {
			f = policy.AllFiles()
		}
		for range rapid.IntRange(0, 3).Draw(t, "layers") {
			f = f.With(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) sandbox.Limit {
				return sandbox.Limit{Path: liberal.Draw(t, "path"), Access: accesses.Draw(t, "access")}
			}), 0, 3).Draw(t, "limits")...)
		}
		lesser, err := f.Apply(whole)
		if err != nil {
			return // an invalid path; FuzzRestrict checks what Access returns for it
		}
		some := false
		for _, name := range names {
			if got, want := f.Access(name), lesser.Access(name); got != want {
				t.Fatalf("%s: got %s, the sandbox has %s", name, got, want)
			}
			some = some || f.Access(name) > sandbox.None
		}
		if f.IsEmpty() == some {
			t.Fatalf("None is %v", f.IsEmpty())
		}
	})
}
