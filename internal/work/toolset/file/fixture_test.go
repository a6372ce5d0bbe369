package file

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/records/audit"
	"github.com/golem-forge/golem/sandbox"
)

// records is a journal that only collects.
type records struct {
	mu   sync.Mutex
	list []audit.Record
}

func (j *records) Write(r audit.Record, wait audit.Wait) error {
	if wait < r.Least() {
		return errors.New("the journal is not waited for")
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.list = append(j.list, r)
	return nil
}

// yes is an approver that approves everything.
type yes struct{}

func (yes) Approve(_ context.Context, r tool.Request) tool.Answer {
	return tool.Answer{Verdict: tool.Approved, By: "user", Seen: r.FollowRule()}
}

// gateOf returns a gate to the file tools with everything that the mounts allow.
func gateOf(t testing.TB, mounts ...sandbox.Mount) *tool.Gate {
	t.Helper()
	files, err := sandbox.New(sandbox.Config{Mounts: mounts})
	if err != nil {
		t.Fatal(err)
	}
	return &tool.Gate{Tools: Tools(), Grant: policy.Grant{Files: policy.AllFiles(), Tools: policy.All()},
		Files: files, Approver: yes{}, Journal: &records{}, Workers: []string{"main"}}
}

// newGate returns a gate with a host directory that holds the files, mounted at "/".
func newGate(t testing.TB, files map[string]string) (*tool.Gate, string) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		hostFile(t, filepath.Join(dir, filepath.FromSlash(name)), content)
	}
	return gateOf(t, sandbox.Mount{Target: "/", Source: sandbox.Host(dir), Access: sandbox.ReadWrite}), dir
}

// memoryGate is newGate for files in memory.
func memoryGate(t testing.TB, files map[string]string) *tool.Gate {
	t.Helper()
	objects := map[string]sandbox.Object{}
	for name, content := range files {
		objects[strings.TrimPrefix(name, "/")] = sandbox.Object{Content: content}
	}
	return gateOf(t, sandbox.Mount{Target: "/", Backend: sandbox.NewMemory(objects), Access: sandbox.ReadWrite})
}

// hostFile creates a file on the host and its parent directories.
func hostFile(t testing.TB, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// call makes a call as a model does.
func call(t testing.TB, g *tool.Gate, name, args string) tool.Result {
	t.Helper()
	return g.Do(context.Background(), policy.Model, tool.Call{Tool: name, Args: []byte(args)})
}

// callOK makes a call that must succeed, and returns its text.
func callOK(t testing.TB, g *tool.Gate, name, args string) string {
	t.Helper()
	r := call(t, g, name, args)
	if r.Err != nil {
		t.Fatalf("%s %.200s: %v", name, args, r.Err)
	}
	return r.Text
}

// callRefused makes a call that must fail with the code, and returns the text of the error.
func callRefused(t testing.TB, g *tool.Gate, name, args string, code sandbox.Code) string {
	t.Helper()
	r := call(t, g, name, args)
	if r.Err == nil {
		t.Fatalf("%s %.200s: done, want %s; it said %.300s", name, args, code, r.Text)
	}
	if r.Err.Code != code {
		t.Errorf("%s %.200s: %v, want %s", name, args, r.Err, code)
	}
	return r.Err.Error()
}

// checkContains reports every part that a text lacks.
func checkContains(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("got %.600q\nwant %q in it", text, part)
		}
	}
}
