package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/golem-forge/golem/internal/hub"
)

// TestHostileTexts checks that a node cannot give the hub texts that steer a terminal, or that
// make a job too large for others to change.
func TestHostileTexts(t *testing.T) {
	p := start(t)
	admin := p.admin()
	maker, evil := p.client(admin, hub.Submit, "maker"), p.client(admin, hub.Node, "evil")
	id := submit(t, maker, nil, nil, "x")
	j := take(t, evil)
	hash := send(t, evil, of(j), "request")
	for _, name := range []string{"", "r1\x1b[2K", "r1; rm -rf x", "../r1", strings.Repeat("r", 100), "r\n1"} {
		if err := evil.Ask(t.Context(), hub.Question{Attempt: of(j), Requests: []hub.Request{{ID: name, Hash: hash}}}); !hub.IsCode(err, hub.CodeInvalid) {
			t.Errorf("the request %q: got %v", name, err)
		}
	}
	files := list(t, evil, of(j), "x")
	for _, line := range []string{"\x1b]0;owned\x07", "{}\n{}", `{"a":`} {
		if err := evil.Checkpoint(t.Context(), hub.Checkpoint{Attempt: of(j), Files: files, First: 1, Lines: [][]byte{[]byte(line)}}); !hub.IsCode(err, hub.CodeInvalid) {
			t.Errorf("the event %q: got %v", line, err)
		}
	}
	huge := strings.Repeat("x", 3<<20)
	for name, err := range map[string]error{
		"doubt":   evil.End(t.Context(), hub.End{Attempt: of(j), State: hub.InDoubt, Doubt: &hub.Doubt{Call: huge}}),
		"session": evil.End(t.Context(), hub.End{Attempt: of(j), State: hub.Done, Result: hub.Result{Session: huge}}),
		"journal": evil.Checkpoint(t.Context(), hub.Checkpoint{Attempt: of(j), Files: files, Journal: hub.Head{Count: 1, Hash: huge}}),
		"escapes": evil.End(t.Context(), hub.End{Attempt: of(j), State: hub.Done, Result: hub.Result{Answer: strings.Repeat("\x01", 1<<20)}}),
	} {
		if !hub.IsCode(err, hub.CodeInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	must(t, maker.Cancel(t.Context(), id))
}

// TestHostileReports checks that the hub keeps no number or text of a node that no run has.
func TestHostileReports(t *testing.T) {
	p := start(t)
	p.deadline = time.Minute
	p.restart()
	admin := p.admin()
	maker, evil := p.client(admin, hub.Submit, "maker"), p.client(admin, hub.Node, "evil")
	ctx := t.Context()
	id := submit(t, maker, nil, nil, "x")
	j, err := evil.Take(ctx, hub.Offer{Wait: 20 * time.Second, Slots: -5, Version: "v1\x1b[2J"})
	must(t, err)
	hash := send(t, evil, of(j), "request")
	files := list(t, evil, of(j), "x")
	for _, r := range []hub.Result{{Dollars: -1e300}, {Dollars: 1e300}, {Dollars: -0.01}, {Tokens: -1}, {Tokens: 1 << 62}, {Calls: -1}, {Calls: 1 << 62}, {Session: "a\nb"}, {Session: "\x1b[2J"}} {
		if err := evil.End(ctx, hub.End{Attempt: of(j), State: hub.Done, Result: r}); !hub.IsCode(err, hub.CodeInvalid) {
			t.Errorf("%+v: got %v", r, err)
		}
	}
	for name, err := range map[string]error{
		"a doubtful call":  evil.End(ctx, hub.End{Attempt: of(j), State: hub.InDoubt, Doubt: &hub.Doubt{Call: "1\n2"}}),
		"a doubtful tool":  evil.End(ctx, hub.End{Attempt: of(j), State: hub.InDoubt, Doubt: &hub.Doubt{Call: "1", Tool: "\x1b[1A"}}),
		"a tool":           evil.Ask(ctx, hub.Question{Attempt: of(j), Requests: []hub.Request{{ID: "r1", Hash: hash, Tool: "push\r\n"}}}),
		"a digest":         evil.Ask(ctx, hub.Question{Attempt: of(j), Requests: []hub.Request{{ID: "r1", Hash: hash, Digest: "\x00"}}}),
		"no hash":          evil.Ask(ctx, hub.Question{Attempt: of(j), Requests: []hub.Request{{ID: "r1", Hash: "request"}}}),
		"a claim":          claim(ctx, evil, hub.Claim{Attempt: of(j), Call: "1\x07", Nonce: "n"}),
		"a list":           evil.Checkpoint(ctx, hub.Checkpoint{Attempt: of(j), Files: "../" + files, First: 1}),
		"a long journal":   evil.Checkpoint(ctx, hub.Checkpoint{Attempt: of(j), Files: files, First: 1, Journal: hub.Head{Count: 1 << 63, Hash: "h"}}),
		"another journal":  evil.Checkpoint(ctx, hub.Checkpoint{Attempt: of(j), Files: files, First: 1, Journal: hub.Head{Count: 1, Hash: "h\n"}}),
		"an unknown state": evil.End(ctx, hub.End{Attempt: of(j), State: "\x1b[2J"}),
	} {
		if !hub.IsCode(err, hub.CodeInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if nodes, err := maker.Nodes(ctx); err != nil || len(nodes) != 1 || nodes[0].Slots != 0 || nodes[0].Version != "" {
		t.Errorf("got %+v, %v", nodes, err)
	}
	must(t, evil.End(ctx, hub.End{Attempt: of(j), State: hub.Done, Result: hub.Result{Dollars: 0.5, Tokens: 3, Calls: 1, Session: "abc123"}}))
	if j, err := maker.Job(ctx, id); err != nil || j.Result.Dollars != 0.5 {
		t.Errorf("got %+v, %v", j, err)
	}
}

// TestDamage checks that a content which the hub cannot read any more counts as missing once somebody
// has tried, that golem can send it again, and that it can be removed.
func TestDamage(t *testing.T) {
	p := start(t)
	p.deadline = time.Minute
	p.restart()
	admin := p.admin()
	maker, node := p.client(admin, hub.Submit, "maker"), p.client(admin, hub.Node, "node")
	ctx := t.Context()
	big := strings.Repeat("0123456789abcdef", hub.MaxPart/8) // of two parts
	for _, test := range []struct{ content, part string }{{"small", "0"}, {"small", "size"}, {big, "0"}, {big, "1"}, {big, "size"}} {
		hash := hub.HashOf([]byte(test.content))
		submit(t, maker, nil, nil, test.content)
		must(t, p.server.Damage(maker.Key, hash, test.part))
		j := take(t, node)
		if _, err := node.Get(ctx, hub.Part{Job: j.ID, Attempt: j.Attempt, Hash: hash}); !hub.IsCode(err, hub.CodeMissing) {
			t.Errorf("part %s: got %v", test.part, err)
		}
		must(t, node.End(ctx, hub.End{Attempt: of(j), State: hub.Failed}))
		if missing, err := maker.Missing(ctx, hub.Lookup{Hashes: []string{hash}}); err != nil || len(missing) != 1 {
			t.Errorf("part %s: the hub lacks %v, %v", test.part, missing, err)
		}
		submit(t, maker, nil, nil, test.content)
		j = take(t, node)
		if got, err := node.Get(ctx, hub.Part{Job: j.ID, Attempt: j.Attempt, Hash: hash}); err != nil || string(got) != test.content {
			t.Errorf("part %s, sent again: got %d bytes, %v", test.part, len(got), err)
		}
		must(t, node.End(ctx, hub.End{Attempt: of(j), State: hub.Done}))
		must(t, p.server.Damage(maker.Key, hash, test.part))
		if _, err := admin.Prune(ctx, hub.Prune{Before: time.Now().Add(time.Hour)}); err != nil {
			t.Errorf("part %s: prune: %v", test.part, err)
		}
		if n, err := p.server.Contents(); n != 0 || err != nil {
			t.Errorf("part %s: %d messages are left, %v", test.part, n, err)
		}
	}
}

// TestDamagedDisk damages the file in which the server of the hub keeps contents, at many places. A
// user who submits the job again can always repair that.
func TestDamagedDisk(t *testing.T) {
	for _, tenth := range []int64{0, 1, 5, 9} {
		t.Run(fmt.Sprint(tenth), func(t *testing.T) {
			p := start(t)
			p.deadline = time.Minute
			admin := p.admin()
			maker, node := p.client(admin, hub.Submit, "maker"), p.client(admin, hub.Node, "node")
			ctx := t.Context()
			files := []string{strings.Repeat("first ", 2000), strings.Repeat("second ", 5000)}
			read := func() (missing int) {
				t.Helper()
				submit(t, maker, nil, nil, files...)
				j := take(t, node)
				for _, content := range append(files, listText(files...)) {
					got, err := node.Get(ctx, hub.Part{Job: j.ID, Attempt: j.Attempt, Hash: hub.HashOf([]byte(content))})
					if hub.IsCode(err, hub.CodeMissing) {
						missing++
					} else if err != nil || string(got) != content {
						t.Errorf("got %d bytes, %v", len(got), err)
					}
				}
				must(t, node.End(ctx, hub.End{Attempt: of(j), State: hub.Done}))
				return missing
			}
			for round := range 2 { // what was repaired can be damaged again
				read()
				p.server.Close()
				damageFile(t, p.dir, tenth)
				p.start()
				submit(t, maker, nil, nil, files...)
				j := take(t, node)
				for _, content := range files {
					if _, err := node.Get(ctx, hub.Part{Job: j.ID, Attempt: j.Attempt, Hash: hub.HashOf([]byte(content))}); err != nil && !hub.IsCode(err, hub.CodeMissing) {
						t.Errorf("round %d: got %v", round, err)
					}
				}
				must(t, node.End(ctx, hub.End{Attempt: of(j), State: hub.Failed}))
				if n := read(); n != 0 {
					t.Errorf("round %d: %d contents are missing after golem sent them again", round, n)
				}
			}
			if _, err := admin.Prune(ctx, hub.Prune{Before: time.Now().Add(time.Hour)}); err != nil {
				t.Errorf("prune: %v", err)
			}
			for _, content := range files {
				if missing, err := maker.Missing(ctx, hub.Lookup{Hashes: []string{hub.HashOf([]byte(content))}}); err != nil || len(missing) != 1 {
					t.Errorf("after prune the hub lacks %v, %v", missing, err)
				}
			}
		})
	}
}

// damageFile flips a byte of the last file with contents, after so many tenths of it.
func damageFile(t *testing.T, dir string, tenth int64) {
	t.Helper()
	var last string
	filepath.WalkDir(dir, func(name string, _ fs.DirEntry, _ error) error {
		if strings.HasSuffix(filepath.Dir(name), "once-contents/msgs") && strings.HasSuffix(name, ".blk") {
			last = name
		}
		return nil
	})
	file, err := os.OpenFile(last, os.O_RDWR, 0)
	must(t, err)
	defer file.Close()
	about, err := file.Stat()
	must(t, err)
	one := make([]byte, 1)
	_, err = file.ReadAt(one, about.Size()*tenth/10)
	must(t, err)
	_, err = file.WriteAt([]byte{^one[0]}, about.Size()*tenth/10)
	must(t, err)
}

// TestDamagedPart checks that the hub compares the hash of a content again if the disk lost a part of it.
func TestDamagedPart(t *testing.T) {
	p := start(t)
	maker := p.client(p.admin(), hub.Submit, "maker")
	whole := bytes.Repeat([]byte("0123456789abcdef"), hub.MaxPart/8+1)
	part := hub.Part{Hash: hub.HashOf(whole), Size: int64(len(whole))}
	must(t, maker.Put(t.Context(), part, bytes.NewReader(whole)))
	p.server.Close()
	damageFile(t, p.dir, 1)
	p.start()
	if err := maker.Put(t.Context(), part, bytes.NewReader(bytes.ToUpper(whole))); !hub.IsCode(err, hub.CodeInvalid) {
		t.Errorf("another content: got %v", err)
	}
	must(t, maker.Put(t.Context(), part, bytes.NewReader(whole)))
	if got, err := maker.Get(t.Context(), hub.Part{Hash: part.Hash}); err != nil || !bytes.Equal(got, whole) {
		t.Errorf("sent again: got %d bytes, %v", len(got), err)
	}
}

// TestParts checks that the hub keeps a content of several parts only if it has its hash, and
// that a content which changed while it was sent can be sent again.
func TestParts(t *testing.T) {
	p := start(t)
	maker := p.client(p.admin(), hub.Submit, "maker")
	whole := bytes.Repeat([]byte("0123456789abcdef"), hub.MaxPart/8+1)
	hash := hub.HashOf(whole)
	part := hub.Part{Hash: hash, Size: int64(len(whole))}
	changed := bytes.Clone(whole)
	changed[hub.MaxPart+5] = 'X'
	if err := maker.Put(t.Context(), part, bytes.NewReader(changed)); !hub.IsCode(err, hub.CodeInvalid) {
		t.Errorf("a content that changed: got %v", err)
	}
	must(t, maker.Put(t.Context(), part, bytes.NewReader(whole)))
	if got, err := maker.Get(t.Context(), hub.Part{Hash: hash}); err != nil || !bytes.Equal(got, whole) {
		t.Errorf("sent again: got %d bytes, %v", len(got), err)
	}
	other := bytes.Repeat([]byte("another "), hub.MaxPart/4+1)
	last := hub.Part{Hash: hub.HashOf(other), Size: int64(len(other)), Offset: 2 * hub.MaxPart}
	if err := maker.Put(t.Context(), last, bytes.NewReader(other[2*hub.MaxPart:])); !hub.IsCode(err, hub.CodeInvalid) {
		t.Errorf("only the last part: got %v", err)
	}
	full := bytes.Repeat([]byte("x"), hub.MaxPart)
	for _, odd := range []hub.Part{{Offset: -hub.MaxPart}, {Offset: 1<<63 - hub.MaxPart, Size: 1 << 20}, {Offset: hub.MaxPart, Size: hub.MaxPart - 1}} {
		odd.Hash = hub.HashOf(full)
		if err := maker.Put(t.Context(), odd, bytes.NewReader(full)); !hub.IsCode(err, hub.CodeInvalid) {
			t.Errorf("%+v: got %v", odd, err)
		}
	}
}

// TestLargeJobs checks that many jobs with long answers and names do not make lists fail.
func TestLargeJobs(t *testing.T) {
	p := start(t)
	admin := p.admin()
	maker, node := p.client(admin, hub.Submit, "maker"), p.client(admin, hub.Node, "node")
	files := list(t, maker, hub.Attempt{}, "x")
	for i := range 12 {
		spec := hub.Spec{ID: fmt.Sprintf("large%05d", i), Hub: maker.Hub, User: maker.Key, Name: strings.Repeat("n", 700_000), Trust: hub.HashOf(nil), Files: files}
		signed, err := hub.SignSpec(maker.Credentials, spec)
		must(t, err)
		must(t, maker.Submit(t.Context(), signed))
		must(t, node.End(t.Context(), hub.End{Attempt: of(take(t, node)), State: hub.Done, Result: hub.Result{Answer: strings.Repeat("a", 500_000)}}))
	}
	if all, err := admin.Jobs(t.Context(), hub.Filter{}); err != nil || len(all) != 12 {
		t.Errorf("got %d jobs, %v", len(all), err)
	}
	if one, err := maker.Job(t.Context(), "large00003"); err != nil || len(one.Result.Answer) != 500_000 {
		t.Errorf("got %d bytes, %v", len(one.Result.Answer), err)
	}
}

// TestLongLabels checks that labels which are too long for the queue are refused at once.
func TestLongLabels(t *testing.T) {
	p := start(t)
	maker := p.client(p.admin(), hub.Submit, "maker")
	var labels []string
	for _, c := range "abcde" {
		labels = append(labels, strings.Repeat(string(c), 32))
	}
	spec := hub.Spec{ID: "labels00", Hub: maker.Hub, User: maker.Key, Trust: hub.HashOf(nil), Files: list(t, maker, hub.Attempt{}, "x"), Labels: labels}
	signed, err := hub.SignSpec(maker.Credentials, spec)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // the client would ask again, for longer
	defer cancel()
	if err := maker.Submit(ctx, signed); !hub.IsCode(err, hub.CodeInvalid) {
		t.Errorf("got %v", err)
	}
	if all, err := maker.Jobs(t.Context(), hub.Filter{}); err != nil || len(all) != 0 {
		t.Errorf("the job is there: %+v, %v", all, err)
	}
}

// TestMadeUpLabels checks that a node cannot fill the storage of the hub with parts of the queue
// by naming labels, and that it gets a job as soon as there is one.
func TestMadeUpLabels(t *testing.T) {
	p := start(t)
	admin := p.admin()
	maker, evil := p.client(admin, hub.Submit, "maker"), p.client(admin, hub.Node, "evil")
	for i := range 20 {
		if j, err := evil.Take(t.Context(), hub.Offer{Labels: []string{fmt.Sprint("a", i), fmt.Sprint("b", i), fmt.Sprint("c", i)}}); j != nil || err != nil {
			t.Fatal(j, err)
		}
	}
	if n, err := p.server.QueueParts(); n != 0 || err != nil {
		t.Errorf("the queue has %d parts, %v", n, err)
	}
	var submitted sync.WaitGroup
	submitted.Go(func() {
		time.Sleep(300 * time.Millisecond)
		submit(t, maker, nil, []string{"gpu"}, "x")
	})
	defer submitted.Wait() // the node can have the job before the hub has answered
	if j := take(t, evil, "gpu", "large"); j.Attempt != 1 {
		t.Errorf("got %+v", j)
	}
	if n, err := p.server.QueueParts(); n != 1 || err != nil {
		t.Errorf("the queue has %d parts, %v", n, err)
	}
}

// TestFlood checks that a node with thousands of requests that wait does not keep others out.
func TestFlood(t *testing.T) {
	p := start(t)
	admin := p.admin()
	creds := p.invite(admin, hub.Node, "evil")
	key, err := creds.PublicKey()
	must(t, err)
	conn, err := nats.Connect(creds.URLs[0], nats.Nkey(key, creds.Sign), nats.CustomInboxPrefix(hub.InboxPrefix(key)))
	must(t, err)
	defer conn.Close()
	message, err := hub.Pack(hub.Offer{Labels: []string{"none"}, Wait: 20 * time.Second}, nil, nil)
	must(t, err)
	for range 5000 {
		must(t, conn.PublishRequest(hub.AskSubject(key, "take"), hub.InboxPrefix(key)+".x", message))
	}
	must(t, conn.Flush())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := admin.Users(ctx); err != nil {
		t.Errorf("somebody else: %v", err)
	}
}

// TestOldAnswers checks that a decision which the hub kept when it died reaches its job.
func TestOldAnswers(t *testing.T) {
	p := start(t)
	admin := p.admin()
	maker, node, a, b := p.client(admin, hub.Submit, "maker"), p.client(admin, hub.Node, "node"), p.client(admin, hub.Approve, "a"), p.client(admin, hub.Approve, "b")
	for i, again := range []bool{true, false} { // somebody decides again, or nobody does
		id := submit(t, maker, []string{a.Key, b.Key}, nil, "x")
		j := take(t, node)
		r := hub.Request{ID: "r1", Hash: send(t, node, of(j), fmt.Sprint("request", i)), Tool: "push"}
		must(t, node.Ask(t.Context(), hub.Question{Attempt: of(j), Requests: []hub.Request{r}}))
		must(t, node.Pause(t.Context(), of(j)))
		text, err := json.Marshal(decision(t, a, id, r, "first"))
		must(t, err)
		must(t, p.server.KeepDecision(id, r, text))
		if again {
			if err := b.Decide(t.Context(), id, decision(t, b, id, r, "second")); !hub.IsCode(err, hub.CodeDecided) {
				t.Errorf("got %v", err)
			}
		}
		got := take(t, node)
		if got.ID != id || got.Requests[0].Decided == nil || !strings.Contains(string(got.Requests[0].Decided.Text), "first") {
			t.Errorf("got %+v", got)
		}
		must(t, node.End(t.Context(), hub.End{Attempt: of(got), State: hub.Done}))
	}
}

// TestTaintStays checks that no later node can take back that a job has read untrusted input.
func TestTaintStays(t *testing.T) {
	p := start(t)
	admin := p.admin()
	maker, first, second := p.client(admin, hub.Submit, "maker"), p.client(admin, hub.Node, "first"), p.client(admin, hub.Node, "second")
	id := submit(t, maker, nil, nil, "a")
	j := take(t, first)
	must(t, first.Checkpoint(t.Context(), hub.Checkpoint{Attempt: of(j), Files: list(t, first, of(j), "b"), First: 1, Taint: "/in"}))
	must(t, first.End(t.Context(), hub.End{Attempt: of(j), State: hub.Queued}))
	j = take(t, second)
	if j.Taint != "/in" {
		t.Errorf("the next node hears of %q", j.Taint)
	}
	must(t, second.Checkpoint(t.Context(), hub.Checkpoint{Attempt: of(j), Files: list(t, second, of(j), "c"), First: 1}))
	if j, err := maker.Job(t.Context(), id); err != nil || j.Taint != "/in" {
		t.Errorf("got %q, %v", j.Taint, err)
	}
}
