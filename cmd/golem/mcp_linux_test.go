package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpProgram is a program whose commands may run and write without approval.
var mcpProgram = map[string]string{
	"golem-forge.config.yaml": "sandbox:\n  root: ./tree\n  approval: {write: preApproved, delete: preApproved}\n",
	"main.worker":             "---\nsandbox: inherit\ntoolsets:\n  filesystem:\n  shell: {default: {approval: preApproved}}\n---\nWork.\n",
	"tree/a":                  "0",
}

// A peer is an MCP client that is connected to golem mcp.
type peer struct {
	*mcp.ClientSession
	cmd  *exec.Cmd
	in   io.Closer
	out  io.Closer
	said bytes.Buffer
}

func newPeer(t *testing.T, cmd *exec.Cmd, o *mcp.ClientOptions) *peer {
	t.Helper()
	a := &peer{cmd: cmd}
	cmd.Stderr = &a.said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = ours
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ours.Close()
	a.in, a.out = in, out
	t.Cleanup(func() { cmd.Process.Kill() })
	a.ClientSession, err = mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).Connect(t.Context(), &mcp.IOTransport{Reader: out, Writer: in},
		&mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatalf("%v\n%s", err, a.said.String())
	}
	return a
}

func (a *peer) use(t *testing.T, tool string, args map[string]any) string {
	t.Helper()
	r, err := a.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v\n%s", tool, err, a.said.String())
	}
	return r.Content[0].(*mcp.TextContent).Text
}

// waitForEnd waits until golem ends by itself, and returns its exit code.
func (a *peer) waitForEnd(t *testing.T) int {
	t.Helper()
	timer := time.AfterFunc(30*time.Second, func() { a.cmd.Process.Signal(syscall.SIGQUIT) })
	a.cmd.Wait()
	if !timer.Stop() {
		t.Fatalf("golem does not end\n%s", a.said.String())
	}
	return a.cmd.ProcessState.ExitCode()
}

// isSleeping reports whether a sleep command with this many seconds is running.
func isSleeping(t *testing.T, seconds int) bool {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if text, err := os.ReadFile(name); err == nil && strings.Contains(string(text), "sleep\x00"+strconv.Itoa(seconds)) {
			return true
		}
	}
	return false
}

// waitUntil waits until a condition is true.
func waitUntil(t *testing.T, what string, so func() bool) {
	t.Helper()
	for range 1000 {
		if so() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("waited too long until " + what)
}

// TestMCPEnds: golem ends however the client disconnects while commands run. All children
// of the commands end, and golem applies none of their changes.
func TestMCPEnds(t *testing.T) {
	for i, test := range []struct {
		name string
		end  func(*peer)
		code int
	}{
		{"the client is killed", func(a *peer) { a.in.Close(); a.out.Close() }, 0},
		{"no more input", func(a *peer) { a.in.Close() }, 0},
		{"no more answers are read", func(a *peer) { a.out.Close(); a.in.Close() }, 0},
		{"terminated", func(a *peer) { a.cmd.Process.Signal(syscall.SIGTERM) }, 143},
		{"killed", func(a *peer) { a.cmd.Process.Kill() }, -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir, _, golem := newTrustedProgram(t, mcpProgram)
			a := newPeer(t, golem("mcp"), nil)
			seconds := 71_000_000 + i*1000 + os.Getpid()%1000
			for n := range 3 {
				command := fmt.Sprintf("echo 1 > a; echo 1 > b%d; setsid sleep %d & sleep %d", n, seconds, seconds)
				go a.CallTool(context.WithoutCancel(t.Context()), &mcp.CallToolParams{Name: "shell", Arguments: map[string]any{"command": command}})
			}
			waitUntil(t, "the command begins", func() bool { return isSleeping(t, seconds) })
			test.end(a)
			if code := a.waitForEnd(t); code != test.code {
				t.Errorf("exit code: got %d, want %d\n%s", code, test.code, a.said.String())
			}
			waitUntil(t, "all children are dead", func() bool { return !isSleeping(t, seconds) })
			if out, err := golem("tool", "list_files").CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			files, err := os.ReadDir(filepath.Join(dir, "tree"))
			if text, _ := os.ReadFile(filepath.Join(dir, "tree", "a")); err != nil || len(files) != 1 || string(text) != "0" {
				t.Errorf("got %v, %q, %v", files, text, err)
			}
			if out, err := golem("audit", "verify").CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestMCPBinary checks golem mcp over stdin and stdout. A slow call does not delay other
// calls. A command that needs two approvals sends two forms. The approvals are in the
// journal.
func TestMCPBinary(t *testing.T) {
	t.Parallel()
	dir, _, golem := newTrustedProgram(t, map[string]string{
		"golem-forge.config.yaml": "sandbox:\n  root: ./tree\n",
		"main.worker":             "---\nsandbox: inherit\ntoolsets: [filesystem, shell]\n---\nWork.\n",
		"tree/a":                  "hello\n",
	})
	var forms []string
	a := newPeer(t, golem("mcp"), &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		forms = append(forms, r.Params.Message)
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "yes"}}, nil
	}})
	done := make(chan string, 1)
	go func() { done <- a.use(t, "shell", map[string]any{"command": "sleep 3; echo \x1b[31m > made"}) }()
	var reads sync.WaitGroup
	for range 64 {
		reads.Go(func() {
			if text := a.use(t, "read_file", map[string]any{"path": "/a"}); !strings.Contains(text, "hello") {
				t.Errorf("got %q", text)
			}
		})
	}
	reads.Wait()
	select {
	case text := <-done:
		t.Errorf("a read waited for a command: %q", text)
	default:
	}
	if text := <-done; !strings.Contains(text, "exit 0") {
		t.Errorf("got %q", text)
	}
	if len(forms) != 2 || !strings.Contains(forms[0], "main wants to run ") || !strings.Contains(forms[1], "create /made") {
		t.Errorf("got %q", forms)
	}
	for _, form := range forms {
		if strings.Contains(form, "\x1b") {
			t.Errorf("a form has an escape sequence: %q", form)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "tree", "made")); err != nil || string(text) != "\x1b[31m\n" {
		t.Errorf("got %q, %v", text, err)
	}
	// A cancelled call ends, with every process that it started.
	seconds := 72_000_000 + os.Getpid()%1000
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		a.CallTool(ctx, &mcp.CallToolParams{Name: "shell", Arguments: map[string]any{"command": fmt.Sprintf("setsid sleep %d & sleep %d", seconds, seconds)}})
		close(ended)
	}()
	waitUntil(t, "it sleeps", func() bool { return isSleeping(t, seconds) })
	cancel()
	<-ended
	waitUntil(t, "it sleeps no more", func() bool { return !isSleeping(t, seconds) })
	a.in.Close()
	if code := a.waitForEnd(t); code != 0 {
		t.Errorf("exit code %d\n%s", code, a.said.String())
	}
	out, err := golem("audit", "show").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "user in the client") {
		t.Errorf("%v\n%s", err, out)
	}
}
