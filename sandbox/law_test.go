package sandbox_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/golem-forge/golem/internal/checks/testutil"
	"github.com/golem-forge/golem/sandbox"
)

// The laws of restriction, with random mounts, chains and names. Names have few letters,
// so that they often meet mounts and limits.

const lawCases = 10_000

func drawName(t *rapid.T, label string) string {
	parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab", ".git"}), 0, 4).Draw(t, label)
	return "/" + strings.Join(parts, "/")
}

func drawAccess(t *rapid.T, label string) sandbox.Access {
	return rapid.SampledFrom([]sandbox.Access{sandbox.None, sandbox.ReadOnly, sandbox.ReadWrite}).Draw(t, label)
}

func drawLimits(t *rapid.T, label string) []sandbox.Limit {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) sandbox.Limit {
		return sandbox.Limit{Path: drawName(t, "path"), Access: drawAccess(t, "access")}
	}), 0, 3).Draw(t, label)
}

// drawSandbox makes a sandbox of mounts that share no files.
func drawSandbox(t *rapid.T) (*sandbox.Sandbox, []sandbox.Mount) {
	var mounts []sandbox.Mount
	for range rapid.IntRange(1, 4).Draw(t, "mounts") {
		target := drawName(t, "target")
		if !slices.ContainsFunc(mounts, func(m sandbox.Mount) bool { return m.Target == target }) {
			mounts = append(mounts, sandbox.Mount{Target: target, Backend: empty, Access: drawAccess(t, "mode")})
		}
	}
	s, err := sandbox.New(sandbox.Config{Mounts: mounts})
	if err != nil {
		t.Fatal(err)
	}
	return s, mounts
}

var empty = sandbox.NewMemory(nil)

func restrict(t *rapid.T, s *sandbox.Sandbox, limits []sandbox.Limit) *sandbox.Sandbox {
	r, err := s.Restrict(limits...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// longest is the definition: the access of the longest path that holds name. Of equally
// long paths the lowest access counts. Without such a path it is None.
func longest(limits []sandbox.Limit, name string) sandbox.Access {
	best, access := -1, sandbox.None
	for _, l := range limits {
		holds := l.Path == "/" || name == l.Path || strings.HasPrefix(name, l.Path+"/")
		switch {
		case !holds || len(l.Path) < best:
		case len(l.Path) > best:
			best, access = len(l.Path), l.Access
		default:
			access = min(access, l.Access)
		}
	}
	return access
}

// TestAccessIsTheMinimum: the access of a name is the lowest that its mount and every
// layer allow, and protected names are never writable.
func TestAccessIsTheMinimum(t *testing.T) {
	testutil.Law(t, lawCases, func(t *rapid.T) {
		s, mounts := drawSandbox(t)
		var own []sandbox.Limit
		for _, m := range mounts {
			own = append(own, sandbox.Limit{Path: m.Target, Access: m.Access})
		}
		layers := [][]sandbox.Limit{own}
		for range rapid.IntRange(0, 6).Draw(t, "layers") {
			l := drawLimits(t, "layer")
			layers = append(layers, l)
			s = restrict(t, s, l)
		}
		name := drawName(t, "name")
		want := sandbox.ReadWrite
		for _, l := range layers {
			want = min(want, longest(l, name))
		}
		if slices.Contains(strings.Split(name, "/"), ".git") {
			want = min(want, sandbox.ReadOnly)
		}
		if got := s.Access(name); got != want {
			t.Fatalf("access of %s is %s, by definition %s\nlayers %v", name, got, want, layers)
		}
	})
}

// TestRestrictLaws: Restrict never raises access, a second equal Restrict changes
// nothing, and the order does not matter.
func TestRestrictLaws(t *testing.T) {
	testutil.Law(t, lawCases, func(t *rapid.T) {
		s, _ := drawSandbox(t)
		one, two := drawLimits(t, "one"), drawLimits(t, "two")
		first := restrict(t, s, one)
		name := drawName(t, "name")
		parent := s.Access(name)
		if got := first.Access(name); got > parent {
			t.Fatalf("%s rose from %s to %s", name, parent, got)
		}
		if got, again := first.Access(name), restrict(t, first, one).Access(name); got != again {
			t.Fatalf("%s is %s after once and %s after twice", name, got, again)
		}
		ab, ba := restrict(t, first, two).Access(name), restrict(t, restrict(t, s, two), one).Access(name)
		if ab != ba {
			t.Fatalf("%s is %s in one order and %s in the other", name, ab, ba)
		}
		if s.Access(name) != parent {
			t.Fatalf("restricting changed the parent")
		}
	})
}

// TestChainsNeverGainAccess: the last sandbox of a chain never has more access than an earlier
// one. A name that is hidden in the parent is hidden in the child.
func TestChainsNeverGainAccess(t *testing.T) {
	testutil.Law(t, lawCases/4, func(t *rapid.T) {
		s, _ := drawSandbox(t)
		chain := []*sandbox.Sandbox{s}
		for range rapid.IntRange(1, 20).Draw(t, "length") {
			chain = append(chain, restrict(t, chain[len(chain)-1], drawLimits(t, "layer")))
		}
		last := chain[len(chain)-1]
		name := drawName(t, "name")
		for i, member := range chain {
			if last.Access(name) > member.Access(name) {
				t.Fatalf("%s: the last has %s, member %d has %s", name, last.Access(name), i, member.Access(name))
			}
			if ok, _ := last.Exists(name); ok {
				if ok, _ := member.Exists(name); !ok {
					t.Fatalf("%s exists in the last and not in member %d", name, i)
				}
			}
			for _, root := range last.WritableRoots() {
				if !member.CanWrite(root) && !strings.Contains(root, ".git") {
					t.Fatalf("writable root %s of the last is not writable in member %d", root, i)
				}
			}
		}
	})
}

// TestWithinIsTheOrder: Within refuses exactly the limits above the access of the
// sandbox.
func TestWithinIsTheOrder(t *testing.T) {
	testutil.Law(t, lawCases/4, func(t *rapid.T) {
		s, _ := drawSandbox(t)
		s = restrict(t, s, drawLimits(t, "layer"))
		limit := sandbox.Limit{Path: drawName(t, "path"), Access: drawAccess(t, "access")}
		m, shown := s.MountOf(limit.Path)
		want := limit.Access == sandbox.None || shown && m.Access >= limit.Access
		if got := s.Within(limit) == nil; got != want {
			t.Fatalf("within %v is %v, access there is %s", limit, got, s.Access(limit.Path))
		}
	})
}
