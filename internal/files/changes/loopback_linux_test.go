package changes

import (
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/jail"
	"github.com/golem-forge/golem/sandbox"
)

// TestLoopback: a worker of a session reaches its own services, and no service of another
// worker.
func TestLoopback(t *testing.T) {
	for _, network := range []bool{false, true} { // whether the overlays are opened with the network
		folder, dir := t.TempDir(), t.TempDir()
		over := Directory{Host: sandbox.Host(folder), Target: "/"}
		k, err := Open(sandbox.Host(dir), []Directory{over}, network)
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		if _, err := k.OpenDirectory(over); err != nil {
			t.Fatal(err)
		}
		start := func(loopback string) *jail.Jail {
			s, err := jail.Start(jail.Policy{Mounts: []jail.Mount{{Source: k.Path(over), Target: jail.Work, Write: true, Kept: true}}, Overlays: k, Loopback: loopback}, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		}
		child := start("child")
		v, err := child.Serve(jail.Shell(`exec python3 -u -m http.server 8765 --bind 127.0.0.1`))
		if err != nil {
			t.Fatal(err)
		}
		defer v.Kill()
		reaches := func(s *jail.Jail) bool {
			r, err := s.Run(t.Context(), jail.Shell("exec 3<>/dev/tcp/127.0.0.1/8765"))
			if err != nil {
				t.Fatal(err)
			}
			return r.Code == 0
		}
		deadline := time.Now().Add(20 * time.Second)
		for !reaches(child) {
			if time.Now().After(deadline) {
				t.Fatalf("network %v: a worker does not reach its own service: %s", network, v.Output(0, 1000).Text)
			}
			time.Sleep(20 * time.Millisecond)
		}
		if !reaches(start("child")) {
			t.Errorf("network %v: the same worker in another jail does not reach its service", network)
		}
		if reaches(start("parent")) {
			t.Errorf("network %v: a worker reaches the service of another", network)
		}
	}
}
