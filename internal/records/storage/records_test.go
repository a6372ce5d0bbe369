package storage_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/records/storage"
	"github.com/golem-forge/golem/internal/work/session"
	"github.com/golem-forge/golem/sandbox"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// A store is the records of a program whose clock the test sets.
type store struct {
	*storage.Records
	now time.Time
}

func open(t *testing.T, unseenOff string) *store {
	t.Helper()
	s := &store{now: start}
	var err error
	s.Records, err = storage.Storage{Sessions: session.Sessions{State: t.TempDir(), Root: "/p", Now: func() time.Time { return s.now }}, Policy: "p1", UnseenOff: unseenOff}.OpenRecords()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// request makes a pending request to write a file, and returns its id.
func (s *store) request(t *testing.T, name, path string) string {
	t.Helper()
	effect := policy.Effect{Verb: policy.Write, Target: path}
	a := (&approval.Approver{Mode: approval.Interactive, Store: s.Approvals, Policy: "p1", Now: func() time.Time { return s.now }}).Approve(context.Background(), tool.Request{Digest: "d" + path, CallDigest: "c" + path,
		Origin: policy.Model, Workers: []string{"main"}, Tool: name, Args: []byte("{}"), Effects: []policy.Effect{effect}, ToApprove: []policy.Effect{effect}, Changes: []tool.Change{{Path: path, Op: tool.Create}}})
	if a.Verdict != tool.Undecided || a.ID == "" {
		t.Fatalf("got %+v, want a waiting request", a)
	}
	return a.ID
}

// reply returns a reply to a request that was shown completely, or not at all.
func (s *store) reply(t *testing.T, id string, verdict tool.Verdict, seen bool) approval.Reply {
	t.Helper()
	r := approval.Reply{Answer: tool.Answer{Verdict: verdict, Note: "because"}}
	w, err := s.Approvals.FindPending(id)
	if err != nil {
		t.Fatal(err)
	}
	if request, err := s.Approvals.Request(w); err == nil && seen {
		r.Rendered = request.Items()
	}
	return r
}

// answers returns the answers in the journal: decision, code, note.
func (s *store) answers(t *testing.T) (list []string) {
	t.Helper()
	err := audit.Read(s.Folder, audit.Filter{Kind: string(audit.Answer)}, func(r audit.Record, _ []byte) error {
		list = append(list, strings.TrimSpace(r.Decision+" "+r.Code+" "+r.Note))
		return nil
	})
	if err != nil && len(list) > 0 {
		t.Fatal(err)
	}
	return list
}

type lost bool

func (l lost) HaveLost([]string) bool { return bool(l) }

// TestAnswer checks that an answer is in the journal, that only one counts, and that an
// expired request takes none.
func TestAnswer(t *testing.T) {
	s := open(t, "")
	id, late := s.request(t, "write_file", "/a"), s.request(t, "write_file", "/b")
	if err := s.Answer(id, s.reply(t, id, tool.Declined, true), nil); err != nil {
		t.Fatal(err)
	}
	if got := s.answers(t); len(got) != 1 || got[0] != "no  because" && got[0] != "no because" {
		t.Errorf("journal: got %q", got)
	}
	if err := s.Answer(id, approval.Reply{}, nil); sandbox.CodeOf(err) != sandbox.ErrExists {
		t.Errorf("second answer: got %v", err)
	}
	s.now = start.Add(100 * 24 * time.Hour)
	if err := s.Answer(late, approval.Reply{}, nil); err == nil {
		t.Error("an expired request took an answer")
	}
	if err := s.Answer("zzzz", approval.Reply{}, nil); sandbox.CodeOf(err) != sandbox.ErrNotFound {
		t.Errorf("unknown request: got %v", err)
	}
	if got := s.answers(t); len(got) != 1 {
		t.Errorf("journal after refused answers: got %q", got)
	}
}

// TestAnswerRemembersRefusal checks that golem keeps the rule with which a person declines a
// host for good, and that an approval with such a rule keeps none.
func TestAnswerRemembersRefusal(t *testing.T) {
	for verdict, want := range map[tool.Verdict]int{tool.Declined: 1, tool.Approved: 0} {
		s := open(t, "")
		id := s.request(t, tool.ConnectTool, "/a")
		w, err := s.Approvals.FindPending(id)
		if err != nil {
			t.Fatal(err)
		}
		request, err := s.Approvals.Request(w)
		if err != nil {
			t.Fatal(err)
		}
		rule, ok := approval.RefusalRule(request, approval.Project)
		reply := s.reply(t, id, verdict, true)
		reply.Remember = &rule
		if err := s.Answer(id, reply, nil); err != nil || !ok {
			t.Fatal(err)
		}
		rules, err := s.Approvals.Rules()
		if err != nil || len(rules) != want {
			t.Errorf("%v: got the rules %v, %v, want %d", verdict, rules, err, want)
		}
	}
}

// TestUnseenOff checks that a policy can forbid approvals of what nobody has seen.
func TestUnseenOff(t *testing.T) {
	for name, test := range map[string]struct {
		verdict tool.Verdict
		seen    bool
		allowed bool
	}{
		"approve, seen":   {tool.Approved, true, true},
		"approve, unseen": {tool.Approved, false, false},
		"decline, unseen": {tool.Declined, false, true},
	} {
		s := open(t, "/etc/golem/policy.yaml:2")
		id := s.request(t, "write_file", "/a")
		err := s.Answer(id, s.reply(t, id, test.verdict, test.seen), nil)
		if (err == nil) != test.allowed {
			t.Errorf("%s: got %v", name, err)
		}
		if got := s.answers(t); len(got) > 0 != test.allowed {
			t.Errorf("%s: journal: got %q", name, got)
		}
	}
}

// TestPending checks which requests golem lists: not those that have expired or that no
// session can use any more.
func TestPending(t *testing.T) {
	s := open(t, "")
	write, apply, answered := s.request(t, "write_file", "/a"), s.request(t, "apply_changes", "/b"), s.request(t, "write_file", "/c")
	if err := s.Answer(answered, s.reply(t, answered, tool.Approved, true), nil); err != nil {
		t.Fatal(err)
	}
	ids := func(list []approval.PendingRequest, err error) (ids []string) {
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range list {
			ids = append(ids, w.ID)
		}
		return ids
	}
	for name, test := range map[string]struct{ got, want []string }{
		"pending":               {ids(s.Pending(lost(false))), []string{write, apply, answered}},
		"waiting":               {ids(s.Waiting(lost(false))), []string{write, apply}},
		"without their changes": {ids(s.Waiting(lost(true))), []string{write}},
	} {
		if strings.Join(test.got, " ") != strings.Join(test.want, " ") {
			t.Errorf("%s: got %q, want %q", name, test.got, test.want)
		}
	}
	s.now = start.Add(100 * 24 * time.Hour)
	if got := ids(s.Pending(lost(false))); len(got) > 0 {
		t.Errorf("expired: got %q", got)
	}
}

// TestRevoke checks that a revoked request is gone, and that the journal says so.
func TestRevoke(t *testing.T) {
	s := open(t, "")
	id := s.request(t, "write_file", "/a")
	if what, err := s.Revoke(id, nil); err != nil || what != "request "+id {
		t.Fatalf("got %q, %v", what, err)
	}
	if _, err := s.Approvals.FindPending(id); sandbox.CodeOf(err) != sandbox.ErrNotFound {
		t.Errorf("got %v", err)
	}
	if got := s.answers(t); len(got) != 1 || !strings.HasPrefix(got[0], "revoked") {
		t.Errorf("journal: got %q", got)
	}
	if _, err := s.Revoke(id, nil); err == nil {
		t.Error("revoked twice")
	}
}

// TestExplainError checks that an error names the calls that were done before it, the
// newest ones in full.
func TestExplainError(t *testing.T) {
	s := open(t, "")
	journal, err := s.OpenJournal(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	done, signed := &storage.DoneCalls{}, 0
	g := storage.GateJournal{Journal: journal, Sign: func() error { signed++; return nil }, Done: done}
	call := func(id, code string, effects ...string) {
		t.Helper()
		for _, r := range []audit.Record{{Kind: audit.Intent, Call: id, Tool: "tool-" + id, Effects: effects}, {Kind: audit.Outcome, Call: id, Code: code}} {
			wait := audit.Durable
			if r.Kind == audit.Outcome {
				wait = audit.Written
			}
			if err := g.Write(r, wait); err != nil {
				t.Fatal(err)
			}
		}
	}
	late := errors.New("the disk is full")
	if got := done.ExplainError(late); got != late || done.ExplainError(nil) != nil {
		t.Errorf("without calls: got %v", got)
	}
	call("failed", "not_found", "write /x")
	if got := done.ExplainError(late); got != late {
		t.Errorf("after a failed call: got %v", got)
	}
	call("one", "", "read /secret", "write /out/a\x1b")
	if got := done.ExplainError(late); !errors.Is(got, late) || !strings.HasPrefix(got.Error(), `tool-one ("write /out/a`) || strings.Contains(got.Error(), "\x1b") || strings.Contains(got.Error(), "/secret") {
		t.Errorf("after a call: got %q", got)
	}
	for _, id := range []string{"two", "three", "four"} {
		call(id, "", "write /1", "write /2", "write /3", "write /4", "write /5", "write /6")
	}
	got := done.ExplainError(late).Error()
	for _, want := range []string{"tool-two (write /1,", "and 1 more)", "tool-four", "and 1 earlier calls were done"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q in it", got, want)
		}
	}
	if strings.Contains(got, "tool-one") || signed != 5 {
		t.Errorf("got %q, signed %d times", got, signed)
	}
}

// TestAnswerDistant checks that the journal has the user's answer to another machine before it
// is sent, with the text that was on screen, and says if it does not count there.
func TestAnswerDistant(t *testing.T) {
	s := open(t, "")
	request := tool.Request{Digest: strings.Repeat("d1", 32), CallDigest: "c1", Origin: policy.Model, Workers: []string{"main"}, Tool: "write_file", Args: []byte("{}"),
		Effects: []policy.Effect{{Verb: policy.Write, Target: "/a"}}, Changes: []tool.Change{{Path: "/a", Op: tool.Create}}}
	d := storage.Distant{ID: "req1", Job: "job1", Request: request, Since: start.Add(-90 * time.Second)}
	yes := approval.Reply{Answer: tool.Answer{Verdict: tool.Approved, Front: "golem desk"}, Rendered: request.Items()}
	sent := 0
	if err := s.AnswerDistant(d, yes, nil, func() error { sent++; return nil }); err != nil || sent != 1 {
		t.Fatalf("got %v, sent %d times", err, sent)
	}
	late := &sandbox.Error{Op: "approve", Code: sandbox.ErrExists, Hint: "reviewer approved it"}
	if err := s.AnswerDistant(d, yes, nil, func() error { return late }); !errors.Is(err, late) {
		t.Errorf("a late answer: got %v", err)
	}
	lost := errors.New("the hub did not answer")
	if err := s.AnswerDistant(d, yes, nil, func() error { return lost }); !errors.Is(err, lost) {
		t.Errorf("a lost answer: got %v", err)
	}
	unseen := yes
	unseen.Rendered = nil
	if err := s.AnswerDistant(d, unseen, nil, func() error { sent++; return nil }); sandbox.CodeOf(err) != "unseen" || sent != 1 {
		t.Errorf("an approval of what was not shown: got %v, sent %d times", err, sent)
	}
	off := open(t, "policy.yaml:1")
	unseen.DigestPrefix = request.Digest
	if err := off.AnswerDistant(d, unseen, nil, func() error { sent++; return nil }); sandbox.CodeOf(err) != "blocked" || sent != 1 {
		t.Errorf("an unseen approval that a policy forbids: got %v, sent %d times", err, sent)
	}
	if got, want := strings.Join(s.answers(t), "; "), "yes; yes; yes exists too late: it does not count; yes; yes internal golem does not know whether it counts: the hub did not answer"; got != want {
		t.Errorf("journal:\ngot  %s\nwant %s", got, want)
	}
	err := audit.Read(s.Folder, audit.Filter{Session: "job1"}, func(r audit.Record, _ []byte) error {
		if r.By != "user" || r.Front != "golem desk" || r.Text == "" || r.Request != "req1" || r.Args[storage.WaitedArg] != 90000.0 {
			t.Errorf("record: got %+v", r)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestAnswerRemembers checks that an approval of a request that waits can make a rule, and
// that the journal has it. A decline, an approval unseen and a rule for another call make
// none.
func TestAnswerRemembers(t *testing.T) {
	for name, test := range map[string]struct {
		verdict tool.Verdict
		seen    bool
		change  func(*approval.Rule)
		rules   int
		fails   bool
	}{
		"approved":            {tool.Approved, true, func(*approval.Rule) {}, 1, false},
		"declined":            {tool.Declined, true, func(*approval.Rule) {}, 0, false},
		"unseen":              {tool.Approved, false, func(*approval.Rule) {}, 0, true},
		"for another file":    {tool.Approved, true, func(r *approval.Rule) { r.Effects[0].Target = "/other" }, 0, true},
		"for a run that ends": {tool.Approved, true, func(r *approval.Rule) { r.Scope = approval.Run }, 0, true},
	} {
		s := open(t, "")
		id := s.request(t, "write_file", "/out/abc")
		w, err := s.Approvals.FindPending(id)
		if err != nil {
			t.Fatal(err)
		}
		request, err := s.Approvals.Request(w)
		if err != nil {
			t.Fatal(err)
		}
		rule, ok := approval.AlwaysRule(request)
		if !ok {
			t.Fatal("no rule for the request")
		}
		reply := s.reply(t, id, test.verdict, test.seen)
		test.change(&rule)
		reply.Remember = &rule
		if err := s.Answer(id, reply, nil); (err != nil) != test.fails {
			t.Errorf("%s: got %v", name, err)
		}
		rules, err := s.Approvals.Rules()
		if err != nil || len(rules) != test.rules {
			t.Errorf("%s: got the rules %v, %v", name, rules, err)
		}
		noted := 0
		if err := audit.Read(s.Folder, audit.Filter{}, func(r audit.Record, _ []byte) error {
			if strings.Contains(r.Note, "remembered as rule ") {
				noted++
			}
			return nil
		}); err != nil || noted != test.rules {
			t.Errorf("%s: the journal notes %d rules, %v", name, noted, err)
		}
		if test.rules == 1 && (rules[0].Policy != "p1" || rules[0].String() != "main: write_file may write /out/abc, in this project") {
			t.Errorf("%s: got the rule %+v", name, rules[0])
		}
	}
}
