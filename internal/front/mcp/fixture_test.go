package mcp

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/changes"
	"github.com/golem-forge/golem/internal/work/program"
	"github.com/golem-forge/golem/internal/work/session"
)

func TestMain(m *testing.M) {
	if code, is := changes.Child(os.Args[1:], os.Stderr); is {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// The versions of the protocol under test: both ways to ask, and an older client.
var versions = []string{"2025-06-18", "2025-11-25", "2026-07-28"}

// A testServer is a directory to serve, with its state.
type testServer struct {
	t       testing.TB
	dir     string
	options program.Options
	program *program.Program
	service program.ServeOptions
	said    *buffer // output for the user
	session string  // name of the session, "" for the last
}

// newTestServer returns a test server with some files, in which writes need approval.
func newTestServer(t testing.TB, files map[string]string) *testServer {
	t.Helper()
	h := &testServer{t: t, dir: t.TempDir(), said: &buffer{}}
	for name, text := range files {
		path := filepath.Join(h.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h.options = program.Options{Dir: h.dir, State: t.TempDir(), Now: time.Now}
	h.service = program.ServeOptions{Version: "test", Wait: 20 * time.Second, Errs: h.said, OnOpen: func(error) {}, Show: func(r tool.Request, _ int) (string, []string) {
		return "about " + r.Tool + " " + string(r.Args) + "\n", r.Items()
	}}
	var err error
	if h.program, err = program.LoadMounts(h.options, []session.Mount{{Source: h.dir, Target: "/", Mode: "rw"}}); err != nil {
		t.Fatal(err)
	}
	return h
}

// gateOptions returns the options of the gate of a test server.
func (h *testServer) gateOptions() program.WorkerOptions {
	return program.WorkerOptions{Run: true, Session: h.session}
}

// serveStreams serves the test server over two pipes until in is closed.
func (h *testServer) serveStreams() (in io.WriteCloser, out io.ReadCloser) {
	h.t.Helper()
	theirs, in := io.Pipe()
	out, ours := io.Pipe()
	o := h.service
	o.In, o.Out = theirs, ours
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		done <- Serve(ctx, h.program, h.gateOptions(), o)
		ours.Close()
	}()
	h.t.Cleanup(func() {
		cancel()
		out.Close()
		if err := <-done; err != nil {
			h.t.Errorf("serve: %v", err)
		}
	})
	return in, out
}

// client connects the client of the library.
func (h *testServer) client(version string, ask func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error)) *mcp.ClientSession {
	h.t.Helper()
	in, out := h.serveStreams()
	return h.connect(&mcp.IOTransport{Reader: out, Writer: in}, version, ask, nil)
}

func (h *testServer) connect(transport mcp.Transport, version string, ask func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error),
	progress func(context.Context, *mcp.ProgressNotificationClientRequest)) *mcp.ClientSession {
	h.t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{ElicitationHandler: ask, ProgressNotificationHandler: progress})
	session, err := c.Connect(h.t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		h.t.Fatalf("%s: %v", version, err)
	}
	h.t.Cleanup(func() { session.Close() })
	return session
}

// use calls a tool and returns its text and whether it succeeded.
func use(t *testing.T, c *mcp.ClientSession, name string, args any) (string, bool) {
	t.Helper()
	r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if len(r.Content) == 0 {
		t.Fatalf("%s: no content", name)
	}
	text, ok := r.Content[0].(*mcp.TextContent)
	if !ok || r.StructuredContent != nil {
		t.Fatalf("%s: got %T, structured %v", name, r.Content[0], r.StructuredContent)
	}
	return text.Text, !r.IsError
}

// file returns the content of a file of the test server, "" if it does not exist.
func (h *testServer) file(name string) string {
	data, err := os.ReadFile(filepath.Join(h.dir, name))
	if err != nil && !os.IsNotExist(err) {
		h.t.Fatal(err)
	}
	return string(data)
}

// waitForRequest waits until exactly one request is pending, and returns its id. Clients call it
// too, so it does not end a test.
func (h *testServer) waitForRequest() (id string) {
	h.t.Helper()
	r, err := h.program.Storage.OpenRecords()
	if err != nil {
		h.t.Error(err)
		return ""
	}
	defer r.Close()
	for range 500 {
		list, err := r.Approvals.Pending()
		if err != nil {
			h.t.Error(err)
			return ""
		}
		if len(list) == 1 {
			return list[0].ID
		}
		time.Sleep(20 * time.Millisecond) // the server creates it concurrently
	}
	h.t.Error("no request waits")
	return ""
}

// answer answers a request, as golem approve does.
func (h *testServer) answer(id string, yes bool) error {
	h.t.Helper()
	r, err := h.program.Storage.OpenRecords()
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := r.Approvals.FindPending(id)
	if err != nil {
		return err
	}
	reply := approval.Reply{DigestPrefix: w.Digest}
	if yes {
		reply.Verdict = tool.Approved
	}
	return r.Answer(id, reply, nil)
}

// replyWith returns a handler that fills in a form with one answer.
func replyWith(answer string) func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	return func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": answer}}, nil
	}
}

func checkContains(t *testing.T, got string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			t.Errorf("got %.600q, want %q in it", got, part)
		}
	}
}

// A buffer allows concurrent writes and reads.
type buffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// wait waits until so returns true.
func wait(t testing.TB, what string, so func() bool) {
	t.Helper()
	for range 1000 {
		if so() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal(fmt.Sprint("waited too long: ", what))
}
