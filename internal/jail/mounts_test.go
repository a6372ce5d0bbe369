package jail_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// TestMountsOf checks the mounts of commands. Each row makes directories and a file,
// mounts them, limits them, and lists what a command sees: name, access, directory.
func TestMountsOf(t *testing.T) {
	type mount struct {
		target, source string
		access         sandbox.Access
	}
	const ro, rw, none = sandbox.ReadOnly, sandbox.ReadWrite, sandbox.None
	tests := []struct {
		name   string
		dirs   string
		mounts []mount
		limits []sandbox.Limit
		want   string // or, after "error ", its beginning
	}{
		{"two zones", "in out", []mount{{"/in", "in", ro}, {"/out", "out", rw}}, nil,
			"/in ro in, /out rw out"},
		{"the top is at /work", "a", []mount{{"/", ".", rw}}, nil,
			"/work rw ."},
		{"none is not there", "in out", []mount{{"/in", "in", none}, {"/out", "out", rw}}, nil,
			"/out rw out"},
		{"a mount at its own place keeps its access under both names", "data", []mount{{"/", ".", rw}, {"/data", "data", ro}}, nil,
			"/data ro data, /work rw ., /work/data ro data"},
		{"a mount hides what is where it stands", "cache elsewhere", []mount{{"/", ".", rw}, {"/cache", "elsewhere", rw}}, nil,
			"/cache rw elsewhere, /work rw ., /work/cache rw elsewhere"},
		{"a mount where nothing is hides nothing", "elsewhere", []mount{{"/", ".", ro}, {"/cache", "elsewhere", ro}}, nil,
			"/cache ro elsewhere, /work ro ."},
		{"a hidden mount hides its folder", "secret", []mount{{"/", ".", rw}, {"/secret", "secret", none}}, nil,
			"/work rw ., /work/secret ro "},
		{"one folder by two names: the stricter holds", "top/x", []mount{{"/a", "top", rw}, {"/b", "top/x", ro}}, nil,
			"/a rw top, /a/x ro top/x, /b ro top/x"},
		{"a limit within a mount", "src/gen", []mount{{"/", ".", rw}}, []sandbox.Limit{{Path: "/src", Access: ro}, {Path: "/src/gen", Access: rw}},
			"/work/src ro src, /work/src/gen rw src/gen"},
		{"a folder that a limit takes away", "a/b", []mount{{"/m", "a", rw}}, []sandbox.Limit{{Path: "/m", Access: rw}, {Path: "/m/b", Access: none}},
			"/m rw a, /m/b ro "},
		{"a limit that changes nothing", "a/b", []mount{{"/m", "a", rw}}, []sandbox.Limit{{Path: "/m", Access: rw}, {Path: "/m/b", Access: rw}},
			"/m rw a"},
		{"a folder that a command could make", "a", []mount{{"/m", "a", rw}}, []sandbox.Limit{{Path: "/m", Access: rw}, {Path: "/m/b", Access: none}},
			"error mount /m/b: not_dir"},
		{"a folder that nobody can make", "a", []mount{{"/m", "a", ro}}, []sandbox.Limit{{Path: "/m", Access: ro}, {Path: "/m/b", Access: none}},
			"/m ro a"},
		{"a single file", "a", []mount{{"/", ".", rw}}, []sandbox.Limit{{Path: "/", Access: rw}, {Path: "/file", Access: ro}},
			"error mount /file: not_dir"},
		{"a link in place of a folder", "a", []mount{{"/", ".", rw}}, []sandbox.Limit{{Path: "/", Access: rw}, {Path: "/link", Access: ro}},
			"error mount /link: not_dir"},
		{"a mount in a mount", "a/b c", []mount{{"/m", "a", rw}, {"/m/b", "c", ro}}, nil,
			"/m rw a, /m/b ro c"},
		{"a mount in a mount, with no place", "a c", []mount{{"/m", "a", ro}, {"/m/b", "c", ro}}, nil,
			"error mount /m/b: not_dir"},
		{"a limit in a mount holds by both names", "data/deep", []mount{{"/", ".", rw}, {"/data", "data", rw}}, []sandbox.Limit{{Path: "/", Access: rw}, {Path: "/data/deep", Access: none}},
			"/data rw data, /data/deep ro , /work rw ., /work/data/deep ro "},
		{"and where the mount is of another folder", "data c/deep", []mount{{"/", ".", rw}, {"/data", "c", rw}}, []sandbox.Limit{{Path: "/", Access: rw}, {Path: "/data/deep", Access: ro}},
			"/data rw c, /data/deep ro c/deep, /work rw ., /work/data rw c, /work/data/deep ro c/deep"},
		{"a mount in a mount holds by both names", "data/deep c", []mount{{"/", ".", rw}, {"/data", "data", rw}, {"/data/deep", "c", ro}}, nil,
			"/data rw data, /data/deep ro c, /work rw ., /work/c ro c, /work/data/deep ro c"},
		{"a part of a mount over the system", "a/b", []mount{{"/usr", "a", ro}}, []sandbox.Limit{{Path: "/usr/b", Access: ro}},
			"error mount /usr: invalid"},
		{"a hidden mount over the working folder", "a", []mount{{"/", ".", ro}, {"/work", "a", none}}, nil,
			"/work ro ., /work/a ro "},
		{"a mount over the system", "a", []mount{{"/usr/a", "a", ro}}, nil,
			"error mount /usr/a: invalid"},
		{"a mount over the working folder", "a", []mount{{"/work", "a", ro}}, nil,
			"error mount /work: invalid"},
		{"a folder that is missing", "a", []mount{{"/in", "missing", ro}}, nil,
			"/in ro "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			top := t.TempDir()
			for _, dir := range strings.Fields(test.dirs) {
				if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(top, "file"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("a", filepath.Join(top, "link")); err != nil {
				t.Fatal(err)
			}
			var c sandbox.Config
			for _, m := range test.mounts {
				c.Mounts = append(c.Mounts, sandbox.Mount{Target: m.target, Base: sandbox.Host(top), Source: sandbox.Host(m.source), Access: m.access})
			}
			s, err := sandbox.New(c)
			if err == nil && test.limits != nil {
				s, err = s.Restrict(test.limits...)
			}
			if err != nil {
				t.Fatal(err)
			}
			list, err := jail.MountsOf(s)
			var words []string
			for _, m := range list {
				access := "ro"
				if m.Write {
					access = "rw"
				}
				source := string(m.Source)
				if source != "" {
					source, _ = filepath.Rel(top, source)
				}
				words = append(words, m.Target+" "+access+" "+source)
			}
			got := strings.Join(words, ", ")
			if err != nil {
				got = "error " + err.Error()
			}
			if got != test.want && !(err != nil && strings.HasPrefix(got, test.want)) {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if strings.Contains(got, top) {
				t.Errorf("a path of the host: %s", got)
			}
		})
	}
}

// TestMountsOfMemory checks that neither a backend in memory nor a part of it becomes a
// mount.
func TestMountsOfMemory(t *testing.T) {
	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/m", Backend: sandbox.NewMemory(nil), Access: sandbox.ReadOnly}}})
	if err != nil {
		t.Fatal(err)
	}
	part, err := s.Restrict(sandbox.Limit{Path: "/m/etc", Access: sandbox.ReadOnly})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*sandbox.Sandbox{s, part} {
		if list, err := jail.MountsOf(s); err == nil {
			t.Errorf("got %v, want an error", list)
		}
	}
}

// TestHiddenPartsStay checks that commands cannot move the directories around hidden or
// read-only parts, where no rule would hold for a later command.
func TestHiddenPartsStay(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("commands do not run here")
	}
	top := t.TempDir()
	for _, dir := range []string{"a/b/hidden", "a/b/fixed", "a/free"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(top, dir, "file"), []byte("canary"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Source: sandbox.Host(top), Access: sandbox.ReadWrite}}})
	if err == nil {
		s, err = s.Restrict(sandbox.Limit{Path: "/", Access: sandbox.ReadWrite}, sandbox.Limit{Path: "/a/b/hidden"}, sandbox.Limit{Path: "/a/b/fixed", Access: sandbox.ReadOnly})
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second is a command that comes later
		mounts, err := jail.MountsOf(s)
		if err != nil {
			t.Fatal(err)
		}
		session, err := jail.Start(jail.Policy{Mounts: mounts, Least: jail.Namespaces}, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		r, err := session.Run(context.Background(), jail.Shell(`cd /work; for d in a a/b a/b/hidden a/b/fixed; do mv -T $d moved && echo moved $d; done
			echo x > a/b/fixed/file; cat moved/b/hidden/file moved/hidden/file moved/file; mv a/free a/freed || mv a/freed a/free; echo y > a/b/new && rm a/b/new && echo done`))
		session.Close()
		if err != nil {
			t.Fatal(err)
		}
		if got := string(r.Stdout.Head); got != "done\n" {
			t.Errorf("got %q, and %q", got, r.Stderr.Head)
		}
	}
	for _, name := range []string{"a/b/hidden/file", "a/b/fixed/file"} {
		if got, err := os.ReadFile(filepath.Join(top, name)); string(got) != "canary" {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
}

// TestInside checks that Inside and Outside translate names as MountsOf places them.
func TestInside(t *testing.T) {
	top := sandbox.Host(t.TempDir())
	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/", Source: top, Access: sandbox.ReadWrite}, {Target: "/in", Source: top, Access: sandbox.ReadOnly}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"/": "/work", "/a/b": "/work/a/b", "/in": "/in", "/in/a": "/in/a", "/inn": "/work/inn"} {
		if got := jail.Inside(s, name); got != want {
			t.Errorf("Inside(%s): got %s, want %s", name, got, want)
		}
	}
}
