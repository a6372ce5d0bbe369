package mcp

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/project"
)

// TestFlood checks that a client that sends many large calls at once
// takes a limited amount of memory, and gets every answer.
func TestFlood(t *testing.T) {
	const calls, size, most = 20, 10 << 20, 300 << 20
	h := newTestServer(t, map[string]string{"a.txt": "hello\n"})
	approve, err := project.ParseSet("--approval", "approval.mode=approve_all")
	if err != nil {
		t.Fatal(err)
	}
	h.options.Settings = []project.Setting{approve}
	if h.program, err = program.LoadMounts(h.options, h.program.Storage.Sessions.Given); err != nil {
		t.Fatal(err)
	}
	r := h.newRawClient()
	content := strings.Repeat(strings.Repeat("x", 1000)+`\n`, size/1000)
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	before, peak := stats.HeapAlloc, uint64(0)
	sent := make(chan bool)
	go func() {
		defer close(sent)
		for i := range calls {
			r.send(newCall(i, "write_file", fmt.Sprintf(`{"path":"/f%d","content":"`, i)+content+`"}`))
		}
	}()
	answered := make(chan bool)
	go func() {
		defer close(answered)
		for range calls {
			if m := r.read(); m.Error != nil || m.Result.IsError {
				t.Errorf("got %+v", m)
			}
		}
	}()
	for done := false; !done; {
		select {
		case <-answered:
			done = true
		case <-time.After(5 * time.Millisecond):
		}
		runtime.ReadMemStats(&stats)
		peak = max(peak, stats.HeapAlloc)
	}
	<-sent
	t.Logf("at most %d MB more", (peak-before)>>20)
	if peak-before > most {
		t.Errorf("the heap grew by %d MB", (peak-before)>>20)
	}
}
