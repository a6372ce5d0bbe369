package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/hub"
)

// newSiteAt starts a hub that listens at an address, with more flags.
func newSiteAt(t *testing.T, listen string, args ...string) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), listen: listen, hubArgs: args, nodes: make(map[string]*process)}
	must(t, os.MkdirAll(filepath.Join(s.dir, "home"), 0o700))
	t.Cleanup(s.close)
	s.startHub()
	return s
}

// TestTLS checks that a hub which other machines reach talks only over TLS, and only to clients
// that trust its certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	s := newSiteAt(t, "0.0.0.0:"+port, "--public", "127.0.0.1:"+port)
	w := newWork(s, 1)
	w.approving()
	s.startNode("a")
	w.submit("job00001")
	w.check(w.await([]string{"job00001"}, time.Minute))

	good := w.maker.Credentials
	if len(good.URLs) != 1 || good.URLs[0] != "tls://127.0.0.1:"+port || good.CA == "" {
		t.Errorf("the credentials name %q, and the certificate %q", good.URLs, good.CA)
	}
	other := newSiteAt(t, "0.0.0.0:"+freePort(t))
	foreign, err := hub.ReadCredentials(filepath.Join(other.data(), "admin.creds"))
	must(t, err)
	for name, change := range map[string]func(c *hub.Credentials){
		"not encrypted":         func(c *hub.Credentials) { c.URLs = []string{"nats://127.0.0.1:" + port} },
		"without a certificate": func(c *hub.Credentials) { c.CA = "" },
		"another certificate":   func(c *hub.Credentials) { c.CA = foreign.CA },
		"another hub":           func(c *hub.Credentials) { c.Hub = foreign.Hub },
	} {
		c := good
		change(&c)
		if made, err := hub.Connect(t.Context(), c, hub.Options{}); err == nil {
			made.Close()
			t.Errorf("%s: it connects", name)
		}
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(freeAddresses(t, 1)[0])
	must(t, err)
	return port
}

// TestSecondHub checks that a directory has one hub.
func TestSecondHub(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	out, err := exec.Command("golem-hub", "--data", s.data(), "--listen", "127.0.0.1:0").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "another golem hub uses the directory "+s.data()+"; stop it, or name another one with --data") {
		t.Errorf("got %v, %s", err, out)
	}
}

// TestPartition cuts a node off from the hub: packets in its network namespace go nowhere, and no
// connection ends. Another node continues its jobs. When the first one is back, nothing that it did counts.
func TestPartition(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ip"); err != nil || os.Getuid() != 0 {
		t.Skip("needs root and the program ip, to make a network")
	}
	name := fmt.Sprintf("gh%06d", rand.IntN(1e6))
	net24 := fmt.Sprintf("10.%d.%d", 200+rand.IntN(50), rand.IntN(250))
	ip := func(args string) error {
		out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip %s: %w: %s", args, err, out)
		}
		return nil
	}
	t.Cleanup(func() { ip("netns del " + name); ip("link del " + name + "a") })
	for _, args := range []string{"netns add NAME", "link add NAMEa type veth peer name NAMEb", "link set NAMEb netns NAME", "addr add NET.1/30 dev NAMEa", "link set NAMEa up",
		"-n NAME addr add NET.2/30 dev NAMEb", "-n NAME link set NAMEb up", "-n NAME link set lo up"} {
		must(t, ip(strings.NewReplacer("NAME", name, "NET", net24).Replace(args)))
	}
	l, err := net.Listen("tcp", net24+".1:0")
	must(t, err)
	listen := l.Addr().String()
	l.Close()
	s := newSiteAt(t, listen, "--public", listen)
	w := newWork(s, 1)
	s.startNodeIn([]string{"ip", "netns", "exec", name}, "far", "--slots", "3", "--hold", "1m")
	var ids []string
	for i := range 3 {
		ids = append(ids, fmt.Sprintf("job%05d", i))
		w.submit(ids[i])
	}
	all := func(is func(hub.Job) bool) func() bool {
		return func() bool {
			for _, id := range ids {
				if j, err := w.maker.Job(t.Context(), id); err != nil || !is(j) {
					return false
				}
			}
			return true
		}
	}
	s.until("all jobs wait for an approval", all(func(j hub.Job) bool { return len(j.Requests) == 1 }))
	must(t, ip("-n "+name+" link set "+name+"b down"))
	s.startNode("near", "--slots", "3", "--hold", "1m")
	s.until("the other node has the jobs", all(func(j hub.Job) bool { return j.Attempt == 2 && j.State == hub.Running }))
	w.approving()
	time.Sleep(deadline)
	must(t, ip("-n "+name+" link set "+name+"b up"))
	jobs := w.await(ids, time.Minute)
	w.check(jobs)
	for id, j := range jobs {
		if j.State != hub.Done || j.Attempt != 2 {
			t.Errorf("job %s: got %s after attempt %d, want it done by the second", id, j.State, j.Attempt)
		}
	}
	s.nodes["near"].kill() // only the first node is left, and it works again
	w.script = "- calls: [{tool: write_file, args: {path: /out/note.md, content: \"made\\n\"}}]\n- text: done\n"
	w.submit("job00009")
	if j := w.await([]string{"job00009"}, time.Minute)["job00009"]; j.State != hub.Done {
		t.Errorf("got %s: %s", j.State, j.Result.Why)
	}
}

