package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/hub/serve"
)

// A place is a hub in a directory, which can be stopped and started again.
type place struct {
	t      testing.TB
	dir    string
	server *serve.Server
	listen string

	maxJobs  int
	deadline time.Duration
	isQuiet  bool // it does not log what the hub tells

	mu    sync.Mutex
	steps map[string]func() // what happens once at a step of the hub
	ahead atomic.Int64      // how much the clock of the hub is ahead, in nanoseconds
}

// once lets something happen the next time that the hub comes to a step. It returns a function that
// reports whether it has happened.
func (p *place) once(step string, do func()) (happened func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.steps == nil {
		p.steps = make(map[string]func())
	}
	var done atomic.Bool
	p.steps[step] = func() { do(); done.Store(true) }
	return done.Load
}

func (p *place) atStep(step string) {
	p.mu.Lock()
	do := p.steps[step]
	delete(p.steps, step)
	p.mu.Unlock()
	if do != nil {
		do()
	}
}

const deadline = 2 * time.Second

func start(t testing.TB) *place {
	p := &place{t: t, dir: t.TempDir(), listen: "127.0.0.1:0", deadline: deadline}
	p.start()
	t.Cleanup(func() { p.server.Close() })
	return p
}

func (p *place) start() {
	p.t.Helper()
	o := serve.Options{Data: p.dir, Listen: p.listen, Deadline: p.deadline, MaxJobs: p.maxJobs, Now: func() time.Time { return time.Now().Add(time.Duration(p.ahead.Load())) }, Tell: func(text string) {
		if !p.isQuiet {
			p.t.Log("hub: " + text)
		}
	}}
	o.OnStep(p.atStep)
	s, err := serve.Start(o)
	if err != nil {
		p.t.Fatal(err)
	}
	p.server = s
	p.listen = strings.TrimPrefix(s.Addresses()[0], "nats://")
}

// claim asks whether a node may make a call.
func claim(ctx context.Context, node *hub.Client, c hub.Claim) error {
	_, err := node.Claim(ctx, c)
	return err
}

func (p *place) restart() {
	p.t.Helper()
	p.server.Close()
	p.start()
}

