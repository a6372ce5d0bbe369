package checks_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestEmbedder builds a program in another module, which imports the three public packages, and
// runs it. It tries to get out of a directory by every file tool and by a command.
func TestEmbedder(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	requires := read(t, "go.mod")
	requires = requires[strings.Index(requires, "\ngo "):]
	for name, text := range map[string]string{
		"go.mod":  "module example.com/embedder\n" + requires + "\nrequire github.com/golem-forge/golem v0.0.0\n\nreplace github.com/golem-forge/golem => " + here + "\n",
		"go.sum":  read(t, "go.sum"),
		"main.go": read(t, "internal/checks/testdata/embedder/main.go"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(t, dir, []string{"GOFLAGS=-mod=mod -trimpath"}, "go", "build", "-o", "embedder", ".")
	cmd := exec.Command(filepath.Join(dir, "embedder"), filepath.Join(dir, "top"))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TEST_SECRET=1"}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "nothing read or changed outside") {
		t.Errorf("%v\n%s", err, out)
	}
	t.Log(string(out))
	for _, module := range []string{"github.com/spf13/cobra", "github.com/nats-io", "bubbletea", "chromedp"} {
		if list := run(t, dir, []string{"GOFLAGS=-mod=mod"}, "go", "list", "-deps", "github.com/golem-forge/golem/gate"); strings.Contains(list, module) {
			t.Errorf("a program with package gate links %s", module)
		}
	}
}
