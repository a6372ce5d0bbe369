package program

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/policy"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/work/session"
)

// A taintProgram is a program without overlays in which one mount is untrusted.
type taintProgram struct {
	*testing.T
	*Program
}

func newTaintProgram(t *testing.T) taintProgram {
	options := writeProgram(t, map[string]string{
		"golem-forge.config.yaml": "sandbox:\n  mounts:\n    - {source: ./in, target: /in, mode: ro, trust: untrusted}\n" +
			"    - {source: ./src, target: /src, mode: ro}\n    - {source: ./out, target: /out, approval: {write: preApproved}}\n",
		"main.worker": "---\nsandbox: inherit\ntoolsets: [filesystem]\n---\nWork.\n",
		"in/x":        "Do as I say.\n", "src/x": "x\n", "out/x": "x\n",
	})
	p := loadProgram(t, options)
	if err := p.Trust(); err != nil {
		t.Fatal(err)
	}
	return taintProgram{t, p}
}

// link makes a hard link to a file.
func (p taintProgram) link(old, name string) {
	p.Helper()
	if err := os.Link(filepath.Join(p.options.Dir, old), filepath.Join(p.options.Dir, name)); err != nil {
		p.Fatal(err)
	}
}

// asked makes a call, and then reports whether golem asks for approval before a peer
// writes.
func (p taintProgram) asked(session, name, args string) (asked bool) {
	p.Helper()
	gate, err := p.OpenWorker(WorkerOptions{Session: session, Asker: fixedAsker(func(tool.Request) approval.Reply {
		asked = true
		return approval.Reply{}
	})})
	if err != nil {
		p.Fatal(err)
	}
	defer gate.Close()
	if name != "" {
		if r := gate.Do(p.Context(), policy.Peer, tool.Call{Tool: name, Args: []byte(args)}); r.Err != nil {
			p.Fatal(r.Err)
		}
	}
	gate.Do(p.Context(), policy.Peer, tool.Call{Tool: "write_file", Args: []byte(`{"path": "/out/made", "content": "made"}`)})
	return asked
}

// TestTaintStays: an agent that is served again stays tainted, because it may remember
// the content that it read. It is not tainted after the user asks for a new session.
func TestTaintStays(t *testing.T) {
	p := newTaintProgram(t)
	for _, test := range []struct {
		what, session, tool, args string
		want                      bool
	}{
		{"at first", "", "read_file", `{"path": "/src/x"}`, false},
		{"after it was read", "", "read_file", `{"path": "/in/x"}`, true},
		{"when it is served again", "", "", "", true},
		{"with a new session", session.New, "", "", false},
		{"and after that", "", "", "", false},
	} {
		if got := p.asked(test.session, test.tool, test.args); got != test.want {
			t.Errorf("%s: asked %v, want %v", test.what, got, test.want)
		}
	}
	if err := os.WriteFile(p.Storage.TaintFile(nil), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !p.asked("", "", "") {
		t.Error("taint that a full disk left does not count")
	}
}

// TestTaintByAnotherName: a hard link to an untrusted file is untrusted too.
func TestTaintByAnotherName(t *testing.T) {
	for _, test := range []struct {
		what, link, as, tool, args string
		want                       bool
	}{
		{"no other name", "", "", "search_files", `{"pattern": "x", "path": "/src"}`, false},
		{"a link", "in/x", "src/y", "read_file", `{"path": "/src/y"}`, true},
		{"a link in a folder", "in/x", "src/y", "search_files", `{"pattern": "x", "path": "/src"}`, true},
		{"a file beside a link", "in/x", "src/y", "read_file", `{"path": "/src/x"}`, false},
		{"a link of something else", "out/x", "src/y", "read_file", `{"path": "/src/y"}`, false},
		{"a name where nobody looks", "in/x", "hidden", "search_files", `{"pattern": "x", "path": "/src"}`, false},
		{"a link in another folder", "in/x", "out/y", "search_files", `{"pattern": "x", "path": "/src"}`, false},
		{"the names of folders", "", "", "list_files", `{"path": "/"}`, false},
		{"the names in folders", "", "", "list_files", `{"path": "/", "depth": 2}`, true},
		{"the names in one", "", "", "list_files", `{"path": "/in"}`, true},
		{"names that match", "", "", "list_files", `{"path": "/", "pattern": "*"}`, true},
		{"two names where it is not trusted", "in/x", "in/y", "search_files", `{"pattern": "x", "path": "/src"}`, false},
	} {
		p := newTaintProgram(t)
		if test.link != "" {
			p.link(test.link, test.as)
		}
		if got := p.asked("", test.tool, test.args); got != test.want {
			t.Errorf("%s: asked %v, want %v", test.what, got, test.want)
		}
	}
}

// TestTaintIsShared: if one agent becomes tainted, so do all agents that share its files,
// whenever they started. A copy out of an untrusted mount needs approval itself.
func TestTaintIsShared(t *testing.T) {
	p := newTaintProgram(t)
	asked := 0
	open := func() *OpenWorker {
		gate, err := p.OpenWorker(WorkerOptions{Asker: fixedAsker(func(tool.Request) approval.Reply {
			asked++
			return approval.Reply{}
		})})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { gate.Close() })
		return gate
	}
	one, other := open(), open()
	for i, test := range []struct {
		gate       *OpenWorker
		tool, args string
		want       bool
	}{
		{other, "write_file", `{"path": "/out/a", "content": "a"}`, false},
		{one, "copy_file", `{"from": "/src/x", "to": "/out/b"}`, false},
		{one, "copy_file", `{"from": "/in/x", "to": "/out/c"}`, true},
		{other, "write_file", `{"path": "/out/d", "content": "d"}`, true},
	} {
		before := asked
		r := test.gate.Do(t.Context(), policy.Peer, tool.Call{Tool: test.tool, Args: []byte(test.args)})
		if got := asked > before; got != test.want || r.OK() == test.want {
			t.Errorf("%d: %s %s: asked %v, want %v: %v", i, test.tool, test.args, got, test.want, r)
		}
	}
}

// TestTaintStaysInMount: a change inside an untrusted mount taints the worker, but needs
// no approval.
func TestTaintStaysInMount(t *testing.T) {
	p := loadProgram(t, writeProgram(t, map[string]string{
		"golem-forge.config.yaml": "sandbox:\n  mounts:\n    - {source: ./in, target: /in, mode: rw, trust: untrusted, approval: {write: preApproved}}\n    - {source: ./out, target: /out, approval: {write: preApproved}}\n",
		"main.worker":             "---\nsandbox: inherit\ntoolsets: [filesystem]\n---\nWork.\n",
		"in/x":                    "one\n", "out/x": "x\n",
	}))
	if err := p.Trust(); err != nil {
		t.Fatal(err)
	}
	asked := 0
	gate, err := p.OpenWorker(WorkerOptions{Asker: fixedAsker(func(tool.Request) approval.Reply {
		asked++
		return approval.Reply{}
	})})
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	for i, args := range []string{`{"path": "/in/x", "edits": [{"old": "one", "new": "two"}]}`, `{"path": "/out/x", "edits": [{"old": "x", "new": "y"}]}`} {
		gate.Do(t.Context(), policy.Peer, tool.Call{Tool: "edit_file", Args: []byte(args)})
		if asked != i {
			t.Errorf("%s: asked %d times, want %d", args, asked, i)
		}
	}
}
