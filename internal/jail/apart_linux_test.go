package jail

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/sandbox"
)

// Of two workers that share a session the one without the network has none, though the
// layers are held with it.
func TestApart(t *testing.T) {
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
	over := Over{Folder: sandbox.Host(folder), Target: "/"}
	k, err := OpenKept(sandbox.Host(dir), []Over{over}, true, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if _, err := k.Folder(over); err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(listener.Addr().String(), ":")
	line := "echo x >> f; exec 3<>/dev/tcp/127.0.0.1/" + port
	own := "(exec 3<>/dev/tcp/127.0.0.1/1) 2>&1 | grep -o refused" // its own loopback is up
	for _, network := range []bool{true, false} {
		s, err := Start(Policy{Mounts: []Mount{{Source: k.Through(over), Target: Work, Write: true, Kept: true}}, Kept: k, Network: network}, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Run(t.Context(), Shell(line))
		if err != nil || (r.Code == 0) != network {
			t.Errorf("network %v: code %d, %v: %s", network, r.Code, err, r.Stderr.Head)
		}
		if r, err := s.Run(t.Context(), Shell(own)); err != nil || !strings.Contains(string(r.Stdout.Head), "refused") {
			t.Errorf("network %v: its own loopback: %q %v", network, r.Stdout.Head, err)
		}
		v, err := s.Serve(Shell(line))
		if err != nil {
			t.Fatal(err)
		}
		<-v.Done()
		if r, err := v.Result(); err != nil || (r.Code == 0) != network {
			t.Errorf("network %v: a service: code %d, %v: %s", network, r.Code, err, v.Output(0, 1000).Text)
		}
		s.Close()
	}
	k2, err := OpenKept(sandbox.Host(t.TempDir()), []Over{over}, false, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer k2.Close()
	if _, err := k2.Folder(over); err != nil {
		t.Fatal(err)
	}
	if s, err := Start(Policy{Mounts: []Mount{{Source: k2.Through(over), Target: Work, Write: true, Kept: true}}, Kept: k2, Network: true}, time.Now); err == nil {
		s.Close()
		t.Error("a session without the network has it for a worker")
	}
}
