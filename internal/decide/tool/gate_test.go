package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/sandbox"
)

// A journal keeps records in memory. The real one has its own tests.
type journal struct {
	mu      sync.Mutex
	records []audit.Record
	broken  func(audit.Record) error
}

func (j *journal) Write(r audit.Record, wait audit.Wait) error {
	if wait < r.Least() {
		return errors.New("the journal is not waited for")
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil {
		if err := j.broken(r); err != nil {
			return err
		}
	}
	j.records = append(j.records, r)
	return nil
}

func (j *journal) kinds() string {
	var kinds []string
	for _, r := range j.records {
		kinds = append(kinds, string(r.Kind)+":"+r.Decision+":"+r.Code)
	}
	return strings.Join(kinds, " ")
}

type approver func(tool.Request) tool.Answer

func (a approver) Approve(_ context.Context, r tool.Request) tool.Answer { return a(r) }

func approveAll(r tool.Request) tool.Answer {
	return tool.Answer{Verdict: tool.Approved, By: "user", Seen: r.FollowRule()}
}

type pathArgs struct {
	Path string `json:"path" jsonschema:"the file"`
	N    int    `json:"n,omitempty" jsonschema:"a number" default:"7" minimum:"1"`
	Kind string `json:"kind,omitempty" jsonschema:"one of two" enum:"a,b"`
}

// newEffectTool returns a tool that declares effects on its path and calls do.
func newEffectTool(name string, mode policy.Mode, verbs []policy.Verb, do func(*sandbox.Sandbox, string) error) tool.Tool {
	t := tool.Tool{Name: name, Toolset: "filesystem", Mode: mode, Verbs: verbs, Description: "test"}
	return tool.New(t, func(_ context.Context, _ tool.Names, a pathArgs) (tool.Plan, error) {
		var effects []policy.Effect
		for _, v := range verbs {
			effects = append(effects, policy.Effect{Verb: v, Target: a.Path})
		}
		run := func(_ context.Context, files *sandbox.Sandbox) (tool.Result, error) {
			return tool.Result{Text: fmt.Sprint("done ", a.N)}, do(files, a.Path)
		}
		return tool.NewChangePlan(func(context.Context, *sandbox.Sandbox) (tool.Preparation, error) {
			return tool.NewPreparation(run, tool.Change{Path: a.Path, Op: tool.Update, Diff: "-old\n+new\n"}), nil
		}, effects...), nil
	})
}

func writeFile(s *sandbox.Sandbox, path string) error {
	_, err := s.Write(path, []byte("new"))
	return err
}
func readFile(s *sandbox.Sandbox, path string) error   { _, err := s.Read(path); return err }
func removeFile(s *sandbox.Sandbox, path string) error { return s.Delete(path) }

type room struct {
	tool.Gate
	files   *sandbox.Memory
	journal *journal
}

// newRoom returns a gate with a.md and b.md in /out, and x.md in /in, which is read-only.
func newRoom(t *testing.T, rules []policy.Rule, tools ...tool.Tool) *room {
	t.Helper()
	m := sandbox.NewMemory(map[string]sandbox.Object{"a.md": {Content: "old"}, "b.md": {Content: "old"}, "sub/c.md": {Content: "old"}})
	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{
		{Target: "/out", Backend: m, Access: sandbox.ReadWrite},
		{Target: "/in", Backend: sandbox.NewMemory(map[string]sandbox.Object{"x.md": {Content: "x"}}), Access: sandbox.ReadOnly},
	}})
	if err != nil {
		t.Fatal(err)
	}
	files := policy.AllFiles().With(sandbox.Limit{Path: "/out", Access: sandbox.ReadWrite}, sandbox.Limit{Path: "/in", Access: sandbox.ReadOnly})
	j := &journal{}
	return &room{tool.Gate{Tools: tools, Files: s, Journal: j, Approver: approver(approveAll), Workers: []string{"main", "sub"},
		Grant: policy.Grant{Files: files, Tools: policy.SetOf("filesystem"), Approvals: policy.Approvals{}.With(rules...)}}, m, j}
}

func (r *room) call(origin policy.Origin, name, args string) tool.Result {
	return r.Do(context.Background(), origin, tool.Call{Tool: name, Args: []byte(args)})
}

func (r *room) unchanged(t *testing.T) {
	t.Helper()
	want := map[string]string{"a.md": "old", "b.md": "old", "sub/c.md": "old"}
	got := r.files.Files()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("files: got %v, want %v", got, want)
	}
}

var (
	write1 = []policy.Verb{policy.Write}
	read1  = []policy.Verb{policy.Read}
)

// TestCallRunsOnce checks that an allowed call runs once, with an intent before it and an outcome
// after it.
func TestCallRunsOnce(t *testing.T) {
	runs := 0
	r := newRoom(t, nil)
	r.Tools = []tool.Tool{newEffectTool("put", policy.Both, write1, func(s *sandbox.Sandbox, p string) error {
		runs++
		if got := r.journal.kinds(); got != "intent:yes:" {
			t.Errorf("journal at the time of the effect: got %q, want the intent", got)
		}
		return writeFile(s, p)
	})}
	got := r.call(policy.Model, "put", `{"path": "/out/a.md"}`)
	if !got.OK() || runs != 1 || r.files.Files()["a.md"] != "new" || got.Text != "done 7" {
		t.Errorf("got %+v after %d runs, want it done once", got, runs)
	}
	if got := r.journal.kinds(); got != "intent:yes: outcome::" {
		t.Errorf("journal: got %q", got)
	}
	in, out := r.journal.records[0], r.journal.records[1]
	if in.Call == "" || in.Call != out.Call || in.By != "user" || len(in.Digest) != 64 || !slices.Equal(in.Effects, []string{"write /out/a.md"}) ||
		!slices.Equal(in.Workers, []string{"main", "sub"}) || in.Origin != "model" {
		t.Errorf("intent: got %+v", in)
	}
}

