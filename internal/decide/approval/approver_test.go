package approval_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/sandbox"
)

// An asker renders everything, returns its reply, and counts the requests.
type asker struct {
	reply approval.Reply
	asked int
}

func (a *asker) Ask(_ context.Context, r tool.Request) approval.Reply {
	a.asked++
	reply := a.reply
	reply.Rendered = r.Items()
	return reply
}

// answerRequest answers a pending request, after all of it was rendered.
func answerRequest(s *approval.Requests, id string, yes bool, by, note string) error {
	reply := approval.Reply{Answer: tool.Answer{By: by, Note: note}}
	if yes {
		reply.Verdict = tool.Approved
	}
	if w, err := s.FindPending(id); err == nil {
		r, err := s.Request(w)
		if err != nil {
			return err
		}
		reply.Rendered = r.Items()
	}
	return s.Answer(id, reply, start)
}

var start = time.Date(2026, 11, 15, 10, 0, 0, 0, time.UTC)

type testApprover struct {
	*approval.Approver
	asker *asker
	store *approval.Requests
	dir   string
	now   time.Time
	close func()
}

// newApprover returns an approver in interactive mode, with an asker that declines.
func newApprover(t *testing.T, dir string) *testApprover {
	t.Helper()
	d := openApprover(t.Fatal, dir)
	t.Cleanup(d.close)
	return d
}

func openApprover(fatal func(...any), dir string) *testApprover {
	folder, err := state.Open(dir)
	if err != nil {
		fatal(err)
	}
	store, err := approval.Open(folder)
	if err != nil {
		fatal(err)
	}
	d := &testApprover{asker: &asker{}, store: store, dir: dir, now: start, close: func() { folder.Close() }}
	d.Approver = &approval.Approver{Mode: approval.Interactive, Store: store, Asker: d.asker, Policy: "p1", Now: func() time.Time { return d.now }}
	return d
}

func newRequest(tool_, same string, workers string, effects ...policy.Effect) tool.Request {
	return tool.Request{Digest: "d-" + same, CallDigest: "s-" + same, Origin: policy.Model, Workers: strings.Fields(workers), Tool: tool_,
		Args: []byte("{}"), Effects: effects, ToApprove: effects}
}

func newEffect(v policy.Verb, target string) policy.Effect {
	return policy.Effect{Verb: v, Target: target}
}

// approve asks as the gate does, which also calls Keep.
func (d *testApprover) approve(r tool.Request) tool.Answer {
	a := d.Approve(context.Background(), r)
	if a.Keep != nil {
		if err := a.Keep(); err != nil {
			return tool.Answer{Note: err.Error()}
		}
	}
	return a
}

func callByUser(r tool.Request) tool.Request { r.Origin = policy.User; return r }

// askForUse returns a request in which only the use of the tool needs approval.
func askForUse(r tool.Request) tool.Request {
	r.ToApprove = []policy.Effect{{Verb: policy.Use, Target: r.Tool}}
	return r
}

var writeA = newRequest("write_file", "a", "main", newEffect(policy.Write, "/drafts/a.md"))

func TestModes(t *testing.T) {
	readX := newRequest("read_file", "x", "main", newEffect(policy.Read, "/in/x"))
	mixed := newRequest("move_file", "m", "main", newEffect(policy.Read, "/in/x"), newEffect(policy.Delete, "/in/x"))
	mixed.ToApprove = mixed.ToApprove[:1] // only the read asks, but something is deleted
	for _, test := range []struct {
		name  string
		mode  approval.Mode
		reads bool
		r     tool.Request
		want  tool.Verdict
		asked int
	}{
		{"interactive asks", approval.Interactive, false, writeA, tool.Declined, 1},
		{"the zero mode asks", "", false, writeA, tool.Declined, 1},
		{"approve_all", approval.ApproveAll, false, writeA, tool.Approved, 0},
		{"auto_deny", approval.AutoDeny, false, writeA, tool.Declined, 0},
		{"auto_deny and reads", approval.AutoDeny, true, readX, tool.Declined, 0},
		{"no such mode", "approve-all", false, writeA, tool.Declined, 0},
		{"reads", approval.Interactive, true, readX, tool.Approved, 0},
		{"reads and a write", approval.Interactive, true, writeA, tool.Declined, 1},
		{"reads and a call that does more", approval.Interactive, true, mixed, tool.Declined, 1},
	} {
		d := newApprover(t, t.TempDir())
		d.Mode, d.ApproveReads = test.mode, test.reads
		if got := d.approve(test.r); got.Verdict != test.want || d.asker.asked != test.asked {
			t.Errorf("%s: got %+v after %d questions, want %v after %d", test.name, got, d.asker.asked, test.want, test.asked)
		}
	}
}

