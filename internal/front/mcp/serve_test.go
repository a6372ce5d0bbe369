package mcp

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestTools checks that the list describes its tools fully and holds only the tools that
// a peer may call.
func TestTools(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, nil)
	c := h.client("2025-11-25", nil)
	list, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	hints := make(map[string]string)
	for _, tool := range list.Tools {
		text, err := json.Marshal(tool.Annotations)
		if err != nil {
			t.Fatal(err)
		}
		hints[tool.Name] = string(text)
		if tool.OutputSchema != nil {
			t.Errorf("%s has an output schema: its text would be sent twice", tool.Name)
		}
	}
	const (
		reads   = `{"destructiveHint":false,"idempotentHint":true,"openWorldHint":false,"readOnlyHint":true}`
		changes = `{"destructiveHint":true,"idempotentHint":false,"openWorldHint":false,"readOnlyHint":false}`
	)
	for name, want := range map[string]string{
		"read_file": reads, "list_files": reads, "search_files": reads, "write_file": changes, "edit_file": changes, "delete_file": changes,
		"apply_changes": "", "discard_changes": "", "undo": "", "git_push": "", "sandbox_read_text": "", "exec": "",
	} {
		if hints[name] != want {
			t.Errorf("%s: got %s, want %s", name, hints[name], want)
		}
	}
	if text, _ := json.Marshal(list); len(text) > 12<<10 {
		t.Errorf("the list has %d bytes", len(text))
	}
	init := c.InitializeResult()
	checkContains(t, init.Instructions, "list_files", "Readable: /.", "Writable: /.", "golem approve")
	if strings.Contains(init.Instructions, h.dir) {
		t.Error("the instructions name a directory of the host")
	}
}

// TestCalls checks that every version gets the same answers.
func TestCalls(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long line of text\n", 200_000)
	for _, version := range versions {
		h := newTestServer(t, map[string]string{"a.txt": "hello\n", "in/b.txt": "find me\n", "long.txt": long})
		c := h.client(version, nil)
		for _, test := range []struct {
			tool string
			args any
			ok   bool
			want string
		}{
			{"read_file", map[string]any{"path": "/a.txt"}, true, "     1\thello"},
			{"list_files", nil, true, "in/"},
			{"list_files", map[string]any{}, true, "a.txt"},
			{"find_files", map[string]any{"path": "/", "pattern": "**/b*"}, true, "/in/b.txt"},
			{"search_files", map[string]any{"path": "/", "pattern": "find"}, true, "/in/b.txt"},
			{"find_files", map[string]any{"path": "/", "pattern": "["}, false, "Error: "},
			{"read_file", map[string]any{"path": "/../etc/passwd"}, false, "Error: "},
			{"read_file", map[string]any{"path": "/b.txt"}, false, "Error: read /b.txt: not_found; "},
			{"read_file", map[string]any{"Path": "/a.txt"}, false, "invalid_args"},
			{"read_file", map[string]any{"path": "/a.txt", "more": 1}, false, "invalid_args"},
			{"read_file", []int{1}, false, "invalid_args"},
			{"read_file", nil, false, "invalid_args"},
			{"sandbox_read_text", map[string]any{"path": "/a.txt"}, true, "hello"},
			{"raed_file", map[string]any{"path": "/a.txt"}, false, "unknown_tool; did you mean read_file? there are read_file, "},
			{"../read_file", nil, false, "unknown_tool"},
			{"apply_changes", map[string]any{}, false, "manual_only; it is not available to the model; the user can run: golem tool apply_changes"},
			{"read_file", map[string]any{"path": "/long.txt", "limit": 1_000_000}, true, "long line of text"},
		} {
			text, ok := use(t, c, test.tool, test.args)
			if ok != test.ok || !strings.Contains(text, test.want) {
				t.Errorf("%s: %s %v: got %v, %.300q, want %v, %q", version, test.tool, test.args, ok, text, test.ok, test.want)
			}
			if len(text) > 1<<20 || strings.Contains(text, h.dir) {
				t.Errorf("%s: %s %v: %d bytes, or a host path", version, test.tool, test.args, len(text))
			}
		}
	}
}

