package evaluation

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/overlay"
	"github.com/golem-forge/golem/internal/work/run"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/internal/work/strictyaml"
)

func TestParse(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.pdf"), []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := Parse("eval.yaml", dir, []byte(`program: sub
model: scripted:demo.yaml
approve: [write_file]
budget: {turns: 3, time: 2m}
cases:
  - name: one
    input: Do it
    attach: [a.pdf]
    expect: {answer: yes.*, files: [/out/a.md, {path: /out/b.md, has: [b, c], lacks: d}], only: []}
  - {name: two, model: "ollama:x", approve: true, entry: child, budget: {cost: 0.5}, expect: {end: budget}}
`))
	if err != nil {
		t.Fatal(err)
	}
	one, two := f.Cases[0], f.Cases[1]
	if f.Program != filepath.Join(dir, "sub") || one.Model != "scripted:"+filepath.Join(dir, "demo.yaml") || one.Budget.Turns != 3 || one.Budget.Budget.Minutes() != 2 ||
		!slices.Equal(one.Approve.Tools, []string{"write_file"}) || one.Approve.All || len(one.Attach) != 1 || filepath.Base(one.Attach[0]) != "a.pdf" {
		t.Errorf("got %+v in %s", one, f.Program)
	}
	if e := one.Expect; e.End != run.Finished || len(e.Answer) != 1 || len(e.Files) != 2 || e.Files[0].Path != "/out/a.md" || len(e.Files[1].Has) != 2 || len(e.Files[1].Lacks) != 1 || e.Only == nil || len(e.Only) != 0 {
		t.Errorf("got %+v", e)
	}
	if two.Model != "ollama:x" || !two.Approve.All || two.Entry != "child" || two.Budget.Turns != 0 || two.Budget.Cost != 0.5 || two.Expect.End != run.Spent || two.Expect.Only != nil {
		t.Errorf("got %+v", two)
	}
	if chosen, err := f.Choose([]string{"two"}); err != nil || len(chosen) != 1 || chosen[0].Name != "two" {
		t.Errorf("got %v, %v", chosen, err)
	}
	if _, err := f.Choose([]string{"three"}); err == nil || !strings.Contains(err.Error(), "there are one, two") {
		t.Errorf("got %v", err)
	}
}

func TestParseProblems(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "key"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(other, "key"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"model: x":                                        "eval.yaml:1:1: no cases",
		"cases: [{input: a}]":                             "a case without a name",
		"cases: [{name: a}, {name: a}]":                   "eval.yaml:1:20: two cases named a, the other is at eval.yaml:1",
		"cases: [{name: a, expects: {}}]":                 "did you mean expect?",
		"cases: [{name: a, expect: {answer: '('}}]":       "answer: error parsing regexp",
		"cases: [{name: a, expect: {end: paused}}]":       "it is finished, budget, loop, refused or failed",
		"cases: [{name: a, expect: {files: [notes.md]}}]": "write it as workers see it",
		"cases: [{name: a, expect: {files: [{path: /a, deleted: true, has: x}]}}]": "is deleted, and has content",
		"cases: [{name: a, attach: [../key]}]":                                     "name a file in the directory of this file",
		"cases: [{name: a, attach: [link]}]":                                       "it is a symlink to a file elsewhere",
		"cases: [{name: a, attach: [none]}]":                                       "there is no such file",
		"cases: [{name: a, budget: {turns: -1}}]":                                  "budget.turns: -1; it is a whole number",
		"cases: &a []": "an anchor",
	} {
		_, err := Parse("eval.yaml", dir, []byte(text))
		var problems strictyaml.Problems
		if !errors.As(err, &problems) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v\nwant %s", text, err, want)
		}
	}
}

func TestCheck(t *testing.T) {
	changes := []session.FileChange{{Path: "/out/a.md", Op: overlay.Create}, {Path: "/out/old.md", Op: overlay.Delete}, {Path: "/src/x/y.go", Op: overlay.Modify}}
	o := Observed{Outcome: run.Outcome{Text: "I wrote a.md\x1b[2J", End: run.Finished}, Changes: changes,
		Called: map[string]bool{"write_file": true}, Refused: map[string]bool{"shell": true},
		Read: func(path string) ([]byte, bool) { return []byte("content of " + path), path == "/out/a.md" }}
	for text, want := range map[string]string{
		"{}":                      "",
		"{answer: a.md}":          "",
		"{answer: [wrote, b.md]}": `the answer does not match "b.md": I wrote a.md\x1b[2J`,
		"{answer_lacks: wrote}":   `the answer matches "wrote"`,
		"{end: budget}":           "the run ended as finished, not as budget",
		"{files: [/out/a.md, {path: /out/old.md, deleted: true}]}": "",
		"{files: [/out/b.md]}":                         "/out/b.md did not change",
		"{files: [/out/old.md]}":                       "/out/old.md was deleted",
		"{files: [{path: /out/a.md, deleted: true}]}":  "/out/a.md was not deleted",
		"{files: [{path: /out/a.md, has: content}]}":   "",
		"{files: [{path: /out/a.md, has: [x, zz]}]}":   `/out/a.md does not match "x"|/out/a.md does not match "zz"`,
		"{files: [{path: /out/a.md, lacks: content}]}": `/out/a.md matches "content"`,
		"{files: [{path: /src/x/y.go, has: content}]}": "/src/x/y.go has no content that golem can read",
		"{only: [/out, /src]}":                         "",
		"{only: [/out/*.md, '*.go']}":                  "",
		"{only: [/out/**], files: [/src/x/y.go]}":      "",
		"{only: [/out]}":                               "/src/x/y.go changed: it is not among the files that may change",
		"{only: []}":                                   "/out/a.md changed: it is not among|/out/old.md changed: it is not among|/src/x/y.go changed: it is not among",
		"{unchanged: [/src]}":                          "/src/x/y.go changed: it must stay as it is",
		"{unchanged: [/sr, /src/*.go, '/out/?.txt']}":  "",
		"{unchanged: ['/**/y.go']}":                    "/src/x/y.go changed: it must stay",
		"{called: [write_file, read_file]}":            "no call of read_file was done",
		"{refused: [shell, write_file]}":               "no call of write_file was refused",
		"{not_called: [read_file]}":                    "",
		"{not_called: [shell, write_file]}":            "shell was called|write_file was called",
	} {
		f, err := Parse("eval.yaml", ".", []byte("cases: [{name: a, expect: "+text+"}]"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got := f.Cases[0].Expect.Check(o)
		var wants []string
		if want != "" {
			wants = strings.Split(want, "|")
		}
		if len(got) != len(wants) || !slices.EqualFunc(got, wants, func(g, w string) bool { return strings.Contains(g, w) }) {
			t.Errorf("%s: got %q, want %q", text, got, wants)
		}
	}
}

// TestAsker checks that a case approves only the calls that it names, and none with an
// effect outside the session.
func TestAsker(t *testing.T) {
	write := []policy.Effect{{Verb: policy.Write, Target: "/a"}}
	runs := []policy.Effect{{Verb: policy.Run, Target: "make"}}
	for _, test := range []struct {
		name    string
		approve Approve
		request tool.Request
		want    tool.Verdict
	}{
		{"named", Approve{Tools: []string{"write_file"}}, tool.Request{Tool: "write_file", ToApprove: write}, tool.Approved},
		{"other", Approve{Tools: []string{"write_file"}}, tool.Request{Tool: "delete_file", ToApprove: write}, tool.Declined},
		{"none", Approve{}, tool.Request{Tool: "write_file", ToApprove: write}, tool.Declined},
		{"all", Approve{All: true}, tool.Request{Tool: "shell", ToApprove: runs}, tool.Approved},
		{"command with network", Approve{All: true}, tool.Request{Tool: "shell", ToApprove: runs, Network: true}, tool.Declined},
		{"command with hosts", Approve{All: true}, tool.Request{Tool: "shell", Effects: runs, ToApprove: write, Hosts: []string{"example.org"}}, tool.Declined},
		{"host", Approve{All: true}, tool.Request{Tool: "web_fetch", ToApprove: []policy.Effect{{Verb: policy.Connect, Target: "example.org"}}}, tool.Declined},
		{"clears", Approve{All: true}, tool.Request{Tool: "git_push", OnlyUser: true}, tool.Declined},
	} {
		test.request.Digest = strings.Repeat("0123456789abcdef", 4)
		if got := (asker{test.approve}).Ask(context.Background(), test.request); got.Verdict != test.want || got.By != "eval" || got.Unattended {
			t.Errorf("%s: got %+v", test.name, got)
		}
	}
}

// TestDocs checks that docs/eval.md has every key of the schema, with its text.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../../docs/eval.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	var check func(prefix string, keys []strictyaml.Key)
	check = func(prefix string, keys []strictyaml.Key) {
		for _, k := range keys {
			if slices.Contains([]string{"cases[].model", "cases[].entry", "cases[].approve", "cases[].budget"}, prefix+k.Name) {
				continue // the same as of all cases
			}
			text := k.Doc
			if k.Default != "" {
				text += " Default: " + k.Default + "."
			}
			name := strings.TrimPrefix(prefix, "cases[].expect.")
			if name != prefix {
				name = "expect." + name
			}
			row := "| `" + name + k.Name + "` | " + text + " |\n"
			if rows++; !strings.Contains(string(page), row) {
				t.Errorf("docs/eval.md lacks %s", row)
			}
			next := prefix + k.Name + "."
			if k.Type == strictyaml.Groups {
				next = prefix + k.Name + "[]."
			}
			check(next, k.Keys)
		}
	}
	check("", Schema().Keys)
	if got := strings.Count(string(page), "\n| `"); got != rows {
		t.Errorf("docs/eval.md has %d rows, and the schema %d keys", got, rows)
	}
}
