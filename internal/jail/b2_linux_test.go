package jail

import (
	"testing"
	"time"

	"github.com/golem-forge/golem/sandbox"
)

// TestB2Loopback: workers of one session reach their own services, and none of another
// worker.
func TestB2Loopback(t *testing.T) {
	for _, network := range []bool{false, true} { // that another worker of the session has
		folder, dir := t.TempDir(), t.TempDir()
		over := Over{Folder: sandbox.Host(folder), Target: "/"}
		k, err := OpenKept(sandbox.Host(dir), []Over{over}, network, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		if _, err := k.Folder(over); err != nil {
			t.Fatal(err)
		}
		start := func(loopback string) *Session {
			s, err := Start(Policy{Mounts: []Mount{{Source: k.Through(over), Target: Work, Write: true, Kept: true}}, Kept: k, Loopback: loopback}, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		}
		child := start("child")
		v, err := child.Serve(Shell(`exec python3 -u -m http.server 8765 --bind 127.0.0.1`))
		if err != nil {
			t.Fatal(err)
		}
		defer v.Kill()
		reaches := func(s *Session) bool {
			r, err := s.Run(t.Context(), Shell("exec 3<>/dev/tcp/127.0.0.1/8765"))
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
