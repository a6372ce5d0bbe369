package policy_test

import (
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/sandbox"
)

// These tests go through a small lattice completely. It has two paths with each access or
// none in up to two layers, two tools, two workers and hosts with a wildcard. It also has
// each approval or none at two paths in up to two layers. Meet works on each dimension
// separately, so each is tested separately, and then all of them together.

// each makes grants that differ in one dimension. The narrow ones are tested in triples,
// the wide ones in pairs.
var each = []struct {
	name         string
	narrow, wide []policy.Grant
}{
	{"files", fileGrants(1), fileGrants(2)},
	{"approval", approvalGrants(1), approvalGrants(2)},
	{"tools", ofSets(func(g *policy.Grant, s policy.Set) { g.Tools = s }), nil},
	{"workers", ofSets(func(g *policy.Grant, s policy.Set) { g.Workers, g.Depth = s, 1 }), nil},
	{"credentials", ofSets(func(g *policy.Grant, s policy.Set) { g.Credentials = s }), nil},
	{"hosts", ofHosts(), nil},
	{"host rules", limitedHosts(3), append(ofHosts(), limitedHosts(1)...)},
	{"shell", ofShell(), nil},
	{"numbers", ofNumbers(), nil},
	{"attachments", ofAttachments(), nil},
}

func TestEveryPairAndTriple(t *testing.T) {
	for _, dimension := range each {
		t.Run(dimension.name, func(t *testing.T) {
			t.Parallel()
			wide := dimension.wide
			if wide == nil || testing.Short() {
				wide = dimension.narrow
			}
			everyPair(t, wide)
			everyTriple(t, dimension.narrow)
		})
	}
}

// TestEveryPairOfAll checks a lattice in all dimensions at once: no dimension may affect
// another.
func TestEveryPairOfAll(t *testing.T) {
	t.Parallel()
	sets := ofSets(func(g *policy.Grant, s policy.Set) { g.Tools, g.Workers, g.Depth = s, s, 1 })
	var all []policy.Grant
	for _, f := range everyNth(fileGrants(1), 4) {
		for _, s := range everyNth(sets, 2) {
			for _, h := range everyNth(ofHosts(), 6) {
				for _, c := range everyNth(approvalGrants(1), 5) {
					all = append(all, policy.Grant{Files: f.Files, Tools: s.Tools, Workers: s.Workers, Depth: 1,
						Hosts: h.Hosts, Approvals: c.Approvals})
				}
			}
		}
	}
	everyPair(t, all)
}

// everyNth returns every nth grant.
func everyNth(grants []policy.Grant, n int) []policy.Grant {
	if testing.Short() {
		n *= 2
	}
	var list []policy.Grant
	for i := 0; i < len(grants); i += n {
		list = append(list, grants[i])
	}
	return list
}

// TestLatticeIsComplete checks the size of the lattice.
func TestLatticeIsComplete(t *testing.T) {
	if got, want := len(fileGrants(2)), 1+1+16+16*16; got != want {
		t.Errorf("files: got %d, want %d", got, want)
	}
	if got, want := len(approvalGrants(2)), 1+16+16*16; got != want {
		t.Errorf("approval: got %d, want %d", got, want)
	}
}

func everyPair(t *testing.T, grants []policy.Grant) {
	t.Helper()
	meanings := make([]meaning, len(grants))
	for i, g := range grants {
		meanings[i] = meaningOf(g)
		mustMean(t, "idempotent", g.Meet(g), meanings[i])
		if excess := g.Within(g); len(excess) > 0 {
			t.Fatalf("reflexive: %v", excess)
		}
	}
	for i, a := range grants {
		for j, b := range grants {
			both := a.Meet(b)
			m := meaningOf(both)
			if i < j {
				mustMean(t, "commutative", b.Meet(a), m)
			}
			mustNarrow(t, m, meanings[i])
			mustNarrow(t, m, meanings[j])
			if len(both.Within(a)) > 0 || len(both.Within(b)) > 0 {
				t.Fatalf("grants %d and %d: the meet is beyond one: %v, %v", i, j, both.Within(a), both.Within(b))
			}
			within := len(a.Within(b)) == 0
			if within != (m.ordered() == meanings[i].ordered()) || within == mayMore(a, b) {
				t.Fatalf("grants %d and %d: within says %v; the meet is\n%+v of\n%+v", i, j, a.Within(b), m, meanings[i])
			}
		}
	}
}

func everyTriple(t *testing.T, grants []policy.Grant) {
	t.Helper()
	within := make([][]bool, len(grants))
	for i, a := range grants {
		for _, b := range grants {
			within[i] = append(within[i], len(a.Within(b)) == 0)
		}
	}
	for i, a := range grants {
		for j, b := range grants {
			for k, c := range grants {
				mustMean(t, "associative", a.Meet(b).Meet(c), meaningOf(a.Meet(b.Meet(c))))
				if within[i][j] && within[j][k] && !within[i][k] {
					t.Fatalf("transitive: grants %d, %d and %d", i, j, k)
				}
			}
		}
	}
}

