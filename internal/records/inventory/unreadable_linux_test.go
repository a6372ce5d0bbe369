package inventory_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/golem-forge/golem/internal/records/inventory"
)

// TestUnreadablePrograms checks that golem lists a state directory that it cannot read.
func TestUnreadablePrograms(t *testing.T) {
	const variable = "GOLEM_TEST_PROGRAMS"
	if base := os.Getenv(variable); base != "" {
		list, err := inventory.Programs(base)
		fmt.Println(list, err)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	base, err := os.MkdirTemp("", "golem-programs-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(base)
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(base, "shop-0123456789abcdef-bare", "sessions"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestUnreadablePrograms$")
	cmd.Env, cmd.Dir = append(os.Environ(), variable+"="+base), "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54321, Gid: 54321}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "[{shop ") {
		t.Errorf("got %v %s, want the state directory of shop", err, out)
	}
}
