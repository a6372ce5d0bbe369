package serve_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/hub/serve"
)

// finish takes the next job and ends it, with a checkpoint.
func finish(t testing.TB, node *hub.Client, content string) {
	t.Helper()
	j := take(t, node)
	must(t, node.Checkpoint(t.Context(), hub.Checkpoint{Attempt: of(j), Files: list(t, node, of(j), content), First: 1, Lines: [][]byte{[]byte(`{"a":1}`)}}))
	must(t, node.End(t.Context(), hub.End{Attempt: of(j), State: hub.Done}))
}

// TestRemove checks that a removed job is gone with everything that no other job uses.
func TestRemove(t *testing.T) {
	p := start(t)
	admin := p.admin()
	maker, other, node := p.client(admin, hub.Submit, "maker"), p.client(admin, hub.Submit, "other"), p.client(admin, hub.Node, "node")
	ctx := t.Context()
	first := submit(t, maker, nil, nil, "shared", "only first", strings.Repeat("large", 1<<20))
	finish(t, node, "result of first")
	kept := submit(t, maker, nil, nil, "shared", "only kept")
	if err := maker.Remove(ctx, kept); err == nil || !strings.Contains(err.Error(), "golem jobs cancel "+kept) {
		t.Errorf("a queued job was removed: %v", err)
	}
	if err := other.Remove(ctx, first); !hub.IsCode(err, hub.CodeMissing) {
		t.Errorf("somebody else removes it: %v", err)
	}
	if err := node.Remove(ctx, first); !hub.IsCode(err, hub.CodeRefused) {
		t.Errorf("a node removes it: %v", err)
	}
	before, err := p.server.Contents()
	must(t, err)
	must(t, maker.Remove(ctx, first))
	after, err := p.server.Contents()
	must(t, err)
	// The contents are: two of its own with four parts, its list, its result with a list, and a size for each.
	if gone := before - after; gone != 2+4+2+2+2 {
		t.Errorf("%d messages are gone", gone)
	}
	if _, err := maker.Job(ctx, first); !hub.IsCode(err, hub.CodeMissing) {
		t.Errorf("the job is there: %v", err)
	}
	if err := maker.Retry(ctx, first); !hub.IsCode(err, hub.CodeMissing) {
		t.Errorf("it can be tried again: %v", err)
	}
	missing, err := maker.Missing(ctx, hub.Lookup{Hashes: []string{hub.HashOf([]byte("shared")), hub.HashOf([]byte("only kept")), hub.HashOf([]byte("only first"))}})
	must(t, err)
	if fmt.Sprint(missing) != fmt.Sprint([]string{hub.HashOf([]byte("only first"))}) {
		t.Errorf("missing: %v", missing)
	}
	finish(t, node, "result of kept")
	if j, err := maker.Job(ctx, kept); err != nil || j.State != hub.Done {
		t.Errorf("got %s, %v", j.State, err)
	}
	again := submit(t, maker, nil, nil, "shared", "only first")
	finish(t, node, "again")
	if j, err := maker.Job(ctx, again); err != nil || j.State != hub.Done {
		t.Errorf("after it was sent again: got %s, %v", j.State, err)
	}
}