// TestRefusals checks each step that refuses: the code, that there is no effect, and that
// the journal has the refusal.
func TestRefusals(t *testing.T) {
	put := newEffectTool("put", policy.Both, write1, writeFile)
	for _, test := range []struct {
		name   string
		rules  []policy.Rule
		origin policy.Origin
		tool   string
		args   string
		code   sandbox.Code
		hint   string
	}{
		{"unknown", nil, policy.Model, "putt", `{}`, "unknown_tool", "did you mean put? there are put"},
		{"nobody", nil, policy.Nobody, "put", `{"path": "/out/a.md"}`, "blocked", "nobody"},
		{"manual by a model", nil, policy.Model, "push", `{"path": "/out/a.md"}`, "manual_only", "the user can run: golem tool push"},
		{"manual by a peer", nil, policy.Peer, "push", `{"path": "/out/a.md"}`, "manual_only", "the user can run: golem tool push"},
		{"llm by the user", nil, policy.User, "think", `{"path": "/out/a.md"}`, "blocked", "user"},
		{"another case", nil, policy.Model, "put", `{"Path": "/out/a.md"}`, "invalid_args", "did you mean path?"},
		{"unknown key", nil, policy.Model, "put", `{"path": "/out/a.md", "approved": true}`, "invalid_args", `unknown argument approved`},
		{"twice", nil, policy.Model, "put", `{"path": "/out/a.md", "path": "/out/b.md"}`, "invalid_args", "path appears twice"},
		{"escaped twice", nil, policy.Model, "put", `{"path": "/out/a.md", "p\u0061th": "/out/b.md"}`, "invalid_args", "path appears twice"},
		{"missing", nil, policy.Model, "put", `{}`, "invalid_args", "path is missing"},
		{"kind", nil, policy.Model, "put", `{"path": 3}`, "invalid_args", "path: want a string, got an integer"},
		{"null", nil, policy.Model, "put", `{"path": null}`, "invalid_args", "path: want a string, got null"},
		{"least", nil, policy.Model, "put", `{"path": "/out/a.md", "n": 0}`, "invalid_args", "n: want at least 1"},
		{"fraction", nil, policy.Model, "put", `{"path": "/out/a.md", "n": 1.5}`, "invalid_args", "n: want an integer"},
		{"huge", nil, policy.Model, "put", `{"path": "/out/a.md", "n": 99999999999999999999}`, "invalid_args", "n: "},
		{"enum", nil, policy.Model, "put", `{"path": "/out/a.md", "kind": "c"}`, "invalid_args", "kind: want one of a, b"},
		{"list", nil, policy.Model, "put", `[]`, "invalid_args", "want an object, got an array"},
		{"no JSON", nil, policy.Model, "put", `{"path": `, "invalid_args", "ends too early"},
		{"two values", nil, policy.Model, "put", `{"path": "/out/a.md"} {}`, "invalid_args", "one JSON object"},
		{"deep", nil, policy.Model, "put", strings.Repeat("[", 100_000), "invalid_args", "levels deep"},
		{"not UTF-8", nil, policy.Model, "put", "{\"path\": \"/out/\xff\"}", "invalid_args", "UTF-8"},
		{"large", nil, policy.Model, "put", `{"path": "` + strings.Repeat("a", 17<<20) + `"}`, "invalid_args", "at most 16777216 are allowed"},
		{"blocked", []policy.Rule{{Verb: policy.Write, Target: "/out", Approval: policy.Blocked, From: "x:1"}}, policy.Model, "put", `{"path": "/out/a.md"}`, "blocked", "no approval changes that"},
		{"blocked tool", []policy.Rule{{Verb: policy.Use, Target: "put", Approval: policy.Blocked}}, policy.Model, "put", `{"path": "/out/a.md"}`, "blocked", "no approval"},
		{"not its files", nil, policy.Model, "put", `{"path": "/in/x.md"}`, "blocked", "not among"},
		{"no name", nil, policy.Model, "put", `{"path": "../x"}`, "blocked", "not a name"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRoom(t, test.rules, put, newEffectTool("push", policy.Manual, write1, writeFile), newEffectTool("think", policy.LLM, write1, writeFile))
			r.Approver = approver(func(q tool.Request) tool.Answer {
				t.Errorf("golem asked: %+v", q)
				return approveAll(q)
			})
			got := r.call(test.origin, test.tool, test.args)
			if got.Err == nil || got.Err.Code != test.code || !strings.Contains(got.Err.Error(), test.hint) {
				t.Errorf("got %v, want %s and %q", got.Err, test.code, test.hint)
			}
			if len(got.String()) > 2000 || !strings.HasPrefix(got.String(), "Error: ") {
				t.Errorf("text: got %d bytes: %.80s", len(got.String()), got.String())
			}
			r.unchanged(t)
			if got := r.journal.records; len(got) != 1 || got[0].Kind != audit.Refusal || got[0].Code != string(test.code) {
				t.Errorf("journal: got %+v, want one refusal", got)
			}
		})
	}
}

// TestBlockedBeforeApproval checks that no approval mode lets a model use a manual tool,
// or lets anybody do what is blocked.
func TestBlockedBeforeApproval(t *testing.T) {
	rules := []policy.Rule{{Verb: policy.Write, Target: "/out", Approval: policy.Blocked}}
	r := newRoom(t, rules, newEffectTool("put", policy.Both, write1, writeFile), newEffectTool("push", policy.Manual, read1, readFile))
	for _, origin := range []policy.Origin{policy.Model, policy.Peer, policy.User} {
		if got := r.call(origin, "put", `{"path": "/out/a.md"}`); got.Err == nil || got.Err.Code != "blocked" {
			t.Errorf("put by %v: got %+v, want blocked", origin, got)
		}
	}
	if got := r.call(policy.User, "push", `{"path": "/out/a.md"}`); !got.OK() {
		t.Errorf("push by the user: got %v", got.Err)
	}
	r.unchanged(t)
}