// TestHubAway starts commands and a node while the hub is away. They say so, and continue when it is
// back.
func TestHubAway(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := newWork(s, 1)
	files := make(map[string]string)
	for name, c := range map[string]*hub.Client{"maker": w.maker, "approver": w.approvers[0]} {
		files[name] = filepath.Join(s.dir, name+".creds")
		must(t, c.Credentials.Write(files[name]))
	}
	must(t, s.invite(hub.Node, "a").Write(filepath.Join(s.dir, "a.creds")))
	dir := filepath.Join(s.dir, "program")
	s.mustGolem(dir, w.maker, "", "trust", "--yes")
	s.stopHub()
	commands := map[string]*process{
		"jobs":    s.start("jobs", "golem", "jobs", "--creds", files["maker"]),
		"approve": s.start("approve", "golem", "approve", "--hub", "--creds", files["approver"]),
		"submit":  s.start("submit", "golem", "submit", dir, "send it", "--model", "scripted:script.yaml", "--creds", files["maker"]),
	}
	s.startNode("a")
	says := func(p *process, text string) func() bool {
		return func() bool {
			said, err := os.ReadFile(p.log)
			return err == nil && strings.Contains(string(said), text)
		}
	}
	for name, p := range commands {
		s.until(name+" waits for the hub", says(p, "trying again"))
	}
	s.until("the node waits for the hub", says(s.nodes["a"], "trying again"))
	s.startHub()
	for name, p := range commands {
		if err := p.Wait(); err != nil {
			said, _ := os.ReadFile(p.log)
			t.Errorf("golem %s: %v\n%s", name, err, said)
		}
	}
	s.until("the node offers its slots", says(s.nodes["a"], "offers"))
}

// TestManySlots lets one node do 64 jobs at once, which all wait for an approval. No job is given away.
func TestManySlots(t *testing.T) {
	t.Parallel()
	s := newSiteAt(t, freeAddresses(t, 1)[0], "--deadline", "1m") // a busy machine is not a silent node
	w := newWork(s, 1)
	const slots = 64
	s.startNode("a", "--slots", fmt.Sprint(slots), "--hold", "10m")
	var ids []string
	for i := range slots {
		ids = append(ids, fmt.Sprintf("job%05d", i))
		w.submit(ids[i])
	}
	s.until("all jobs wait for an approval, on the node", func() bool {
		jobs, err := w.maker.Jobs(t.Context(), hub.Filter{States: []hub.State{hub.Running}})
		return err == nil && len(jobs) == slots && !slices.ContainsFunc(jobs, func(j hub.Job) bool { return len(j.Requests) == 0 })
	})
	ctx, stop := context.WithCancel(t.Context())
	var approving sync.WaitGroup
	defer approving.Wait()
	defer stop()
	approving.Go(func() { w.approve(ctx, w.approvers[0]) })
	jobs := w.await(ids, 3*time.Minute)
	w.check(jobs)
	for _, j := range jobs {
		if j.State != hub.Done || j.Attempt != 1 {
			t.Errorf("job %s is %s after attempt %d (%s)", j.ID, j.State, j.Attempt, j.Result.Why)
		}
	}
}
