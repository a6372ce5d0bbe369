package inbox

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/program"
	"github.com/golem-forge/golem/internal/tool"
	"github.com/golem-forge/golem/internal/transaction"
)

func TestMain(m *testing.M) {
	if code, is := transaction.Child(os.Args[1:], os.Stderr); is {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// TestAssessRequest checks the risk of calls, and that each reason is given.
func TestAssessRequest(t *testing.T) {
	effects := func(verbs ...policy.Verb) (all []policy.Effect) {
		for _, v := range verbs {
			all = append(all, policy.Effect{Verb: v, Target: "/a"})
		}
		return all
	}
	change := func(flags ...review.Flag) []tool.Change { return []tool.Change{{Path: "/a", Flags: flags}} }
	hook := review.Flag{Kind: review.Becomes, Path: "Makefile", Risk: 85}
	deleted := review.Flag{Kind: review.Becomes, Path: "Makefile", Risk: 85, Deleted: true}
	for name, test := range map[string]struct {
		request tool.Request
		risk    Risk
		reasons []string
	}{
		"a write":                    {tool.Request{Effects: effects(policy.Write)}, Low, nil},
		"a command":                  {tool.Request{Effects: effects(policy.Run)}, Medium, []string{"runs a command"}},
		"a command with the network": {tool.Request{Effects: effects(policy.Run, policy.Connect), Network: true}, High, []string{"runs a command with the network on"}},
		"a host":                     {tool.Request{Effects: effects(policy.Connect)}, Medium, []string{"connects to a host"}},
		"a deletion":                 {tool.Request{Effects: effects(policy.Delete)}, Medium, []string{"deletes files"}},
		"a file that loses its text": {tool.Request{Effects: effects(policy.Write), Changes: []tool.Change{{Path: "/a", Empties: true}}}, Medium, []string{"deletes files"}},
		"what the user trusts":       {tool.Request{OnlyUser: true}, High, []string{"changes what you trust"}},
		"taint":                      {tool.Request{Taint: "/in/\x1b[2J"}, High, []string{`the worker has read "/in/\x1b[2J", which is untrusted`}},
		"unknown changes":            {tool.Request{Problem: "too large"}, Medium, []string{"the changes are not known"}},
		"warnings":                   {tool.Request{Warnings: []string{"a"}, MoreWarnings: 2}, Medium, []string{"3 warnings"}},
		"code":                       {tool.Request{Changes: change(hook, hook)}, High, []string{"1 file becomes code"}},
		"two files of code":          {tool.Request{Changes: change(hook, review.Flag{Kind: review.Becomes, Path: "run.sh", Risk: 85})}, High, []string{"2 files become code"}},
		"code that is deleted":       {tool.Request{Changes: change(deleted)}, Medium, []string{"1 warning"}},
		"text in another order":      {tool.Request{Changes: change(review.Flag{Kind: review.Bidi, Path: "a", Risk: 95})}, High, []string{"1 warning"}},
		"a large file":               {tool.Request{Changes: change(review.Flag{Kind: review.Large, Path: "a", Risk: 40})}, Medium, []string{"1 warning"}},
		"several reasons":            {tool.Request{Effects: effects(policy.Run), Taint: "/in"}, High, []string{"the worker has read /in, which is untrusted", "runs a command"}},
	} {
		got := assessRequest(test.request)
		if got.risk != test.risk || !slices.Equal(got.reasons, test.reasons) {
			t.Errorf("%s: got %s, %q, want %s, %q", name, got.risk, got.reasons, test.risk, test.reasons)
		}
		if text := strings.Join(got.reasons, ""); strings.ContainsRune(text, '\x1b') {
			t.Errorf("%s: an escape sequence in %q", name, text)
		}
	}
}

// TestIsBelow checks which directories belong to a session's directory.
func TestIsBelow(t *testing.T) {
	for _, test := range []struct {
		top, dir string
		want     bool
	}{
		{"/a", "/a", true}, {"/a", "/a/b", true}, {"/", "/a", true}, {"/a", "/ab", false}, {"/a/b", "/a", false}, {"/a", "/a/../b", false}, {"/a", "a", false},
	} {
		if got := isBelow(test.top, test.dir); got != test.want {
			t.Errorf("isBelow(%q, %q): got %v", test.top, test.dir, got)
		}
	}
}

// TestItems checks what waits after a call without a terminal, and after its directory was
// removed.
func TestItems(t *testing.T) {
	dir, hostile := t.TempDir(), "a\u202e\x1b[2Jb.txt"
	for name, text := range map[string]string{
		"golem-forge.config.yaml": "sandbox:\n  mounts:\n    - {source: ./out, target: /out}\n",
		"main.worker":             "---\nsandbox: inherit\ntoolsets: [filesystem]\n---\nWork.\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "out"), 0o755); err != nil {
		t.Fatal(err)
	}
	o := program.Options{Dir: dir, State: t.TempDir(), Now: time.Now}
	p, err := program.Load(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Trust(); err != nil {
		t.Fatal(err)
	}
	g, err := p.OpenGate(program.GateOptions{Run: true})
	if err != nil {
		t.Fatal(err)
	}
	args, _ := json.Marshal(map[string]string{"path": "/out/" + hostile, "content": "x\n"})
	if got := g.Do(t.Context(), policy.Model, tool.Call{Tool: "write_file", Args: args}); got.Pending == nil {
		t.Fatalf("the call does not wait: %+v", got)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}

	r := &Reader{Options: program.Options{State: o.State, Now: time.Now}}
	for range 2 { // the second time from what the reader keeps
		items, problems, err := r.Items(t.Context())
		if err != nil || len(problems) > 0 || len(items) != 1 {
			t.Fatalf("got %+v, %+v, %v", items, problems, err)
		}
		item := items[0]
		if item.Kind != KindCall || item.Directory != dir || item.ID == "" || item.Since.IsZero() {
			t.Errorf("got %+v", item)
		}
		if !strings.Contains(item.Title, "write_file") || strings.ContainsAny(item.Title, "\x1b\u202e") {
			t.Errorf("title %q", item.Title)
		}
		opened, err := OpenProgram(r.Options, item.Program)
		if err != nil || opened.State() != p.State() {
			t.Errorf("OpenProgram: %v", err)
		}
	}
	if _, err := OpenProgram(r.Options, "../x"); err == nil {
		t.Error("OpenProgram accepts a name that no state directory has")
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	items, problems, err := r.Items(t.Context())
	if err != nil || len(items) > 0 || len(problems) != 1 || !strings.HasPrefix(problems[0].Text, "the directory is gone; ") {
		t.Errorf("without the directory: got %+v, %+v, %v", items, problems, err)
	}
}