// fileGrants returns no files, all files, and all files under up to so many layers, each
// of which gives "/a" and "/a/b" an access or none.
func fileGrants(layers int) []policy.Grant {
	grants := []policy.Grant{{}, {Files: policy.AllFiles()}}
	last := grants[1:]
	for range layers {
		var next []policy.Grant
		for _, g := range last {
			for n := range 16 {
				var layer []sandbox.Limit
				for i, path := range []string{"/a", "/a/b"} {
					if choice := n >> (2 * i) & 3; choice < 3 {
						layer = append(layer, sandbox.Limit{Path: path, Access: sandbox.Access(choice)})
					}
				}
				next = append(next, policy.Grant{Files: g.Files.With(layer...)})
			}
		}
		grants, last = append(grants, next...), next
	}
	return grants
}

// approvalGrants returns grants of everything, without rules and with up to so many
// layers.
func approvalGrants(layers int) []policy.Grant {
	everything := policy.Grant{Files: policy.AllFiles(), Tools: policy.All(), Workers: policy.All(), Depth: 1,
		Hosts: policy.AllHosts(), Credentials: policy.All()}
	grants := []policy.Grant{everything}
	last := grants
	for range layers {
		var next []policy.Grant
		for _, g := range last {
			for n := range 16 {
				var layer []policy.Rule
				for i, path := range []string{"/a", "/a/b"} {
					if choice := n >> (2 * i) & 3; choice < 3 {
						for _, verb := range []policy.Verb{policy.Read, policy.Write, policy.Delete} {
							layer = append(layer, policy.Rule{Verb: verb, Target: path, Approval: policy.Approval(choice)})
						}
					}
				}
				more := g
				more.Approvals = g.Approvals.With(layer...)
				next = append(next, more)
			}
		}
		grants, last = append(grants, next...), next
	}
	return grants
}

func ofSets(put func(*policy.Grant, policy.Set)) []policy.Grant {
	var grants []policy.Grant
	for _, s := range []policy.Set{{}, policy.SetOf("t"), policy.SetOf("u"), policy.SetOf("u", "t"), policy.All()} {
		var g policy.Grant
		put(&g, s)
		grants = append(grants, g)
	}
	return grants
}

func ofHosts() []policy.Grant {
	grants := []policy.Grant{{Hosts: policy.AllHosts()}}
	patterns := []string{"example.com", "*.example.com", "a.example.com", "*.a.example.com"}
	for n := range 1 << len(patterns) {
		var some []string
		for i, p := range patterns {
			if n>>i&1 == 1 {
				some = append(some, p)
			}
		}
		grants = append(grants, policy.Grant{Hosts: policy.HostsOf(some...)})
	}
	return grants
}

// limitedHosts returns grants with up to two rules with limits, one at a pattern and one
// below it: every nth of them.
func limitedHosts(n int) []policy.Grant {
	limited := []policy.HostRule{
		{},
		{Ports: []uint16{443, 8443}},
		{Methods: []string{"GET"}},
		{Methods: []string{"GET", "POST"}, Paths: []string{"/a/**"}},
		{Paths: []string{"/*/b"}},
		{GitRead: true},
		{Credential: "t"},
	}
	var grants []policy.Grant
	for _, r := range limited {
		r.Host = "*.example.com"
		grants = append(grants, policy.Grant{Hosts: policy.HostsOfRules(r)})
		for _, s := range limited {
			s.Host = "a.example.com"
			grants = append(grants, policy.Grant{Hosts: policy.HostsOfRules(r, s)})
		}
	}
	var some []policy.Grant
	for i := 0; i < len(grants); i += n {
		some = append(some, grants[i])
	}
	return some
}

func ofShell() []policy.Grant {
	grants := []policy.Grant{{}}
	for n := range 9 {
		grants = append(grants, policy.Grant{Shell: policy.Shell{}.With(policy.ShellLayer{
			Default: policy.Approval(n % 3),
			Rules:   []policy.ShellRule{{Pattern: "t", Approval: policy.Approval(n / 3)}},
		})})
	}
	return grants
}

func ofNumbers() []policy.Grant {
	var grants []policy.Grant
	for n := range int64(3) {
		for depth := range 3 {
			grants = append(grants, policy.Grant{Depth: depth, Level: policy.Level(2 - depth), Limits: policy.Limits{Memory: n, Cost: float64(2 - n)}})
		}
	}
	return grants
}

func ofAttachments() []policy.Grant {
	grants := []policy.Grant{{}}
	lists := [][]string{nil, {".pdf"}, {".gz"}, {".TAR.GZ"}, {".md", ".pdf"}}
	for _, allowed := range lists {
		for _, denied := range lists[:2] {
			for _, a := range []policy.Attachments{{Unlimited: true}, {Max: 1, Bytes: 10}, {Max: 2, Bytes: 5}} {
				a.Allowed, a.Denied = allowed, denied
				grants = append(grants, policy.Grant{Attachments: a})
			}
		}
	}
	return grants
}

// TestMeetIsTheGreatest checks that whatever is within two grants is within their meet.
func TestMeetIsTheGreatest(t *testing.T) {
	for _, dimension := range each {
		for i, a := range dimension.narrow {
			for j, b := range dimension.narrow {
				both := a.Meet(b)
				for k, c := range dimension.narrow {
					below := len(c.Within(a)) == 0 && len(c.Within(b)) == 0
					if below != (len(c.Within(both)) == 0) {
						t.Fatalf("%s: grant %d is within %d and %d: %v, but for their meet %v", dimension.name, k, i, j, below, c.Within(both))
					}
				}
			}
		}
	}
}
