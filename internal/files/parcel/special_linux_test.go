package parcel_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/files/parcel"
)

// TestSpecialFiles: a Reader leaves out what no other machine can use.
func TestSpecialFiles(t *testing.T) {
	top := t.TempDir()
	must(t, unix.Mkfifo(filepath.Join(top, "fifo"), 0o600))
	socket, err := net.Listen("unix", filepath.Join(top, "socket"))
	must(t, err)
	defer socket.Close()
	must(t, unix.Mknod(filepath.Join(top, "gone"), unix.S_IFCHR, 0))
	file := filepath.Join(top, "setuid")
	must(t, os.WriteFile(file, []byte("x"), 0o600))
	must(t, os.Chmod(file, os.ModeSetuid|0o755))
	must(t, unix.Setxattr(file, parcel.Origin, make([]byte, 300), 0))
	must(t, unix.Setxattr(file, "user.other", []byte("x"), 0))
	closed := filepath.Join(top, "closed")
	must(t, os.Mkdir(closed, 0o700))
	must(t, os.WriteFile(filepath.Join(closed, "in"), []byte("y"), 0))
	must(t, unix.Setxattr(closed, parcel.Opaque, []byte("x"), 0)) // not a mark that golem knows
	must(t, os.Chmod(closed, 0))
	defer os.Chmod(closed, 0o700)
	tree, err := (&parcel.Reader{}).Read(t.Context(), top)
	must(t, err)
	if len(tree) != 4 || tree[0].Mode != 0 || tree[0].Attributes != nil || tree[1].Name != "closed/in" || tree[1].Mode != 0 || tree[2].Kind != parcel.Gone {
		t.Fatalf("got %+v", tree)
	}
	if value, ok := tree[3].Attributes[parcel.Origin]; !ok || len(value) > 0 || len(tree[3].Attributes) != 1 || tree[3].Mode != 0o755 {
		t.Errorf("got %+v", tree[3])
	}
	if info, err := os.Lstat(closed); err != nil || info.Mode().Perm() != 0 {
		t.Errorf("got %v, %v", info, err)
	}
	must(t, tree.Check(parcel.Limits{}))
}
