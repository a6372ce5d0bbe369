package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/display"
	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/work/job"
	"github.com/golem-forge/golem/internal/work/program"
)

// check compares the jobs with what reached the sink: nothing is lost, and nothing twice.
func (w *work) check(jobs map[string]hub.Job) {
	w.t.Helper()
	done, doubtful := 0, 0
	for id, j := range jobs {
		n := w.sink.times(id)
		switch {
		case j.State == hub.Done && n == 1:
			done++
		case j.State == hub.InDoubt && n <= 1:
			doubtful++
		default:
			w.t.Errorf("job %s is %s (%s) after attempt %d, and its message arrived %d times", id, j.State, j.Result.Why, j.Attempt, n)
		}
	}
	w.t.Logf("%d jobs: %d done, %d in doubt", len(jobs), done, doubtful)
}

// TestJobs lets two nodes do jobs that need an approval, and nothing goes wrong.
func TestJobs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := newWork(s, 2)
	s.startNode("a", "--slots", "2", "--hold", "100ms")
	s.startNode("b", "--slots", "2", "--hold", "5s")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var approving sync.WaitGroup
	defer approving.Wait()
	defer stop()
	for _, a := range w.approvers {
		approving.Go(func() { w.approve(ctx, a) })
	}
	var ids []string
	for i := range 10 {
		ids = append(ids, fmt.Sprintf("job%05d", i))
		w.submit(ids[i])
	}
	jobs := w.await(ids, 2*time.Minute)
	w.check(jobs)
	for _, j := range jobs {
		if j.State != hub.Done || j.Result.Answer != "sent" {
			t.Errorf("job %s: got %s, %+v", j.ID, j.State, j.Result)
		}
	}
}

// TestKills kills nodes and the hub at random times. Every job ends, no message arrives twice,
// and a call that may have been made shows as in doubt. GOLEM_SOAK_JOBS and
// GOLEM_SOAK_MINUTES make it longer.
func TestKills(t *testing.T) {
	t.Parallel()
	count, minutes := 30, 0
	if text := os.Getenv("GOLEM_SOAK_JOBS"); text != "" {
		var err error
		count, err = strconv.Atoi(text)
		must(t, err)
		minutes, _ = strconv.Atoi(os.Getenv("GOLEM_SOAK_MINUTES"))
	}
	s := newSite(t)
	w := newWork(s, 2)
	w.sink.slow = 20 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var others sync.WaitGroup
	defer others.Wait()
	defer stop()
	for _, a := range w.approvers {
		others.Go(func() { w.approve(ctx, a) })
	}
	names := []string{"a", "b", "c"}
	for _, name := range names {
		s.startNode(name, "--slots", "2", "--hold", "300ms")
	}
	var ids []string
	for i := range count {
		ids = append(ids, fmt.Sprintf("job%05d", i))
	}
	begin := time.Now()
	submitted := make(chan error, 1)
	others.Go(func() { submitted <- w.submitAll(ctx, ids) })
	random := rand.New(rand.NewPCG(1, 2))
	patience := 3 * time.Minute
	if minutes > 0 {
		patience = time.Duration(minutes) * time.Minute
	}
	kills, hubs := 0, 0
	kill := func() {
		if random.IntN(4) == 0 {
			s.restartHub()
			hubs++
		} else {
			name := names[random.IntN(len(names))]
			s.nodes[name].kill()
			s.startNode(name, "--slots", "2", "--hold", "300ms")
		}
		kills++
	}
	for time.Since(begin) < patience && (minutes > 0 || kills < 8) {
		pause := 300 + random.IntN(1500)
		if minutes > 0 {
			pause *= 4
		}
		time.Sleep(time.Duration(pause) * time.Millisecond)
		kill()
		if kills%50 == 0 {
			t.Logf("after %s: %d kills, %d messages have arrived", time.Since(begin).Round(time.Second), kills, w.sink.arrived())
		}
		if last, err := w.maker.Job(t.Context(), ids[len(ids)-1]); minutes > 0 && err == nil && (last.State.IsOver() || last.State == hub.InDoubt) {
			break
		}
	}
	must(t, <-submitted)
	jobs := w.await(ids, patience)
	t.Logf("%d jobs in %s; %d kills, of which %d of the hub", len(jobs), time.Since(begin).Round(time.Second), kills, hubs)
	w.check(jobs)
}