// TestLateAnswer checks that an approval after the end of the call does not count.
func TestLateAnswer(t *testing.T) {
	d := newApprover(t, t.TempDir())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	d.asker.reply.Verdict = tool.Approved
	if got := d.Approve(ctx, writeA); got.Verdict != tool.Declined {
		t.Errorf("got %+v, want no", got)
	}
}

// TestRememberedRule checks that a remembered rule approves the same again, and nothing else.
func TestRememberedRule(t *testing.T) {
	again := approval.ExactRule(writeA)
	again.Scope = approval.Run
	file, folder := approval.OfferRules(writeA)[0], approval.OfferRules(writeA)[1]
	for name, test := range map[string]struct {
		rule  approval.Rule
		scope approval.Scope
		yes   []tool.Request
		no    []tool.Request
	}{
		"this exact call": {again, approval.Run,
			[]tool.Request{writeA},
			[]tool.Request{
				newRequest("write_file", "b", "main", newEffect(policy.Write, "/drafts/a.md")), // other content
			}},
		"this file": {file, approval.Project,
			[]tool.Request{writeA, newRequest("write_file", "b", "main", newEffect(policy.Write, "/drafts/a.md"))},
			[]tool.Request{
				newRequest("write_file", "c", "main", newEffect(policy.Write, "/drafts/b.md")),
				newRequest("write_file", "c", "main", newEffect(policy.Write, "/drafts/a.md/x")),
				newRequest("write_file", "c", "main", newEffect(policy.Write, "/drafts")),
				newRequest("delete_file", "c", "main", newEffect(policy.Delete, "/drafts/a.md")),
				newRequest("write_file", "c", "main", newEffect(policy.Delete, "/drafts/a.md")),
				newRequest("edit_file", "c", "main", newEffect(policy.Write, "/drafts/a.md")),
				newRequest("write_file", "c", "main sub", newEffect(policy.Write, "/drafts/a.md")),
				newRequest("write_file", "c", "other", newEffect(policy.Write, "/drafts/a.md")),
				newRequest("write_file", "c", "main", newEffect(policy.Write, "/drafts/a.md"), newEffect(policy.Write, "/drafts/b.md")),
				newRequest("write_file", "c", "main"),
				newRequest("write_file", "c", "main", policy.Effect{Verb: policy.Write, Target: "/drafts/a.md", Tree: true}),
				callByUser(newRequest("write_file", "c", "main", newEffect(policy.Write, "/drafts/a.md"))),
				askForUse(newRequest("write_file", "c", "main", newEffect(policy.Write, "/free/any"))),
			}},
		"this folder": {folder, approval.Project,
			[]tool.Request{writeA, newRequest("write_file", "c", "main", newEffect(policy.Write, "/drafts/sub/b.md"))},
			[]tool.Request{
				newRequest("write_file", "c", "main", newEffect(policy.Write, "/drafts-private/b.md")),
				newRequest("write_file", "c", "main", newEffect(policy.Write, "/other/b.md")),
				newRequest("write_file", "c", "main", newEffect(policy.Delete, "/drafts/b.md")),
			}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newApprover(t, t.TempDir())
			test.rule.Scope = test.scope
			d.asker.reply = approval.Reply{Answer: tool.Answer{Verdict: tool.Approved, By: "user"}, Remember: &test.rule}
			if got := d.approve(writeA); got.Verdict != tool.Approved || d.asker.asked != 1 {
				t.Fatalf("the first time: got %+v", got)
			}
			d.asker.reply = approval.Reply{}
			for _, r := range test.yes {
				if got := d.approve(r); got.Verdict != tool.Approved || !strings.HasPrefix(got.By, "rule ") || d.asker.asked != 1 {
					t.Errorf("%v: got %+v after %d questions, want yes by the rule", r, got, d.asker.asked)
				}
			}
			for i, r := range test.no {
				if got := d.approve(r); got.Verdict != tool.Declined || d.asker.asked != 2+i {
					t.Errorf("%v: got %+v after %d questions, want it asked", r, got, d.asker.asked)
				}
			}
		})
	}
}

