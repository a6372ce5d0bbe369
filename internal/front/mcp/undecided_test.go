package mcp

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestDecisionsAreNotified checks that a subscriber gets a notification when the user has
// decided about a call that returned as pending, and that the resource says what to do.
func TestDecisionsAreNotified(t *testing.T) {
	t.Parallel()
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			checkDecisionsAreNotified(t, version)
		})
	}
}

func checkDecisionsAreNotified(t *testing.T, version string) {
	h := newTestServer(t, nil)
	h.service.Wait = 50 * time.Millisecond
	in, out := h.serveStreams()
	updated := make(chan string, 10)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { updated <- r.Params.URI }})
	c, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: out, Writer: in}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatalf("%s: %v", version, err)
	}
	t.Cleanup(func() { c.Close() })
	// In the newest version the client does not return the error.
	if err := c.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "golem://journal"}); version < multiRound && (err == nil || !strings.Contains(err.Error(), approvalsURI)) {
		t.Errorf("%s: golem://journal: got %v", version, err)
	}
	if err := c.Subscribe(t.Context(), &mcp.SubscribeParams{URI: approvalsURI}); err != nil {
		t.Fatalf("%s: %v", version, err)
	}
	read := func() string {
		r, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: approvalsURI})
		if err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		if len(r.Contents) == 0 {
			return ""
		}
		return r.Contents[0].Text
	}
	if got := read(); got != "" {
		t.Errorf("%s: before the first call: %q", version, got)
	}
	for _, yes := range []bool{true, false} {
		if text, ok := use(t, c, "write_file", write); ok {
			t.Fatalf("%s: %s", version, text)
		}
		id := h.waitForRequest()
		if got, want := read(), id+" write_file: waits; the user decides with golem approve "+id+"\n"; got != want {
			t.Errorf("%s: got %q, want %q", version, got, want)
		}
		if err := h.answer(id, yes); err != nil {
			t.Fatal(err)
		}
		select {
		case uri := <-updated:
			if uri != approvalsURI {
				t.Errorf("%s: got %s", version, uri)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: no notification", version)
		}
		want := id + " write_file: declined\n"
		if yes {
			want = id + " write_file: approved; make the same call again\n"
		}
		if got := read(); got != want {
			t.Errorf("%s: got %q, want %q", version, got, want)
		}
		if text, ok := use(t, c, "write_file", write); ok != yes {
			t.Errorf("%s: got %v, %s", version, ok, text)
		}
		if got := read(); got != "" {
			t.Errorf("%s: after the answer was used: %q", version, got)
		}
	}
}