// TestPrune checks that prune removes only jobs that are over and old, also with a hub that is
// stopped meanwhile.
func TestPrune(t *testing.T) {
	p := start(t)
	admin := p.admin()
	maker, node := p.client(admin, hub.Submit, "maker"), p.client(admin, hub.Node, "node")
	ctx := t.Context()
	for i := range 3 {
		submit(t, maker, nil, nil, fmt.Sprint("old ", i))
		finish(t, node, "x")
	}
	border := time.Now()
	submit(t, maker, nil, nil, "new")
	finish(t, node, "y")
	submit(t, maker, nil, nil, "queued")
	if _, err := maker.Prune(ctx, hub.Prune{Before: border}); !hub.IsCode(err, hub.CodeRefused) {
		t.Errorf("a submitter prunes: %v", err)
	}
	if n, err := admin.Prune(ctx, hub.Prune{Before: time.Now(), Dry: true}); n != 4 || err != nil {
		t.Errorf("counted %d, %v", n, err)
	}
	if n, err := admin.Prune(ctx, hub.Prune{Before: border, User: "nobody"}); n != 0 || err != nil {
		t.Errorf("pruned %d of nobody, %v", n, err)
	}
	if n, err := admin.Prune(ctx, hub.Prune{Before: border}); n != 3 || err != nil {
		t.Errorf("pruned %d, %v", n, err)
	}
	left, err := maker.Jobs(ctx, hub.Filter{})
	if err != nil || len(left) != 2 {
		t.Errorf("%d jobs are left, %v", len(left), err)
	}
	p.restart()
	if left, err := maker.Jobs(ctx, hub.Filter{}); err != nil || len(left) != 2 {
		t.Errorf("after a restart %d jobs are left, %v", len(left), err)
	}
}

// TestRemoveWhileSubmitting removes jobs while others with the same files are submitted. Every
// job that the hub took can read all its files.
func TestRemoveWhileSubmitting(t *testing.T) {
	p := start(t)
	admin := p.admin()
	maker, node := p.client(admin, hub.Submit, "maker"), p.client(admin, hub.Node, "node")
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var removing sync.WaitGroup
	defer removing.Wait()
	done := make(chan struct{})
	removing.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Duration(rand.IntN(20)) * time.Millisecond):
			}
			if _, err := admin.Prune(ctx, hub.Prune{Before: time.Now().Add(time.Hour)}); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	texts := []string{"one", "two", strings.Repeat("three", 100)}
	for range 40 {
		var hashes []string
		for _, text := range texts {
			hashes = append(hashes, hub.HashOf([]byte(text)))
		}
		missing, err := maker.Missing(ctx, hub.Lookup{Hashes: hashes})
		must(t, err)
		var entries []string
		for i, text := range texts {
			for _, hash := range missing {
				if hash == hashes[i] {
					send(t, maker, hub.Attempt{}, text)
				}
			}
			entries = append(entries, fmt.Sprintf(`{"Name":"file%d","Hash":%q,"Size":%d}`, i, hashes[i], len(text)))
		}
		files := send(t, maker, hub.Attempt{}, `{"program":[`+strings.Join(entries, ",")+`]}`)
		spec := hub.Spec{ID: fmt.Sprintf("job%08d", jobs.Add(1)), Hub: maker.Hub, User: maker.Key, Name: "papers", Trust: hub.HashOf(nil), Files: files}
		signed, err := hub.SignSpec(maker.Credentials, spec)
		must(t, err)
		if err := maker.Submit(ctx, signed); hub.IsCode(err, hub.CodeInvalid) { // its files are gone; the user submits it again
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		j := take(t, node)
		for _, hash := range append(hashes, files) {
			if _, err := node.Get(ctx, hub.Part{Job: j.ID, Attempt: j.Attempt, Hash: hash}); err != nil {
				t.Errorf("a job lacks a file: %v", err)
			}
		}
		must(t, node.End(ctx, hub.End{Attempt: of(j), State: hub.Done}))
	}
	close(done)
}