// TestCluster kills one hub of three after the other, also the leader. Clients continue with the
// others, and every job ends. If all were killed, the first one waits for the others.
func TestCluster(t *testing.T) {
	t.Parallel()
	s, start := newCluster(t)
	said := func(hub int, what string) int { // how often
		data, _ := os.ReadFile(filepath.Join(s.dir, fmt.Sprint("hub", hub, ".log")))
		return strings.Count(string(data), "golem hub: "+what)
	}
	w := newWork(s, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var others sync.WaitGroup
	defer others.Wait()
	defer stop()
	others.Go(func() { w.approve(ctx, w.approvers[0]) })
	for _, name := range []string{"a", "b"} {
		s.startNode(name, "--slots", "2", "--hold", "300ms")
	}
	var ids []string
	for i := range 12 {
		ids = append(ids, fmt.Sprintf("job%05d", i))
		w.submit(ids[i])
		if i%4 == 3 {
			hub := i / 4
			s.others[hub].kill()
			time.Sleep(time.Second)
			start(hub)
			s.until("the hub has started again", func() bool { return said(hub, "listening at") == 2 }) // only one of three may be away
		}
	}
	w.check(w.await(ids, 5*time.Minute))
	for hub := range 3 {
		s.others[hub].kill()
	}
	start(0)
	s.until("a hub waits for the others", func() bool { return said(0, "waiting for the other hubs of the cluster: ") == 1 })
	for hub := 1; hub < 3; hub++ {
		start(hub)
	}
	for hub := range 3 {
		s.until("all hubs have started again", func() bool { return said(hub, "listening at") == 3 })
	}
	if _, err := w.maker.Job(t.Context(), ids[0]); err != nil {
		t.Error(err)
	}
}

// TestReach checks that a node does not let a job reach its own network, unless its operator
// names the host.
func TestReach(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := newWork(s, 1)
	w.approving()
	named := s.reach
	s.reach = "127.0.0.1:1"
	s.startNode("a")
	w.submit("job00001")
	job := w.await([]string{"job00001"}, time.Minute)["job00001"]
	if job.State != hub.Failed || !strings.Contains(job.Result.Why, "golem node --reach "+named) || w.sink.times("job00001") > 0 {
		t.Errorf("got %s, %s, and %d messages", job.State, job.Result.Why, w.sink.times("job00001"))
	}
	s.nodes["a"].kill()
	s.reach = named
	s.startNode("b")
	must(t, w.maker.Retry(t.Context(), "job00001"))
	w.check(w.await([]string{"job00001"}, time.Minute))
}

// TestReview follows a user's commands: submit, approve, see what the job did, bring its
// changes here and apply them.
func TestReview(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := newWork(s, 1)
	s.startNode("a")
	dir := filepath.Join(s.dir, "program")
	must(t, os.WriteFile(filepath.Join(dir, "in", "body.json"), []byte(`{"id":"review"}`), 0o600))
	run := func(c *hub.Client, want string, args ...string) string {
		t.Helper()
		return s.mustGolem(dir, c, want, args...)
	}
	run(w.maker, "trusted", "trust", "--yes")
	out := run(w.maker, "next: golem jobs logs -f", "submit", ".", "send it", "--model", "scripted:script.yaml")
	id := jobIn(out)
	approver := w.approvers[0]
	call := awaitCall(t, approver).ID
	run(w.maker, "1 call waits for approval; next: golem approve --hub", "jobs")
	if out, err := s.golem(dir, w.maker, "approve", "--hub", call); err == nil || !strings.Contains(out, "your credentials have the role submit, which may not decide") {
		t.Errorf("a submitter approves: %v\n%s", err, out)
	}
	run(approver, "yes: api_send of job "+id, "approve", "--hub", call)
	for _, want := range []string{"a person approved the call", "with golem approve --hub, without a terminal", "nothing: approved unseen"} {
		run(approver, want, "audit", "show", call)
	}
	run(w.maker, "finished: sent", "jobs", "logs", "-f", id)
	if n := w.sink.times("review"); n != 1 {
		t.Errorf("the message arrived %d times", n)
	}
	run(w.maker, "job "+id+": done", "jobs", "show", id)
	run(w.maker, "job "+id+" is session", "jobs", "fetch", id)
	run(w.maker, "+made", "diff", "--hub")
	run(w.maker, "applied: created out/note.md", "apply", "--yes")
	if data, err := os.ReadFile(filepath.Join(dir, "out", "note.md")); string(data) != "made\n" || err != nil {
		t.Errorf("applied: got %q, %v", data, err)
	}
	run(w.maker, "nothing new to fetch", "jobs", "fetch")
}

// awaitCall returns the first call that waits at the hub, whose jobs are one.
func awaitCall(t *testing.T, approver *hub.Client) (call hub.Request) {
	t.Helper()
	for range 100 {
		list, err := approver.Jobs(t.Context(), hub.Filter{})
		must(t, err)
		if len(list) == 1 && len(list[0].Requests) == 1 {
			return list[0].Requests[0]
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("no call waits at the hub")
	return call
}

// TestReadShown checks that the question about a file that a job reads has the content of the
// job's file. The approver's own file of that name may be another one.
func TestReadShown(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := newWork(s, 1)
	s.startNode("a")
	dir := filepath.Join(s.dir, "program")
	must(t, os.WriteFile(filepath.Join(dir, "golem-forge.config.yaml"), []byte("sandbox: {root: ., mode: overlay}\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "main.worker"), []byte("---\nsandbox:\n  zones: [{name: in, approval: {read: ask, write: preApproved}}]\ntoolsets: [filesystem]\n---\nWork.\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "script.yaml"), []byte("- calls: [{tool: write_file, args: {path: /in/a.txt, content: of the job}}]\n- calls: [{tool: read_file, args: {path: /in/a.txt}}]\n- text: done\n"), 0o600))
	s.mustGolem(dir, w.maker, "trusted", "trust", "--yes")
	id := jobIn(s.mustGolem(dir, w.maker, "next: golem jobs logs -f", "submit", ".", "read it", "--model", "scripted:script.yaml"))
	_, r, err := inbox.ReadHubCall(t.Context(), w.approvers[0], program.Options{Home: t.TempDir()}, id, awaitCall(t, w.approvers[0]).ID)
	must(t, err)
	if len(r.Changes) != 1 || !strings.Contains(r.Changes[0].Diff, "+of the job") || len(r.Omitted()) > 0 {
		t.Errorf("got %+v", r.Changes)
	}
	for _, row := range display.NewSheet(r, 1000).All() {
		if strings.Contains(row.Text, "golem tool read_file") {
			t.Errorf("the question names a command that shows another file: %s", row.Text)
		}
	}
}

// TestConfiguredHub checks that commands use the hub that the configuration names, and work
// without it if it is away.
func TestConfiguredHub(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := newWork(s, 1)
	w.script = "- calls: [{tool: write_file, args: {path: /out/note.md, content: \"made\\n\"}}]\n- text: done\n"
	s.startNode("a")
	dir := filepath.Join(s.dir, "program")
	config := filepath.Join(s.dir, "home", ".config", "golem")
	must(t, os.MkdirAll(config, 0o700))
	must(t, w.maker.Credentials.Write(filepath.Join(config, "mine.creds")))
	must(t, os.WriteFile(filepath.Join(config, "config.yaml"), []byte("hub: ~/.config/golem/mine.creds\n"), 0o600))
	golem := func(want string, args ...string) {
		t.Helper()
		cmd := exec.Command("golem", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+filepath.Join(s.dir, "home"), "XDG_STATE_HOME=", "XDG_CONFIG_HOME=", "GOLEM_STATE=", "GOLEM_HUB=")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("golem %s: %v, want %q:\n%s", strings.Join(args, " "), err, want, out)
		}
	}
	golem("trusted", "trust", "--yes")
	w.submit("job00001")
	w.await([]string{"job00001"}, time.Minute)
	golem("job job00001 is session", "status")
	golem("+made", "diff")
	golem("nothing waits for approval at the hub", "approve")
	s.hub.kill()
	golem("note: nothing was brought from the hub of your configuration", "status")
	s.startHub()
}

// TestDirectMount checks that changes in a mount without an overlay come back for review: new,
// changed and deleted files, and a conflict with a file that the user changed meanwhile.
func TestDirectMount(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := newWork(s, 1)
	s.startNode("a")
	dir := filepath.Join(s.dir, "notes")
	for name, text := range map[string]string{
		"golem-forge.config.yaml": "approval: {mode: approve_all}\nsandbox:\n  mounts:\n    - {source: ./out, target: /out, mode: rw}\n    - {source: ./kept, target: /kept, mode: overlay}\n",
		"main.worker":             "---\nsandbox: inherit\ntoolsets: {filesystem: }\n---\nWork.\n",
		"out/changed.md":          "old\n", "out/gone/a.md": "a\n", "out/gone/b.md": "b\n", "out/mine.md": "old\n", "kept/x": "x\n",
		"script.yaml": `- calls:
    - {tool: write_file, args: {path: /out/changed.md, content: "new\n"}}
    - {tool: write_file, args: {path: /out/deep/made.md, content: "made\n"}}
    - {tool: write_file, args: {path: /out/mine.md, content: "theirs\n"}}
    - {tool: write_file, args: {path: /kept/y, content: "y\n"}}
    - {tool: delete_file, args: {path: /out/gone/a.md}}
- text: done
`} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	golem := func(want string, args ...string) string {
		t.Helper()
		out, err := s.golem(dir, w.maker, args...)
		if err != nil || !strings.Contains(out, want) {
			t.Fatalf("golem %s: %v, want %q:\n%s", strings.Join(args, " "), err, want, out)
		}
		return out
	}
	golem("trusted", "trust", "--yes")
	id := jobIn(golem("next:", "submit", ".", "work", "--model", "scripted:script.yaml"))
	golem("done", "jobs", "logs", "-f", id)
	must(t, os.WriteFile(filepath.Join(dir, "out", "mine.md"), []byte("mine\n"), 0o600))
	golem("job "+id+" is session", "jobs", "fetch")
	out := golem("+made", "diff")
	for _, want := range []string{"-old", "+new", "-a", "+y"} {
		if !strings.Contains(out, want) {
			t.Errorf("the diff lacks %q:\n%s", want, out)
		}
	}
	if data, _ := os.ReadFile(filepath.Join(dir, "out", "changed.md")); string(data) != "old\n" {
		t.Errorf("the fetch changed a file: %q", data)
	}
	if out, err := s.golem(dir, w.maker, "apply", "--yes"); err == nil || !strings.Contains(out, "changed in your directory since the session first changed it: out/mine.md") {
		t.Errorf("the file of the user is no conflict: %v\n%s", err, out)
	}
	golem("", "discard", "--yes", "out/mine.md")
	out = golem("applied", "apply", "--yes")
	for name, want := range map[string]string{"out/changed.md": "new\n", "out/deep/made.md": "made\n", "out/gone/b.md": "b\n", "out/mine.md": "mine\n", "kept/y": "y\n", "out/gone/a.md": ""} {
		if data, _ := os.ReadFile(filepath.Join(dir, name)); string(data) != want {
			t.Errorf("%s: got %q, want %q; golem apply said:\n%s", name, data, want, out)
		}
	}
	golem("", "undo", "--yes")
	if data, _ := os.ReadFile(filepath.Join(dir, "out", "changed.md")); string(data) != "old\n" {
		t.Errorf("after undo: got %q", data)
	}
}

// TestPruneKills kills the hub while it removes old jobs. In the end they are gone, and every
// file of the others is there.
func TestPruneKills(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := newWork(s, 0)
	w.script = "- calls: [{tool: write_file, args: {path: /out/note.md, content: \"made\\n\"}}]\n- text: done\n"
	s.startNode("a", "--slots", "2")
	submit := func(from, to int) (ids []string) {
		for i := from; i < to; i++ {
			ids = append(ids, fmt.Sprintf("job%05d", i))
			w.submit(ids[len(ids)-1])
		}
		w.await(ids, 2*time.Minute)
		return ids
	}
	old := submit(0, 12)
	border := time.Now()
	kept := submit(12, 18)
	admin, err := hub.ReadCredentials(filepath.Join(s.data(), "admin.creds"))
	must(t, err)
	c := s.connect(admin)
	random := rand.New(rand.NewPCG(3, 4))
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		var pruning sync.WaitGroup
		pruning.Go(func() { c.Prune(ctx, hub.Prune{Before: border}) })
		time.Sleep(time.Duration(random.IntN(150)) * time.Millisecond)
		s.restartHub()
		cancel()
		pruning.Wait()
	}
	_, err = c.Prune(t.Context(), hub.Prune{Before: border})
	must(t, err)
	w.checkPruned(old, kept)
	out, err := s.golem(s.dir, c, "hub", "nodes")
	if err != nil || !strings.Contains(out, "NODE  JOBS  SLOTS") || !strings.Contains(out, "a ") {
		t.Errorf("golem hub nodes: %v\n%s", err, out)
	}
}

// checkPruned checks that old jobs are gone, and that the others have all their files.
func (w *work) checkPruned(old, kept []string) {
	t := w.t
	t.Helper()
	for _, id := range old {
		if _, err := w.maker.Job(t.Context(), id); !hub.IsCode(err, hub.CodeMissing) {
			t.Errorf("job %s is there: %v", id, err)
		}
	}
	for _, id := range kept {
		j, err := w.maker.Job(t.Context(), id)
		must(t, err)
		for _, list := range []string{j.Files, j.Checkpoint} {
			text, err := w.maker.Get(t.Context(), hub.Part{Job: id, Hash: list})
			must(t, err)
			var files job.Snapshot
			must(t, json.Unmarshal(text, &files))
			for _, e := range append(files.Program, files.State...) {
				if e.Size == 0 {
					continue
				}
				if _, err := w.maker.Get(t.Context(), hub.Part{Job: id, Hash: e.Hash}); err != nil {
					t.Errorf("job %s lacks %s: %v", id, e.Name, err)
				}
			}
		}
	}
}

// TestClusterPrune removes old jobs at two of three hubs at once, while others are submitted
// and a hub is killed. Every job that is left has all its files, wherever it is read.
func TestClusterPrune(t *testing.T) {
	t.Parallel()
	s, start := newCluster(t)
	w := newWork(s, 0)
	w.script = "- calls: [{tool: write_file, args: {path: /out/note.md, content: \"made\\n\"}}]\n- text: done\n"
	s.startNode("a", "--slots", "2")
	submit := func(from, to int) (ids []string) {
		for i := from; i < to; i++ {
			ids = append(ids, fmt.Sprintf("job%05d", i))
			w.submit(ids[len(ids)-1])
		}
		return ids
	}
	old := submit(0, 8)
	w.await(old, 2*time.Minute)
	border := time.Now()
	kept := submit(8, 9) // with the same program, whose files stay
	w.await(kept, time.Minute)
	var pruning sync.WaitGroup
	admins := []*hub.Client{}
	for i, data := range []string{"data", "data1"} {
		admin, err := hub.ReadCredentials(filepath.Join(s.dir, data, "admin.creds"))
		must(t, err)
		admin.URLs = admin.URLs[i : i+1] // at this hub only
		c := s.connect(admin)
		t.Cleanup(c.Close)
		admins = append(admins, c)
		pruning.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := c.Prune(ctx, hub.Prune{Before: border}); err != nil {
				t.Errorf("prune: %v", err)
			}
		})
	}
	kept = append(kept, submit(9, 12)...)
	s.others[2].kill()
	kept = append(kept, submit(12, 14)...)
	pruning.Wait()
	start(2)
	kept = append(kept, submit(14, 16)...)
	w.await(kept, 2*time.Minute)
	s.until("all hubs have removed the old jobs", func() bool {
		for _, c := range admins {
			if n, err := c.Prune(t.Context(), hub.Prune{Before: border, Dry: true}); err != nil || n > 0 {
				return false
			}
		}
		return true
	})
	w.checkPruned(old, kept)
	again := submit(16, 18)
	w.await(again, time.Minute)
	w.checkPruned(old, append(kept, again...))
}

