package main

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// exampleFiles holds the files that each example produces, with a part of their content.
var exampleFiles = map[string]map[string]string{
	"greeter":           {},
	"note-taker":        {"notes/ideas.md": "a lamp beside it"},
	"code-analyser":     {"out/findings.md": "one too far", "src/count.py": "i <= 3"},
	"orchestrator":      {"out/report.md": "240 m"},
	"document-pipeline": {"drafts/valve.md": "3 bar", "final/valve.md": "3 bar", "final/old.md": "Old"},
	"pdf-analyser":      {"out/pump.md": "1450"},
	"gray-zone":         {"out/report.md": "12 euros", "in/offer.txt": "12 euros"},
}

// example copies an example and returns a function that makes golem commands in the copy.
func example(t *testing.T, name string) (dir string, golem func(args ...string) *exec.Cmd) {
	t.Helper()
	dir, state := filepath.Join(t.TempDir(), name), t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("../../examples", name))); err != nil {
		t.Fatal(err)
	}
	return dir, func(args ...string) *exec.Cmd {
		cmd := exec.Command("golem", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOLEM_STATE="+state)
		return cmd
	}
}

// TestExamples runs every example as its README describes. TestClients runs the examples
// with a package.json, which are programs in another language. TestCI runs the script of
// ci. hub has files for operators, and no program.
func TestExamples(t *testing.T) {
	folders, err := os.ReadDir("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	folders = slices.DeleteFunc(folders, func(f os.DirEntry) bool {
		_, err := os.Stat(filepath.Join("../../examples", f.Name(), "package.json"))
		return !f.IsDir() || err == nil || slices.Contains([]string{"ci", "hub", "embed"}, f.Name())
	})
	if len(folders) != len(exampleFiles) {
		t.Errorf("%d examples, and %d are known here", len(folders), len(exampleFiles))
	}
	for _, f := range folders {
		t.Run(f.Name(), func(t *testing.T) {
			t.Parallel()
			dir, golem := example(t, f.Name())
			page, err := os.ReadFile(filepath.Join(dir, "README.md"))
			if err != nil {
				t.Fatal(err)
			}
			if want := "golem trust -C examples/" + f.Name() + "\n    golem run examples/" + f.Name() + " "; !strings.Contains(string(page), want) {
				t.Errorf("its README does not say %s", want)
			}
			run := []string{"run", ".", "Do it", "--model", "scripted:demo.yaml", "--approval", "approve_all"}
			for _, args := range [][]string{{"lint"}, {"trust", "--yes"}, run, {"audit", "verify"}, run} { // a user can run an example twice
				if out, err := golem(args...).CombinedOutput(); err != nil {
					t.Fatalf("golem %s: %v\n%s", strings.Join(args, " "), err, out)
				}
			}
			for name, part := range exampleFiles[f.Name()] {
				text, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil || !strings.Contains(string(text), part) {
					t.Errorf("%s: %v, %q", name, err, text)
				}
			}
		})
	}
}

// TestExampleCases runs golem eval over the cases of every example. The cases change no
// file of it.
func TestExampleCases(t *testing.T) {
	for name := range exampleFiles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, golem := example(t, name)
			if out, err := golem("trust", "--yes").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			before := listing(t, dir)
			out, err := golem("eval", "--json").Output()
			var result struct {
				Passed, Failed int
			}
			if err != nil || json.Unmarshal(out, &result) != nil || result.Passed == 0 || result.Failed > 0 {
				t.Errorf("%v\n%s", err, out)
			}
			if after := listing(t, dir); !maps.Equal(before, after) {
				t.Errorf("the cases changed files:\n%v\n%v", before, after)
			}
		})
	}
}

// listing returns the content of all files in a directory by their names. The content of a
// directory is "".
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			files[name] = ""
			return err
		}
		data, err := os.ReadFile(name)
		files[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
