package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/hub"
)

// TestOlderData restores a backup and forgets --restored. The hub finds out from a node that knows
// more, and gives no work to anybody until a person has confirmed, also after it is started again.
// Ordinary starts are no reason to stop.
func TestOlderData(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := newWork(s, 1)
	s.startNode("a", "--slots", "2", "--hold", "1s")
	ids := []string{"job00000", "job00001", "job00002"}
	for _, id := range ids {
		w.submit(id)
	}
	s.until("a call waits for approval", func() bool {
		list, err := w.maker.Jobs(t.Context(), hub.Filter{States: []hub.State{hub.Running, hub.Waiting}})
		return err == nil && len(list) >= 1
	})
	s.stopHub()
	backup := filepath.Join(s.dir, "backup")
	copyDir(t, s.data(), backup)

	s.startHub()
	w.approving()
	w.check(w.await(ids, time.Minute))
	s.restartHub()
	w.submit("job00010")
	w.check(w.await([]string{"job00010"}, time.Minute))
	log := func(name string) string {
		text, err := os.ReadFile(filepath.Join(s.dir, name+".log"))
		must(t, err)
		return string(text)
	}
	const older = "the data of this hub is older than what the node a "
	if strings.Contains(log("hub"), "older") {
		t.Fatalf("the hub warns after ordinary starts:\n%s", log("hub"))
	}

	s.stopHub()
	must(t, os.RemoveAll(s.data()))
	copyDir(t, backup, s.data())
	s.startHub()
	s.until("the hub notices", func() bool { return strings.Contains(log("hub"), older) })
	s.until("the node says why it waits", func() bool { return strings.Contains(log("a"), older) })
	for _, args := range [][]string{{"jobs"}, {"jobs", "show", ids[0]}} {
		if out, err := s.golem(s.dir, w.maker, args...); err != nil || !strings.Contains(out, older) || !strings.Contains(out, "--restored") {
			t.Errorf("golem %v does not warn: %v\n%s", args, err, out)
		}
	}
	isStopped := func() {
		t.Helper()
		fresh := s.client(hub.Node, "fresh")
		s.until("the hub refuses a node that knows nothing", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 2*deadline)
			defer cancel()
			j, err := fresh.Take(ctx, hub.Offer{Wait: time.Second})
			if err == nil {
				t.Fatalf("a node that knows nothing: got %v", j)
			}
			return strings.Contains(err.Error(), older)
		})
		for _, id := range ids {
			if n := w.sink.times(id); n != 1 {
				t.Errorf("the message of job %s arrived %d times", id, n)
			}
		}
	}
	isStopped()
	s.nodes["a"].kill()
	delete(s.nodes, "a")
	before := strings.Count(log("hub"), older)
	s.restartHub()
	if strings.Count(log("hub"), older) == before {
		t.Error("the hub does not warn when it is started again")
	}
	isStopped()

	s.hubArgs = []string{"--restored"}
	s.restartHub()
	s.hubArgs = nil
	s.startNode("a", "--slots", "2", "--hold", "1s") // it still knows what was lost
	for id, j := range w.await(ids, time.Minute) {
		if j.State != hub.InDoubt {
			t.Errorf("job %s is %s; want it in doubt", id, j.State)
		}
	}
	s.restartHub()
	s.mustGolem(s.dir, w.maker, "", "jobs", "retry", ids[0])
	w.submit("job00011")
	w.check(w.await([]string{"job00011"}, time.Minute))
	s.until("the job that a person continued is done", func() bool {
		j, err := w.maker.Job(t.Context(), ids[0])
		return err == nil && j.State == hub.Done
	})
	if out := s.mustGolem(s.dir, w.maker, "", "jobs"); strings.Contains(out, "older") {
		t.Errorf("golem jobs warns after a person has confirmed:\n%s", out)
	}
}

// TestFalseRevision lets a node say that it knows more than the hub has. It cannot prove it, so only
// this node gets no work, and the log of the hub names it.
func TestFalseRevision(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := newWork(s, 1)
	w.approving()
	s.startNode("liar")
	w.submit("job00000")
	w.check(w.await([]string{"job00000"}, time.Minute))
	s.nodes["liar"].kill()
	file := filepath.Join(s.dir, "node-liar", "revision.json")
	text, err := os.ReadFile(file)
	must(t, err)
	var kept struct {
		Hub      string        `json:"hub"`
		Revision *hub.Revision `json:"revision"`
	}
	must(t, json.Unmarshal(text, &kept))
	kept.Revision.Calls += 1000
	text, err = json.Marshal(kept)
	must(t, err)
	must(t, os.WriteFile(file, text, 0o600))
	s.startNode("liar")
	s.until("the hub names the node", func() bool {
		text, err := os.ReadFile(s.hub.log)
		return err == nil && strings.Contains(string(text), "the node liar ") && strings.Contains(string(text), "golem hub revoke U")
	})
	s.until("the node says what to do", func() bool {
		text, err := os.ReadFile(s.nodes["liar"].log)
		return err == nil && strings.Contains(string(text), "remove the file revision.json")
	})
	s.startNode("honest")
	w.submit("job00001")
	for _, j := range w.await([]string{"job00001"}, time.Minute) {
		if user, err := w.maker.Users(t.Context()); err != nil || !isNamed(user, j.Node, "honest") {
			t.Errorf("job %s was done by %s, %v", j.ID, j.Node, err)
		}
	}
	if out := s.mustGolem(s.dir, w.maker, "", "jobs"); strings.Contains(out, "older") {
		t.Errorf("one node made the hub warn everybody:\n%s", out)
	}
}

// isNamed reports whether the user with a key has a name.
func isNamed(list []hub.User, key, name string) bool {
	for _, u := range list {
		if u.Key == key {
			return u.Name == name
		}
	}
	return false
}
