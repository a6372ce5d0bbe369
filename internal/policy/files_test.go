package policy_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/sandbox"
)

func TestRoots(t *testing.T) {
	f := policy.AllFiles().With(
		sandbox.Limit{Path: "/a/", Access: sandbox.ReadWrite},
		sandbox.Limit{Path: "/a/b", Access: sandbox.None},
		sandbox.Limit{Path: "/c", Access: sandbox.ReadOnly})
	want := []sandbox.Limit{{Path: "/a", Access: sandbox.ReadWrite}, {Path: "/c", Access: sandbox.ReadOnly}}
	if got := f.Roots(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := (policy.Files{}).Roots(); got != nil {
		t.Errorf("no files: got %v", got)
	}
	if !policy.AllFiles().With().None() || policy.AllFiles().None() {
		t.Error("a layer without limits leaves nothing, no layer everything")
	}
}

// A path that the sandbox would not take gives nothing, and is told.
func TestFilesRefusePaths(t *testing.T) {
	s, err := sandbox.New(sandbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", "..", "/a/../..", "/a\x00"} {
		f := policy.AllFiles().With(sandbox.Limit{Path: path, Access: sandbox.ReadWrite})
		if !f.None() {
			t.Errorf("%q gives %v", path, f.Roots())
		}
		if _, err := f.Apply(s); !errors.Is(err, sandbox.ErrInvalid) {
			t.Errorf("%q: got %v, want ErrInvalid", path, err)
		}
	}
}

// Kinds are kept by the sandbox or refused; they are never passed over.
func TestKinds(t *testing.T) {
	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{
		{Target: "/", Backend: sandbox.NewMemory(nil), Access: sandbox.ReadWrite},
		{Target: "/docs", Backend: sandbox.NewMemory(nil), Access: sandbox.ReadWrite, Suffixes: []string{".MD", ".tar.gz"}, MaxFileBytes: 100},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		kind policy.Kind
		kept bool
	}{
		{policy.Kind{Path: "/docs"}, true},
		{policy.Kind{Path: "/docs", Suffixes: []string{".md", ".gz"}, MaxBytes: 100}, true},
		{policy.Kind{Path: "/docs/", Suffixes: []string{".md", ".gz", ".pdf"}}, true},
		{policy.Kind{Path: "/docs/sub", Suffixes: []string{".md", ".gz"}}, true},
		{policy.Kind{Path: "/docs", Suffixes: []string{".md"}}, false},
		{policy.Kind{Path: "/docs/sub", Suffixes: []string{".md"}}, false},
		{policy.Kind{Path: "/docs", MaxBytes: 99}, false},
		{policy.Kind{Path: "/docs/../docs", MaxBytes: 99}, false},
		{policy.Kind{Path: "/", MaxBytes: 1000}, false},
		{policy.Kind{Path: "/other", Suffixes: []string{".md"}}, false},
	} {
		one := policy.AllFiles().Only(test.kind)
		met := policy.Grant{Files: policy.AllFiles()}.Meet(policy.Grant{Files: one}).Files
		for _, f := range []policy.Files{one, met} {
			if _, err := f.Apply(s); (err == nil) != test.kept {
				t.Errorf("%+v: got %v, want kept %v", test.kind, err, test.kept)
			} else if err != nil && (!errors.Is(err, sandbox.ErrInvalid) || !strings.Contains(err.Error(), "max_file_bytes")) {
				t.Errorf("%+v: got %v", test.kind, err)
			}
			if len(f.Kinds()) != 1 {
				t.Errorf("got %d kinds, want 1", len(f.Kinds()))
			}
		}
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

// Of many names that a parent has, an excess lists a few.
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
