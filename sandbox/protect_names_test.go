package sandbox_test

import (
	"testing"

	"github.com/golem-forge/golem/sandbox"
)

// A pattern for whole names protects what a careless host takes for the name, in
// directories too.
func TestC13ProtectedDirectories(t *testing.T) {
	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Access: sandbox.ReadWrite, Backend: sandbox.NewMemory(nil)}}, Protect: []string{"/ci/**", "/a/b.key"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/ci/x", "/CI/x", "/ci./x", "/ci /x", "/ci. ./x", "/c\u200ci/x", "/ci::$INDEX_ALLOCATION/x", "/a./b.key", "/a/b.key.", "/a/b.key:s"} {
		if s.ProtectedBy(name) == "" {
			t.Errorf("%q is not protected", name)
		}
	}
	for _, name := range []string{"/cix", "/c.i/x", "/b/ci/x", "/a/b.keys"} {
		if by := s.ProtectedBy(name); by != "" {
			t.Errorf("%q is protected by %s", name, by)
		}
	}
}