// TestRemoveBetweenSteps removes jobs exactly between a check of another request and what follows from
// it. Every job that the hub took can read all its files.
func TestRemoveBetweenSteps(t *testing.T) {
	p := start(t)
	admin := p.admin()
	maker, node := p.client(admin, hub.Submit, "maker"), p.client(admin, hub.Node, "node")
	ctx := t.Context()
	prune := func() {
		if n, err := admin.Prune(ctx, hub.Prune{Before: time.Now().Add(time.Hour)}); n == 0 || err != nil {
			t.Errorf("pruned %d, %v", n, err)
		}
	}
	begin := func() { // there is a job with the files that is over
		t.Helper()
		submit(t, maker, nil, nil, "one", "two")
		finish(t, node, "result")
	}
	// trySubmit submits a job with the same files, which the hub has.
	trySubmit := func() (files string, err error) {
		files = hub.HashOf([]byte(listText("one", "two")))
		signed, err := hub.SignSpec(maker.Credentials, hub.Spec{ID: fmt.Sprintf("job%08d", jobs.Add(1)), Hub: maker.Hub, User: maker.Key, Name: "papers", Trust: hub.HashOf(nil), Files: files})
		must(t, err)
		return files, maker.Submit(ctx, signed)
	}
	// checkFiles takes the job that was submitted, and reads its files.
	checkFiles := func(t *testing.T, files string) {
		j := take(t, node)
		for _, hash := range []string{files, hub.HashOf([]byte("one")), hub.HashOf([]byte("two"))} {
			if _, err := node.Get(ctx, hub.Part{Job: j.ID, Attempt: j.Attempt, Hash: hash}); err != nil {
				t.Errorf("the job lacks a file: %v", err)
			}
		}
		must(t, node.End(ctx, hub.End{Attempt: of(j), State: hub.Done}))
	}

	t.Run("submit", func(t *testing.T) {
		begin()
		pruned := p.once(serve.StepChecked, prune)
		_, err := trySubmit()
		if !pruned() || !hub.IsCode(err, hub.CodeInvalid) || !strings.Contains(err.Error(), "submit it again") {
			t.Errorf("got %v", err)
		}
		if j, err := node.Take(ctx, hub.Offer{Wait: 100 * time.Millisecond}); j != nil || err != nil {
			t.Errorf("a node has the job: %+v, %v", j, err)
		}
		submit(t, maker, nil, nil, "one", "two")
		checkFiles(t, hub.HashOf([]byte(listText("one", "two"))))
	})

	t.Run("put", func(t *testing.T) {
		pruned := p.once(serve.StepPut, prune) // of the job before
		send(t, maker, hub.Attempt{}, "one")
		missing, err := maker.Missing(ctx, hub.Lookup{Hashes: []string{hub.HashOf([]byte("one"))}})
		if !pruned() || err != nil || len(missing) > 0 {
			t.Errorf("a content that was acknowledged is missing: %v, %v", missing, err)
		}
	})

	t.Run("a hub that stood still", func(t *testing.T) {
		begin()
		var files string
		submitted := p.once(serve.StepUsed, func() {
			p.ahead.Store(int64(5 * time.Minute)) // nobody waits for the hub any more
			var err error
			if files, err = trySubmit(); err != nil {
				t.Errorf("submit: %v", err)
			}
		})
		limited, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		admin.Prune(limited, hub.Prune{Before: time.Now().Add(time.Hour)}) // it may fail, and the sweep continues
		if !submitted() {
			t.Fatal("nothing was removed")
		}
		checkFiles(t, files)
	})
}

// TestCheckpointTwice checks that a content stays which a node sends again while an earlier request
// of it removes the files of a checkpoint.
func TestCheckpointTwice(t *testing.T) {
	p := start(t)
	p.deadline = time.Minute
	p.restart()
	admin := p.admin()
	maker, node := p.client(admin, hub.Submit, "maker"), p.client(admin, hub.Node, "node")
	ctx := t.Context()
	submit(t, maker, nil, nil, "begin")
	j := take(t, node)
	checkpoint := func(contents ...string) error {
		return node.Checkpoint(ctx, hub.Checkpoint{Attempt: of(j), Files: list(t, node, of(j), contents...), First: 1})
	}
	must(t, checkpoint("old"))
	sent := make(chan error, 1)
	replaced := p.once(serve.StepReplaced, func() {
		// The node has lost the connection, asked again, got its answer, and works on the next checkpoint.
		go func() {
			hash := hub.HashOf([]byte("old"))
			sent <- node.Put(ctx, hub.Part{Job: j.ID, Attempt: j.Attempt, Hash: hash, Size: 3}, strings.NewReader("old"))
		}()
		select {
		case err := <-sent:
			sent <- err
		case <-time.After(500 * time.Millisecond): // it waits for this request
		}
	})
	must(t, checkpoint("new"))
	must(t, <-sent)
	missing, err := node.Missing(ctx, hub.Lookup{Job: j.ID, Attempt: j.Attempt, Hashes: []string{hub.HashOf([]byte("old"))}})
	if !replaced() || err != nil || len(missing) > 0 {
		t.Errorf("a content that was acknowledged is missing: %v, %v", missing, err)
	}
}

