package gate_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/golem-forge/golem/gate"
	"github.com/golem-forge/golem/sandbox"
	"github.com/golem-forge/golem/sandbox/sandboxtest"
)

// TestAttacks runs the table of attacks through a gate with the file tools, as a model that
// tries every name with every tool, and a person who approves everything.
func TestAttacks(t *testing.T) {
	journal, err := gate.OpenJournal(filepath.Join(t.TempDir(), "state"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { journal.Close() })
	do := func(t testing.TB, s *sandbox.Sandbox, o sandboxtest.Operation) (string, error) {
		call, ok := map[string]struct {
			tool string
			args any
		}{
			"read":   {"read_file", map[string]any{"path": o.Path}},
			"stat":   {"file_info", map[string]any{"path": o.Path}},
			"exists": {"file_exists", map[string]any{"path": o.Path}},
			"list":   {"list_files", map[string]any{"path": o.Path}},
			"walk":   {"find_files", map[string]any{"path": o.Path, "pattern": "**"}},
			"search": {"search_files", map[string]any{"path": o.Path, "pattern": "."}},
			"copy":   {"copy_file", map[string]any{"from": o.Path, "to": o.To}},
			"write":  {"write_file", map[string]any{"path": o.Path, "content": o.Text}},
			"mkdir":  {"make_directory", map[string]any{"path": o.Path}},
			"move":   {"move_file", map[string]any{"from": o.Path, "to": o.To}},
			"delete": {"delete_file", map[string]any{"path": o.Path, "recursive": o.All}},
		}[o.Name]
		if !ok {
			t.Errorf("no tool for %q", o.Name)
		}
		args, err := json.Marshal(call.args)
		if err != nil || !utf8.ValidString(o.Path+o.To) {
			return "", sandbox.ErrInvalid // no JSON can say this name
		}
		shown := ""
		g := gate.Gate{Tools: gate.FileTools(), Files: s, Grant: gate.GrantAll(), Journal: journal, Approver: gate.ApproverFunc(func(_ context.Context, r gate.Request) gate.Decision {
			acks := []string{}
			for _, item := range r.Items() {
				shown += item.Name + item.Text
				acks = append(acks, item.Ack)
			}
			seen, err := r.Acknowledge(acks...)
			if err != nil {
				seen, err = r.Unseen(r.Digest())
			}
			if err != nil {
				return r.Decline("ann", err.Error())
			}
			return seen.Approve("ann")
		})}
		r := g.Do(t.Context(), gate.Model, gate.Call{Tool: call.tool, Args: args})
		data, _ := json.Marshal(r.Data)
		switch {
		case r.Err != nil:
			return shown, r.Err
		case o.Name == "exists" && !strings.Contains(string(data), `"exists":true`):
			return shown + r.Text, sandbox.ErrNotFound
		}
		return shown + r.Text + string(data), nil
	}
	sandboxtest.Attacks(t, sandboxtest.Fixture{
		New: func(t testing.TB, dir sandbox.Host, tree map[string]sandbox.Object) sandbox.Backend {
			sandboxtest.Plant(t, dir, tree)
			b, err := sandbox.Dir(dir)
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
		OnHost: true,
		Do:     do,
	})
}
