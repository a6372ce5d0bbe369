package jail_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// forgets is a variable with which this program starts a session without a call of Child.
// Parts do not inherit it, so they do call Child.
const forgets = "GOLEM_TEST_FORGETS_CHILD"

func forgetChild() {
	s, err := jail.Start(jail.Policy{Mounts: []jail.Mount{{Source: sandbox.Host(os.TempDir()), Target: jail.Work}}}, time.Now)
	if err == nil {
		s.Close()
	}
	fmt.Println(err)
	os.Exit(0)
}

// TestForgottenChild starts the program as a part that does not call Child, and then wants
// to start a session itself. Without an error the parts would never end to start parts.
func TestForgottenChild(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, isPart := range []bool{true, false} {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), forgets+"=1")
		if isPart {
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			near, far := os.NewFile(uintptr(fds[0]), "near"), os.NewFile(uintptr(fds[1]), "far")
			defer near.Close()
			defer far.Close()
			cmd.ExtraFiles = []*os.File{far} // descriptor 3
		}
		out, err := cmd.CombinedOutput()
		if err != nil || strings.Contains(string(out), "must call jail.Child before anything else") != isPart {
			t.Errorf("as a part %v: got %v, %q", isPart, err, out)
		}
	}
}
