package store_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/golem-forge/golem/internal/hub/store"
	"github.com/golem-forge/golem/internal/records/state"
	"github.com/golem-forge/golem/internal/records/state/statetest"
)

// The variables by which another process learns its part and the server.
const (
	wordsVariable  = "STORE_TEST_WORDS"
	serverVariable = "STORE_TEST_SERVER"
)

// address starts a JetStream server that syncs every write, once, and returns its address.
// Another process uses the server of the first one.
var address = sync.OnceValue(func() string {
	if url := os.Getenv(serverVariable); url != "" {
		return url
	}
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		panic(err)
	}
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: dir, SyncAlways: true, NoSigs: true, NoLog: true, MaxPayload: 8 << 20})
	if err != nil {
		panic(err)
	}
	s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		panic("the server does not start")
	}
	running = s
	stop = func() { s.Shutdown(); s.WaitForShutdown(); os.RemoveAll(dir) }
	return s.ClientURL()
})

var (
	stop    = func() {}
	running *server.Server // in the first process
	opens   atomic.Int64   // connections of the first process
)

func TestMain(m *testing.M) {
	code := m.Run()
	stop()
	os.Exit(code)
}

// opened is a store with its own connection.
type opened struct {
	*store.Store
	conn *nats.Conn
}

func (o opened) Close() error {
	err := o.Store.Close()
	o.conn.Close()
	opens.Add(-1)
	return err
}

func open(dir string) (opened, error) {
	conn, err := nats.Connect(address())
	if err != nil {
		return opened{}, err
	}
	opens.Add(1)
	s, err := store.Open(conn, prefix(dir), 1)
	return opened{s, conn}, err
}

// prefix returns the name of the store of a directory.
func prefix(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:8])
}

// settle waits until the server has handled everything that killed processes had sent: until it
// has closed their connections, and then until a message that is added after theirs is kept.
func settle(dir string) error {
	for tries := 0; int64(running.NumClients()) > opens.Load(); tries++ {
		if tries > 2000 {
			return errors.New("the connections of killed processes stay open")
		}
		time.Sleep(5 * time.Millisecond)
	}
	s, err := open(dir)
	if err != nil {
		return err
	}
	defer s.Close()
	js, err := s.conn.JetStream()
	if err != nil {
		return err
	}
	for _, kind := range []string{"log.all", "once.once", "blobs.blobs", "documents.leases"} {
		name := prefix(dir) + "." + kind
		if _, err := js.StreamInfo(strings.ReplaceAll(name, ".", "-")); errors.Is(err, nats.ErrStreamNotFound) {
			continue
		}
		if _, err := js.Publish(name+".settled", nil); err != nil && !strings.Contains(err.Error(), "maximum messages per subject") {
			return err
		}
	}
	return nil
}

var suite = statetest.Suite{
	Open:   func(dir string) (statetest.Store, error) { return open(dir) },
	Settle: settle,
	Start: func(words [3]string) (statetest.Process, error) {
		cmd := exec.Command(os.Args[0], "-test.run=^TestStoreSuite$")
		cmd.Env = append(os.Environ(), wordsVariable+"="+strings.Join(words[:], "\n"), serverVariable+"="+address())
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		return process{cmd, out}, cmd.Start()
	},
}

type process struct {
	*exec.Cmd
	io.Reader
}

func (p process) Kill() error { return p.Process.Kill() }

// TestStoreSuite runs the suite of statetest on a JetStream server.
func TestStoreSuite(t *testing.T) {
	if words := strings.Split(os.Getenv(wordsVariable), "\n"); len(words) == 3 {
		suite.Play(t, os.Stdout, [3]string(words))
		return
	}
	suite.Run(t)
}

