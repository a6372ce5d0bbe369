package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/golem-forge/golem/internal/hub"
)

// natsServer is a NATS server with JetStream in a process of its own: nats-server PORT DIR.
func natsServer() {
	o := &server.Options{Host: "127.0.0.1", JetStream: true, StoreDir: os.Args[2], SyncAlways: true, MaxPayload: 8 << 20, NoLog: true}
	fmt.Sscan(os.Args[1], &o.Port)
	s, err := server.NewServer(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	s.Start()
	s.WaitForShutdown()
}

// approving lets an approver answer until the test ends.
func (w *work) approving() {
	ctx, stop := context.WithCancel(w.t.Context())
	var others sync.WaitGroup
	for _, a := range w.approvers {
		others.Go(func() { w.approve(ctx, a) })
	}
	w.t.Cleanup(func() { stop(); others.Wait() })
}

// TestFrozenNode stops a node for longer than the deadline, as a partition of the network does.
// Another node continues its jobs. When the first one comes back, nothing that it does counts.
func TestFrozenNode(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := newWork(s, 1)
	s.startNode("frozen", "--slots", "3", "--hold", "1m")
	var ids []string
	for i := range 3 {
		ids = append(ids, fmt.Sprintf("job%05d", i))
		w.submit(ids[i])
	}
	job := func(id string) hub.Job {
		t.Helper()
		j, err := w.maker.Job(t.Context(), id)
		must(t, err)
		return j
	}
	s.until("all jobs wait for an approval", func() bool {
		for _, id := range ids {
			if len(job(id).Requests) == 0 {
				return false
			}
		}
		return true
	})
	must(t, s.nodes["frozen"].Process.Signal(syscall.SIGSTOP))
	s.startNode("other", "--slots", "3", "--hold", "1m")
	s.until("the other node has the jobs", func() bool {
		for _, id := range ids {
			if j := job(id); j.Attempt < 2 || j.State != hub.Running {
				return false
			}
		}
		return true
	})
	w.approving()
	must(t, s.nodes["frozen"].Process.Signal(syscall.SIGCONT))
	jobs := w.await(ids, time.Minute)
	w.check(jobs)
	for id, j := range jobs {
		if j.State != hub.Done || j.Attempt != 2 {
			t.Errorf("job %s: got %s after attempt %d, want it done by the second", id, j.State, j.Attempt)
		}
	}
	time.Sleep(2 * deadline) // the first node has time for mischief
	w.check(w.await(ids, time.Minute))
}

// TestExternalServer keeps the data of a hub in a NATS server of the user's, which is killed
// and started again.
func TestExternalServer(t *testing.T) {
	t.Parallel()
	s := &site{t: t, dir: t.TempDir(), nodes: make(map[string]*process)}
	must(t, os.MkdirAll(filepath.Join(s.dir, "home"), 0o700))
	t.Cleanup(s.close)
	at := freeAddresses(t, 2)
	s.listen = at[0]
	_, port, _ := strings.Cut(at[1], ":")
	nats := func() { s.nodes["nats"] = s.start("nats", "nats-server", port, filepath.Join(s.dir, "nats")) }
	nats()
	s.hubArgs = []string{"--nats", "nats://" + at[1]}
	time.Sleep(500 * time.Millisecond)
	s.startHub()
	w := newWork(s, 1)
	w.approving()
	s.startNode("a", "--slots", "2")
	var ids []string
	for i := range 6 {
		ids = append(ids, fmt.Sprintf("job%05d", i))
		w.submit(ids[i])
		if i == 3 {
			s.nodes["nats"].kill()
			nats()
		}
	}
	w.check(w.await(ids, 2*time.Minute))
}

// TestFullDisk fills the disk of a hub. It acknowledges nothing then that it does not keep, and
// has everything else when there is room again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small disk")
	}
	s := &site{t: t, dir: t.TempDir(), listen: freeAddresses(t, 1)[0], nodes: make(map[string]*process)}
	must(t, os.MkdirAll(filepath.Join(s.dir, "home"), 0o700))
	must(t, os.MkdirAll(s.data(), 0o700))
	if err := syscall.Mount("golem", s.data(), "tmpfs", 0, "size=24m,mode=700"); err != nil {
		t.Skipf("mounting a small disk: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(s.data(), syscall.MNT_DETACH) })
	t.Cleanup(s.close)
	s.startHub()
	w := newWork(s, 1)
	var ids []string
	acknowledged := func(id string) bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		signed, err := w.prepare(ctx, id, strings.Repeat("x", 200_000)+id)
		if err == nil {
			err = w.maker.Submit(ctx, signed)
		}
		return err == nil
	}
	for i := range 400 {
		id := fmt.Sprintf("job%05d", i)
		if !acknowledged(id) {
			break
		}
		ids = append(ids, id)
	}
	if len(ids) == 0 || len(ids) == 400 {
		t.Fatalf("%d jobs were acknowledged, want some", len(ids))
	}
	must(t, syscall.Mount("golem", s.data(), "tmpfs", syscall.MS_REMOUNT, "size=200m,mode=700"))
	s.restartHub()
	for _, id := range ids {
		if j, err := w.maker.Job(t.Context(), id); err != nil || j.ID != id {
			t.Errorf("job %s was acknowledged, and is not there: %v", id, err)
		}
	}
	w.approving()
	s.startNode("a", "--slots", "4")
	more := "job99999"
	w.submit(more)
	w.check(w.await(append(ids, more), 3*time.Minute))
	t.Logf("%d jobs were acknowledged before the disk was full", len(ids))
}
