package mcp

import (
	"context"
	"encoding/json"
	"path"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
)

// turns serializes calls that change the same file, in the order in which a client made
// them. Clients make many calls at once. Without turns a call could find that another has
// changed the file that it read. An earlier call could also overwrite a later one.
type turns struct {
	mu    sync.Mutex
	files map[string][]*turn // for each file, the call that changes it and then those that wait
}

// A turn is the place of a call in the queues of the files that it changes. It has a
// takePlaces in all of them or in none, so one turn is always first everywhere.
type turn struct {
	*turns
	names   []string
	claimed bool          // the call itself leaves the queues
	placed  bool          // it has its places
	first   chan struct{} // closed when it is first at all of them
}

// newTurn returns the turn of a call, without places yet. It uses the names in the call. If
// a file has several names, a later call finds that the file has changed, as without
// turns. Commands have no turns, because golem does not know their changes in advance.
func (s *server) newTurn(c tool.Call) *turn {
	t := &turn{turns: &s.turns}
	var at struct{ Path, From, To string }
	if !s.changes[c.Tool] || json.Unmarshal(c.Args, &at) != nil {
		return t
	}
	for _, name := range []string{at.Path, at.From, at.To} {
		if name != "" {
			t.names = append(t.names, path.Clean("/"+name))
		}
	}
	slices.Sort(t.names)
	t.names = slices.Compact(t.names)
	return t
}

// changesFiles reports for each tool whether it changes the files that a call names.
func changesFiles(tools []tool.Tool) map[string]bool {
	names := make(map[string]bool)
	for _, t := range tools {
		changes := slices.ContainsFunc(t.Verbs, func(v policy.Verb) bool { return v == policy.Write || v == policy.Delete })
		names[t.Name] = changes && !slices.Contains(t.Verbs, policy.Run)
	}
	return names
}

// queueTurn returns the turn of a call with its places, or nil for none. Only the goroutine
// that reads calls it, so the places are in the order of the calls.
func (s *server) queueTurn(c tool.Call) *turn {
	if !s.changes[c.Tool] {
		return nil
	}
	t := s.newTurn(c)
	t.takePlaces()
	return t
}

// turnIn is the key under which a request carries its turn through the library. The
// library passes on nothing else that is not from the client.
const turnIn = "turn"

// carrier returns a value that carries a turn through the library to claim.
func (t *turn) carrier() *mcp.RequestExtra {
	return &mcp.RequestExtra{TokenInfo: &auth.TokenInfo{Extra: map[string]any{turnIn: t}}}
}

// parseCall returns the tool call in a request, or the zero Call if it is none.
func parseCall(r *jsonrpc.Request) (c tool.Call) {
	var p struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if r.Method == "tools/call" && json.Unmarshal(r.Params, &p) == nil {
		c = tool.Call{Tool: p.Name, Args: p.Arguments}
	}
	return c
}

// claim returns the turn that a request carries, or nil for none. The caller must call
// leave.
func claim(r *mcp.CallToolRequest) *turn {
	if r.Extra == nil || r.Extra.TokenInfo == nil {
		return nil
	}
	t, _ := r.Extra.TokenInfo.Extra[turnIn].(*turn)
	if t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.claimed = true
	}
	return t
}

// takePlaces takes the last place at each file, if the turn has no places.
func (t *turn) takePlaces() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.placed {
		return
	}
	t.placed, t.first = true, make(chan struct{})
	for _, name := range t.names {
		t.files[name] = append(t.files[name], t)
	}
	t.checkFirst()
}

// checkFirst lets the call continue if it is first at all its files.
func (t *turn) checkFirst() {
	if !slices.ContainsFunc(t.names, func(name string) bool { return t.files[name][0] != t }) {
		close(t.first)
	}
}

// enter waits until the call may continue or ctx ends.
func (t *turn) enter(ctx context.Context) {
	if len(t.names) == 0 {
		return
	}
	t.takePlaces()
	select {
	case <-t.first:
	case <-ctx.Done():
		t.leave()
	}
}

// leave removes the turn from its queues, so that other calls continue.
func (t *turn) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leaveQueues()
}

// drop leaves for a call that was answered without being made.
func (t *turn) drop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.claimed {
		t.leaveQueues()
	}
}

func (t *turn) leaveQueues() {
	if !t.placed {
		return
	}
	t.placed = false
	for _, name := range t.names {
		i := slices.Index(t.files[name], t)
		t.files[name] = slices.Delete(t.files[name], i, i+1)
		switch {
		case len(t.files[name]) == 0:
			delete(t.files, name)
		case i == 0:
			t.files[name][0].checkFirst()
		}
	}
}
