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

	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/tool"
)

// Turns lets calls that change the same file come one after the other, in the order in
// which a client has made them. Clients make many at once, and each would find that another
// has changed what it was made from, or that the last one is not what stays.
type turns struct {
	mu    sync.Mutex
	files map[string][]*turn // who changes a file, and behind it who waits for that
}

// A turn is a call's, at the files that it changes. It has its place at all of them, or at
// none, so that there is always one who is first everywhere.
type turn struct {
	*turns
	names   []string
	claimed bool          // by the call itself, which leaves
	placed  bool          // it has its places
	first   chan struct{} // closed when it is first at all of them
}

// turn returns the turn of a call, which has no place yet. It goes by the names in the
// call: what has several is found to have changed, as it is without turns. Commands have
// none: what they change is not known before.
func (s *server) turn(c tool.Call) *turn {
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

// changing returns the tools that change the files which a call names.
func changing(tools []tool.Tool) map[string]bool {
	names := make(map[string]bool)
	for _, t := range tools {
		changes := slices.ContainsFunc(t.Verbs, func(v policy.Verb) bool { return v == policy.Write || v == policy.Delete })
		names[t.Name] = changes && !slices.Contains(t.Verbs, policy.Run)
	}
	return names
}

// inTurn returns the turn of a call, which has its places; nil for none. It is called by the
// one who reads, so that they are in the order of the calls.
func (s *server) inTurn(c tool.Call) *turn {
	if !s.changes[c.Tool] {
		return nil
	}
	t := s.turn(c)
	t.place()
	return t
}

// turnIn is where a request carries its turn through the library, which hands on nothing
// else that is not the client's.
const turnIn = "turn"

// carrier returns what carries a turn through the library, to whoever claims it.
func (t *turn) carrier() *mcp.RequestExtra {
	return &mcp.RequestExtra{TokenInfo: &auth.TokenInfo{Extra: map[string]any{turnIn: t}}}
}

// callIn returns the call of a tool that a request is, if it is one.
func callIn(r *jsonrpc.Request) (c tool.Call) {
	var p struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if r.Method == "tools/call" && json.Unmarshal(r.Params, &p) == nil {
		c = tool.Call{Tool: p.Name, Args: p.Arguments}
	}
	return c
}

// claim returns the turn that a request carries, nil for none. Whoever has it leaves.
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

// place takes the last place at each file, if the turn has none.
func (t *turn) place() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.placed {
		return
	}
	t.placed, t.first = true, make(chan struct{})
	for _, name := range t.names {
		t.files[name] = append(t.files[name], t)
	}
	t.look()
}

// look lets the call go ahead that is first at all its files.
func (t *turn) look() {
	if !slices.ContainsFunc(t.names, func(name string) bool { return t.files[name][0] != t }) {
		close(t.first)
	}
}

// enter waits until the call may go ahead, or ctx ends.
func (t *turn) enter(ctx context.Context) {
	if len(t.names) == 0 {
		return
	}
	t.place()
	select {
	case <-t.first:
	case <-ctx.Done():
		t.leave()
	}
}

// leave lets others go ahead.
func (t *turn) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.out()
}

// drop leaves in place of a call that was answered without being made.
func (t *turn) drop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.claimed {
		t.out()
	}
}

func (t *turn) out() {
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
			t.files[name][0].look()
		}
	}
}
