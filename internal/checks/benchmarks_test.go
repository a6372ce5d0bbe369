package checks_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBenchmarks compares the pages that quote results of make bench with the results, and
// checks that the program that writes them notices a difference.
func TestBenchmarks(t *testing.T) {
	program := filepath.Join(t.TempDir(), "benchpage")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", program, "./benchpage")
	build.Dir = "tools"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir := "."
	benchpage := func(input string, args ...string) (string, error) {
		cmd := exec.Command(program, args...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(input)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := benchpage("", "check"); err != nil {
		t.Fatal(out)
	}
	// The rest works in a copy.
	dir = t.TempDir()
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/*.json", "docs/bench/*.svg"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatal(pattern, err)
		}
		for _, name := range names {
			writeCopy(t, name, filepath.Join(dir, name))
		}
	}
	const page, row = "docs/benchmarks.md", "| judge git status | 7.77 µs | 9.99 µs a peer | 0.78× | 50 µs | yes |\n"
	const output = "== command\n\n| work | ours | peer | ratio | target | ok? |\n| ---- | ---- | ---- | ---- | ---- | --- |\n"
	must := func(input string, args ...string) {
		t.Helper()
		if out, err := benchpage(input, args...); err != nil {
			t.Fatal(out)
		}
	}
	refuse := func(want string, args ...string) {
		t.Helper()
		if out, err := benchpage("", args...); err == nil || !strings.Contains(out, want) {
			t.Fatalf("got %q, want an error with %q", out, want)
		}
	}
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	must("", "check")
	must(output+row+"\ntargets met: 1 of 1\n", "add", "-with", "a peer 1.0", "command")
	refuse("differs from docs/benchmarks.json", "check")
	must("", "write")
	must("", "check")
	for name, want := range map[string]string{page: "| judge git status | 7.77 µs | 9.99 µs a peer | 0.78× | 50 µs | yes |", "docs/bench/command.svg": "9.99 µs (0.78×)"} {
		if !strings.Contains(read(name), want) {
			t.Errorf("%s lacks %q", name, want)
		}
	}
	must(output+"| a new row | 3 s | | | 1 s | NO |\n", "add", "command")
	refuse("command: a new row", "write")
	must(output+row, "add", "command")
	must("", "write")
	typed := read(page) + "\nIt takes 5 ms.\n"
	if err := os.WriteFile(filepath.Join(dir, page), []byte(typed), 0o666); err != nil {
		t.Fatal(err)
	}
	refuse("a figure outside of the markers", "check")
}

func writeCopy(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o777)
	}
	if err == nil {
		err = os.WriteFile(to, data, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}
