package run_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/run"
)

// TestCallsRunInOrder makes independent calls in one answer, the slowest first. Each
// call begins after the one before it has ended, and events and results have the same
// order.
func TestCallsRunInOrder(t *testing.T) {
	h := newTestRun(t)
	const n = 40
	var mu sync.Mutex
	var order []string
	var running atomic.Int64
	var told []model.Part
	m := player(func(r model.Request) (model.Answer, error) {
		if len(r.Messages) > 1 {
			told = r.Messages[2].Parts
			return newTextAnswer("done"), nil
		}
		var words []string
		for i := range n {
			words = append(words, "worker_create", fmt.Sprintf(`{"name":"w%d","description":"d","instructions":"i"}`, i), "read_file", `{"path":"/in/a.txt"}`, "child", fmt.Sprintf(`{"input":"c%d"}`, i))
		}
		return newCallsAnswer(words...), nil
	})
	done := func(what string, wait time.Duration) {
		if running.Add(1) > 1 {
			t.Errorf("%s runs at the same time as another call", what)
		}
		time.Sleep(wait)
		mu.Lock()
		order = append(order, what)
		mu.Unlock()
		running.Add(-1)
	}
	w := h.worker(m, "main")
	w.Gate.Approver = approver(func(r tool.Request) tool.Answer {
		return tool.Answer{Verdict: tool.Approved, By: "user", Seen: r.FollowRule()}
	})
	w.Propose = func(name, _, _ string) (string, error) {
		var i int
		fmt.Sscanf(name, "w%d", &i)
		done(name, time.Duration(n-i)*200*time.Microsecond)
		return "proposed: " + name, nil
	}
	w.Callees = []run.Callee{{Name: "child"}}
	w.Child = func(string, run.Narrow) (*run.Worker, error) {
		return h.worker(player(func(r model.Request) (model.Answer, error) {
			done(r.Messages[0].Parts[0].Text, 0)
			return newTextAnswer("answer " + r.Messages[0].Parts[0].Text), nil
		}), "main", "child"), nil
	}
	h.do(w, "go")
	if len(order) != 2*n { // read_file is not among them
		t.Fatalf("%d of %d calls were made: %v", len(order), 2*n, order)
	}
	for i := range n {
		if order[2*i] != fmt.Sprint("w", i) || order[2*i+1] != fmt.Sprint("c", i) {
			t.Fatalf("call %d is out of order: %v", i, order)
		}
	}
	if len(told) != 3*n {
		t.Fatalf("%d results", len(told))
	}
	for i := range n {
		if first, last := told[3*i].Result, told[3*i+2].Result; first == nil || last == nil || !strings.Contains(first.Text, fmt.Sprint("w", i)) || !strings.Contains(last.Text, fmt.Sprint("answer c", i)) {
			t.Fatalf("results %d: %+v %+v", i, first, last)
		}
	}
	begun := 0
	for _, e := range h.events {
		switch {
		case e.Worker != "main":
		case e.Type == run.ToolCall:
			begun++
		case e.Type == run.ToolResult:
			if begun--; begun != 0 {
				t.Fatalf("the event of %s is out of order", e.Tool)
			}
		}
	}
}
