package inbox

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/clearance/review"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/work/program"
)

func TestMain(m *testing.M) {
	if code, is := changes.Child(os.Args[1:], os.Stderr); is {
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
		"a tool of a server":         {tool.Request{Effects: effects(policy.Use)}, Medium, []string{"golem does not know what it does"}},
		"no effects":                 {tool.Request{}, Medium, []string{"golem does not know what it does"}},
		"a change":                   {tool.Request{Effects: effects(policy.Use), Changes: change()}, Low, nil},
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
		if got := IsBelow(test.top, test.dir); got != test.want {
			t.Errorf("IsBelow(%q, %q): got %v", test.top, test.dir, got)
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
	g, err := p.OpenWorker(program.WorkerOptions{Run: true})
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
		if err != nil || opened.Storage.Dir() != p.Storage.Dir() {
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

// TestHeldBackCommit checks that the inbox says that scanners hold a staged commit back, and
// that it does not print the secret.
func TestHeldBackCommit(t *testing.T) {
	top := t.TempDir()
	dir, key := filepath.Join(top, "proj"), "AKIA"+"Z7QF3WX5N2LPR4TB"
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"golem-forge.config.yaml": "sandbox: {root: ., mode: ro}\nclearance: {targets: {origin: {type: bare, path: ../store.git}}}\n",
		"main.worker":             "---\nsandbox: inherit\ntoolsets: [filesystem, git]\n---\nWork.\n",
		"leak.py":                 "key = \"" + key + "\"\n", "good.md": "good\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("git", "init", "-q", "--bare", filepath.Join(top, "store.git")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	o := program.Options{Dir: dir, State: t.TempDir(), Home: t.TempDir(), Environ: os.Environ(), Now: time.Now}
	p, err := program.Load(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Trust(); err != nil {
		t.Fatal(err)
	}
	g, err := p.OpenWorker(program.WorkerOptions{Run: true})
	if err != nil {
		t.Fatal(err)
	}
	for file, message := range map[string]string{"/leak.py": "Add " + key, "/good.md": "Add good.md"} {
		args, _ := json.Marshal(map[string]any{"files": []string{file}, "message": message})
		if got := g.Do(t.Context(), policy.User, tool.Call{Tool: "git_stage", Args: args}); got.Err != nil {
			t.Fatalf("%s: %v", file, got.Err)
		}
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	r := &Reader{Options: program.Options{State: o.State, Home: o.Home, Environ: o.Environ, Now: time.Now}, patience: time.Hour}
	for range 2 { // the second time from what the reader keeps
		items, problems, err := r.Items(t.Context())
		if err != nil || len(problems) > 0 || len(items) != 2 {
			t.Fatalf("got %+v, %+v, %v", items, problems, err)
		}
		const want = "held back by scanners in 1 file: secrets"
		if items[0].Risk != High || !slices.Contains(items[0].Reasons, want) || strings.Contains(items[0].Title, key) {
			t.Errorf("got %+v, want the reason %q and no key", items[0], want)
		}
		if len(items[1].Reasons) != 1 || !strings.Contains(items[1].Title, "good.md") {
			t.Errorf("got %+v", items[1])
		}
	}
}
