package inbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/work/program"
)

// TestManySessions checks that the search for paused runs takes memory in proportion to the
// number of sessions.
func TestManySessions(t *testing.T) {
	const sessions, most = 300, 64 << 10 // bytes for each session
	home, work := t.TempDir(), t.TempDir()
	o := program.Options{State: filepath.Join(home, "state"), Home: home, Now: time.Now, Dir: work}
	p, err := program.LoadMounts(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(string(p.Storage.Dir()), name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("state.json", fmt.Sprintf(`{"version": 2, "directory": %q}`, work))
	for i := range sessions {
		id := fmt.Sprintf("s%05d", i)
		write("sessions/"+id+"/session.json", fmt.Sprintf(`{"id": %q, "started": "2026-01-02T03:04:05Z", "mounts": [{"source": %q, "target": "/", "mode": "readOnly"}], "command": "sh", "root": %q}`, id, work, work))
	}
	if list, err := BareSessions(o, work); err != nil || len(list) != sessions {
		t.Fatalf("got %d sessions and %v", len(list), err)
	}
	measure := func(runs bool) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		list, err := directories(context.Background(), o, 0, runs, nil)
		runtime.ReadMemStats(&after)
		if err != nil || len(list) > 0 {
			t.Fatalf("got %+v and %v", list, err)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	without, with := measure(false), measure(true)
	if used := (int64(with) - int64(without)) / sessions; used > most {
		t.Errorf("got %d bytes for each of %d sessions, want at most %d", used, sessions, most)
	}
}
