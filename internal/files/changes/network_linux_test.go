package changes

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// TestNetworkOfOneWorker: a worker without the network does not get it from another
// worker of the session, although the helper of the overlays has it.
func TestNetworkOfOneWorker(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	folder, dir := t.TempDir(), t.TempDir()
	over := Directory{Host: sandbox.Host(folder), Target: "/"}
	k, err := Open(sandbox.Host(dir), []Directory{over}, true)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if _, err := k.OpenDirectory(over); err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(listener.Addr().String(), ":")
	line := "echo x >> f; exec 3<>/dev/tcp/127.0.0.1/" + port
	own := "(exec 3<>/dev/tcp/127.0.0.1/1) 2>&1 | grep -o refused" // its own loopback is up
	for _, network := range []bool{true, false} {
		s, err := jail.Start(jail.Policy{Mounts: []jail.Mount{{Source: k.Path(over), Target: jail.Work, Write: true, Kept: true}}, Overlays: k, Network: network}, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Run(t.Context(), jail.Shell(line))
		if err != nil || (r.Code == 0) != network {
			t.Errorf("network %v: code %d, %v: %s", network, r.Code, err, r.Stderr.Head)
		}
		if r, err := s.Run(t.Context(), jail.Shell(own)); err != nil || !strings.Contains(string(r.Stdout.Head), "refused") {
			t.Errorf("network %v: its own loopback: %q %v", network, r.Stdout.Head, err)
		}
		v, err := s.Serve(jail.Shell(line))
		if err != nil {
			t.Fatal(err)
		}
		<-v.Done()
		if r, err := v.Result(); err != nil || (r.Code == 0) != network {
			t.Errorf("network %v: a service: code %d, %v: %s", network, r.Code, err, v.Output(0, 1000).Text)
		}
		s.Close()
	}
	k2, err := Open(sandbox.Host(t.TempDir()), []Directory{over}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer k2.Close()
	if _, err := k2.OpenDirectory(over); err != nil {
		t.Fatal(err)
	}
	if s, err := jail.Start(jail.Policy{Mounts: []jail.Mount{{Source: k2.Path(over), Target: jail.Work, Write: true, Kept: true}}, Overlays: k2, Network: true}, time.Now); err == nil {
		s.Close()
		t.Error("a session without the network has it for a worker")
	}
}