// TestMaxJobs checks that a hub keeps a limited number of jobs of one submitter.
func TestMaxJobs(t *testing.T) {
	p := start(t)
	p.maxJobs = 2
	p.restart()
	admin := p.admin()
	maker, other, node := p.client(admin, hub.Submit, "maker"), p.client(admin, hub.Submit, "other"), p.client(admin, hub.Node, "node")
	first := submit(t, maker, nil, nil, "a")
	finish(t, node, "x")
	submit(t, maker, nil, nil, "b")
	signed, err := hub.SignSpec(maker.Credentials, hub.Spec{ID: "onetoomany", Hub: maker.Hub, User: maker.Key, Name: "papers", Trust: hub.HashOf(nil), Files: list(t, maker, hub.Attempt{}, "c")})
	must(t, err)
	if err := maker.Submit(t.Context(), signed); err == nil || !strings.Contains(err.Error(), "golem jobs rm") {
		t.Errorf("got %v", err)
	}
	submit(t, other, nil, nil, "c")
	must(t, maker.Remove(t.Context(), first))
	must(t, maker.Submit(t.Context(), signed))
}

// TestNodes checks the list of nodes, and that a revoked node gets no job that it waits for.
func TestNodes(t *testing.T) {
	p := start(t)
	admin := p.admin()
	maker, node := p.client(admin, hub.Submit, "maker"), p.client(admin, hub.Node, "build-1")
	ctx := t.Context()
	submit(t, maker, nil, []string{"gpu"}, "a")
	j, err := node.Take(ctx, hub.Offer{Labels: []string{"gpu"}, Slots: 4, Version: "v1.2.3", Wait: 20 * time.Second})
	must(t, err)
	nodes, err := maker.Nodes(ctx)
	if err != nil || len(nodes) != 1 || nodes[0].Name != "build-1" || nodes[0].Slots != 4 || fmt.Sprint(nodes[0].Labels, nodes[0].Jobs) != fmt.Sprint([]string{"gpu"}, []string{j.ID}) || nodes[0].Version != "v1.2.3" || time.Since(nodes[0].Seen) > time.Minute {
		t.Errorf("got %+v, %v", nodes, err)
	}
	waiting := make(chan *hub.Job, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, 8*time.Second)
		defer cancel()
		j, _ := node.Take(ctx, hub.Offer{Wait: 10 * time.Second})
		waiting <- j
	}()
	time.Sleep(300 * time.Millisecond)
	_, err = admin.Revoke(ctx, "build-1")
	must(t, err)
	id := submit(t, maker, nil, nil, "b")
	if j := <-waiting; j != nil {
		t.Errorf("a revoked node has the job %s", j.ID)
	}
	second := p.client(admin, hub.Node, "build-2")
	if j := take(t, second); j.ID != id {
		t.Errorf("got %s", j.ID)
	}
	if nodes, err := maker.Nodes(ctx); err != nil || len(nodes) != 1 || nodes[0].Name != "build-2" {
		t.Errorf("after the revocation: got %+v, %v", nodes, err)
	}
}

