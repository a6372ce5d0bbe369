package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/checks/benchtable"
	"github.com/golem-forge/golem/internal/hub"
)

// BenchmarkTable measures a hub on this machine beside a loop of golem run. GOLEM_BENCH_JOBS sets
// how many finished jobs it has when its memory is measured.
func BenchmarkTable(b *testing.B) {
	table := benchtable.Peers(os.Stdout)
	plainLoop := runLoop(b, 20)
	for _, nodes := range []int{1, 2, 4} {
		each := jobsOnHub(b, nodes, 40)
		table.Against(fmt.Sprintf("a job, with %d nodes of 1 slot", nodes), benchtable.Series{each}, "golem run in a loop", benchtable.Series{plainLoop}, 0)
	}
	first, resumed := latencies(b, 15)
	table.Row("submit until the first event", benchtable.Duration(first), "", "", "", "")
	table.Row("decision until a paused job is done", benchtable.Duration(resumed), "", "", "", "")
	listening, taken := restartQueued(b, 5_000)
	table.Row("a killed hub with 5,000 queued jobs listens again", benchtable.Duration(listening), "", "", "", "")
	table.Row("and gives a node the first one", benchtable.Duration(taken), "", "", "", "")
	count := 5_000
	if text := os.Getenv("GOLEM_BENCH_JOBS"); text != "" {
		var err error
		count, err = strconv.Atoi(text)
		must(b, err)
	}
	m := memory(b, count)
	table.Row(fmt.Sprintf("hub memory, %s finished jobs", benchtable.Thousands(count)), fmt.Sprintf("%d MB", m.after>>20), fmt.Sprintf("%d MB without jobs", m.before>>20), "", "", "")
	table.Row("the same after a restart", fmt.Sprintf("%d MB", m.again>>20), "", "", "", "")
	table.Row("time of that restart", benchtable.Duration(m.restart), "", "", "", "")
}

// simple makes the work of a hub without approvals: a job that writes one file.
func simple(b *testing.B, s *site) *work {
	b.Helper()
	w := newWork(s, 1)
	w.script = "- calls: [{tool: write_file, args: {path: /out/note.md, content: \"made\\n\"}}]\n- text: done\n"
	return w
}

// runLoop returns the seconds that one golem run takes, for the same work.
func runLoop(b *testing.B, n int) float64 {
	b.Helper()
	s := newSite(b)
	w := simple(b, s)
	dir := filepath.Join(s.dir, "program")
	must(b, os.WriteFile(filepath.Join(dir, "simple.yaml"), []byte(w.script), 0o600))
	if out, err := s.golem(dir, w.maker, "trust", "--yes"); err != nil {
		b.Fatal(out)
	}
	begin := time.Now()
	for range n {
		if out, err := s.golem(dir, w.maker, "run", ".", "go", "--model", "scripted:simple.yaml"); err != nil {
			b.Fatal(out)
		}
	}
	return time.Since(begin).Seconds() / float64(n)
}

// jobsOnHub returns the seconds for one of n jobs, with some nodes.
func jobsOnHub(b *testing.B, nodes, n int) float64 {
	b.Helper()
	s := newSite(b)
	defer s.close()
	w := simple(b, s)
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("job%05d", i))
		w.submit(ids[i])
	}
	begin := time.Now()
	for i := range nodes {
		s.startNode(fmt.Sprint("n", i), "--slots", "1")
	}
	w.await(ids, 5*time.Minute)
	return time.Since(begin).Seconds() / float64(n)
}