// TestRememberedCommands checks that a rule for commands compares words, and is shown
// with them.
func TestRememberedCommands(t *testing.T) {
	run := func(line string) tool.Request { return newRequest("shell", line, "main", newEffect(policy.Run, line)) }
	for _, test := range []struct {
		line   string
		offers []string
		yes    []string
		no     []string
	}{
		{"git status -s src", []string{"main: shell may run \"git status -s src\"", "main: shell may run git status -s …"},
			[]string{"git status -s", "git status -s x; git status -s y"},
			[]string{"git status", "git statusx -s", "git status -s; touch x", "git status -s\ntouch x", "git status -s $(touch x)", "env git status -s",
				"git -c alias.x=y status -s", "GIT_EXTERNAL_DIFF=x git status -s", "git status -s >x", "git status -s $x"}},
		{"go vet ./... && go test ./...", []string{"", "main: shell may run go vet …, run go test …"},
			[]string{"go test ./x", "go test . | go vet ."},
			[]string{"go vet . | cat", "go run .", "go test -exec ./x .", "timeout 5 go test ."}},
		{"rm -rf build", []string{"main: shell may run \"rm -rf build\""}, nil, nil},
		{"ls; $x", []string{"main: shell may run \"ls; $x\""}, nil, nil},
	} {
		offers := approval.OfferRules(run(test.line))
		if len(offers) != len(test.offers) {
			t.Errorf("%q: got %v, want %q", test.line, offers, test.offers)
			continue
		}
		for i, o := range offers {
			if got := o.String(); test.offers[i] != "" && got != test.offers[i] {
				t.Errorf("%q: got %s, want %s", test.line, got, test.offers[i])
			}
		}
		d := newApprover(t, t.TempDir())
		rule := offers[len(offers)-1]
		rule.Scope = approval.Project
		d.asker.reply = approval.Reply{Answer: tool.Answer{Verdict: tool.Approved, By: "user"}, Remember: &rule}
		if got := d.approve(run(test.line)); got.Verdict != tool.Approved {
			t.Fatalf("%q: got %+v", test.line, got)
		}
		d.asker.reply = approval.Reply{}
		for _, line := range append(test.yes, test.line) {
			if got := d.approve(run(line)); got.Verdict != tool.Approved || d.asker.asked != 1 {
				t.Errorf("%q after %q: got %+v, want yes by the rule", line, test.line, got)
			}
		}
		for i, line := range test.no {
			if got := d.approve(run(line)); got.Verdict != tool.Declined || d.asker.asked != 2+i {
				t.Errorf("%q after %q: got %+v, want it asked", line, test.line, got)
			}
		}
	}
}

// TestRulesEnd checks that a rule ends with its run, at its expiry, when the policy
// changes, and when it is revoked.
func TestRulesEnd(t *testing.T) {
	remembered := func(t *testing.T, scope approval.Scope, expires time.Time) *testApprover {
		d := newApprover(t, t.TempDir())
		rule := approval.OfferRules(writeA)[0]
		rule.Scope, rule.Expires = scope, expires
		d.asker.reply = approval.Reply{Answer: tool.Answer{Verdict: tool.Approved}, Remember: &rule}
		if d.approve(writeA).Verdict != tool.Approved {
			t.Fatal("the first time was refused")
		}
		d.asker.reply = approval.Reply{}
		return d
	}
	asks := func(t *testing.T, d *testApprover, want bool) {
		t.Helper()
		before := d.asker.asked
		if got := d.approve(writeA); (d.asker.asked > before) != want {
			t.Errorf("got %+v, asked: %v, want asked: %v", got, d.asker.asked > before, want)
		}
	}
	t.Run("run", func(t *testing.T) {
		d := remembered(t, approval.Run, time.Time{})
		asks(t, d, false)
		asks(t, newApprover(t, d.dir), true)
	})
	t.Run("project", func(t *testing.T) {
		d := remembered(t, approval.Project, time.Time{})
		other := newApprover(t, d.dir)
		asks(t, other, false)
		other.Policy = "p2"
		asks(t, other, true)
	})
	t.Run("expiry", func(t *testing.T) {
		d := remembered(t, approval.Project, start.Add(time.Hour))
		d.now = start.Add(time.Hour - 1)
		asks(t, d, false)
		d.now = start.Add(time.Hour)
		asks(t, d, true)
	})
	t.Run("revoked", func(t *testing.T) {
		d := remembered(t, approval.Project, time.Time{})
		rules, err := d.store.Rules()
		if err != nil || len(rules) != 1 || !strings.Contains(rules[0].String(), "main: write_file may write /drafts/a.md, in this project") {
			t.Fatalf("rules: got %v, %v", rules, err)
		}
		if err := d.store.Revoke(rules[0].ID); err != nil {
			t.Fatal(err)
		}
		asks(t, d, true)
		if err := d.store.Revoke(rules[0].ID); sandbox.CodeOf(err) != sandbox.ErrNotFound {
			t.Errorf("revoked twice: got %v", err)
		}
	})
}