// TestLongLists checks that a client gets lists that do not fit into one answer, and only as
// much as it asks for.
func TestLongLists(t *testing.T) {
	p := start(t)
	admin := p.admin()
	maker, node := p.client(admin, hub.Submit, "maker"), p.client(admin, hub.Node, "node")
	ctx := t.Context()
	const count = 8
	for i := range count {
		submit(t, maker, nil, nil, fmt.Sprint(i))
		j := take(t, node)
		q := hub.Question{Attempt: of(j)}
		hash := send(t, node, of(j), "a call")
		for n := range 999 { // about 500 bytes each
			q.Requests = append(q.Requests, hub.Request{ID: fmt.Sprint("r", n), Hash: hash, Tool: strings.Repeat("t", 200), Digest: strings.Repeat("d", 200)})
		}
		must(t, node.Ask(ctx, q))
		must(t, node.End(ctx, hub.End{Attempt: of(j), State: hub.Done}))
	}
	for most, want := range map[int]int{0: count, 3: 3, count + 5: count} {
		got, err := maker.Jobs(ctx, hub.Filter{Most: most})
		if err != nil || len(got) != want {
			t.Errorf("--last %d: got %d jobs, %v", most, len(got), err)
		}
		for i := range got[:max(len(got)-1, 0)] {
			if got[i].Created.Before(got[i+1].Created) || got[i].ID == got[i+1].ID {
				t.Errorf("job %d is older than the next, or the same", i)
			}
		}
	}
	if got, err := maker.Jobs(ctx, hub.Filter{Trust: hub.HashOf([]byte("other"))}); err != nil || len(got) > 0 {
		t.Errorf("of another program: got %d jobs, %v", len(got), err)
	}
}

// TestLeftovers checks that contents which a node sent before it died go when another node has
// done the job, and that nothing of a job is left when it is removed.
func TestLeftovers(t *testing.T) {
	p := start(t)
	admin := p.admin()
	maker, dead, node := p.client(admin, hub.Submit, "maker"), p.client(admin, hub.Node, "dead"), p.client(admin, hub.Node, "node")
	ctx := t.Context()
	count := func() uint64 {
		t.Helper()
		n, err := p.server.Contents()
		must(t, err)
		return n
	}
	begin := count()
	id := submit(t, maker, nil, nil, "begin")
	submitted := count()
	j := take(t, dead)
	big := strings.Repeat("0123456789abcdef", hub.MaxPart/8) // of two parts
	list(t, dead, of(j), "a first part", big)                // and no checkpoint
	send(t, dead, of(j), "another one")
	if count() < submitted+8 {
		t.Fatalf("got %d contents after %d", count(), submitted)
	}
	time.Sleep(deadline + time.Second)
	j = take(t, node)
	if j.ID != id || j.Attempt != 2 {
		t.Fatalf("got %s, attempt %d", j.ID, j.Attempt)
	}
	files := list(t, node, of(j), "begin", "result", big+"other")
	must(t, node.Checkpoint(ctx, hub.Checkpoint{Attempt: of(j), Files: files, First: 1, Lines: [][]byte{[]byte("{}")}}))
	asked := send(t, node, of(j), "a call")
	must(t, node.Ask(ctx, hub.Question{Attempt: of(j), Requests: []hub.Request{{ID: "r1", Hash: asked}}}))
	must(t, node.End(ctx, hub.End{Attempt: of(j), State: hub.Done}))
	// The list, the call, the result and what the job began with have a size and a part each, and
	// the large content has a size and three parts.
	if got := count(); got != submitted+12 {
		t.Errorf("got %d contents, %d of them were submitted", got, submitted)
	}
	for _, hash := range []string{files, asked, hub.HashOf([]byte("result")), hub.HashOf([]byte(big + "other")), hub.HashOf([]byte("begin"))} {
		if _, err := maker.Get(ctx, hub.Part{Job: id, Hash: hash}); err != nil {
			t.Errorf("a content of the job is gone: %v", err)
		}
	}
	if _, err := maker.Get(ctx, hub.Part{Job: id, Hash: hub.HashOf([]byte("another one"))}); !hub.IsCode(err, hub.CodeMissing) {
		t.Errorf("a content of the dead node is there: %v", err)
	}
	must(t, maker.Remove(ctx, id))
	if got := count(); got != begin {
		t.Errorf("%d contents are left, want %d", got, begin)
	}
}
