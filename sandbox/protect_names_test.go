package sandbox_test

import (
	"path"
	"strings"
	"testing"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/golem-forge/golem/sandbox"
)

// TestProtectedDirectories: a pattern for whole names also protects the spellings that
// some host takes for the name, in directories too.
func TestProtectedDirectories(t *testing.T) {
	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Access: sandbox.ReadWrite, Backend: sandbox.NewMemory(nil)}}, Protect: []string{"/ci/**", "/a/b.key"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/ci/x", "/CI/x", "/ci./x", "/ci /x", "/ci. ./x", "/c\u200ci/x", "/ci::$INDEX_ALLOCATION/x", "/a./b.key", "/a/b.key.", "/a/b.key:s"} {
		if s.Protection()(name) == "" {
			t.Errorf("%q is not protected", name)
		}
	}
	for _, name := range []string{"/cix", "/c.i/x", "/b/ci/x", "/a/b.keys"} {
		if by := s.Protection()(name); by != "" {
			t.Errorf("%q is protected by %s", name, by)
		}
	}
}

// TestProtectedAccents: a pattern protects a name in every encoding of its accents.
func TestProtectedAccents(t *testing.T) {
	const composed, apart = "\u00e9", "e\u0301"
	for _, in := range []string{composed, apart, "\u00c9", "E\u0301"} {
		s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Access: sandbox.ReadWrite, Backend: sandbox.NewMemory(nil)}},
			Protect: []string{"caf" + in, "*." + in + "key", "/r" + in + "/**", "/x/[" + composed + "]?"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, is := range []string{composed, apart, "\u00c9", "E\u0301"} {
			for _, name := range []string{"/caf" + is, "/a/CAF" + is + "/b", "/caf" + is + ".", "/a." + is + "key", "/r" + is + "/x", "/x/" + is + "a"} {
				if s.Protection()(name) == "" {
					t.Errorf("%+q is not protected", name)
				}
				if _, err := s.Write(name, nil); sandbox.CodeOf(err) != sandbox.ErrProtected {
					t.Errorf("%+q: %v", name, err)
				}
			}
		}
		for _, name := range []string{"/cafe", "/cafe\u0300", "/re/x", "/a.ekey"} {
			if by := s.Protection()(name); by != "" {
				t.Errorf("%+q is protected by %s", name, by)
			}
		}
	}
}

// TestProtectedAbove checks that a pattern protects a name if it matches the name or a
// directory above it, whatever the pattern is, and that golem compares few of the
// directories above a deep name as a whole.
func TestProtectedAbove(t *testing.T) {
	parts := []string{"a", "b", "ab", "*", "**", "a*", "?", "{a,b}", "[ab]", "**b"}
	var patterns, names []string
	for _, x := range parts {
		for _, y := range parts {
			patterns = append(patterns, "/"+x+"/"+y)
			for _, z := range parts {
				patterns = append(patterns, x+"/"+y+"/"+z)
			}
		}
	}
	for _, x := range []string{"a", "b", "ab", "c"} {
		for _, y := range []string{"a", "b", "c"} {
			names = append(names, "/"+x, "/"+x+"/"+y, "/"+x+"/"+y+"/a/c", "/c/"+x+"/"+y+"/c")
		}
	}
	for _, pattern := range patterns {
		s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Access: sandbox.ReadWrite, Backend: sandbox.NewMemory(nil)}}, Protect: []string{pattern}})
		if err != nil {
			t.Fatal(pattern, err)
		}
		for _, name := range names {
			want := false
			for at := name; at != "/"; at = path.Dir(at) {
				matches, err := doublestar.Match("/"+strings.Trim(pattern, "/"), at)
				want = want || matches || err != nil
			}
			if got := s.Protection()(name) != ""; got != want {
				t.Errorf("%s, %s: protected %v, want %v", pattern, name, got, want)
			}
		}
	}
	compared := 0
	for dir := strings.Repeat("/d", 1000); dir != "/"; dir = path.Dir(dir) {
		for _, pattern := range []string{"/**/x", "/ci/**", "/a/b", "/**/*.key", "/**/d/**"} {
			if sandbox.CanMatchAbove(pattern, dir) {
				compared++
			}
		}
	}
	if compared > 0 {
		t.Errorf("compared %d directories as a whole", compared)
	}
}

// TestProtection checks that the function of Protection answers as a comparison of the whole name does, in any order
// of the names, and that it costs less in a deep tree.
func TestProtection(t *testing.T) {
	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Access: sandbox.ReadWrite, Backend: sandbox.NewMemory(nil)}},
		Protect: []string{"*.key", "/ci/**", "/a/b", "/x/*/z", "caf\u00e9", "/r\u00e9/**"}})
	if err != nil {
		t.Fatal(err)
	}
	parts := []string{"a", "b", "ci", "CI.", "x", "z", ".git", "k.key", "cafe\u0301", "re\u0301", "r\u00e9"}
	names := []string{"/", "", "relative/.git"}
	for _, one := range parts {
		for _, two := range parts {
			for _, three := range parts {
				names = append(names, "/"+one, "/"+one+"/"+two+"/"+three, "/"+one+"/"+two, "/d/"+one+"/"+two)
			}
		}
	}
	by := s.Protection()
	for _, name := range names {
		if got, want := by(name), sandbox.ProtectedBy(s, name); name != "" && got != want {
			t.Errorf("%+q: got %q, want %q", name, got, want)
		}
	}
}