// TestForeignRules checks that a reply with a rule for another call, or without a scope,
// does not approve.
func TestForeignRules(t *testing.T) {
	other := approval.OfferRules(newRequest("write_file", "z", "main", newEffect(policy.Write, "/else")))[0]
	other.Scope = approval.Project
	session := approval.OfferRules(writeA)[0]
	session.Scope = approval.Session
	for name, rule := range map[string]approval.Rule{"another call": other, "no scope": approval.OfferRules(writeA)[0], "no session": session, "empty": {Scope: approval.Project}} {
		d := newApprover(t, t.TempDir())
		d.asker.reply = approval.Reply{Answer: tool.Answer{Verdict: tool.Approved}, Remember: &rule}
		if got := d.approve(writeA); got.Verdict != tool.Declined {
			t.Errorf("%s: got %+v, want no", name, got)
		}
		if rules, _ := d.store.Rules(); len(rules) != 0 {
			t.Errorf("%s: the rule was stored: %v", name, rules)
		}
	}
}

// TestDeclineIsNotRemembered checks that a rule in a reply that declines is ignored.
func TestDeclineIsNotRemembered(t *testing.T) {
	d := newApprover(t, t.TempDir())
	rule := approval.OfferRules(writeA)[0]
	rule.Scope = approval.Project
	d.asker.reply.Remember = &rule
	d.approve(writeA)
	if rules, _ := d.store.Rules(); len(rules) != 0 {
		t.Errorf("rules: got %v", rules)
	}
}

// TestPendingRequest checks that a request is pending if no person can be asked. It can
// be answered from elsewhere, and the answer is used once.
func TestPendingRequest(t *testing.T) {
	dir := t.TempDir()
	d := newApprover(t, dir)
	d.Asker = nil
	first := d.approve(writeA)
	if first.Verdict != tool.Undecided || first.ID == "" || !first.Unattended {
		t.Fatalf("got %+v, want a waiting call", first)
	}
	if again := d.approve(writeA); again.Verdict != tool.Undecided || again.ID != first.ID {
		t.Errorf("repeated call: got %+v, want the same request", again)
	}
	elsewhere := newApprover(t, dir)
	w, err := elsewhere.store.FindPending(first.ID)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := elsewhere.store.Request(w); err != nil || r.Digest != writeA.Digest || r.Effects[0] != writeA.Effects[0] {
		t.Errorf("the request: got %+v, %v", r, err)
	}
	if err := answerRequest(elsewhere.store, first.ID, true, "user", ""); err != nil {
		t.Fatal(err)
	}
	if err := answerRequest(elsewhere.store, first.ID, false, "user", ""); sandbox.CodeOf(err) != sandbox.ErrExists {
		t.Errorf("a second answer: got %v, want an error that one exists", err)
	}
	if got := d.approve(newRequest("write_file", "b", "main", newEffect(policy.Write, "/drafts/a.md"))); got.Verdict != tool.Undecided || got.ID == first.ID {
		t.Errorf("another call: got %+v, want a separate request", got)
	}
	if got := d.approve(writeA); got.Verdict != tool.Approved || got.ID != first.ID || got.By != "user" {
		t.Errorf("after the answer: got %+v, want yes", got)
	}
	if got := d.approve(writeA); got.Verdict != tool.Undecided || got.ID == first.ID {
		t.Errorf("used twice: got %+v, want a new request", got)
	}
	if err := answerRequest(elsewhere.store, first.ID, true, "", ""); sandbox.CodeOf(err) != sandbox.ErrNotFound {
		t.Errorf("an answer to a used request: got %v, want not found", err)
	}
	if err := answerRequest(elsewhere.store, "zzzz", true, "", ""); sandbox.CodeOf(err) != sandbox.ErrNotFound {
		t.Errorf("an answer without a request: got %v", err)
	}
}