func newStore(t *testing.T) opened {
	t.Helper()
	s, err := open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestFence checks that a fence decides once, and that nobody can remove what it decided,
// not even on the server.
func TestFence(t *testing.T) {
	s := newStore(t)
	f, err := s.Fence("calls")
	if err != nil {
		t.Fatal(err)
	}
	if kept, first, err := f.Decide("job 1.1", []byte("node a")); string(kept) != "node a" || !first || err != nil {
		t.Fatalf("got %q, %t, %v", kept, first, err)
	}
	if kept, first, err := f.Decide("job 1.1", []byte("node b")); string(kept) != "node a" || first || err != nil {
		t.Fatalf("second: got %q, %t, %v", kept, first, err)
	}
	if f.Forget("job 1.1") == nil {
		t.Error("the fence forgot")
	}
	js, err := s.conn.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	for name := range js.StreamNames() {
		if strings.Contains(name, "-fence-") {
			if js.PurgeStream(name) == nil || js.DeleteMsg(name, 1) == nil {
				t.Error("the server removed a message of the fence")
			}
		}
	}
	if kept, ok, err := f.Look("job 1.1"); string(kept) != "node a" || !ok || err != nil {
		t.Errorf("look: got %q, %t, %v", kept, ok, err)
	}
}

// TestGroups checks that groups have their own keys, and are removed as a whole or in part.
func TestGroups(t *testing.T) {
	s := newStore(t)
	g, err := s.Groups("contents")
	if err != nil {
		t.Fatal(err)
	}
	plain, err := s.Once("contents")
	if err != nil {
		t.Fatal(err)
	}
	places := map[string]state.Once{"a": g.In("a"), "b": g.In("b"), "none": plain}
	for name, place := range places {
		for _, key := range []string{"1", "2", "3"} {
			if kept, first, err := place.Decide(key, []byte(name+key)); string(kept) != name+key || !first || err != nil {
				t.Fatalf("%s %s: got %q, %t, %v", name, key, kept, first, err)
			}
		}
	}
	check := func(want map[string]string) {
		t.Helper()
		for name, place := range places {
			got := ""
			for _, key := range []string{"1", "2", "3"} {
				if kept, ok, err := place.Look(key); err != nil || ok && string(kept) != name+key {
					t.Errorf("%s %s: got %q, %v", name, key, kept, err)
				} else if ok {
					got += key
				}
			}
			if got != want[name] {
				t.Errorf("%s has %q, want %q", name, got, want[name])
			}
		}
	}
	if kept, ok, err := g.Look("1"); string(kept) != "none1" || !ok || err != nil { // keys in no group are those of Once
		t.Errorf("got %q, %t, %v", kept, ok, err)
	}
	if err := places["b"].Forget("3"); err != nil {
		t.Error(err)
	}
	check(map[string]string{"a": "123", "b": "12", "none": "123"})
	js, err := s.conn.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	for name := range js.StreamNames() { // the value of a key whose first one is damaged
		if strings.HasSuffix(name, "-once-contents") {
			if _, err := js.Publish(strings.ReplaceAll(name, "-", ".")+"."+hash("a")+"."+hash("4")+".spare.1", []byte("spare")); err != nil {
				t.Fatal(err)
			}
		}
	}
	spare := func() string { kept, _, _ := places["a"].Look("4"); return string(kept) }
	if err := g.ForgetOthers("a", map[string]bool{"1": true, "2": true, "3": true, "4": true}); spare() != "spare" || err != nil {
		t.Errorf("got %q, %v", spare(), err)
	}
	if err := places["a"].Forget("4"); spare() != "" || err != nil {
		t.Errorf("after Forget: got %q, %v", spare(), err)
	}
	if err := g.ForgetOthers("a", map[string]bool{"2": true, "other": true}); err != nil {
		t.Error(err)
	}
	check(map[string]string{"a": "2", "b": "12", "none": "123"})
	if err := g.ForgetGroup("b"); err != nil {
		t.Error(err)
	}
	check(map[string]string{"a": "2", "b": "", "none": "123"})
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// TestDocuments checks that a document is replaced only by somebody who knows it.
func TestDocuments(t *testing.T) {
	d, err := newStore(t).Documents("jobs")
	if err != nil {
		t.Fatal(err)
	}
	if _, revision, err := d.Get("a"); revision != 0 || err != nil {
		t.Fatalf("missing: got %d, %v", revision, err)
	}
	first, err := d.Put("a", []byte("1"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Put("a", []byte("x"), 0); !errors.Is(err, store.ErrChanged) {
		t.Errorf("a second first writer: got %v", err)
	}
	if _, err := d.Put("b", []byte("other"), 0); err != nil {
		t.Error(err)
	}
	second, err := d.Put("a", []byte("2"), first)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Put("a", []byte("x"), first); !errors.Is(err, store.ErrChanged) {
		t.Errorf("an old revision: got %v", err)
	}
	if got, revision, err := d.Get("a"); string(got) != "2" || revision != second || err != nil {
		t.Errorf("got %q, %d, %v", got, revision, err)
	}
	var all []string
	err = d.Each(func(key string, value []byte, _ uint64) error { all = append(all, key+"="+string(value)); return nil })
	if got := strings.Join(all, " "); err != nil || got != "b=other a=2" {
		t.Errorf("each: got %q, %v", got, err)
	}
	if err := d.Remove("a"); err != nil {
		t.Error(err)
	}
	if _, revision, err := d.Get("a"); revision != 0 || err != nil {
		t.Errorf("removed: got %d, %v", revision, err)
	}
}

// TestQueue checks that a task comes once, again after its deadline, and never after it is
// done.
func TestQueue(t *testing.T) {
	q, err := newStore(t).Queue("jobs", 300*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	take := func(lane string, wait time.Duration) (store.Task, bool) {
		t.Helper()
		task, ok, err := q.Take(lane, wait)
		if err != nil {
			t.Fatal(err)
		}
		return task, ok
	}
	for range 2 { // the second one has the same id
		if err := q.Add("any", "1", []byte("job 1")); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := take("gpu", 10*time.Millisecond); ok {
		t.Error("another lane had the task")
	}
	task, ok := take("any", time.Second)
	if !ok || string(task.Data) != "job 1" || task.Delivered != 1 {
		t.Fatalf("got %+v, %t", task, ok)
	}
	for range 4 {
		time.Sleep(100 * time.Millisecond)
		if err := q.Beat(task.Receipt); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := take("any", 10*time.Millisecond); ok {
		t.Error("a task in work was given to somebody else")
	}
	again, ok := take("any", 2*time.Second)
	if !ok || again.Delivered != 2 {
		t.Fatalf("after the deadline: got %+v, %t", again, ok)
	}
	if err := q.Done(again.Receipt); err != nil {
		t.Fatal(err)
	}
	if _, ok := take("any", 500*time.Millisecond); ok {
		t.Error("a finished task came again")
	}
}