// TestUnlisted: a call of an older name or of an unknown tool gets an answer in the same
// form as other calls.
func TestUnlisted(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, nil)
	h.service.Wait = 500 * time.Millisecond
	in, out := h.serveStreams()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{ElicitationHandler: replyWith("yes"), MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true}})
	c, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: out, Writer: in}, &mcp.ClientSessionOptions{ProtocolVersion: multiRound})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name, want := range map[string]string{
		"write_file": `"resultType":"input_required"`, "sandbox_write_text": `"resultType":"complete"`,
		"list_files": `"resultType":"complete"`, "sandbox_list": `"resultType":"complete"`, "none": `"resultType":"complete"`,
	} {
		args := map[string]any{}
		if strings.Contains(name, "write") {
			args = map[string]any{"path": "/" + name, "content": "x"}
		}
		r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		checkContains(t, string(text), want)
	}
}

// TestMedia checks that images are returned as images and PDFs as files. Files that are
// too large are refused.
func TestMedia(t *testing.T) {
	t.Parallel()
	png := "\x89PNG\r\n\x1a\n" + strings.Repeat("\x00\x01", 500)
	h := newTestServer(t, map[string]string{"a.png": png, "b.pdf": "%PDF-1.7\n\xff\xfe", "big.png": png + strings.Repeat("x", 1<<20), "c.zip": "PK\x03\x04zip"})
	c := h.client("2025-11-25", nil)
	r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "read_file", Arguments: map[string]any{"path": "/a.png"}})
	if err != nil || len(r.Content) != 2 {
		t.Fatalf("got %v, %v", r, err)
	}
	if image, ok := r.Content[1].(*mcp.ImageContent); !ok || image.MIMEType != "image/png" || string(image.Data) != png {
		t.Errorf("got %#v", r.Content[1])
	}
	r, err = c.CallTool(t.Context(), &mcp.CallToolParams{Name: "read_file", Arguments: map[string]any{"path": "/b.pdf"}})
	if err != nil || len(r.Content) != 2 {
		t.Fatalf("got %v, %v", r, err)
	}
	if file, ok := r.Content[1].(*mcp.EmbeddedResource); !ok || file.Resource.MIMEType != "application/pdf" || file.Resource.URI != "golem:///b.pdf" || len(file.Resource.Blob) != 11 {
		t.Errorf("got %#v", r.Content[1])
	}
	for path, want := range map[string]string{"/big.png": "too_large", "/c.zip": "cannot read a binary file as text"} {
		if text, ok := use(t, c, "read_file", map[string]any{"path": path}); ok || !strings.Contains(text, want) {
			t.Errorf("%s: got %v, %q", path, ok, text)
		}
	}
}

// TestJournal checks that the end of the journal shows the calls here and who made them.
func TestJournal(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, map[string]string{"a.txt": "hello\n"})
	c := h.client("2025-11-25", nil)
	if r, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "golem://journal"}); err != nil || len(r.Contents) != 0 {
		t.Errorf("journal before any call: got %v, %v", r, err)
	}
	use(t, c, "read_file", map[string]any{"path": "/a.txt"})
	use(t, c, "apply_changes", map[string]any{})
	r, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "golem://journal"})
	if err != nil || len(r.Contents) != 1 {
		t.Fatalf("got %v, %v", r, err)
	}
	checkContains(t, r.Contents[0].Text, `"origin":"peer"`, `"read /a.txt"`, `"manual_only"`)
	for _, uri := range []string{"golem://journal/x", "file:///etc/passwd", "golem:///a.txt", ""} {
		if r, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s: got %v", uri, r)
		}
	}
}

// TestRoots: a client announces roots, and golem does not ask for them.
func TestRoots(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, nil)
	in, out := h.serveStreams()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	var asked []string
	client.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			asked = append(asked, method)
			return next(ctx, method, r)
		}
	})
	c, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: out, Writer: in}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if text, ok := use(t, c, "read_file", map[string]any{"path": "/etc/passwd"}); ok {
		t.Errorf("got %q", text)
	}
	if slices.Contains(asked, "roots/list") {
		t.Error("the server asked for roots")
	}
}