// connect connects with credentials.
func (p *place) connect(c hub.Credentials) *hub.Client {
	p.t.Helper()
	client, err := hub.Connect(p.t.Context(), c, hub.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(client.Close)
	return client
}

func (p *place) admin() *hub.Client {
	p.t.Helper()
	c, err := hub.ReadCredentials(filepath.Join(p.dir, "admin.creds"))
	if err != nil {
		p.t.Fatal(err)
	}
	return p.connect(c)
}

// invite returns credentials of a role.
func (p *place) invite(admin *hub.Client, role hub.Role, name string) hub.Credentials {
	p.t.Helper()
	seed, key, err := hub.NewSeed()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := admin.Invite(p.t.Context(), hub.Invitation{Key: key, Role: role, Name: name}); err != nil {
		p.t.Fatal(err)
	}
	c := admin.Credentials
	c.Role, c.Name, c.Seed = role, name, seed
	return c
}

func (p *place) client(admin *hub.Client, role hub.Role, name string) *hub.Client {
	p.t.Helper()
	return p.connect(p.invite(admin, role, name))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// send sends a content for a job, or for the user's own jobs, and returns its hash.
func send(t testing.TB, c *hub.Client, job hub.Attempt, content string) string {
	t.Helper()
	hash := hub.HashOf([]byte(content))
	must(t, c.Put(t.Context(), hub.Part{Job: job.Job, Attempt: job.Number, Hash: hash, Size: int64(len(content))}, strings.NewReader(content)))
	return hash
}

// list sends a list of files with a content each.
func list(t testing.TB, c *hub.Client, job hub.Attempt, contents ...string) string {
	t.Helper()
	for _, content := range contents {
		send(t, c, job, content)
	}
	return send(t, c, job, listText(contents...))
}

// listText returns a list of files with a content each.
func listText(contents ...string) string {
	var entries []map[string]any
	for i, content := range contents {
		entries = append(entries, map[string]any{"Name": fmt.Sprint("file", i), "Hash": hub.HashOf([]byte(content)), "Size": len(content)})
	}
	text, _ := json.Marshal(map[string]any{"program": entries})
	return string(text)
}

var jobs atomic.Int64

// submit submits a job with files.
func submit(t testing.TB, c *hub.Client, approvers []string, labels []string, contents ...string) string {
	t.Helper()
	spec := hub.Spec{ID: fmt.Sprintf("job%08d", jobs.Add(1)), Hub: c.Hub, User: c.Key, Name: "papers", Trust: hub.HashOf(nil), Input: "Summarise\nthem", Files: list(t, c, hub.Attempt{}, contents...), Labels: labels, Approvers: approvers}
	signed, err := hub.SignSpec(c.Credentials, spec)
	must(t, err)
	must(t, c.Submit(t.Context(), signed))
	return spec.ID
}

// take takes a job that is there.
func take(t testing.TB, c *hub.Client, labels ...string) *hub.Job {
	t.Helper()
	j, err := c.Take(t.Context(), hub.Offer{Labels: labels, Wait: 20 * time.Second})
	must(t, err)
	if j == nil {
		t.Fatal("there is no job")
	}
	return j
}

func of(j *hub.Job) hub.Attempt { return hub.Attempt{Job: j.ID, Number: j.Attempt} }

// decision signs a decision about a request.
func decision(t testing.TB, c *hub.Client, job string, r hub.Request, reply string) hub.Signed {
	t.Helper()
	s, err := hub.SignDecision(c.Credentials, hub.Decision{Hub: c.Hub, Job: job, Request: r.ID, Hash: r.Hash, By: c.Key, Name: c.Name, Reply: hub.Reply{Note: reply}})
	must(t, err)
	return s
}

// TestJob follows a job from its submission to its result, with the hub stopped and started
// between all steps.
func TestJob(t *testing.T) {
	p := start(t)
	admin := p.admin()
	maker, node, other, approver := p.client(admin, hub.Submit, "maker"), p.client(admin, hub.Node, "node"), p.client(admin, hub.Node, "other"), p.client(admin, hub.Approve, "approver")
	big := strings.Repeat("0123456789abcdef", hub.MaxPart/8)
	id := submit(t, maker, []string{approver.Key}, nil, "a worker", big)
	p.restart()
	j := take(t, node)
	spec, err := hub.OpenSpec(j.Spec)
	if err != nil || j.ID != id || spec.ID != id || j.Attempt != 1 {
		t.Fatalf("got %+v, %v", j, err)
	}
	for _, content := range []string{"a worker", big} {
		got, err := node.Get(t.Context(), hub.Part{Job: id, Attempt: 1, Hash: hub.HashOf([]byte(content))})
		if err != nil || string(got) != content {
			t.Fatalf("content: got %d bytes, %v", len(got), err)
		}
	}
	p.restart()
	must(t, claim(t.Context(), node, hub.Claim{Attempt: of(j), Call: "1.1", Tool: "shell", Nonce: "n1"}))
	must(t, claim(t.Context(), node, hub.Claim{Attempt: of(j), Call: "1.1", Tool: "shell", Nonce: "n1"})) // the same claim again
	files := list(t, node, of(j), "a worker", "what it made")
	must(t, node.Checkpoint(t.Context(), hub.Checkpoint{Attempt: of(j), Files: files, Journal: hub.Head{Count: 3, Hash: "h3"}, First: 1, Lines: [][]byte{[]byte(`{"n":1}`), []byte(`{"n":2}`)}}))
	must(t, node.Checkpoint(t.Context(), hub.Checkpoint{Attempt: of(j), Files: files, Journal: hub.Head{Count: 3, Hash: "h3"}, First: 2, Lines: [][]byte{[]byte(`{"n":2}`), []byte(`{"n":3}`)}}))
	if err := node.Checkpoint(t.Context(), hub.Checkpoint{Attempt: of(j), Files: files, Journal: hub.Head{Count: 2, Hash: "h2"}}); !hub.IsCode(err, hub.CodeInvalid) {
		t.Errorf("a shorter journal: got %v", err)
	}
	request := hub.Request{ID: "r1", Hash: send(t, node, of(j), `{"tool":"push"}`), Digest: "d", Tool: "push"}
	must(t, node.Ask(t.Context(), hub.Question{Attempt: of(j), Requests: []hub.Request{request}}))
	must(t, node.Pause(t.Context(), of(j)))
	p.restart()
	if got, err := other.Take(t.Context(), hub.Offer{Wait: 100 * time.Millisecond}); got != nil || err != nil {
		t.Fatalf("a waiting job was given away: %+v, %v", got, err)
	}
	shown, err := approver.Get(t.Context(), hub.Part{Job: id, Hash: request.Hash})
	if err != nil || string(shown) != `{"tool":"push"}` {
		t.Fatalf("the request: got %q, %v", shown, err)
	}
	must(t, approver.Decide(t.Context(), id, decision(t, approver, id, request, "yes")))
	p.restart()
	j = take(t, other)
	if j.Attempt != 2 || j.Checkpoint != files || len(j.Requests) != 1 || j.Requests[0].Decided == nil || j.Events != 3 {
		t.Fatalf("got %+v", j)
	}
	if d, err := hub.OpenDecision(*j.Requests[0].Decided, spec, j.Requests[0]); err != nil || d.Reply.Note != "yes" {
		t.Errorf("decision: got %+v, %v", d, err)
	}
	if _, err := node.Beat(t.Context(), hub.Attempt{Job: id, Number: 1}); !hub.IsCode(err, hub.CodeStale) {
		t.Errorf("the first attempt still beats: %v", err)
	}
	if err := claim(t.Context(), other, hub.Claim{Attempt: of(j), Call: "1.1", Tool: "shell", Nonce: "n2"}); !hub.IsCode(err, hub.CodeDoubt) || !strings.Contains(err.Error(), "attempt 1 began") {
		t.Errorf("a call that was begun: got %v", err)
	}
	for range 2 { // the answer may get lost
		must(t, other.End(t.Context(), hub.End{Attempt: of(j), State: hub.Done, Result: hub.Result{Answer: "summary", Session: "abc"}}))
	}
	p.restart()
	got, err := maker.Job(t.Context(), id[:9])
	if err != nil || got.State != hub.Done || got.Result.Answer != "summary" {
		t.Errorf("got %+v, %v", got, err)
	}
	e, err := maker.Events(t.Context(), hub.EventsQuery{Job: id, From: 2})
	if err != nil || len(e.Lines) != 2 || string(e.Lines[1]) != `{"n":3}` || e.Next != 4 || e.State != hub.Done {
		t.Errorf("events: got %+v, %v", e, err)
	}
	if got, err := other.Take(t.Context(), hub.Offer{Wait: deadline + time.Second}); got != nil || err != nil {
		t.Errorf("a finished job was given away: %+v, %v", got, err)
	}
}

// TestSilentNode checks that a job of a silent node is given to another, that a beating node
// keeps its job, and that the silent one is refused when it comes back.
func TestSilentNode(t *testing.T) {
	p := start(t)
	admin := p.admin()
	maker, a, b := p.client(admin, hub.Submit, "maker"), p.client(admin, hub.Node, "a"), p.client(admin, hub.Node, "b")
	submit(t, maker, nil, nil, "x")
	j := take(t, a)
	for range 4 {
		time.Sleep(deadline / 3)
		if cancel, err := a.Beat(t.Context(), of(j)); cancel || err != nil {
			t.Fatalf("beat: %t, %v", cancel, err)
		}
	}
	if got, err := b.Take(t.Context(), hub.Offer{Wait: 50 * time.Millisecond}); got != nil || err != nil {
		t.Fatalf("a job in work was given away: %+v, %v", got, err)
	}
	again := take(t, b)
	if again.ID != j.ID || again.Attempt != 2 {
		t.Fatalf("got %+v", again)
	}
	stale := map[string]error{
		"claim":      claim(t.Context(), a, hub.Claim{Attempt: of(j), Call: "1.1", Nonce: "x"}),
		"checkpoint": a.Checkpoint(t.Context(), hub.Checkpoint{Attempt: of(j), Files: hub.HashOf(nil)}),
		"end":        a.End(t.Context(), hub.End{Attempt: of(j), State: hub.Done}),
		"pause":      a.Pause(t.Context(), of(j)),
	}
	for what, err := range stale {
		if !hub.IsCode(err, hub.CodeStale) {
			t.Errorf("%s of the first attempt: got %v", what, err)
		}
	}
	must(t, maker.Cancel(t.Context(), j.ID))
	if cancel, err := b.Beat(t.Context(), of(again)); !cancel || err != nil {
		t.Errorf("a cancelled job: %t, %v", cancel, err)
	}
	must(t, b.End(t.Context(), hub.End{Attempt: of(again), State: hub.Cancelled}))
}

// TestCancelWaiting checks that a job that is cancelled while its node waits for a decision is
// over when the node gives it back.
func TestCancelWaiting(t *testing.T) {
	p := start(t)
	admin := p.admin()
	maker, node, approver := p.client(admin, hub.Submit, "maker"), p.client(admin, hub.Node, "node"), p.client(admin, hub.Approve, "approver")
	id := submit(t, maker, []string{approver.Key}, nil, "x")
	j := take(t, node)
	must(t, node.Ask(t.Context(), hub.Question{Attempt: of(j), Requests: []hub.Request{{ID: "r1", Hash: send(t, node, of(j), "request"), Tool: "push"}}}))
	must(t, maker.Cancel(t.Context(), id))
	must(t, node.Pause(t.Context(), of(j)))
	if got, err := maker.Job(t.Context(), id); err != nil || got.State != hub.Cancelled {
		t.Errorf("got %s, %v, want %s", got.State, err, hub.Cancelled)
	}
}

// TestDoubt checks that a job in doubt names the attempt that began the call.
func TestDoubt(t *testing.T) {
	p := start(t)
	admin := p.admin()
	maker, a, b := p.client(admin, hub.Submit, "maker"), p.client(admin, hub.Node, "a"), p.client(admin, hub.Node, "b")
	id := submit(t, maker, nil, nil, "x")
	must(t, claim(t.Context(), a, hub.Claim{Attempt: of(take(t, a)), Call: "1.1", Tool: "push", Nonce: "x"}))
	again := take(t, b)
	if err := claim(t.Context(), b, hub.Claim{Attempt: of(again), Call: "1.1", Tool: "push", Nonce: "y"}); !hub.IsCode(err, hub.CodeDoubt) {
		t.Fatalf("the second attempt: got %v", err)
	}
	must(t, b.End(t.Context(), hub.End{Attempt: of(again), State: hub.InDoubt, Doubt: &hub.Doubt{Call: "1.1", Tool: "push", Attempt: 2}}))
	got, err := maker.Job(t.Context(), id)
	must(t, err)
	if len(got.Doubts) != 1 || got.Doubts[0].Attempt != 1 || got.State != hub.InDoubt {
		t.Fatalf("got %s, %+v, want a doubt of attempt 1", got.State, got.Doubts)
	}
	must(t, maker.Retry(t.Context(), id))
	must(t, claim(t.Context(), a, hub.Claim{Attempt: of(take(t, a)), Call: "1.1", Tool: "push", Nonce: "z"}))
}

// TestLabels checks that a job goes to a node with all its labels.
func TestLabels(t *testing.T) {
	p := start(t)
	admin := p.admin()
	maker, node := p.client(admin, hub.Submit, "maker"), p.client(admin, hub.Node, "node")
	both, none := submit(t, maker, nil, []string{"gpu", "large"}, "x"), submit(t, maker, nil, nil, "x")
	if j := take(t, node, "gpu"); j.ID != none {
		t.Errorf("got %s, want the job without labels", j.ID)
	}
	if j := take(t, node, "large", "other", "gpu"); j.ID != both {
		t.Errorf("got %s, want the job with both labels", j.ID)
	}
}

// TestDecisions lets five approvers decide about 100 requests at once: each is decided once.
func TestDecisions(t *testing.T) {
	p := start(t)
	admin := p.admin()
	maker, node := p.client(admin, hub.Submit, "maker"), p.client(admin, hub.Node, "node")
	var approvers []*hub.Client
	var keys []string
	for i := range 5 {
		c := p.client(admin, hub.Approve, fmt.Sprint("approver", i))
		approvers, keys = append(approvers, c), append(keys, c.Key)
	}
	id := submit(t, maker, keys, nil, "x")
	j := take(t, node)
	var requests []hub.Request
	for i := range 100 {
		requests = append(requests, hub.Request{ID: fmt.Sprint("r", i), Hash: send(t, node, of(j), fmt.Sprint("request ", i)), Tool: "push"})
	}
	must(t, node.Ask(t.Context(), hub.Question{Attempt: of(j), Requests: requests}))
	var won, lost atomic.Int64
	var all sync.WaitGroup
	for _, a := range approvers {
		all.Go(func() {
			for _, r := range requests {
				err := a.Decide(t.Context(), id, decision(t, a, id, r, a.Name))
				switch {
				case err == nil:
					won.Add(1)
				case hub.IsCode(err, hub.CodeDecided):
					lost.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if won.Load() != 100 || lost.Load() != 400 {
		t.Errorf("%d decisions counted and %d came too late, want 100 and 400", won.Load(), lost.Load())
	}
	got, err := node.Decisions(t.Context(), hub.DecisionsQuery{Attempt: of(j)})
	must(t, err)
	spec, err := hub.OpenSpec(j.Spec)
	must(t, err)
	for _, r := range got {
		if r.Decided == nil {
			t.Fatalf("%s has no decision", r.ID)
		}
		if _, err := hub.OpenDecision(*r.Decided, spec, r); err != nil {
			t.Error(err)
		}
	}
}

// TestHostileNode tries what a node with a stolen key could try.
func TestHostileNode(t *testing.T) {
	p := start(t)
	admin := p.admin()
	maker, approver := p.client(admin, hub.Submit, "maker"), p.client(admin, hub.Approve, "approver")
	creds := p.invite(admin, hub.Node, "evil")
	evil := p.connect(creds)
	secret := send(t, maker, hub.Attempt{}, "a secret of another job")
	other := submit(t, maker, []string{approver.Key}, []string{"never"}, "another job", "a secret of another job")
	submit(t, maker, []string{approver.Key}, nil, "its own job")
	j := take(t, evil)
	request := hub.Request{ID: "r1", Hash: send(t, evil, of(j), "request"), Tool: "push"}
	must(t, evil.Ask(t.Context(), hub.Question{Attempt: of(j), Requests: []hub.Request{request}}))

	t.Run("decide", func(t *testing.T) {
		if err := evil.Decide(t.Context(), j.ID, decision(t, evil, j.ID, request, "yes")); !hub.IsCode(err, hub.CodeRefused) {
			t.Errorf("got %v", err)
		}
		// Signed by itself, in the name of the approver, sent by an approver who does not look.
		forged, err := hub.SignDecision(evil.Credentials, hub.Decision{Hub: evil.Hub, Job: j.ID, Request: "r1", Hash: request.Hash, By: approver.Key, Reply: hub.Reply{Yes: true}})
		must(t, err)
		if err := approver.Decide(t.Context(), j.ID, forged); !hub.IsCode(err, hub.CodeInvalid) {
			t.Errorf("a forged signature: got %v", err)
		}
		// A decision about another request or another job, sent again for this one.
		for _, d := range []hub.Decision{
			{Hub: evil.Hub, Job: other, Request: "r1", Hash: request.Hash, By: approver.Key},
			{Hub: evil.Hub, Job: j.ID, Request: "r1", Hash: hub.HashOf([]byte("another")), By: approver.Key},
			{Hub: "N", Job: j.ID, Request: "r1", Hash: request.Hash, By: approver.Key},
		} {
			signed, err := hub.SignDecision(approver.Credentials, d)
			must(t, err)
			if err := approver.Decide(t.Context(), j.ID, signed); !hub.IsCode(err, hub.CodeInvalid) {
				t.Errorf("%+v: got %v", d, err)
			}
		}
		got, err := evil.Decisions(t.Context(), hub.DecisionsQuery{Attempt: of(j)})
		if err != nil || got[0].Decided != nil {
			t.Errorf("decided: %+v, %v", got, err)
		}
	})

	t.Run("contents", func(t *testing.T) {
		for name, part := range map[string]hub.Part{
			"of its own job":  {Job: j.ID, Attempt: 1, Hash: secret},
			"of another job":  {Job: other, Attempt: 1, Hash: secret},
			"without a job":   {Hash: secret},
			"another attempt": {Job: j.ID, Attempt: 2, Hash: hub.HashOf([]byte("its own job"))},
			"attempt zero":    {Job: other, Hash: secret},
		} {
			if got, err := evil.Get(t.Context(), part); err == nil {
				t.Errorf("%s: got %q", name, got)
			}
		}
		// A checkpoint that names the secret by its hash does not make it the job's own.
		text := fmt.Sprintf(`{"program":[{"Name":"x","Hash":%q,"Size":4}]}`, secret)
		files := send(t, evil, of(j), text)
		if err := evil.Checkpoint(t.Context(), hub.Checkpoint{Attempt: of(j), Files: files}); !hub.IsCode(err, hub.CodeInvalid) {
			t.Errorf("checkpoint: got %v", err)
		}
		// A content under the hash of another.
		err := evil.Put(t.Context(), hub.Part{Job: j.ID, Attempt: 1, Hash: secret, Size: 4}, strings.NewReader("evil"))
		if !hub.IsCode(err, hub.CodeInvalid) {
			t.Errorf("a wrong content: got %v", err)
		}
	})

	t.Run("other roles", func(t *testing.T) {
		ctx := t.Context()
		_, users := evil.Users(ctx)
		_, all := evil.Jobs(ctx, hub.Filter{})
		_, one := evil.Job(ctx, other)
		_, revoked := evil.Revoke(ctx, "approver")
		for name, err := range map[string]error{
			"invite": evil.Invite(ctx, hub.Invitation{Key: evil.Key, Role: hub.Approve, Name: "x"}), "users": users, "jobs": all, "job": one, "revoke": revoked,
			"cancel": evil.Cancel(ctx, other), "retry": evil.Retry(ctx, other), "submit": evil.Submit(ctx, hub.Signed{}),
		} {
			if !hub.IsCode(err, hub.CodeRefused) {
				t.Errorf("%s: got %v", name, err)
			}
		}
	})

	t.Run("subjects", func(t *testing.T) {
		refused := make(chan error, 100)
		conn, err := nats.Connect(creds.URLs[0], nats.Nkey(evil.Key, creds.Sign), nats.CustomInboxPrefix(hub.InboxPrefix(evil.Key)),
			nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
		must(t, err)
		defer conn.Close()
		pack, err := hub.Pack(nil, nil, nil)
		must(t, err)
		// The hub must not answer to somebody else's inbox, nor to its own subjects.
		listening := make(chan *nats.Msg, 10)
		for _, reply := range []string{hub.InboxPrefix(approver.Key) + ".x", "golem.ask." + approver.Key + ".decide", "golem.ask." + evil.Key + ".take", "$JS.API.STREAM.LIST"} {
			must(t, conn.PublishRequest(hub.AskSubject(evil.Key, "hello"), reply, pack))
		}
		for _, subject := range []string{hub.AskSubject(approver.Key, "decide"), hub.AskSubject(maker.Key, "jobs"), "$JS.API.STREAM.LIST", "$SYS.REQ.SERVER.PING", hub.InboxPrefix(approver.Key) + ".x", "golem.ask.>", "x"} {
			must(t, conn.PublishRequest(subject, hub.InboxPrefix(evil.Key)+".x", pack))
		}
		for _, subject := range []string{">", "golem.>", hub.InboxPrefix(approver.Key) + ".>", "_INBOX_*.>", "$SYS.>", "golem.ask.*.*"} {
			if sub, err := conn.ChanSubscribe(subject, listening); err == nil {
				defer sub.Unsubscribe()
			}
		}
		conn.Flush()
		_, err = approver.Jobs(t.Context(), hub.Filter{}) // something to listen to
		must(t, err)
		time.Sleep(200 * time.Millisecond)
		if n := len(refused); n < 12 {
			t.Errorf("%d subjects were refused, want 12 at least", n)
		}
		if len(listening) > 0 {
			t.Errorf("it heard %q", (<-listening).Subject)
		}
		if _, err := conn.Request("$JS.API.INFO", nil, 200*time.Millisecond); err == nil {
			t.Error("it reached JetStream")
		}
	})

	t.Run("huge", func(t *testing.T) {
		err := evil.Put(t.Context(), hub.Part{Job: j.ID, Attempt: 1, Hash: secret, Size: 1 << 40}, bytes.NewReader(make([]byte, hub.MaxPart)))
		if !hub.IsCode(err, hub.CodeInvalid) {
			t.Errorf("a huge content: got %v", err)
		}
		lines := [][]byte{bytes.Repeat([]byte("x"), 6<<20)}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := evil.Checkpoint(ctx, hub.Checkpoint{Attempt: of(j), Files: j.Files, Lines: lines, First: 1}); err == nil {
			t.Error("a huge event was kept")
		}
		if _, err := approver.Jobs(t.Context(), hub.Filter{}); err != nil {
			t.Errorf("the hub after it: %v", err)
		}
	})

	t.Run("revoked", func(t *testing.T) {
		if n, err := admin.Revoke(t.Context(), "evil"); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if _, err := evil.Beat(ctx, of(j)); err == nil {
			t.Error("a revoked key still works")
		}
		if _, err := hub.Connect(t.Context(), creds, hub.Options{}); err == nil || !strings.Contains(err.Error(), "golem hub invite") {
			t.Errorf("a revoked key connects: %v", err)
		}
	})
}

// TestUnknownUser checks that nobody without a key gets in, and that another hub is noticed.
func TestUnknownUser(t *testing.T) {
	p := start(t)
	admin := p.admin()
	seed, _, err := hub.NewSeed()
	must(t, err)
	stranger := admin.Credentials
	stranger.Seed = seed
	if _, err := hub.Connect(t.Context(), stranger, hub.Options{}); err == nil {
		t.Error("an unknown key connects")
	}
	if _, err := nats.Connect(admin.URLs[0]); err == nil {
		t.Error("somebody without a key connects")
	}
	fake := admin.Credentials
	fake.Hub = start(t).server.Key()
	if _, err := hub.Connect(t.Context(), fake, hub.Options{}); err == nil || !strings.Contains(err.Error(), "another hub") {
		t.Errorf("another hub: got %v", err)
	}
	if _, err := serve.Start(serve.Options{Data: p.dir, Listen: "127.0.0.1:0", Deadline: deadline, Now: time.Now}); err == nil || !strings.Contains(err.Error(), "another golem hub uses") {
		t.Errorf("a second hub in one directory: got %v", err)
	}
	file := filepath.Join(p.dir, "admin.creds")
	if _, err := serve.Start(serve.Options{Data: file, Listen: "127.0.0.1:0", Deadline: deadline, Now: time.Now}); err == nil || !strings.Contains(err.Error(), "data directory "+file) || !strings.Contains(err.Error(), "--data") {
		t.Errorf("a file as the directory: got %v", err)
	}
	var refused *hub.Error
	if err := admin.Decide(t.Context(), "x", hub.Signed{}); !errors.As(err, &refused) {
		t.Errorf("an administrator decides: got %v", err)
	}
}

// TestPatience checks that a client tries again if the hub cannot do something now, and says so.
func TestPatience(t *testing.T) {
	front, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, AlwaysEnableNonce: true, MaxSubs: 1})
	must(t, err)
	front.Start()
	defer front.Shutdown()
	if !front.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	own, err := nkeys.CreateServer()
	must(t, err)
	public, err := own.PublicKey()
	must(t, err)
	conn, err := nats.Connect(front.ClientURL())
	must(t, err)
	defer conn.Close()
	asked := 0
	_, err = conn.Subscribe("golem.ask.*.*", func(m *nats.Msg) {
		var proof string
		if strings.HasSuffix(m.Subject, ".hello") {
			hub.Unpack(m.Data, &proof)
			signature, _ := own.Sign([]byte("golem hub\n" + proof))
			answer, _ := hub.Pack(hub.Greeting{Hub: public}, nil, signature)
			m.Respond(answer)
			return
		}
		asked++
		var failure *hub.Error
		if asked == 5 { // such as a lost answer; the next refusal is the fifth
			m.Respond([]byte{0xff})
			return
		}
		if asked < 9 {
			failure = &hub.Error{Code: hub.CodeInternal, Text: "the disk is full"}
		}
		answer, _ := hub.Pack([]hub.User{}, failure, nil)
		m.Respond(answer)
	})
	must(t, err)
	seed, _, err := hub.NewSeed()
	must(t, err)
	var said []string
	c, err := hub.Connect(t.Context(), hub.Credentials{Hub: public, URLs: []string{front.ClientURL()}, Role: hub.Admin, Name: "x", Seed: seed}, hub.Options{OnChange: func(text string) { said = append(said, text) }})
	must(t, err)
	defer c.Close()
	if _, err := c.Users(t.Context()); err != nil || len(said) != 1 || !strings.Contains(said[0], "the hub could not do it (users): the disk is full; trying again") {
		t.Errorf("got %v, and it said %q", err, said)
	}
	// One subscription is enough for all requests.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var asking sync.WaitGroup
	for range 20 {
		asking.Go(func() {
			if _, err := c.Users(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	asking.Wait()
}
