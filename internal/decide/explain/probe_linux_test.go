package explain

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/sandbox"
)

// TestHostDenies asks about a directory of another user: if the host would refuse the
// operation, the answer is no.
func TestHostDenies(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"closed/sub", "open"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"closed", "closed/sub", "open"} {
		if err := os.WriteFile(filepath.Join(dir, name, "f"), nil, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "closed"), 0o555); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(filepath.Join(dir, "closed"), 0o777)
	if err := os.WriteFile(filepath.Join(dir, "open/hidden"), nil, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "open/shut"), 0o311); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		// Root may do anything. For the file system, this thread becomes another user.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := unix.Setfsuid(65534); err != nil {
			t.Fatal(err)
		}
		defer unix.Setfsuid(0)
	}
	mounts := []sandbox.Mount{{Target: "/", Source: ".", Access: sandbox.ReadWrite}}
	for _, test := range []struct {
		op, name, reason string
	}{
		{"read", "/closed/f", ""},
		{"read", "/open/hidden", "the host's permissions deny it"},
		{"read", "/open", ""},
		{"read", "/open/shut", "the host's permissions deny it"},
		{"write", "/closed/f", "the host's permissions deny it"},
		{"write", "/closed/new", "the host's permissions deny it"},
		{"write", "/closed/new/er/x", "the host's permissions deny it"},
		{"delete", "/closed/f", "the host's permissions deny it"},
		{"delete", "/closed/sub", "the host's permissions deny it"},
		{"write", "/closed/sub/f", ""},
		{"write", "/open/f", ""},
		{"write", "/open/new/x", ""},
		{"delete", "/open/f", ""},
	} {
		got := askIn(t, dir, mounts, test.op, test.name)
		if got.Allowed != (test.reason == "") || !got.Allowed && got.Reason != test.reason {
			t.Errorf("%s %s: got %v, %q; want %q", test.op, test.name, got.Allowed, got.Reason, test.reason)
		}
	}
}