// TestLyingPlans checks that a plan can do only what it declared.
func TestLyingPlans(t *testing.T) {
	for name, lie := range map[string]tool.Tool{
		"writes where it said it reads":       newEffectTool("lie", policy.Both, read1, writeFile),
		"deletes where it said it reads":      newEffectTool("lie", policy.Both, read1, removeFile),
		"deletes where it said it writes":     newEffectTool("lie", policy.Both, write1, removeFile),
		"writes where it said it deletes":     newEffectTool("lie", policy.Both, []policy.Verb{policy.Delete}, writeFile),
		"writes elsewhere":                    newEffectTool("lie", policy.Both, write1, func(s *sandbox.Sandbox, _ string) error { return writeFile(s, "/out/b.md") }),
		"reads elsewhere":                     newEffectTool("lie", policy.Both, read1, func(s *sandbox.Sandbox, _ string) error { return readFile(s, "/out/b.md") }),
		"writes above":                        newEffectTool("lie", policy.Both, write1, func(s *sandbox.Sandbox, _ string) error { return writeFile(s, "/out/c.md") }),
		"moves away":                          newEffectTool("lie", policy.Both, write1, func(s *sandbox.Sandbox, p string) error { return s.Move(p, "/out/z.md") }),
		"declares nothing and reads":          newEffectTool("lie", policy.Both, nil, readFile),
		"declares nothing and writes":         newEffectTool("lie", policy.Both, nil, writeFile),
		"reads a file above what it declared": newEffectTool("lie", policy.Both, read1, func(s *sandbox.Sandbox, _ string) error { return readFile(s, "/in/x.md") }),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoom(t, nil, lie)
			got := r.call(policy.Model, "lie", `{"path": "/out/a.md"}`)
			if got.OK() {
				t.Error("the call succeeded")
			}
			r.unchanged(t)
			if kinds := r.journal.kinds(); !strings.HasPrefix(kinds, "intent:") || !strings.Contains(kinds, "outcome::"+string(got.Err.Code)) {
				t.Errorf("journal: got %q", kinds)
			}
		})
	}
}

// TestPreparingChangesNothing checks that prepare cannot change anything, and sees only
// the files of the effects.
func TestPreparingChangesNothing(t *testing.T) {
	var tried []error
	note := func(err error) { tried = append(tried, err) }
	sly := tool.New(tool.Tool{Name: "sly", Toolset: "filesystem", Mode: policy.Both}, func(_ context.Context, _ tool.Names, a pathArgs) (tool.Plan, error) {
		return tool.NewChangePlan(func(_ context.Context, s *sandbox.Sandbox) (tool.Preparation, error) {
			note(writeFile(s, "/out/a.md"))
			note(removeFile(s, "/out/a.md"))
			note(readFile(s, "/out/b.md"))
			if err := readFile(s, "/out/a.md"); err != nil {
				t.Errorf("preparing cannot read its own file: %v", err)
			}
			return tool.NewPreparation(func(context.Context, *sandbox.Sandbox) (tool.Result, error) { return tool.Result{}, nil }), nil
		}, policy.Effect{Verb: policy.Write, Target: "/out/a.md"}), nil
	})
	r := newRoom(t, nil, sly)
	if got := r.call(policy.Model, "sly", `{"path": "x"}`); !got.OK() || len(tried) != 3 {
		t.Fatalf("got %+v after %d tries", got, len(tried))
	}
	for i, err := range tried {
		if err == nil {
			t.Errorf("try %d succeeded", i)
		}
	}
	r.unchanged(t)
}

// TestPanics checks that a panic in a tool or an approver fails only this call.
func TestPanics(t *testing.T) {
	boom := func() { panic("at /var/lib: nil map") }
	args := func(plan func() (tool.Plan, error)) tool.Tool {
		return tool.New(tool.Tool{Name: "p", Toolset: "filesystem", Mode: policy.Both}, func(context.Context, tool.Names, pathArgs) (tool.Plan, error) { return plan() })
	}
	run := func(context.Context, *sandbox.Sandbox) (tool.Result, error) { boom(); return tool.Result{}, nil }
	for name, test := range map[string]struct {
		tool tool.Tool
		ask  approver
		code sandbox.Code
	}{
		"plan": {args(func() (tool.Plan, error) { boom(); return tool.Plan{}, nil }), approveAll, "internal"},
		"prepare": {args(func() (tool.Plan, error) {
			return tool.NewChangePlan(func(context.Context, *sandbox.Sandbox) (tool.Preparation, error) {
				boom()
				return tool.Preparation{}, nil
			}), nil
		}), approveAll, "internal"},
		"run":      {args(func() (tool.Plan, error) { return tool.NewReadPlan(run), nil }), approveAll, "internal"},
		"nil run":  {args(func() (tool.Plan, error) { return tool.NewReadPlan(nil), nil }), approveAll, "internal"},
		"zero":     {args(func() (tool.Plan, error) { return tool.Plan{}, nil }), approveAll, "internal"},
		"approver": {newEffectTool("p", policy.Both, write1, writeFile), func(q tool.Request) tool.Answer { boom(); return approveAll(q) }, "declined"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoom(t, nil, test.tool, newEffectTool("good", policy.Both, read1, readFile))
			r.Approver = test.ask
			got := r.call(policy.Model, "p", `{"path": "/out/a.md"}`)
			if got.Err == nil || got.Err.Code != test.code || strings.Contains(got.String(), "/var") {
				t.Errorf("got %+v, want %s", got, test.code)
			}
			r.unchanged(t)
			if got := r.call(policy.Model, "good", `{"path": "/out/a.md"}`); !got.OK() {
				t.Errorf("the next call: got %v", got.Err)
			}
			if len(r.journal.records) < 3 {
				t.Errorf("journal: got %q", r.journal.kinds())
			}
		})
	}
}

