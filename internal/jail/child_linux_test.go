package jail_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

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
	for word, refused := range map[string]bool{"jail-launch": true, "jail-hold": true, "jail-cell": true, "jail-probe": true, "jail-bare": true, "jail-bare-cell": true, "jail-memory": true, "other": false} {
		cmd := exec.Command(self)
		cmd.Args = []string{"golem", word}
		cmd.Env = append(os.Environ(), forgets+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil || strings.Contains(string(out), "must call jail.Child before anything else") != refused {
			t.Errorf("%s: got %v, %q", word, err, out)
		}
	}
}
