package serve_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/hub/serve"
)

// TestOlderClients checks that a client of the first versions, which has a subscription for each
// request, gets all its answers.
func TestOlderClients(t *testing.T) {
	p := start(t)
	creds := p.invite(p.admin(), hub.Node, "node")
	key, err := creds.PublicKey()
	must(t, err)
	conn, err := nats.Connect(creds.URLs[0], nats.Nkey(key, creds.Sign), nats.CustomInboxPrefix(hub.InboxPrefix(key)), nats.UseOldRequestStyle())
	must(t, err)
	defer conn.Close()
	message, err := hub.Pack(hub.Offer{Labels: []string{"none"}, Wait: time.Second}, nil, nil)
	must(t, err)
	var asking sync.WaitGroup
	for i := range 100 {
		asking.Go(func() {
			if _, err := conn.Request(hub.AskSubject(key, "take"), message, 20*time.Second); err != nil {
				t.Errorf("request %d: %v", i, err)
			}
		})
	}
	asking.Wait()
}

// TestManyRequests lets one node hold 64 jobs that wait for decisions, while one person's client
// asks a hundred things at once. Every request gets its answer, and no job is given away.
func TestManyRequests(t *testing.T) {
	p := start(t)
	p.deadline = 30 * time.Second // a busy machine is not a silent node
	p.restart()
	admin := p.admin()
	maker, node, approver := p.client(admin, hub.Submit, "maker"), p.client(admin, hub.Node, "node"), p.client(admin, hub.Approve, "approver")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const slots = 64
	for range slots {
		submit(t, maker, []string{approver.Key}, nil, "a worker")
	}
	var working, asking sync.WaitGroup
	waiting := make(chan *hub.Job, slots)
	for i := range slots {
		working.Go(func() {
			j, err := node.Take(ctx, hub.Offer{Wait: 10 * time.Second})
			if err != nil || j == nil {
				t.Errorf("slot %d: got %v, %v", i, j, err)
				return
			}
			r := hub.Request{ID: "r1", Hash: send(t, node, of(j), "a call of "+j.ID), Tool: "push"}
			if err := node.Ask(ctx, hub.Question{Attempt: of(j), Requests: []hub.Request{r}}); err != nil {
				t.Errorf("%s: %v", j.ID, err)
			}
			j.Requests = []hub.Request{r}
			waiting <- j
			for decided := false; !decided && ctx.Err() == nil; {
				list, err := node.Decisions(ctx, hub.DecisionsQuery{Attempt: of(j), Wait: 20 * time.Second})
				if err != nil || len(list) != 1 {
					t.Errorf("%s: got %v, %v", j.ID, list, err)
					return
				}
				decided = list[0].Decided != nil
			}
			if err := node.End(ctx, hub.End{Attempt: of(j), State: hub.Done}); err != nil {
				t.Errorf("%s: %v", j.ID, err)
			}
		})
	}
	held := []*hub.Job{}
	for len(held) < slots {
		select {
		case j := <-waiting:
			held = append(held, j)
		case <-ctx.Done():
			t.Fatalf("%d jobs of %d wait for a decision", len(held), slots)
		}
	}
	for _, j := range held { // all of them wait now
		if cancel, err := node.Beat(ctx, of(j)); err != nil || cancel {
			t.Errorf("%s: got %v, %v", j.ID, cancel, err)
		}
	}
	for i := range 100 {
		asking.Go(func() {
			var err error
			switch {
			case i < slots:
				err = approver.Decide(ctx, held[i].ID, decision(t, approver, held[i].ID, held[i].Requests[0], "yes"))
			case i%2 == 0:
				_, err = approver.Jobs(ctx, hub.Filter{})
			default:
				_, err = approver.Events(ctx, hub.EventsQuery{Job: held[i-slots].ID, Wait: time.Second})
			}
			if err != nil {
				t.Errorf("request %d: %v", i, err)
			}
		})
	}
	asking.Wait()
	working.Wait()
	for _, held := range held {
		if j, err := maker.Job(t.Context(), held.ID); err != nil || j.State != hub.Done || j.Attempt != 1 {
			t.Errorf("%s is %s after attempt %d, %v", held.ID, j.State, j.Attempt, err)
		}
	}
}

// TestRefusedAnswers checks that a client whose subscription a server refuses says so, and does not
// wait for answers in vain.
func TestRefusedAnswers(t *testing.T) {
	seed, key, err := hub.NewSeed()
	must(t, err)
	front, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, AlwaysEnableNonce: true,
		Nkeys: []*server.NkeyUser{{Nkey: key, Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{Deny: []string{">"}}}}}})
	must(t, err)
	front.Start()
	defer front.Shutdown()
	if !front.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	c, err := hub.Connect(t.Context(), hub.Credentials{Hub: key, URLs: []string{front.ClientURL()}, Role: hub.Node, Name: "x", Seed: seed}, hub.Options{})
	if err == nil {
		c.Close()
	}
	if !hub.IsCode(err, hub.CodeRefused) || !strings.Contains(err.Error(), "check that golem and golem-hub have the same version") {
		t.Errorf("got %v", err)
	}
}

// TestHubAway checks that a client waits for a hub that is not there yet, says so, and ends when its
// context does.
func TestHubAway(t *testing.T) {
	p := start(t)
	creds := p.admin().Credentials
	p.server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := hub.Connect(ctx, creds, hub.Options{}); err == nil || !strings.Contains(err.Error(), "check that golem hub runs there") {
		t.Errorf("without a hub: got %v", err)
	}
	if _, err := hub.Connect(t.Context(), creds, hub.Options{Once: true}); err == nil || !strings.Contains(err.Error(), "check that golem hub runs there") {
		t.Errorf("once, without a hub: got %v", err)
	}
	said := make(chan string, 10)
	made := make(chan error, 1)
	go func() {
		c, err := hub.Connect(t.Context(), creds, hub.Options{OnChange: func(text string) { said <- text }})
		if err == nil {
			c.Close()
		}
		made <- err
	}()
	if text := <-said; !strings.Contains(text, "does not answer") || !strings.Contains(text, "trying again") {
		t.Errorf("it said %q", text)
	}
	p.start()
	must(t, <-made)
}

// TestSilentHub checks that a client says that a hub does not answer, and gives up after its patience,
// also if the hub is connected: in a cluster without a majority.
func TestSilentHub(t *testing.T) {
	p := start(t)
	creds := p.invite(p.admin(), hub.Submit, "maker")
	said := make(chan string, 10)
	c, err := hub.Connect(t.Context(), creds, hub.Options{Patience: 5 * time.Second, OnChange: func(text string) { said <- text }})
	must(t, err)
	defer c.Close()
	release := make(chan struct{})
	p.once(serve.StepPut, func() { <-release })
	put := make(chan error, 1)
	go func() {
		put <- c.Put(t.Context(), hub.Part{Hash: hub.HashOf([]byte("x")), Size: 1}, strings.NewReader("x"))
	}()
	if text := <-said; !strings.Contains(text, "does not answer yet (put)") {
		t.Errorf("it said %q", text)
	}
	close(release)
	must(t, <-put)
	if text := <-said; text != "the hub answers again" {
		t.Errorf("it said %q", text)
	}
	p.server.Close()
	if _, err := c.Users(t.Context()); err == nil || errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "did not answer (users) for 5s") {
		t.Errorf("got %v", err)
	}
	p.start()
}
