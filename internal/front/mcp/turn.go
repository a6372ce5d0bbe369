package mcp

import (
	"context"
	"encoding/json"
	"path"
	"slices"
	"sync"

	"github.com/golem-forge/golem/internal/policy"
	"github.com/golem-forge/golem/internal/tool"
)

// Turns lets calls that change the same file come one after the other. Clients make many
// at once, and each would find that another has changed what it was made from.
type turns struct {
	mu    sync.Mutex
	files map[string]*file
}

// A file is one that calls change.
type file struct {
	free  chan struct{} // holds one, while nobody changes it
	calls int           // that change it, or wait for that
}

// A turn is a call's, at the files that it changes.
type turn struct {
	*turns
	names []string // in an order that is the same for all
	taken int      // how many of them it has
}

// turn returns the turn of a call, which has none of its files yet. It goes by the names
// in the call: what has several is found to have changed, as it is without turns.
// Commands have none: what they change is not known before.
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

// enter waits until the call may go ahead, or ctx ends.
func (t *turn) enter(ctx context.Context) {
	for _, name := range t.names[t.taken:] {
		t.mu.Lock()
		f := t.files[name]
		if f == nil {
			f = &file{free: make(chan struct{}, 1)}
			f.free <- struct{}{}
			t.files[name] = f
		}
		f.calls++
		t.mu.Unlock()
		select {
		case <-f.free:
			t.taken++
		case <-ctx.Done():
			t.drop(name, f)
			return
		}
	}
}

// leave lets others go ahead.
func (t *turn) leave() {
	for ; t.taken > 0; t.taken-- {
		name := t.names[t.taken-1]
		t.mu.Lock()
		f := t.files[name]
		t.mu.Unlock()
		f.free <- struct{}{}
		t.drop(name, f)
	}
}

func (t *turns) drop(name string, f *file) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f.calls--; f.calls == 0 {
		delete(t.files, name)
	}
}
