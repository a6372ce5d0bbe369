package policy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/sandbox"
)

func TestRoots(t *testing.T) {
	f := policy.AllFiles().With(
		sandbox.Limit{Path: "/a/", Access: sandbox.ReadWrite},
		sandbox.Limit{Path: "/a/b", Access: sandbox.None},
		sandbox.Limit{Path: "/c", Access: sandbox.ReadOnly})
	want := []sandbox.Limit{{Path: "/a", Access: sandbox.ReadWrite}, {Path: "/c", Access: sandbox.ReadOnly}}
	if got := f.Roots(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := (policy.Files{}).Roots(); got != nil {
		t.Errorf("no files: got %v", got)
	}
	if !policy.AllFiles().With().IsEmpty() || policy.AllFiles().IsEmpty() {
		t.Error("a layer without limits allows something, or no layer does not allow everything")
	}
}

// TestFilesRefusePaths checks that a path that the sandbox refuses allows nothing, and is
// an error.
func TestFilesRefusePaths(t *testing.T) {
	s, err := sandbox.New(sandbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", "..", "/a/../..", "/a\x00"} {
		f := policy.AllFiles().With(sandbox.Limit{Path: path, Access: sandbox.ReadWrite})
		if !f.IsEmpty() {
			t.Errorf("%q gives %v", path, f.Roots())
		}
		if _, err := f.Apply(s); !errors.Is(err, sandbox.ErrInvalid) {
			t.Errorf("%q: got %v, want ErrInvalid", path, err)
		}
	}
}

// TestKinds checks that the restricted sandbox enforces kinds, in addition to the limits
// of its mounts.
func TestKinds(t *testing.T) {
	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{
		{Target: "/", Backend: sandbox.NewMemory(nil), Access: sandbox.ReadWrite},
		{Target: "/docs", Backend: sandbox.NewMemory(nil), Access: sandbox.ReadWrite, Suffixes: []string{".md", ".gz"}, MaxFileBytes: 100},
	}})
	if err != nil {
		t.Fatal(err)
	}
	one := policy.AllFiles().WithKinds(
		policy.Kind{Path: "/docs/", Suffixes: []string{".md", ".pdf"}, MaxBytes: 10},
		policy.Kind{Path: "/other/../pics", Suffixes: []string{".png"}})
	met := policy.Grant{Files: policy.AllFiles()}.Meet(policy.Grant{Files: one}).Files
	for _, f := range []policy.Files{one, met, one.With(sandbox.Limit{Path: "/", Access: sandbox.ReadWrite})} {
		r, err := f.Apply(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			name string
			size int
			want sandbox.Code
		}{
			{"/docs/a.md", 10, ""}, {"/docs/a.md", 11, sandbox.ErrTooLarge}, {"/docs/a.gz", 1, sandbox.ErrSuffix},
			{"/docs/a.pdf", 1, sandbox.ErrSuffix}, {"/docs/sub/a.MD", 1, ""}, {"/pics/a.png", 1000, ""},
			{"/pics/a.gif", 1, sandbox.ErrSuffix}, {"/free/a.exe", 1000, ""},
		} {
			if _, err := r.Write(test.name, make([]byte, test.size)); sandbox.CodeOf(err) != test.want {
				t.Errorf("%s with %d bytes: got %v, want %q", test.name, test.size, err, test.want)
			}
		}
	}
	if _, err := s.Write("/docs/a.gz", nil); err != nil {
		t.Errorf("write without the kinds: %v", err)
	}
	bad := policy.AllFiles().WithKinds(policy.Kind{Path: "/docs", Suffixes: []string{""}})
	if _, err := bad.Apply(s); !errors.Is(err, sandbox.ErrInvalid) {
		t.Errorf("invalid suffix: got %v, want an error", err)
	}
}

func TestLevels(t *testing.T) {
	for text, want := range map[string]policy.Level{"false": policy.AnyLevel, "true": policy.Landlock,
		"landlock": policy.Landlock, "namespaces": policy.Namespaces, "container": policy.Container} {
		if got, ok := policy.ParseLevel(text); !ok || got != want {
			t.Errorf("%s: got %s, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "any", "none", "True", "Landlock", "vm"} {
		if _, ok := policy.ParseLevel(text); ok {
			t.Errorf("%q is a level", text)
		}
	}
}

// TestExcessIsShort checks that an excess lists only some of the parent's names.
func TestExcessIsShort(t *testing.T) {
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprintf("w%03d", i))
	}
	excess := policy.Grant{Workers: policy.SetOf("x")}.Within(policy.Grant{Workers: policy.SetOf(names...)})
	if len(excess) != 1 || !strings.HasSuffix(excess[0].Has, "w014, w015, …") {
		t.Errorf("got %.300v", excess)
	}
}
