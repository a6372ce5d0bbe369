package checks_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
)

// A wing is a directory of packages that belong together.
type wing struct {
	dir   string
	lines int // how many it may have, without tests
	what  string
}

// wings are all directories with packages. The numbers only go down: see TestSize. If a new
// feature needs more lines, raise the number in a commit of its own that says why.
var wings = []wing{
	{".", 1113, "the public package golem: workspaces, workers and models for other programs"},
	{"gate", 1617, "the public package gate: tools, rules, approvals and a journal for other programs"},
	{"sandbox", 10865, "the public package sandbox: file access for workers"},
	{"internal/files", 14547, "files that change: overlays of commands and sessions, apply, undo, merging, sending to other machines"},
	{"internal/jail", 22325, "commands that run: confinement, network, keys, settings of agents"},
	{"internal/decide", 15466, "who may do what: policy, tools and their gate, approval, trust, untrusted content"},
	{"internal/work", 47290, "programs and workers: configuration, sessions, runs, models, tools"},
	{"internal/clearance", 15771, "the way out: staging, scanning, review, git"},
	{"internal/records", 8957, "what golem keeps: state, journal, secrets, sizes"},
	{"internal/people", 9626, "what a person sees and answers: text, terminal, editor, inbox"},
	{"internal/hub", 6772, "work on many machines"},
	{"internal/front", 37226, "the ways in: command line, full screen, browser, MCP, hub"},
	{"internal/checks", 1098, "tests of the architecture, the documents and the releases; helpers for tests"},
	{"cmd", 1580, "the programs: golem, golem-hub, and the one for browsers"},
	{"web", 100, "the npm package for browsers, and its tests"},
	{"examples", 459, "programs that use the public packages"},
}

// sizeSlack is how far a wing may shrink before its number must follow.
const sizeSlack = 100

// TestSize compares the wings with their numbers.
func TestSize(t *testing.T) {
	for _, w := range wings {
		switch n, err := countCode(os.DirFS(w.dir), w.dir == "."); {
		case err != nil:
			t.Error(err)
		case n > w.lines:
			t.Errorf("%s has %d lines without tests, and may have %d: remove %d, or raise the number in wings_test.go in a commit of its own that says why", w.dir, n, w.lines, n-w.lines)
		case n < w.lines-sizeSlack:
			t.Errorf("%s has %d lines without tests now: write that number in wings_test.go, where %d stands", w.dir, n, w.lines)
		}
	}
}

// TestWingsAreAll checks that every package is in a wing.
func TestWingsAreAll(t *testing.T) {
	for _, l := range layers {
		if wingOf(l.pkg) == "" {
			t.Errorf("%s is in no wing of wings_test.go", l.pkg)
		}
	}
}

// wingOf returns the directory of the wing that has a package, "" if there is none.
func wingOf(pkg string) string {
	for _, w := range wings {
		if pkg == w.dir || w.dir != "." && strings.HasPrefix(pkg, w.dir+"/") {
			return w.dir
		}
	}
	return ""
}

// countCode counts the lines of the Go files without tests and test data; if flat is true,
// without those in directories.
func countCode(files fs.FS, flat bool) (lines int, err error) {
	err = fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || flat && name != "."):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(files, name)
		lines += bytes.Count(text, []byte("\n"))
		return err
	})
	return lines, err
}

// listWings returns a table of the wings, in the order in which a newcomer reads them.
func listWings() string {
	var b strings.Builder
	b.WriteString("| wing | holds | lines |\n|---|---|---|\n")
	for _, w := range wings {
		lines := "under 1,000"
		if w.lines >= 1000 {
			lines = fmt.Sprintf("%d,000", (w.lines+500)/1000)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", shortName(w.dir), w.what, lines)
	}
	return b.String()
}