// TestJournalFirst checks that nothing happens if the intent cannot be written, and that
// a read returns nothing if its outcome cannot.
func TestJournalFirst(t *testing.T) {
	full := errors.New("/var/lib/x: no space left on device")
	r := newRoom(t, nil, newEffectTool("put", policy.Both, write1, writeFile), newEffectTool("get", policy.Both, read1, readFile))
	r.journal.broken = func(audit.Record) error { return full }
	for _, name := range []string{"put", "get"} {
		got := r.call(policy.Model, name, `{"path": "/out/a.md"}`)
		if got.OK() || strings.Contains(got.String(), "/var") || got.Text != "" {
			t.Errorf("%s: got %+v, want it refused, without a path of the host", name, got)
		}
	}
	r.unchanged(t)
	r.journal.broken = func(rec audit.Record) error {
		if rec.Kind == audit.Outcome {
			return full
		}
		return nil
	}
	if got := r.call(policy.Model, "get", `{"path": "/out/a.md"}`); got.OK() || got.Text != "" {
		t.Errorf("get without its outcome: got %+v, want no result", got)
	}
	if got := r.call(policy.Model, "put", `{"path": "/out/a.md"}`); !got.OK() || len(got.Notes) != 1 {
		t.Errorf("put without its outcome: got %+v, want it done, with a note", got)
	}
	r.Journal = nil
	if got := r.call(policy.Model, "get", `{"path": "/out/a.md"}`); got.OK() {
		t.Error("a gate without a journal allowed a call")
	}
}

// TestRequests checks the digests of requests: different calls differ, and the same call
// has the same digest whatever the order of its keys.
func TestRequests(t *testing.T) {
	var asked []tool.Request
	r := newRoom(t, []policy.Rule{{Verb: policy.Write, Target: "/out", Approval: policy.Ask, From: "golem.yaml:3"}}, newEffectTool("put", policy.Both, write1, writeFile))
	r.Approver = approver(func(q tool.Request) tool.Answer { asked = append(asked, q); return tool.Answer{Note: "not\nnow"} })
	for _, args := range []string{`{"path": "/out/a.md", "n": 3}`, `{ "n":3, "path":"/out/a.md"}`, `{"path": "/out/a.md", "n": 4}`, `{"path": "/out/b.md", "n": 3}`} {
		got := r.call(policy.Model, "put", args)
		if got.Err == nil || got.Err.Code != "declined" || !strings.Contains(got.Err.Hint, "not now") {
			t.Errorf("%s: got %v, want declined with the note", args, got.Err)
		}
	}
	r.unchanged(t)
	if asked[0].Digest != asked[1].Digest || asked[0].CallDigest != asked[1].CallDigest {
		t.Error("another order of keys gives another call")
	}
	for _, q := range asked[2:] {
		if q.Digest == asked[0].Digest || q.CallDigest == asked[0].CallDigest {
			t.Errorf("another call has the same digest: %s", q.Args)
		}
	}
	q := asked[0]
	if q.Rule != "golem.yaml:3" || len(q.ToApprove) != 1 || q.ToApprove[0] != (policy.Effect{Verb: policy.Write, Target: "/out/a.md"}) || len(q.Changes) != 1 {
		t.Errorf("request: got %+v", q)
	}
	if b, err := json.Marshal(q); err != nil || !strings.Contains(string(b), `"verb":"write"`) {
		t.Errorf("as JSON: %s, %v", b, err)
	}
}

// TestToolsFor checks that blocked tools, tools of other toolsets, older names and tools
// that do not admit the caller are not offered.
func TestToolsFor(t *testing.T) {
	names := func(r *room, o policy.Origin) string {
		var list []string
		for _, t := range r.ToolsFor(o) {
			list = append(list, t.Name)
		}
		return strings.Join(list, " ")
	}
	put, get := newEffectTool("put", policy.Both, write1, writeFile), newEffectTool("get", policy.Both, read1, readFile)
	other := newEffectTool("sandbox_get", policy.Both, read1, readFile).Alias("get")
	foreign := get
	foreign.Name, foreign.Toolset = "foreign", "other"
	all := []tool.Tool{put, get, other, foreign, newEffectTool("push", policy.Manual, read1, readFile)}
	r := newRoom(t, nil, all...)
	if got := names(r, policy.Model); got != "put get" {
		t.Errorf("for a model: got %q", got)
	}
	if got := names(r, policy.User); got != "put get push" {
		t.Errorf("for the user: got %q", got)
	}
	if got := r.call(policy.Model, "sandbox_get", `{"path": "/out/a.md"}`); !got.OK() {
		t.Errorf("an older name: got %v", got.Err)
	}
	if got := r.call(policy.Model, "foreign", `{"path": "/out/a.md"}`); got.OK() || got.Err.Code != "unknown_tool" {
		t.Errorf("a tool that is not granted: got %+v", got)
	}
	blocked := newRoom(t, []policy.Rule{{Verb: policy.Write, Target: "/out", Approval: policy.Blocked}}, all...)
	if got := names(blocked, policy.Model); got != "get" {
		t.Errorf("with all writes blocked: got %q", got)
	}
	open := newRoom(t, []policy.Rule{{Verb: policy.Write, Target: "/out", Approval: policy.Blocked}, {Verb: policy.Write, Target: "/out/sub", Approval: policy.Ask}}, all...)
	if got := names(open, policy.Model); got != "put get" {
		t.Errorf("with one open directory: got %q", got)
	}
	drop := newEffectTool("drop", policy.Both, []policy.Verb{policy.Delete}, readFile)
	kept := newRoom(t, []policy.Rule{{Verb: policy.Delete, Target: "/out", Approval: policy.PreApproved}, {Verb: policy.Delete, Target: "/out/sub", Approval: policy.Blocked}}, drop)
	if got := names(kept, policy.Model); got != "drop" || kept.HighestApproval(drop) != policy.PreApproved {
		t.Errorf("with one directory that cannot be deleted: got %q, %v", got, kept.HighestApproval(drop))
	}
	asked := newRoom(t, []policy.Rule{{Verb: policy.Delete, Target: "/out", Approval: policy.PreApproved}, {Verb: policy.Delete, Target: "/out/sub", Approval: policy.Ask}}, drop)
	if got := asked.DirsNeedingApproval(drop); !slices.Contains(got, "/out/sub") || slices.Contains(got, "/out") {
		t.Errorf("with one directory that asks: got %q", got)
	}
}

