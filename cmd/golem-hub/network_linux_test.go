package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
