package network

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/jail/egress"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/internal/records/keyring"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/work/project"
)

// journal keeps records in memory, or refuses them.
type journal struct {
	records []audit.Record
	err     error
}

func (j *journal) Write(r audit.Record, _ audit.Wait) error {
	if j.err == nil {
		j.records = append(j.records, r)
	}
	return j.err
}

// asker answers every question.
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

func parse(t *testing.T, text string) *project.Project {
	t.Helper()
	p, err := project.Parse(t.TempDir(), project.File, []byte(text), project.Env{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// newNetworks returns networks with a user who answers questions.
func newNetworks(t *testing.T, a *asker, mode approval.Mode) (*Networks, *journal) {
	t.Helper()
	folder, err := state.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { folder.Close() })
	store, err := approval.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	j, p := &journal{}, parse(t, "sandbox: {root: .}\nnetwork: {allow: [api.example.org], ask: true}\n")
	p.Approval = string(mode)
	approver := &approval.Approver{Mode: mode, Store: store, Policy: "p1", Now: time.Now}
	if a != nil {
		approver.Asker = a
	}
	return New(Options{Project: p, Journal: j, Approver: approver, Session: "s1", Process: "p", Now: time.Now}), j
}

// TestAskHost checks what each answer means for the connection, and that the journal has
// the answer before it counts.
func TestAskHost(t *testing.T) {
	yes, no := approval.Reply{Answer: tool.Answer{Verdict: tool.Approved, By: "user"}}, approval.Reply{Answer: tool.Answer{Verdict: tool.Declined, By: "user"}}
	for name, test := range map[string]struct {
		user    *asker
		mode    approval.Mode
		listed  bool
		broken  bool // the journal takes no record
		want    egress.Answer
		records string
	}{
		"yes":                         {&asker{reply: yes}, approval.Interactive, false, false, egress.Once, "yes"},
		"no":                          {&asker{reply: no}, approval.Interactive, false, false, egress.No, "no"},
		"nobody there":                {nil, approval.Interactive, false, false, egress.Later, ""},
		"approve all opens no host":   {&asker{reply: yes}, approval.ApproveAll, false, false, egress.No, ""},
		"approve all, a listed host":  {&asker{reply: yes}, approval.ApproveAll, true, false, egress.Once, "yes"},
		"yes that cannot be recorded": {&asker{reply: yes}, approval.Interactive, false, true, egress.Later, ""},
	} {
		n, j := newNetworks(t, test.user, test.mode)
		if test.broken {
			j.err = errors.New("the disk is full")
		}
		got := n.askHost(context.Background(), []string{"main"}, egress.Question{Host: "new.example.org", Ports: []uint16{443}, Listed: test.listed}, func() string { return "" })
		var records []string
		for _, r := range j.records {
			records = append(records, r.Decision)
		}
		if got != test.want || strings.Join(records, " ") != test.records {
			t.Errorf("%s: got %v with the records %q, want %v with %q", name, got, records, test.want, test.records)
		}
	}
}

// TestWaitingHosts checks that a host without an answer waits once, and that no question
// follows after the user has stopped them.
func TestWaitingHosts(t *testing.T) {
	user := &asker{reply: approval.Reply{Answer: tool.Answer{Verdict: tool.Declined, Stop: true, By: "user"}}}
	n, _ := newNetworks(t, user, approval.Interactive)
	ask := func(host string) {
		n.askHost(context.Background(), []string{"main"}, egress.Question{Host: host, Ports: []uint16{443}}, func() string { return "" })
	}
	for _, host := range []string{"one.example.org", "two.example.org", "two.example.org", "three.example.org"} {
		ask(host)
	}
	var hosts []string
	for _, w := range n.Waiting() {
		hosts = append(hosts, w.Host)
	}
	if got := strings.Join(hosts, " "); got != "two.example.org three.example.org" || user.asked != 1 {
		t.Errorf("waiting: got %q after %d questions", got, user.asked)
	}
}

// TestCredentials checks where the value of a credential comes from, and what an error says
// if there is none.
func TestCredentials(t *testing.T) {
	const form = "sandbox: {root: .}\nnetwork: {allow: [{host: api.example.org, credential: key}]}\ncredentials:\n  key: {%, header: \"Authorization: Bearer ${value}\"}\n"
	for name, test := range map[string]struct{ from, want string }{
		"a variable":           {"from: env:MY_KEY", "0123456789abcdef"},
		"a missing variable":   {"from: env:NO_KEY", "error: NO_KEY is not set"},
		"the keyring":          {"from: keyring", "fedcba9876543210"},
		"an unknown secret":    {"from: keyring", "error: golem secret set key"},
		"a variable too short": {"from: env:SHORT", "error: "},
	} {
		p, err := project.Parse(t.TempDir(), project.File, []byte(strings.Replace(form, "%", test.from, 1)), project.Env{}, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c := &credentials{project: p, environ: []string{"MY_KEY=0123456789abcdef\n", "SHORT=x"}, hostEnviron: func() []string { return nil }, secret: func(name string) (string, error) {
			if name == "key" && !strings.HasPrefix(test.want, "error: ") {
				return test.want, nil
			}
			return "", keyring.ErrNotFound
		}}
		found, err := c.find(p.Network)
		if want, isError := strings.CutPrefix(test.want, "error: "); isError {
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "0123456789abcdef") {
				t.Errorf("%s: got %v, want %q", name, err, want)
			}
			continue
		}
		got := found["key"]
		if err != nil || got.Value != test.want || got.Placeholder == "" || strings.Contains(got.Placeholder, got.Value) {
			t.Errorf("%s: got %+v, %v, want %s", name, got, err, test.want)
		}
		env := c.hide(p.Network, []string{"MY_KEY=" + got.Value, "URL=https://x?k=" + got.Value, "PATH=/bin"})
		if text := strings.Join(env, "\n"); strings.Contains(text, got.Value) || !strings.Contains(text, "URL=https://x?k="+got.Placeholder) || !strings.Contains(text, "PATH=/bin") {
			t.Errorf("%s: the environment is %q", name, env)
		}
	}
}

// TestRenewer: golem runs the program of a credential again only when the time is over, and
// not at once if it fails. The error shows nothing that the program printed.
func TestRenewer(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // it has no sh
	}
	dir := t.TempDir()
	now := time.Unix(1_900_000_000, 0)
	h := &credentials{now: func() time.Time { return now }, hostEnviron: func() []string { return []string{"PATH=/usr/bin:/bin"} }}
	line := fmt.Sprintf(`cd %s; echo x >> runs; if test -e broken; then echo the-value >&2; exit 1; fi; echo value-$(wc -l < runs | tr -d " ")`, dir)
	renew := h.renewer(project.Credential{Command: []string{"sh", "-c", line}, TTL: time.Minute}, "value-0")
	step := func(after time.Duration, want string) {
		t.Helper()
		now = now.Add(after)
		got, err := renew()
		if err != nil {
			got = "error: " + err.Error()
		}
		if !strings.HasPrefix(got, want) || strings.Contains(got, "the-value") {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	step(0, "value-0")
	step(59*time.Second, "value-0")
	step(time.Second, "value-1")
	step(59*time.Second, "value-1")
	if err := os.WriteFile(filepath.Join(dir, "broken"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	step(time.Second, "error: its program failed; run it yourself")
	step(time.Second, "error: its program failed")
	if err := os.Remove(filepath.Join(dir, "broken")); err != nil {
		t.Fatal(err)
	}
	step(time.Second, "error: its program failed")
	step(3*time.Second, "value-3")
}

// TestConnectionLog checks the records of connections: an intent has one outcome, and
// nothing is opened that could not be recorded.
func TestConnectionLog(t *testing.T) {
	j := &journal{}
	l := &connectionLog{journal: j, workers: []string{"main"}, prefix: "p-1"}
	for _, r := range []egress.Event{{ID: 1, Step: egress.Opened, Host: "a", Decision: "list"}, {ID: 1, Step: egress.Closed, Host: "a"},
		{ID: 2, Step: egress.Refused, Host: "b", Why: "not on the list"}, {ID: 3, Step: egress.Opened, Host: "c", Decision: "allowed by the user"}, {ID: 3, Step: egress.Refused, Host: "c"}, {ID: 4, Step: egress.Noticed, Host: "d"}} {
		if err := l.record(r); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, r := range j.records {
		got = append(got, string(r.Kind)+" "+r.Call+" "+r.Decision+" "+r.Code)
	}
	want := []string{"intent p-1-1 preApproved ", "outcome p-1-1", "refusal p-1-2 blocked refused", "intent p-1-3 yes ", "outcome p-1-3", "refusal p-1-4"}
	for i := range want {
		if len(got) != len(want) || !strings.HasPrefix(got[i], want[i]) {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	j.err = errors.New("the disk is full")
	if err := l.record(egress.Event{ID: 5, Step: egress.Opened, Host: "e"}); err == nil {
		t.Error("a connection that was not recorded is no error")
	}
}

// TestPresets checks that only a preset that the user named must have a client.
func TestPresets(t *testing.T) {
	p := parse(t, "sandbox: {root: .}\nnetwork: {allow: [api.example.org]}\n")
	list := FindPresets(context.Background(), []string{"npm", "nothing"}, []string{"PATH=" + t.TempDir()}, t.TempDir())
	if len(list) != 1 || list[0].Err == nil {
		t.Fatalf("got %+v", list)
	}
	if problems := AddPresets(p, list, nil); len(problems) > 0 {
		t.Errorf("not named: got %v", problems)
	}
	if problems := AddPresets(p, list, []string{"npm"}); len(problems) != 1 || !strings.Contains(problems[0].Hint, "--net +") {
		t.Errorf("named: got %v", problems)
	}
	if notes := PresetNotes(list); len(notes) != 1 || !strings.Contains(notes[0], "npm") {
		t.Errorf("notes: got %q", notes)
	}
	list[0].Err, list[0].Hosts = nil, policy.HostsOfRules(policy.HostRule{Host: "registry.example.org", Ports: []uint16{443}})
	AddPresets(p, list, nil)
	if !p.Network.Allows("registry.example.org") || !p.Network.Allows("api.example.org") || p.Network.Allows("other.example.org") {
		t.Errorf("got %v", p.Network.Patterns())
	}
}

// TestDeclinedHostIsRemembered checks that golem does not ask again about a host that the
// user declined: in the session after a no, and in the project after never.
func TestDeclinedHostIsRemembered(t *testing.T) {
	q := egress.Question{Host: "new.example.org", Ports: []uint16{443}}
	request, err := tool.NewConnectRequest([]string{"main"}, q.Host, q.Ports, "curl", "")
	if err != nil {
		t.Fatal(err)
	}
	never, ok := approval.RefusalRule(request, approval.Project)
	if !ok {
		t.Fatal("no rule for a host")
	}
	for name, test := range map[string]struct {
		remember *approval.Rule
		other    int // questions after another session has asked, too
	}{"no": {nil, 2}, "never": {&never, 1}} {
		a := &asker{reply: approval.Reply{Answer: tool.Answer{Verdict: tool.Declined, By: "user"}, Remember: test.remember}}
		n, j := newNetworks(t, a, "")
		n.Approver.HostSession = "s1"
		ask := func(n *Networks, taint string) {
			t.Helper()
			if got := n.askHost(context.Background(), []string{"main"}, q, func() string { return taint }); got != egress.No {
				t.Errorf("%s: got %v, want no", name, got)
			}
		}
		ask(n, "")
		ask(n, "")
		ask(n, "/in") // a tainted session gets no more
		if a.asked != 1 {
			t.Errorf("%s: %d questions, want 1", name, a.asked)
		}
		if r := j.records[len(j.records)-1]; r.Decision != "no" || !strings.HasPrefix(r.By, "rule ") {
			t.Errorf("%s: the journal has %+v", name, r)
		}
		n.Approver.Mode = approval.ApproveAll
		if got := n.Approver.Approve(context.Background(), request); got.Verdict == tool.Approved {
			t.Errorf("%s: approve_all approved a declined host", name)
		}
		n.Approver.Mode = ""
		n.Approver.HostSession = "s2"
		ask(n, "")
		if a.asked != test.other {
			t.Errorf("%s: %d questions in another session, want %d", name, a.asked, test.other)
		}
	}
}

// queue is an asker whose first answer ends all questions. The others wait for their turn
// until their context ends.
type queue struct{ waits, answer chan struct{} }

func (a queue) Ask(ctx context.Context, r tool.Request) approval.Reply {
	select {
	case a.waits <- struct{}{}: // the first question
		<-a.answer
		return approval.Reply{Answer: tool.Answer{By: "user", Stop: true}}
	default:
	}
	a.answer <- struct{}{}
	<-ctx.Done()
	return approval.Reply{Answer: tool.Answer{By: "nobody", Unattended: true}}
}

// TestStopEndsWaitingQuestions checks that no more questions holds for a question that
// waits already.
func TestStopEndsWaitingQuestions(t *testing.T) {
	n, _ := newNetworks(t, nil, "")
	n.Approver.Asker = queue{make(chan struct{}, 1), make(chan struct{})}
	var got [2]egress.Answer
	var asking sync.WaitGroup
	for i, host := range []string{"one.example.org", "two.example.org"} {
		asking.Go(func() {
			got[i] = n.askHost(context.Background(), []string{"main"}, egress.Question{Host: host, Ports: []uint16{443}}, func() string { return "" })
		})
	}
	asking.Wait()
	if slices.Sort(got[:]); got != [2]egress.Answer{egress.Later, egress.No} {
		t.Errorf("got %v", got)
	}
	if list := n.Waiting(); len(list) != 1 {
		t.Errorf("%d hosts wait for golem approve, want 1", len(list))
	}
}

// TestRaise checks the question to raise a limit: it waits for golem approve without a
// person, one approval counts once, and no mode answers it.
func TestRaise(t *testing.T) {
	ctx := context.Background()
	n, j := newNetworks(t, nil, "")
	n.Approver.Asker = nil
	raise := func() egress.Answer { return n.AskRaise(ctx, "budget.cost", "$5.00", "$2.00") }
	for range 3 {
		if got := raise(); got != egress.Later {
			t.Fatalf("without a person: got %v", got)
		}
	}
	list := n.Waiting()
	if len(list) != 1 || list[0].Raise != "$2.00" {
		t.Fatalf("%+v wait, want one question", list)
	}
	pending, err := n.Approver.Store.FindPending(list[0].Request)
	if err != nil || !strings.Contains(pending.Summary, "use $2.00 more than its limit of $5.00 (budget.cost)") {
		t.Fatalf("the question is %q, %v", pending.Summary, err)
	}
	request, err := n.Approver.Store.Request(pending)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Approver.Store.Answer(list[0].Request, approval.Reply{Answer: tool.Answer{Verdict: tool.Approved, By: "user"}, Rendered: request.Items()}, n.Now()); err != nil {
		t.Fatal(err)
	}
	if got := n.AskRaise(ctx, "budget.cost", "$5.00", "$9.00"); got != egress.Later {
		t.Errorf("the answer counts for another amount: got %v", got)
	}
	if got := raise(); got != egress.Once {
		t.Errorf("approved: got %v", got)
	}
	if r := j.records[len(j.records)-1]; r.Decision != "yes" || r.Tool != "golem budget" {
		t.Errorf("the journal has %+v", r)
	}
	if got := raise(); got != egress.Later {
		t.Errorf("an approval counts twice: got %v", got)
	}
	for _, mode := range []approval.Mode{approval.ApproveAll, approval.AutoDeny} {
		a := &asker{reply: approval.Reply{Answer: tool.Answer{Verdict: tool.Approved, By: "user"}}}
		n, _ := newNetworks(t, a, mode)
		n.Approver.ModeIsFlag = true
		if got := n.AskRaise(ctx, "budget.cost", "$5.00", "$2.00"); got == egress.Once || a.asked > 0 {
			t.Errorf("%s: got %v after %d questions", mode, got, a.asked)
		}
	}
}