// TestStricterRuleBelow checks that a directory is read without what a rule below it
// excludes, and that a note says so.
func TestStricterRuleBelow(t *testing.T) {
	var seen []string
	look := newEffectTool("look", policy.Both, read1, func(s *sandbox.Sandbox, p string) error {
		entries, err := s.List(p)
		for _, e := range entries {
			seen = append(seen, e.Name)
		}
		if _, err := s.Read("/out/sub/c.md"); err == nil {
			seen = append(seen, "read c.md")
		}
		return err
	})
	r := newRoom(t, []policy.Rule{{Verb: policy.Read, Target: "/out/sub", Approval: policy.Blocked}}, look)
	got := r.call(policy.Model, "look", `{"path": "/out"}`)
	if !got.OK() || slices.Contains(seen, "read c.md") || slices.Contains(seen, "sub") || len(got.Notes) != 1 {
		t.Errorf("got %+v, read %v; want the directory without /out/sub, and a note", got, seen)
	}
}

// TestChangesRevealNoContent checks that a caller that may not read a file does not learn
// its content from a change, nor from a failed preparation.
func TestChangesRevealNoContent(t *testing.T) {
	rules := []policy.Rule{{Verb: policy.Read, Target: "/out", Approval: policy.Ask}, {Verb: policy.Write, Target: "/out", Approval: policy.PreApproved}}
	r := newRoom(t, rules, newEffectTool("put", policy.Both, write1, writeFile))
	got := r.call(policy.Model, "put", `{"path": "/out/a.md"}`)
	if !got.OK() || len(got.Changes) != 1 || got.Changes[0].Diff != "" || strings.Contains(got.String(), "old") {
		t.Errorf("got %+v, want no diff", got)
	}
	miss := tool.New(tool.Tool{Name: "miss", Toolset: "filesystem", Mode: policy.Both}, func(context.Context, tool.Names, pathArgs) (tool.Plan, error) {
		return tool.NewChangePlan(func(context.Context, *sandbox.Sandbox) (tool.Preparation, error) {
			return tool.Preparation{}, &sandbox.Error{Op: "edit", Path: "/out/a.md", Code: sandbox.ErrInvalid, Hint: "closest: SECRET"}
		}, policy.Effect{Verb: policy.Read, Target: "/out/a.md"}, policy.Effect{Verb: policy.Write, Target: "/out/a.md"}), nil
	})
	asked := 0
	r = newRoom(t, rules, miss)
	r.Approver = approver(func(q tool.Request) tool.Answer {
		asked++
		if !strings.Contains(q.Problem, "SECRET") {
			t.Errorf("the request lacks the problem: %+v", q)
		}
		return tool.Answer{}
	})
	if got := r.call(policy.Model, "miss", `{"path": "/out/a.md"}`); asked != 1 || strings.Contains(got.String(), "SECRET") {
		t.Errorf("got %s after %d questions", got, asked)
	}
	r.Approver = approver(approveAll)
	if got := r.call(policy.Model, "miss", `{"path": "/out/a.md"}`); !strings.Contains(got.String(), "SECRET") {
		t.Errorf("after a yes: got %s", got)
	}
}

// TestOverlayUnusable checks that nothing is done if the overlay of a session cannot be used,
// and that only what may pass by itself is to be tried again.
func TestOverlayUnusable(t *testing.T) {
	for cause, next := range map[error]string{
		syscall.EBUSY: "try again in a moment", syscall.EACCES: "make the state directory writable for you", syscall.EROFS: "make the state directory writable for you",
	} {
		r := newRoom(t, nil, newEffectTool("put", policy.Both, write1, writeFile))
		r.Enter = func(bool, bool) (func() error, error) {
			return nil, &os.PathError{Op: "open", Path: "/state", Err: cause}
		}
		got := r.call(policy.Model, "put", `{"path": "/out/a.md"}`)
		if got.OK() || !strings.Contains(got.Err.Error(), "nothing was done; "+next) {
			t.Errorf("%v: got %v, want %q", cause, got.Err, next)
		}
		r.unchanged(t)
	}
}

// TestStoppedAtApproval checks that a call that is stopped during the approval does nothing.
func TestStoppedAtApproval(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	r := newRoom(t, nil, newEffectTool("put", policy.Both, write1, writeFile))
	r.Approver = approver(func(q tool.Request) tool.Answer { cancel(); return approveAll(q) })
	got := r.Do(ctx, policy.Model, tool.Call{Tool: "put", Args: []byte(`{"path": "/out/a.md"}`)})
	if got.OK() || got.Err.Code != "timeout" {
		t.Errorf("got %+v, want timeout", got)
	}
	r.unchanged(t)
}

