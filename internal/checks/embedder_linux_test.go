package checks_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestEmbedder builds a program in another module, which imports the three public packages, and
// runs it. It tries to get out of a directory by every file tool and by a command. The table of
// attacks passes through the gate there, too.
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
	files := map[string]string{
		"go.mod":  "module example.com/embedder\n" + requires + "\nrequire github.com/golem-forge/golem v0.0.0-00010101000000-000000000000\n\nreplace github.com/golem-forge/golem => " + here + "\n",
		"go.sum":  read(t, "go.sum"),
		"main.go": read(t, "internal/checks/testdata/embedder/main.go"),

		"gate_test.go": strings.Replace(read(t, "gate/attack_test.go"), "package gate_test", "package main", 1),
	}
	for _, example := range []string{"hunk", "service", "web"} {
		files[example+"/main.go"] = read(t, "examples/embed/"+example+"/main.go")
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The module alone finds every package. The build has a workspace, in which the packages of golem
	// are those that the other tests have compiled.
	alone, workspace := []string{"GOFLAGS=-mod=mod", "GOWORK=off"}, []string{"GOFLAGS=-trimpath", "GOWORK=" + filepath.Join(dir, "go.work")}
	run(t, dir, alone, "go", "list", "-deps", "-test", "./...")
	run(t, dir, workspace, "go", "work", "init", ".", here)
	run(t, dir, workspace, "go", "build", "-o", "bin/", "./...")
	if out := run(t, dir, workspace, "go", "test", "-count=1", "-vet=off", "."); !strings.Contains(out, "ok ") {
		t.Errorf("the table of attacks on the gate: %s", out)
	}
	checkHunk(t, filepath.Join(dir, "bin", "hunk"))
	cmd := exec.Command(filepath.Join(dir, "bin", "embedder"), filepath.Join(dir, "top"))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TEST_SECRET=1"}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "nothing read or changed outside") {
		t.Errorf("%v\n%s", err, out)
	}
	t.Log(string(out))
	list := run(t, dir, alone, "go", "list", "-deps", "github.com/golem-forge/golem/gate")
	for _, module := range []string{"github.com/spf13/cobra", "github.com/nats-io", "bubbletea", "chromedp"} {
		if strings.Contains(list, module) {
			t.Errorf("a program with package gate links %s", module)
		}
	}
}

// checkHunk runs the example that applies one hunk after a yes, and counts the lines that it needs.
func checkHunk(t *testing.T, program string) {
	_, main, _ := strings.Cut(read(t, "examples/embed/hunk/main.go"), "\nfunc main() {\n")
	main, _, _ = strings.Cut(main, "\n}\n")
	if n := strings.Count(main, "\n") + 3; n >= 30 {
		t.Errorf("the example that applies a hunk has %d lines", n)
	}
	for answer, want := range map[string]string{"y\n": "one", "n\n": "1", "": "1"} {
		work := t.TempDir()
		if err := os.WriteFile(filepath.Join(work, "lines"), []byte("1\n2\n3\n4\n5\n6\n7\n8\n9\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(program, "lines", "sed", "-i", "s/1/one/; s/9/nine/", "lines")
		cmd.Dir, cmd.Stdin, cmd.Env = work, strings.NewReader(answer), []string{"PATH=" + os.Getenv("PATH"), "GOLEM_STATE=" + t.TempDir()}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "+ one") || strings.Contains(string(out), "nine") {
			t.Errorf("answered %q: %v\n%s", answer, err, out)
		}
		if text, err := os.ReadFile(filepath.Join(work, "lines")); err != nil || string(text) != want+"\n2\n3\n4\n5\n6\n7\n8\n9\n" {
			t.Errorf("answered %q: the file has %q, %v", answer, text, err)
		}
	}
}
