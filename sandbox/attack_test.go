package sandbox_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/golem-forge/golem/sandbox"
	"github.com/golem-forge/golem/sandbox/sandboxtest"
)

func TestAttacks(t *testing.T) {
	for _, k := range kinds() {
		if k.name == "rootbase" {
			continue // os.Root and a base are attacked each by itself
		}
		t.Run(k.name, func(t *testing.T) { sandboxtest.Attacks(t, k.fixture) })
	}
}

// TestSources: a source is chosen by the user, but it may be wrong, or be in a directory
// that somebody else can change.
func TestSources(t *testing.T) {
	top := t.TempDir()
	for _, dir := range []string{"out", "proj/real/deep", "proj/sub"} {
		must(t, os.MkdirAll(filepath.Join(top, dir), 0o755))
	}
	must(t, os.WriteFile(filepath.Join(top, "proj/file"), nil, 0o644))
	for name, target := range map[string]string{"proj/link": "../out", "proj/abs": filepath.Join(top, "out"), "proj/inside": "real", "proj/sub/up": "../.."} {
		if err := os.Symlink(target, filepath.Join(top, name)); err != nil {
			t.Skipf("this system has no symlinks: %v", err)
		}
	}
	base := sandbox.Host(filepath.Join(top, "proj"))
	for _, c := range []struct {
		name   string
		base   sandbox.Host
		source sandbox.Host
		want   sandbox.Code
	}{
		{"a folder", "", base, ""},
		{"a folder by a link of the user's", "", base + "/inside", ""},
		{"a folder below a base", base, "real/deep", ""},
		{"the base itself", base, ".", ""},
		{"a folder that is not there", "", base + "/no", sandbox.ErrNotFound},
		{"a base that is not there", base + "/no", "x", sandbox.ErrNotFound},
		{"a folder that is not there, below a base", base, "no/such", ""},
		{"a file", "", base + "/file", sandbox.ErrNotDir},
		{"a file below a base", base, "file", sandbox.ErrNotDir},
		{"below a file, below a base", base, "file/x", sandbox.ErrNotDir},
		{"nothing", "", "", sandbox.ErrInvalid},
		{"nothing below a base", base, "", sandbox.ErrInvalid},
		{"out of the base", base, "../out", sandbox.ErrInvalid},
		{"out of the base and in again", base, "real/../../proj", sandbox.ErrInvalid},
		{"from the top, below a base", base, base, sandbox.ErrInvalid},
		{"a link below a base", base, "link", sandbox.ErrOutside},
		{"a link to inside below a base", base, "inside", sandbox.ErrOutside},
		{"an absolute link below a base", base, "abs", sandbox.ErrOutside},
		{"through a link below a base", base, "link/x", sandbox.ErrOutside},
		{"up through a link below a base", base, "sub/up/out", sandbox.ErrOutside},
	} {
		for way, open := range map[string]func(base, source sandbox.Host) (sandbox.Backend, error){
			"openat2": sandbox.BackendIn, "os.Root": sandbox.RootBackendIn} {
			if _, err := open(c.base, c.source); err == nil && c.want != "" {
				t.Errorf("%s by %s: it was opened, want %s", c.name, way, c.want)
			}
		}
		_, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/m", Base: c.base, Source: c.source}}})
		wantMountError(t, c.name, err, c.want, top)
	}
}

// TestKernelSources: the directories of the kernel cannot be sources.
func TestKernelSources(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this system has no such directories")
	}
	link := filepath.Join(t.TempDir(), "proc")
	must(t, os.Symlink("/proc", link))
	for _, source := range []string{"/proc", "/proc/1", "/proc/self/fd", "/sys", "/sys/kernel", "/dev", "/dev/fd", "/proc/../dev", link, link + "/self/task"} {
		_, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/m", Source: sandbox.Host(source), Access: sandbox.ReadOnly}}})
		wantMountError(t, source, err, sandbox.ErrInvalid, "/self")
		_, err = sandbox.Dir(sandbox.Host(source))
		wantMountError(t, source, err, sandbox.ErrInvalid, "/self")
		_, err = sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{{Target: "/m", Base: sandbox.Host(source), Source: "x", Access: sandbox.ReadOnly}}})
		wantMountError(t, source+" as a base", err, sandbox.ErrInvalid, "/self")
	}
}

// wantMountError fails unless err is an *Error with the code and without the host path.
func wantMountError(t *testing.T, what string, err error, want sandbox.Code, host string) {
	t.Helper()
	if got := sandbox.CodeOf(err); got != want {
		t.Errorf("%s: got %v, want %q", what, err, want)
	}
	var e *sandbox.Error
	if err != nil && (!errors.As(err, &e) || e.Hint == "" || strings.Contains(err.Error(), host)) {
		t.Errorf("%s: got %#v, want an *Error with a hint and without a host path", what, err)
	}
}