// TestContentReturns lets a job write a content again that an earlier checkpoint had and a later
// one did not.
func TestContentReturns(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := newWork(s, 0)
	for _, text := range []string{"first", "second", "first", "second"} {
		w.script += "- calls: [{tool: write_file, args: {path: /out/note.md, content: \"" + text + "\\n\"}}]\n"
	}
	w.script += "- text: done\n"
	s.startNode("a")
	w.submit("job00001")
	if j := w.await([]string{"job00001"}, time.Minute)["job00001"]; j.State != hub.Done {
		t.Errorf("got %s: %s", j.State, j.Result.Why)
	}
}

// TestWaitingRequest checks that a request that waits is asked again as soon as a killed hub is
// back, and not only when its own time is over.
func TestWaitingRequest(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := newWork(s, 1)
	w.submit("job00000")
	got := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second) // a request alone has 30
		defer cancel()
		e, err := w.maker.Events(ctx, hub.EventsQuery{Job: "job00000", Wait: 24 * time.Second})
		if err == nil && len(e.Lines) == 0 {
			err = errors.New("no events")
		}
		got <- err
	}()
	time.Sleep(time.Second) // the request waits at the hub
	s.restartHub()
	s.startNode("a", "--slots", "1")
	if err := <-got; err != nil {
		t.Error(err)
	}
}
