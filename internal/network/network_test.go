package network

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/approval"
	"github.com/golem-forge/golem/internal/audit"
	"github.com/golem-forge/golem/internal/egress"
	"github.com/golem-forge/golem/internal/keyring"
	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/project"
	"github.com/golem-forge/golem/internal/state"
	"github.com/golem-forge/golem/internal/tool"
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

// TestConnectionLog checks the records of connections: an intent has one outcome, and
// nothing is opened that could not be recorded.
func TestConnectionLog(t *testing.T) {
	j := &journal{}
	l := &connectionLog{journal: j, workers: []string{"main"}, prefix: "p-1"}
	for _, r := range []egress.Record{{ID: 1, Step: egress.Opened, Host: "a", Decision: "list"}, {ID: 1, Step: egress.Closed, Host: "a"},
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
	if err := l.record(egress.Record{ID: 5, Step: egress.Opened, Host: "e"}); err == nil {
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
