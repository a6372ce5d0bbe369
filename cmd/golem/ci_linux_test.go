package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCI runs the script of examples/ci on this machine, and with user namespaces
// refused, as in a default container. The script writes the diff and does not change the
// checkout.
func TestCI(t *testing.T) {
	for name, refused := range map[string]bool{"machine": false, "container": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			if err := os.CopyFS(top, os.DirFS("../../examples/ci")); err != nil {
				t.Fatal(err)
			}
			var out []byte
			run := func() (err error) {
				cmd := exec.Command("sh", "run.sh", "project", "results", "sh", "./agent.sh")
				cmd.Dir, cmd.Env = top, append(os.Environ(), "GOLEM_STATE="+filepath.Join(top, "state"), "HOME="+top)
				out, err = cmd.CombinedOutput()
				return err
			}
			var err error
			if refused {
				err = withoutNamespaces(run)
			} else {
				err = run()
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			level := map[bool]string{false: "the level namespaces", true: "the level landlock"}[refused]
			if text := string(out); !strings.Contains(text, level) || !strings.Contains(text, "\ndone\n") || strings.Contains(text, "the agent re") {
				t.Errorf("got\n%s", text)
			}
			if data, _ := os.ReadFile(filepath.Join(top, "project", "greeting.txt")); string(data) != "Helo, world\n" {
				t.Errorf("the checkout has changed: %q", data)
			}
			if data, _ := os.ReadFile(filepath.Join(top, "results", "changes.diff")); !strings.Contains(string(data), "-Helo, world\n+Hello, world\n") {
				t.Errorf("got the diff\n%s", data)
			}
			if data, _ := os.ReadFile(filepath.Join(top, "results", "changes.json")); !strings.Contains(string(data), `"/greeting.txt"`) {
				t.Errorf("got\n%s", data)
			}
		})
	}
}
