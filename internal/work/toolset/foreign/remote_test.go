package foreign

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/jail/egress"
	"github.com/golem-forge/golem/sandbox"
)

// A testDialer sends requests to a test server, with a header.
type testDialer struct {
	client *http.Client
	closed atomic.Int64
}

func (d *testDialer) Check() (bool, error)    { return false, nil }
func (d *testDialer) Dial() (Requests, error) { return testRequests{d}, nil }

type testRequests struct{ d *testDialer }

func (r testRequests) RoundTrip(request *http.Request) (*http.Response, error) {
	request.Header.Set("Authorization", "Bearer sesame-open")
	return r.d.client.Transport.RoundTrip(request)
}
func (r testRequests) Hidden() []string { return []string{"sesame-open"} }
func (r testRequests) Close() error     { r.d.closed.Add(1); return nil }

// newRemote returns a server that golem reaches at a test server with TLS.
func newRemote(t *testing.T, h http.Handler, limit time.Duration) (*Server, *testDialer) {
	t.Helper()
	web := httptest.NewTLSServer(h)
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	d := &testDialer{client: web.Client()}
	s := NewServer("far", Program{Time: limit, Remote: &Remote{URL: web.URL + "/mcp", Source: web.URL, Dialer: d}}, nil)
	t.Cleanup(func() { s.Close() })
	return s, d
}

// sdkServer returns a real server with a tool that repeats its text.
func sdkServer(stateless bool) http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: "far", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "echo", Description: "Repeat a text"}, func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		Text string `json:"text"`
	}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "you said " + in.Text}}}, nil, nil
	})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: stateless})
}

// TestSplitResult: golem puts the parts of an answer together, so it removes a secret whose
// pieces are in several of them.
func TestSplitResult(t *testing.T) {
	const key = "Zq7Lw2Pf9XbK4mVtR8cYh3NdJs6Gaxyu"
	var r mcp.CallToolResult
	for i := 0; i < len(key); i += 4 {
		r.Content = append(r.Content, &mcp.TextContent{Text: key[i : i+4]})
	}
	for _, r.IsError = range []bool{false, true} {
		got := newResult("far_echo", &r, tool.Accepted{}, egress.NewHider([]string{key}))
		if text := strings.ReplaceAll(got.String(), "\n", ""); strings.Contains(text, key[8:20]) {
			t.Errorf("got %q", text)
		}
	}
}

