package policy_test

import (
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/sandbox"
)

// FuzzRestrict compares files and rules with the sandbox, for any form of a path and a
// name. A grant never allows more than the sandbox shows. A rule that blocks a path
// blocks every name that the sandbox resolves to it.
func FuzzRestrict(f *testing.F) {
	for _, seed := range [][2]string{
		{"/a", "/a/b"}, {"/a/", "/a"}, {"a/../b", "/b"}, {"..", "/"}, {"", "/"}, {"/", "/x"}, {"/a\x00", "/a"},
		{"/a", "/a/../b"}, {"/a//b", "/a/b"}, {"/ä", "/ä/ö"}, {"\xff", "/\xff"}, {"/a", "/ab"}, {"x:y", "/x:y"}, {"*", "/*"},
	} {
		f.Add(seed[0], seed[1])
	}
	whole, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{
		{Target: "/", Backend: sandbox.NewMemory(nil), Access: sandbox.ReadWrite},
	}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, path, name string) {
		files := policy.AllFiles().With(sandbox.Limit{Path: path, Access: sandbox.ReadOnly})
		shown, err := files.Apply(whole)
		has := files.Access(name)
		// The sandbox may refuse names that a grant accepts, because of their length or
		// characters. A grant must refuse names that are not canonical.
		if err == nil && whole.CanRead(name) && has != shown.Access(name) && (has > shown.Access(name) || canonical(name)) {
			t.Fatalf("%q limited to %q: got %s, the sandbox has %s", name, path, has, shown.Access(name))
		}
		rules := policy.Approvals{}.With(policy.Rule{Verb: policy.Read, Target: path})
		d := policy.Grant{Files: policy.AllFiles(), Approvals: rules}.Decide(policy.Effect{Verb: policy.Read, Target: name})
		if err == nil && shown.CanRead(name) && d.Approval != policy.Blocked {
			t.Fatalf("%q blocked at %q: got %s", name, path, d.Approval)
		}
	})
}

// canonical reports whether a policy that allows everything accepts a name.
func canonical(name string) bool { return policy.AllFiles().Access(name) > sandbox.None }