// TestApprovedElsewhere checks that a pending request ends when the call is approved in
// another way, also if it had an answer that nobody had used.
func TestApprovedElsewhere(t *testing.T) {
	yes := approval.Reply{Answer: tool.Answer{Verdict: tool.Approved, By: "user"}}
	for _, test := range []struct {
		name  string
		agree func(d *testApprover)
		want  int // that wait afterwards
	}{
		{"by the flag", func(d *testApprover) { d.Mode = approval.ApproveAll }, 1},
		{"at a terminal", func(d *testApprover) { d.asker.reply, d.Asker = yes, d.asker }, 1},
		{"a no at a terminal", func(d *testApprover) { d.Asker = d.asker }, 2},
		{"under another policy", func(d *testApprover) { d.Mode, d.Policy = approval.ApproveAll, "p2" }, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newApprover(t, t.TempDir())
			d.Asker = nil
			for _, r := range []tool.Request{writeA, newRequest("write_file", "b", "main", newEffect(policy.Write, "/drafts/b.md"))} {
				if a := d.approve(r); a.Verdict != tool.Undecided {
					t.Fatalf("got %+v, want a waiting call", a)
				}
			}
			test.agree(d)
			changed := writeA
			changed.Digest = "d-changed"
			d.approve(changed)
			if left, err := d.store.Pending(); err != nil || len(left) != test.want {
				t.Errorf("got %+v, %v, want %d waiting requests", left, err, test.want)
			}
		})
	}
}

// TestPendingDeclined checks that a decline from elsewhere reaches the worker with its
// reason, once.
func TestPendingDeclined(t *testing.T) {
	d := newApprover(t, t.TempDir())
	d.Asker = nil
	id := d.approve(writeA).ID
	if err := answerRequest(d.store, id, false, "user", "not there"); err != nil {
		t.Fatal(err)
	}
	if got := d.approve(writeA); got.Verdict != tool.Declined || got.Note != "not there" {
		t.Errorf("got %+v, want declined with the note", got)
	}
}

// TestPendingUnderOnePolicy checks that an answer counts only for the policy under which
// the request was made.
func TestPendingUnderOnePolicy(t *testing.T) {
	d := newApprover(t, t.TempDir())
	d.Asker = nil
	id := d.approve(writeA).ID
	if err := answerRequest(d.store, id, true, "", ""); err != nil {
		t.Fatal(err)
	}
	d.Policy = "p2"
	if got := d.approve(writeA); got.Verdict != tool.Undecided {
		t.Errorf("under another policy: got %+v, want a new request", got)
	}
}

// TestPendingHosts checks that programs that ask for many hosts leave places for calls.
func TestPendingHosts(t *testing.T) {
	d := newApprover(t, t.TempDir())
	d.Asker = nil
	for worker := range 9 {
		for i := range 18 {
			d.approve(newRequest(tool.ConnectTool, fmt.Sprintf("h%d.w%d.example", i, worker), fmt.Sprint("w", worker), newEffect(policy.Write, "/x")))
		}
	}
	pending, err := d.store.Pending()
	first := 0
	for _, r := range pending {
		if slices.Equal(r.Workers, []string{"w0"}) {
			first++
		}
	}
	if err != nil || len(pending) != 128 || first != 16 {
		t.Errorf("got %d, %d of them of the first worker, %v; want 128 and 16", len(pending), first, err)
	}
	if got := d.approve(newRequest("write_file", "a", "w0", newEffect(policy.Write, "/x"))); got.Verdict != tool.Undecided {
		t.Errorf("a call after them: got %+v", got)
	}
}

// TestPendingLimits checks how long a request is pending, and how many there can be.
func TestPendingLimits(t *testing.T) {
	d := newApprover(t, t.TempDir())
	d.Asker = nil
	id := d.approve(writeA).ID
	if err := answerRequest(d.store, id, true, "", ""); err != nil {
		t.Fatal(err)
	}
	d.now = start.Add(25 * time.Hour)
	if got := d.approve(writeA); got.Verdict != tool.Undecided || got.ID == id {
		t.Errorf("a day later: got %+v, want a new request", got)
	}
	var last tool.Answer
	for i := range 300 {
		last = d.approve(newRequest("write_file", fmt.Sprint(i), "main", newEffect(policy.Write, "/x")))
	}
	if last.Verdict != tool.Declined || !last.Unattended {
		t.Errorf("the 300th: got %+v, want no", last)
	}
	pending, err := d.store.Pending()
	if err != nil || len(pending) > 64 {
		t.Errorf("waiting: got %d, %v", len(pending), err)
	}
	if blobs, err := filepath.Glob(filepath.Join(d.dir, "requests.blobs", "*")); err != nil || len(blobs) > len(pending) {
		t.Errorf("kept: %d contents of %d requests, %v", len(blobs), len(pending), err)
	}
}