func TestRemote(t *testing.T) {
	for _, stateless := range []bool{false, true} {
		var keys, versions atomic.Int64
		inner := sdkServer(stateless)
		s, d := newRemote(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "Bearer sesame-open" {
				keys.Add(1)
			}
			if r.Header.Get("Mcp-Protocol-Version") != "" {
				versions.Add(1)
			}
			inner.ServeHTTP(w, r)
		}), time.Minute)
		r, secrets, err := s.call(context.Background(), nil, "echo", json.RawMessage(`{"text":"hello sesame-open"}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := newResult("far_echo", r, tool.Accepted{}, secrets); got.Text != "you said hello [a secret of the user's]" {
			t.Errorf("got %q", got.Text)
		}
		if l := s.live.listing; len(l) != 1 || l[0].Name != "echo" {
			t.Errorf("got %+v", l)
		}
		if keys.Load() < 3 || versions.Load() < 2 {
			t.Errorf("%d requests with the key, %d with the version", keys.Load(), versions.Load())
		}
		s.Close()
		if d.closed.Load() == 0 {
			t.Error("the connections stay open")
		}
	}
}

// TestRemoteHostile: a server that misbehaves ends with an error that says so, in time.
func TestRemoteHostile(t *testing.T) {
	answer := func(w http.ResponseWriter, r *http.Request, result string) {
		var q struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		body, _ := io.ReadAll(r.Body)
		json.Unmarshal(body, &q)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case q.ID == nil:
			w.WriteHeader(http.StatusAccepted)
		case q.Method == "initialize":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}`, q.ID)
		default:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, result)
		}
	}
	for name, test := range map[string]struct {
		serve http.HandlerFunc
		want  string
	}{
		"hangs": {func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body); <-r.Context().Done() }, "timeout; the server did not answer within"},
		"redirects": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://other.example/", http.StatusTemporaryRedirect)
		}, "golem follows no redirect"},
		"wants a key": {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, "denied; the server answers 401"},
		"fails":       {func(w http.ResponseWriter, r *http.Request) { http.Error(w, "x", http.StatusInternalServerError) }, "failed; "},
		"floods": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			line := []byte(strings.Repeat("x", 1<<16))
			for range 1 << 10 {
				if _, err := w.Write(line); err != nil {
					return
				}
			}
		}, "limit; the server sent an answer of more than 8388608 bytes"},
		"nests": {func(w http.ResponseWriter, r *http.Request) {
			answer(w, r, `{"tools":[],"x":`+strings.Repeat("[", 100)+strings.Repeat("]", 100)+"}")
		}, "limit; the server sent a message of more than 64 levels"},
		"repeats a key": {func(w http.ResponseWriter, r *http.Request) { answer(w, r, `{"tools":[],"tools":[]}`) }, "ambiguous"},
		"no JSON":       {func(w http.ResponseWriter, r *http.Request) { answer(w, r, `{`) }, "failed; "},
		"a page": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<p>hello")
		}, "failed; "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := newRemote(t, test.serve, 2*time.Second)
			began := time.Now()
			_, _, err := s.call(context.Background(), nil, "echo", json.RawMessage(`{}`))
			if err == nil || !strings.Contains(err.Error(), test.want) || sandbox.CodeOf(err) == "" {
				t.Errorf("got %v\nwant %s", err, test.want)
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// TestRemoteAsks: a server that asks for sampling, elicitation and roots in its answer
// gets a refusal, and one that only asks is ended.
func TestRemoteAsks(t *testing.T) {
	var refused atomic.Int64
	serve := func(asks int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			var q struct {
				ID     json.RawMessage `json:"id"`
				Method string          `json:"method"`
				Error  *struct{ Code int }
			}
			body, _ := io.ReadAll(r.Body)
			json.Unmarshal(body, &q)
			switch {
			case q.Error != nil && q.Error.Code == -32601:
				refused.Add(1)
				w.WriteHeader(http.StatusAccepted)
			case q.Method == "" || q.ID == nil:
				w.WriteHeader(http.StatusAccepted)
			case q.Method == "initialize":
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}`, q.ID)
			default:
				w.Header().Set("Content-Type", "text/event-stream")
				for i := range asks {
					method := []string{"sampling/createMessage", "elicitation/create", "roots/list"}[i%3]
					id := fmt.Sprintf(`"id":"s%d",`, i)
					if asks > 10 {
						id, method = "", "notifications/message"
					}
					if _, err := fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",%s\"method\":\"%s\",\"params\":{}}\n\n", id, method); err != nil {
						return
					}
				}
				result := `{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`
				if q.Method == "tools/call" {
					result = `{"content":[{"type":"text","text":"done"}]}`
				}
				fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", q.ID, result)
			}
		}
	}
	s, _ := newRemote(t, serve(3), 10*time.Second)
	r, _, err := s.call(context.Background(), nil, "echo", json.RawMessage(`{}`))
	if err != nil || len(r.Content) != 1 {
		t.Fatalf("got %+v, %v", r, err)
	}
	if refused.Load() != 6 {
		t.Errorf("golem refused %d requests, want 6", refused.Load())
	}
	s, _ = newRemote(t, serve(maxChatter+10), 30*time.Second)
	if _, _, err := s.call(context.Background(), nil, "echo", json.RawMessage(`{}`)); err == nil || !strings.Contains(err.Error(), "messages that golem had not asked for") {
		t.Errorf("got %v", err)
	}
}

// TestRemoteChanged: a server with other tools than the user accepted is refused.
func TestRemoteChanged(t *testing.T) {
	s, _ := newRemote(t, sdkServer(true), time.Minute)
	s.listing = Listing{{Name: "other"}}
	if _, _, err := s.call(context.Background(), nil, "echo", json.RawMessage(`{}`)); err == nil || !strings.Contains(err.Error(), "untrusted; its tools are not those that it had when you trusted it") {
		t.Errorf("got %v", err)
	}
}

// TestRemoteWithoutHandshake: golem uses a server that knows only the version without a
// handshake, however it refuses the handshake, and asks for none the next time.
func TestRemoteWithoutHandshake(t *testing.T) {
	for name, refuse := range map[string]func(w http.ResponseWriter, id json.RawMessage){
		"unknown method": func(w http.ResponseWriter, id json.RawMessage) {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, id)
		},
		"another version": func(w http.ResponseWriter, id json.RawMessage) {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2099-01-01","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}`, id)
		},
		"bad request": func(w http.ResponseWriter, _ json.RawMessage) { http.Error(w, "no", http.StatusBadRequest) },
	} {
		var hellos atomic.Int64
		inner := sdkServer(true)
		s, _ := newRemote(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			var q struct {
				ID     json.RawMessage `json:"id"`
				Method string          `json:"method"`
			}
			if json.Unmarshal(body, &q); q.Method == "initialize" {
				hellos.Add(1)
				w.Header().Set("Content-Type", "application/json")
				refuse(w, q.ID)
				return
			}
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			inner.ServeHTTP(w, r)
		}), time.Minute)
		for range 2 {
			r, secrets, err := s.call(context.Background(), nil, "echo", json.RawMessage(`{"text":"hello"}`))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				break
			}
			if got := newResult("far_echo", r, tool.Accepted{}, secrets); got.Text != "you said hello" {
				t.Errorf("%s: got %q", name, got.Text)
			}
			s.Close()
		}
		if hellos.Load() != 1 {
			t.Errorf("%s: %d handshakes, want 1", name, hellos.Load())
		}
	}
}