// TestStoppedWhileRunning checks that a call that is stopped while it runs says so, and
// does not return the error of a program that ended with it.
func TestStoppedWhileRunning(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	stop := func(*sandbox.Sandbox, string) error { cancel(); return errors.New("signal: killed") }
	r := newRoom(t, nil, newEffectTool("look", policy.Both, []policy.Verb{policy.Read}, stop))
	got := r.Do(ctx, policy.Model, tool.Call{Tool: "look", Args: []byte(`{"path": "/out/a.md"}`)})
	if got.OK() || got.Err.Error() != "look: timeout; golem stopped it before it finished" {
		t.Errorf("got %+v", got)
	}
}

// TestPending checks that an undecided call returns the ID and the digest of its request.
func TestPending(t *testing.T) {
	r := newRoom(t, nil, newEffectTool("put", policy.Both, write1, writeFile))
	r.Approver = approver(func(tool.Request) tool.Answer { return tool.Answer{Verdict: tool.Undecided, ID: "k3v9"} })
	got := r.call(policy.Model, "put", `{"path": "/out/a.md"}`)
	if got.OK() || got.Pending == nil || got.Pending.ID != "k3v9" || len(got.Pending.Digest) != 64 || !strings.Contains(got.String(), "golem approve k3v9") {
		t.Errorf("got %+v", got)
	}
	if got := r.journal.kinds(); got != "refusal:pending:declined" {
		t.Errorf("journal: got %q", got)
	}
	r.unchanged(t)
}

// TestParallel checks that each of many parallel calls gets its own answer.
func TestParallel(t *testing.T) {
	r := newRoom(t, nil, newEffectTool("put", policy.Both, write1, writeFile), newEffectTool("take", policy.Both, []policy.Verb{policy.Delete}, removeFile))
	r.Approver = approver(func(q tool.Request) tool.Answer {
		if q.Effects[0].Target == "/out/a.md" {
			return approveAll(q)
		}
		return tool.Answer{}
	})
	var wait sync.WaitGroup
	for _, call := range [][2]string{{"put", "/out/a.md"}, {"put", "/out/b.md"}, {"take", "/out/sub/c.md"}} {
		wait.Go(func() { r.call(policy.Model, call[0], `{"path": "`+call[1]+`"}`) })
	}
	wait.Wait()
	if got := r.files.Files(); got["a.md"] != "new" || got["b.md"] != "old" || got["sub/c.md"] != "old" {
		t.Errorf("files: got %v", got)
	}
}

// TestOlderNames checks that a rule for a tool holds for its older names.
func TestOlderNames(t *testing.T) {
	put := newEffectTool("put", policy.Both, write1, writeFile)
	old := newEffectTool("old_put", policy.Both, write1, writeFile).Alias("put")
	for name, rules := range map[string][]policy.Rule{
		"the tool":       {{Verb: policy.Use, Target: "put", Approval: policy.Blocked}},
		"the older name": {{Verb: policy.Use, Target: "old_put", Approval: policy.Blocked}, {Verb: policy.Use, Target: "older_put", Approval: policy.Blocked}},
	} {
		r := newRoom(t, rules, put, old, newEffectTool("older_put", policy.Both, write1, writeFile).Alias("put"))
		for _, called := range []string{"old_put", "older_put"} {
			if got := r.call(policy.Model, called, `{"path": "/out/a.md"}`); got.OK() || got.Err.Code != "blocked" {
				t.Errorf("a rule about %s, %s called: got %+v, want blocked", name, called, got)
			}
		}
		r.unchanged(t)
	}
}

