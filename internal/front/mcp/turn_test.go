package mcp

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/session"
)

// TestTurns checks that changes of a file run in the order of the calls, even if a later
// call is ready first. A call that stops waiting does not block others.
func TestTurns(t *testing.T) {
	s := &server{turns: turns{files: make(map[string][]*turn)}, changes: map[string]bool{"write": true, "move": true}}
	placed := func(name, args string) *turn { return s.queueTurn(tool.Call{Tool: name, Args: []byte(args)}) }
	isFirst := func(t *turn) bool {
		select {
		case <-t.first:
			return true
		default:
			return false
		}
	}
	a := placed("write", `{"path":"/a"}`)
	ab := placed("move", `{"from":"a","to":"/x/../b"}`)
	b := placed("write", `{"path":"//b/"}`)
	c := placed("write", `{"path":"/c"}`)
	if placed("read", `{"path":"/a"}`) != nil {
		t.Error("a call that changes nothing waits for its turn")
	}
	if !isFirst(a) || isFirst(ab) || isFirst(b) || !isFirst(c) {
		t.Errorf("got %v, %v, %v, %v", isFirst(a), isFirst(ab), isFirst(b), isFirst(c))
	}
	b.enter(newEndedContext()) // it stops waiting
	if a.leave(); !isFirst(ab) {
		t.Error("the next call does not run")
	}
	b.enter(newEndedContext())
	b.takePlaces()
	if ab.drop(); !isFirst(b) { // it was answered without being made
		t.Error("the next call does not run")
	}
	b.claimed = true
	if b.drop(); len(s.turns.files["/b"]) != 1 {
		t.Error("drop gave up the place of a running call")
	}
	b.leave()
	c.leave()
	c.leave()
	if len(s.turns.files) > 0 {
		t.Errorf("%v still have waiting calls", s.turns.files)
	}
}

// TestCancelInQueue checks that golem does not make a call that is canceled while it waits
// for another. Preparing a large change takes long, and many calls may wait.
func TestCancelInQueue(t *testing.T) {
	s := &server{ctx: t.Context(), turns: turns{files: make(map[string][]*turn)}, changes: map[string]bool{"write": true}}
	s.tidy = time.AfterFunc(time.Hour, func() {})
	defer s.tidy.Stop()
	call := &call{request: &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Name: "write", Arguments: []byte(`{"path":"/a"}`)}}}
	other := s.queueTurn(tool.Call{Tool: "write", Args: call.request.Params.Arguments})
	if r := s.do(newEndedContext(), call); r.Err == nil || r.Err.Code != "stopped" { // the server has no gate, so a call that runs would panic
		t.Errorf("got %v", r.Err)
	}
	if other.leave(); len(s.turns.files) > 0 {
		t.Errorf("%v still have waiting calls", s.turns.files)
	}
}

func newEndedContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// TestInOrder: of many writes at once the last one stays, for direct calls and others. A
// call that the library refuses does not block others.
func TestInOrder(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, nil)
	var err error
	if h.program, err = program.LoadMounts(h.options, []session.Mount{{Source: h.dir, Target: "/", Mode: "overlay"}}); err != nil {
		t.Fatal(err)
	}
	r := h.newRawClient()
	const rounds, writes = 10, 30
	for round := range rounds {
		var all strings.Builder
		for i := range writes {
			text := newCall(round*100+i, "write_file", fmt.Sprintf(`{"path":"/f%d","content":"%d."}`, round, i))
			switch i % 10 {
			case 0:
			case 3:
				text = strings.Replace(text, `"arguments"`, `"_meta":1,"arguments"`, 1)
			default:
				text = strings.Replace(text, `"arguments"`, `"_meta":{},"arguments"`, 1)
			}
			all.WriteString(text)
		}
		go io.WriteString(r.in, all.String())
		for range writes {
			m := r.read()
			if id, _ := m.ID.(float64); m.Result.IsError || (m.Error != nil) != (int(id)%10 == 3) {
				t.Fatalf("got %+v", m)
			}
		}
		r.send(newCall(fmt.Sprint("read", round), "read_file", fmt.Sprintf(`{"path":"/f%d"}`, round)))
		if m := r.read(); !strings.Contains(m.Result.Content[0].Text, fmt.Sprintf("\t%d.", writes-1)) {
			t.Errorf("round %d: got %q", round, m.Result.Content[0].Text)
		}
	}
}