// TestAnswerIsUsedOnce makes an approved call many times at once: one passes.
func TestAnswerIsUsedOnce(t *testing.T) {
	dir := t.TempDir()
	d := newApprover(t, dir)
	d.Asker = nil
	for range 20 {
		id := d.approve(writeA).ID
		if err := answerRequest(d.store, id, true, "", ""); err != nil {
			t.Fatal(err)
		}
		var wait sync.WaitGroup
		var mu sync.Mutex
		passed := 0
		for range 8 {
			other := newApprover(t, dir)
			other.Asker = nil
			wait.Go(func() {
				if other.approve(writeA).Verdict == tool.Approved {
					mu.Lock()
					passed++
					mu.Unlock()
				}
			})
		}
		wait.Wait()
		if passed != 1 {
			t.Fatalf("the call was approved %d times, want once", passed)
		}
		pending, err := d.store.Pending()
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range pending { // the others have asked again
			if err := d.store.Revoke(w.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestDamagedState checks that damaged state never approves anything.
func TestDamagedState(t *testing.T) {
	for name, text := range map[string]string{"document": "{\"rules\": [", "rules": `{"rules": [{"id":"x","workers":["main"],"tool":"write_file","scope":"project"}]}`} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d := newApprover(t, dir)
			if err := os.WriteFile(filepath.Join(dir, "approvals.json"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			d.Asker = nil
			if got := d.approve(writeA); got.Verdict == tool.Approved {
				t.Errorf("got %+v", got)
			}
		})
	}
	dir := t.TempDir()
	d := newApprover(t, dir)
	d.Asker = nil
	id := d.approve(writeA).ID
	if err := answerRequest(d.store, id, true, "", ""); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "answers.once", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("answers: %v, %v", files, err)
	}
	for _, f := range files {
		if err := os.WriteFile(f, []byte("yes"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := d.approve(writeA); got.Verdict == tool.Approved {
		t.Errorf("a damaged answer: got %+v", got)
	}
}

// TestTreeRules checks that a rule for a tree says so and covers the tree, and that a rule
// for a file does not.
func TestTreeRules(t *testing.T) {
	all := newRequest("delete_file", "t", "main", policy.Effect{Verb: policy.Delete, Target: "/out/x", Tree: true})
	one := newRequest("delete_file", "o", "main", newEffect(policy.Delete, "/out/x"))
	for _, test := range []struct {
		made, asked tool.Request
		want        tool.Verdict
		text        string
	}{
		{one, all, tool.Declined, "main: delete_file may delete /out/x"},
		{all, all, tool.Approved, "main: delete_file may delete /out/x and all below it"},
		{all, one, tool.Approved, "main: delete_file may delete /out/x and all below it"},
	} {
		d := newApprover(t, t.TempDir())
		rule := approval.OfferRules(test.made)[0]
		if rule.String() != test.text {
			t.Errorf("got %q, want %q", rule, test.text)
		}
		rule.Scope = approval.Project
		d.asker.reply = approval.Reply{Answer: tool.Answer{Verdict: tool.Approved}, Remember: &rule}
		d.approve(test.made)
		d.asker.reply = approval.Reply{}
		if got := d.approve(test.asked); got.Verdict != test.want {
			t.Errorf("after %q: got %+v, want %v", rule, got, test.want)
		}
	}
}

// TestRuleIsStoredAfterTheJournal checks that a rule is stored only when Keep is called, after
// the approval is in the journal.
func TestRuleIsStoredAfterTheJournal(t *testing.T) {
	d := newApprover(t, t.TempDir())
	rule := approval.OfferRules(writeA)[0]
	rule.Scope = approval.Project
	d.asker.reply = approval.Reply{Answer: tool.Answer{Verdict: tool.Approved}, Remember: &rule}
	a := d.Approve(context.Background(), writeA)
	if rules, _ := d.store.Rules(); len(rules) != 0 || a.Keep == nil || !strings.Contains(a.Note, "main: write_file may write /drafts/a.md") {
		t.Errorf("got %+v, and rules %v", a, rules)
	}
}