// TestOldSpelling: a call by an older name or spelling is the call of the current tool,
// for the approver and in the journal. A tool that has the name itself comes first.
func TestOldSpelling(t *testing.T) {
	var asked []string
	put := newEffectTool("write_file", policy.Both, write1, writeFile)
	r := newRoom(t, nil, put, newEffectTool("sandbox_write_text", policy.Both, write1, writeFile).Alias("write_file"), newEffectTool("readFile", policy.Both, read1, readFile), newEffectTool("read_file", policy.Both, write1, writeFile))
	r.Approver = approver(func(q tool.Request) tool.Answer {
		asked = append(asked, q.Tool)
		return tool.Answer{}
	})
	for _, name := range []string{"writeFile", "sandbox_write_text", "write_file"} {
		if got := r.call(policy.Model, name, `{"path": "/out/a.md"}`); got.Err == nil || got.Err.Code != "declined" || got.Err.Op != "write_file" {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	if got := r.call(policy.Model, "readFile", `{"path": "/out/a.md"}`); !got.OK() {
		t.Errorf("readFile: got %v", got.Err)
	}
	if got := r.call(policy.Model, "WriteFile", `{"path": "/out/a.md"}`); got.OK() || got.Err.Code != "unknown_tool" {
		t.Errorf("WriteFile: got %+v", got)
	}
	if got := fmt.Sprint(asked); got != "[write_file write_file write_file]" {
		t.Errorf("asked about %s", got)
	}
	var journaled []string
	for _, record := range r.journal.records {
		journaled = append(journaled, record.Tool)
	}
	if got := fmt.Sprint(slices.Compact(journaled)); got != "[write_file readFile WriteFile]" {
		t.Errorf("journal: got %s", got)
	}
}

// twoNames returns a gate in which /all/final and /final are one directory.
func twoNames(t *testing.T, files policy.Files, rules []policy.Rule, tools ...tool.Tool) (*room, string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"final/s": "secret", "x": "x"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := sandbox.New(sandbox.Config{Mounts: []sandbox.Mount{
		{Target: "/all", Source: sandbox.Host(dir), Access: sandbox.ReadWrite},
		{Target: "/final", Source: sandbox.Host(filepath.Join(dir, "final")), Access: sandbox.ReadWrite},
	}})
	if err == nil {
		s, err = files.Apply(s)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := newRoom(t, rules, tools...)
	r.Files, r.Grant.Files = s, files
	return r, dir
}

// TestTwoNames checks that what one name of a directory blocks or makes read-only, every
// other name does, too.
func TestTwoNames(t *testing.T) {
	take := newEffectTool("take", policy.Both, []policy.Verb{policy.Delete}, func(s *sandbox.Sandbox, p string) error { return s.DeleteAll(context.Background(), p) })
	tools := []tool.Tool{newEffectTool("put", policy.Both, write1, writeFile), newEffectTool("get", policy.Both, read1, readFile), take}
	rw := sandbox.Limit{Path: "/all", Access: sandbox.ReadWrite}
	both := policy.AllFiles().With(rw, sandbox.Limit{Path: "/final", Access: sandbox.ReadWrite})
	var blocked []policy.Rule
	for _, v := range []policy.Verb{policy.Read, policy.Write, policy.Delete} {
		blocked = append(blocked, policy.Rule{Verb: v, Target: "/final", Approval: policy.Blocked}, policy.Rule{Verb: v, Target: "/all", Approval: policy.PreApproved})
	}
	for name, test := range map[string]struct {
		files policy.Files
		rules []policy.Rule
		deny  map[string][]string // tool, paths
	}{
		"blocked":   {both, blocked, map[string][]string{"get": {"/final/s", "/all/final/s"}, "put": {"/final/n", "/all/final/n"}, "take": {"/final/s", "/all/final/s", "/all/final"}}},
		"read-only": {policy.AllFiles().With(rw, sandbox.Limit{Path: "/final", Access: sandbox.ReadOnly}), nil, map[string][]string{"put": {"/final/n", "/all/final/n"}, "take": {"/all/final/s", "/all/final"}}},
	} {
		for called, paths := range test.deny {
			for _, path := range paths {
				r, dir := twoNames(t, test.files, test.rules, tools...)
				got := r.call(policy.Model, called, `{"path": "`+path+`"}`)
				text, err := os.ReadFile(filepath.Join(dir, "final", "s"))
				if got.OK() || err != nil || string(text) != "secret" {
					t.Errorf("%s: %s %s: got %+v; the file: %q, %v", name, called, path, got, text, err)
				}
				if entries, _ := os.ReadDir(filepath.Join(dir, "final")); len(entries) != 1 {
					t.Errorf("%s: %s %s: the directory has %v", name, called, path, entries)
				}
			}
		}
		// Other paths are not affected.
		r, _ := twoNames(t, test.files, test.rules, tools...)
		if got := r.call(policy.Model, "put", `{"path": "/all/x"}`); !got.OK() {
			t.Errorf("%s: put /all/x: got %v", name, got.Err)
		}
	}
}

// TestRefusalsRevealNoNames checks that a refusal is the same whatever exists at a name
// that may not be read.
func TestRefusalsRevealNoNames(t *testing.T) {
	peek := tool.New(tool.Tool{Name: "peek", Toolset: "filesystem", Mode: policy.Both}, func(_ context.Context, names tool.Names, a pathArgs) (tool.Plan, error) {
		at, err := names.Locate("read", a.Path, sandbox.ReadOnly, false)
		if err != nil {
			return tool.Plan{}, err
		}
		return tool.NewReadPlan(func(context.Context, *sandbox.Sandbox) (tool.Result, error) { return tool.Result{}, nil }, names.ReadEffects(at)...), nil
	})
	r := newRoom(t, []policy.Rule{{Verb: policy.Read, Target: "/out", Approval: policy.Blocked}}, peek)
	for _, path := range []string{"/out/a.md", "/out/none", "/out/a.md/x", "/out/none/x"} {
		got := r.call(policy.Model, "peek", `{"path": "`+path+`"}`)
		if got.OK() || got.Err.Code != "blocked" {
			t.Errorf("%s: got %v, want blocked", path, got.Err)
		}
	}
}

// TestEndlessLists checks that endless lists are refused early.
func TestEndlessLists(t *testing.T) {
	r := newRoom(t, nil, newEffectTool("put", policy.Both, write1, writeFile))
	if got := r.call(policy.Model, "put", `{"path": [`+strings.Repeat(`"",`, 1_000_000)+`""]}`); got.OK() || !strings.Contains(got.Err.Hint, "more than 100000 values") {
		t.Errorf("got %v", got.Err)
	}
}

// A seenEffects is a tool.Taint that collects what it is given.
type seenEffects []policy.Effect

func (n *seenEffects) RecordSeen(effects []policy.Effect) { *n = append(*n, effects...) }
func (n *seenEffects) AddBytes(int64)                     {}
func (n *seenEffects) MarkTainted(string)                 {}
func (n *seenEffects) Source() string                     { return "" }
func (n *seenEffects) Rules(tool.Tool) []policy.Rule      { return nil }

// TestErrorsTaint checks that an error about a change counts as reading the file.
func TestErrorsTaint(t *testing.T) {
	about := tool.Tool{Name: "edit", Toolset: "filesystem", Mode: policy.Both, Verbs: []policy.Verb{policy.Write}, Description: "test"}
	r := newRoom(t, nil, tool.New(about, func(_ context.Context, _ tool.Names, a pathArgs) (tool.Plan, error) {
		return tool.NewChangePlan(func(context.Context, *sandbox.Sandbox) (tool.Preparation, error) {
			return tool.Preparation{}, errors.New("the closest is this")
		}, policy.Effect{Verb: policy.Write, Target: a.Path}), nil
	}))
	seen := &seenEffects{}
	r.Taint = seen
	if got := r.call(policy.Model, "edit", `{"path":"/out/a.md"}`); got.Err == nil || len(*seen) != 1 {
		t.Errorf("got %v, seen %v", got.Err, *seen)
	}
}

// TestRevealsTaint checks that files in Plan.Reveals count as read, also if the plan
// fails.
func TestRevealsTaint(t *testing.T) {
	for _, fails := range []error{nil, &sandbox.Error{Op: "tell", Path: "/in/none", Code: sandbox.ErrNotFound, Hint: "there is x.md"}} {
		about := tool.Tool{Name: "tell", Toolset: "filesystem", Mode: policy.Both, Verbs: read1, Description: "test"}
		r := newRoom(t, nil, tool.New(about, func(context.Context, tool.Names, struct{}) (tool.Plan, error) {
			plan := tool.NewReadPlan(func(context.Context, *sandbox.Sandbox) (tool.Result, error) { return tool.Result{Text: "x"}, nil })
			plan.Reveals = []string{"/in/x.md"}
			return plan, fails
		}))
		seen := &seenEffects{}
		r.Taint = seen
		want := 1
		if fails != nil {
			want = 2 // and the path of the error
		}
		if got := r.call(policy.Model, "tell", `{}`); got.OK() != (fails == nil) || len(*seen) != want {
			t.Errorf("got %v, seen %v", got.Err, *seen)
		}
		*seen = nil
		if r.call(policy.User, "tell", `{}`); len(*seen) != 0 {
			t.Errorf("a call of the user is tainted by %v", *seen)
		}
	}
}

// TestDeferredNote checks that a call whose changes were applied says so if the journal
// could not take the outcome of that.
func TestDeferredNote(t *testing.T) {
	applied := false
	about := tool.Tool{Name: "put", Toolset: "filesystem", Mode: policy.Both, Verbs: write1, Description: "test"}
	put := tool.New(about, func(context.Context, tool.Names, struct{}) (tool.Plan, error) {
		effect := policy.Effect{Verb: policy.Write, Target: "/out/a.md"}
		changes := &tool.DeferredChanges{Effects: []policy.Effect{effect}, Listed: []policy.Effect{effect}, Done: tool.NewDone([]tool.Change{{Path: "/out/a.md", Op: tool.Update}}),
			Changes: func() ([]tool.Change, []string) { return []tool.Change{{Path: "/out/a.md", Op: tool.Update}}, nil },
			Apply:   func(func(float64)) error { applied = true; return nil }, Discard: func() error { return nil }}
		plan := tool.NewChangePlan(func(context.Context, *sandbox.Sandbox) (tool.Preparation, error) {
			return tool.NewPreparation(func(context.Context, *sandbox.Sandbox) (tool.Result, error) {
				return tool.Result{Text: "done", Deferred: changes}, nil
			}), nil
		}, effect)
		plan.Deferred = true
		return plan, nil
	})
	r := newRoom(t, nil, put)
	outcomes := 0
	r.journal.broken = func(record audit.Record) error {
		if record.Kind == audit.Outcome {
			if outcomes++; outcomes == 2 {
				return errors.New("the disk is full")
			}
		}
		return nil
	}
	got := r.call(policy.User, "put", "{}")
	if !applied || !got.OK() || !strings.Contains(strings.Join(got.Notes, "\n"), "could not write its outcome to the journal") {
		t.Errorf("applied %v, got %v, notes %q", applied, got.Err, got.Notes)
	}
	if got.Words() != "done\napplied: changed /out/a.md" {
		t.Errorf("got %q", got.Words())
	}
}

// TestApprovalForAnother checks that the gate refuses an approval that does not say what it
// rests on, and one that was given to another request.
func TestApprovalForAnother(t *testing.T) {
	var earlier tool.Seen
	yes := func(s tool.Seen) tool.Answer { return tool.Answer{Verdict: tool.Approved, By: "user", Seen: s} }
	for i, test := range []struct {
		name   string
		answer func(tool.Request) tool.Answer
		want   sandbox.Code
	}{
		{"nothing", func(tool.Request) tool.Answer { return yes(tool.Seen{}) }, "declined"},
		{"stored without a request", func(tool.Request) tool.Answer { return yes(tool.StoredSeen{Items: 3}.For("")) }, "declined"},
		{"everything", func(r tool.Request) tool.Answer {
			seen, err := r.See(r.Items(), "")
			if err != nil {
				t.Error(err)
			}
			earlier = seen
			return yes(seen)
		}, ""},
		{"another request", func(tool.Request) tool.Answer { return yes(earlier) }, "declined"},
		{"too few items", func(r tool.Request) tool.Answer {
			seen, err := r.See(r.Items()[1:], "")
			if sandbox.CodeOf(err) != tool.ErrUnseen {
				t.Errorf("got %v", err)
			}
			return yes(seen)
		}, "declined"},
	} {
		r := newRoom(t, nil, newEffectTool("put", policy.Both, write1, writeFile))
		r.Approver = approver(test.answer)
		got := r.call(policy.Model, "put", fmt.Sprintf(`{"path": "/out/a.md", "n": %d}`, i+1))
		var code sandbox.Code
		if !got.OK() {
			code = got.Err.Code
		}
		if code != test.want {
			t.Errorf("%s: got %s, want %q", test.name, got, test.want)
		}
	}
}

// TestCallsRefused checks that arguments which are not Unicode text are refused, in
// keys, names and content.
func TestCallsRefused(t *testing.T) {
	r := newRoom(t, nil, newEffectTool("put", policy.Both, write1, writeFile))
	for _, args := range []string{`{"path":"/out/a\udcff"}`, `{"path":"/out/a\ud800b"}`, "{\"path\":\"/out/a\xff\"}", `{"path":"/out/a","\ud800":1}`} {
		if got := r.call(policy.Model, "put", args); got.OK() || got.Err.Code != "invalid_args" {
			t.Errorf("%q: got %v", args, got.Err)
		}
	}
	if got := r.call(policy.Model, "put", `{"path":"/out/a\ud83d\ude00"}`); !got.OK() {
		t.Errorf("a pair: got %v", got.Err)
	}
}