// latencies returns the seconds from a submission to the first event, and from a decision to the
// end of a job that had given its slot back.
func latencies(b *testing.B, n int) (first, resumed float64) {
	b.Helper()
	s := newSite(b)
	w := newWork(s, 1)
	s.startNode("a", "--slots", "1", "--hold", "0s")
	time.Sleep(time.Second)
	for i := range n {
		id := fmt.Sprintf("job%05d", i)
		begin := time.Now()
		w.submit(id)
		for {
			ctx, cancel := context.WithTimeout(b.Context(), 20*time.Second)
			e, err := w.maker.Events(ctx, hub.EventsQuery{Job: id, Wait: 10 * time.Second})
			cancel()
			must(b, err)
			if len(e.Lines) > 0 {
				break
			}
		}
		first += time.Since(begin).Seconds()
		var j hub.Job
		s.until("the job waits", func() bool {
			var err error
			j, err = w.maker.Job(b.Context(), id)
			must(b, err)
			return j.State == hub.Waiting
		})
		begin = time.Now()
		must(b, decide(b.Context(), w.approvers[0], j, j.Requests[0], true))
		for !j.State.IsOver() {
			var err error
			j, err = w.maker.Job(b.Context(), id)
			must(b, err)
		}
		resumed += time.Since(begin).Seconds()
	}
	return first / float64(n), resumed / float64(n)
}

// restartQueued returns the seconds from the start of a hub with queued jobs until it listens, and
// until a node has the first one.
func restartQueued(b *testing.B, n int) (listening, taken float64) {
	b.Helper()
	s := newSite(b)
	defer s.close()
	w := simple(b, s)
	w.submitMany(n)
	node := s.invite(hub.Node, "n")
	time.Sleep(deadline) // so that the hub looks whether each job is in the queue
	s.hub.kill()
	begin := time.Now()
	s.startHub()
	listening = time.Since(begin).Seconds()
	c := s.connect(node)
	defer c.Close()
	j, err := c.Take(b.Context(), hub.Offer{Wait: 20 * time.Second, Slots: 1})
	must(b, err)
	if j == nil {
		b.Fatal("there is no job")
	}
	return listening, time.Since(begin).Seconds()
}

// submitMany submits jobs with the same files.
func (w *work) submitMany(n int) {
	w.t.Helper()
	signed, err := w.prepare(w.t.Context(), "job99999", "")
	must(w.t, err)
	spec, err := hub.OpenSpec(signed)
	must(w.t, err)
	for i := range n {
		spec.ID = fmt.Sprintf("job%06d", i)
		one, err := hub.SignSpec(w.maker.Credentials, spec)
		must(w.t, err)
		must(w.t, w.maker.Submit(w.t.Context(), one))
	}
}

// A hubMemory is the memory of a hub in bytes without jobs, with many, and with those after a
// restart, which takes some seconds.
type hubMemory struct {
	before, after, again int64
	restart              float64
}

// memory returns the memory of a hub with many jobs that were cancelled at once.
func memory(b *testing.B, n int) (m hubMemory) {
	b.Helper()
	s := newSite(b)
	w := simple(b, s)
	m.before = residentMemory(b, s.hub.Process.Pid)
	signed, err := w.prepare(b.Context(), "job99999", "")
	must(b, err)
	spec, err := hub.OpenSpec(signed)
	must(b, err)
	for i := range n {
		spec.ID = fmt.Sprintf("job%06d", i)
		one, err := hub.SignSpec(w.maker.Credentials, spec)
		must(b, err)
		must(b, w.maker.Submit(b.Context(), one))
		must(b, w.maker.Cancel(b.Context(), spec.ID))
	}
	m.after = residentMemory(b, s.hub.Process.Pid)
	begin := time.Now()
	s.restartHub()
	m.restart = time.Since(begin).Seconds()
	m.again = residentMemory(b, s.hub.Process.Pid)
	return m
}

// residentMemory returns the memory of a process in bytes.
func residentMemory(b *testing.B, pid int) int64 {
	b.Helper()
	out, err := exec.Command("sed", "-n", "s/^VmRSS:[^0-9]*\\([0-9]*\\) kB/\\1/p", fmt.Sprintf("/proc/%d/status", pid)).Output()
	must(b, err)
	kb, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	must(b, err)
	return kb << 10
}
