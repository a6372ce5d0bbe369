package mcp

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/golem-forge/golem/internal/work/program"
)

// serveHTTP serves a test server over HTTP and returns the address and the token.
func (h *testServer) serveHTTP(l program.HTTPOptions) (address, token string) {
	h.t.Helper()
	o := h.service
	o.HTTP = &l
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, h.program, h.gateOptions(), o) }()
	h.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			h.t.Errorf("serve: %v", err)
		}
	})
	said := regexp.MustCompile(`listening at https?://(\S+)/mcp\n(?:.*Bearer (\S+)\n)?`)
	wait(h.t, "it listens", func() bool {
		m := said.FindStringSubmatch(h.said.String())
		if m == nil || m[2] == "" && l.Token == "" {
			return false
		}
		address, token = m[1], m[2]+l.Token
		return true
	})
	return address, token
}

// A tokenSender sends the token.
type tokenSender string

func (c tokenSender) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(c))
	return http.DefaultTransport.RoundTrip(r)
}

// TestHTTP checks that calls and forms work the same over HTTP.
func TestHTTP(t *testing.T) {
	t.Parallel()
	for _, version := range versions {
		h := newTestServer(t, map[string]string{"a.txt": "hello\n"})
		address, token := h.serveHTTP(program.HTTPOptions{Address: "127.0.0.1:0"})
		c := h.connect(&mcp.StreamableClientTransport{Endpoint: "http://" + address + endpoint, HTTPClient: &http.Client{Transport: tokenSender(token)}}, version, replyWith("yes"), nil)
		if text, ok := use(t, c, "read_file", map[string]any{"path": "/a.txt"}); !ok || !strings.Contains(text, "hello") {
			t.Errorf("%s: got %q", version, text)
		}
		if text, ok := use(t, c, "write_file", write); !ok || h.file("b.txt") != "new\n" {
			t.Errorf("%s: got %q", version, text)
		}
		if text, ok := use(t, c, "raed_file", nil); ok || !strings.Contains(text, "there are") {
			t.Errorf("%s: got %q", version, text)
		}
		if text, ok := use(t, c, "undo", nil); ok || !strings.Contains(text, "golem tool undo") {
			t.Errorf("%s: got %q", version, text)
		}
	}
}

// TestRefusedRequests checks that golem refuses requests for another host, from a foreign web
// page, or without the token: W01 to W03, W10.
func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, map[string]string{"a.txt": "hello\n"})
	address, token := h.serveHTTP(program.HTTPOptions{Address: "127.0.0.1:0", Hosts: []string{"box.example"}, Origins: []string{"http://good.example"}})
	_, port, _ := net.SplitHostPort(address)
	body := strings.Replace(strings.SplitN(hello, "\n", 2)[0], "hello", "1", 1)
	request := func(method, target string, lines ...string) string {
		return method + " " + target + " HTTP/1.1\r\n" + strings.Join(lines, "\r\n") + fmt.Sprintf("\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
	}
	host, accept, kind, bearer := "Host: "+address, "Accept: application/json, text/event-stream", "Content-Type: application/json", "Authorization: Bearer "+token
	for _, test := range []struct {
		name, request string
		status        int
	}{
		{"as it should be", request("POST", "/mcp", host, accept, kind, bearer), 200},
		{"localhost", request("POST", "/mcp", "Host: localhost:"+port, accept, kind, bearer), 200},
		{"a name that was added", request("POST", "/mcp", "Host: box.example", accept, kind, bearer), 200},
		{"an origin that was added", request("POST", "/mcp", host, accept, kind, bearer, "Origin: http://good.example"), 200},
		{"another page", request("POST", "/mcp", host, accept, kind, bearer, "Origin: http://evil.example"), 403},
		{"its own address as a page", request("POST", "/mcp", host, accept, kind, bearer, "Origin: http://"+address), 403},
		{"a page without a name", request("POST", "/mcp", host, accept, kind, bearer, "Origin: null"), 403},
		{"two origins", request("POST", "/mcp", host, accept, kind, bearer, "Origin: http://good.example", "Origin: http://evil.example"), 403},
		{"an origin like it", request("POST", "/mcp", host, accept, kind, bearer, "Origin: http://good.example.evil"), 403},
		{"another name", request("POST", "/mcp", "Host: evil.test", accept, kind, bearer), 403},
		{"a name that resolves to it", request("POST", "/mcp", "Host: 127.0.0.1.nip.io:"+port, accept, kind, bearer), 403},
		{"another port", request("POST", "/mcp", "Host: localhost:1", accept, kind, bearer), 403},
		{"no port", request("POST", "/mcp", "Host: 127.0.0.1", accept, kind, bearer), 403},
		{"another loopback", request("POST", "/mcp", "Host: [::1]:"+port, accept, kind, bearer), 403},
		{"an empty name", request("POST", "/mcp", "Host: ", accept, kind, bearer), 403},
		{"no name", request("POST", "/mcp", accept, kind, bearer), 400},
		{"two names", request("POST", "/mcp", host, "Host: evil.test", accept, kind, bearer), 400},
		{"a whole address", request("POST", "http://evil.test/mcp", host, accept, kind, bearer), 403},
		{"its whole address", request("POST", "http://"+address+"/mcp", host, accept, kind, bearer), 403},
		{"no token", request("POST", "/mcp", host, accept, kind), 401},
		{"another token", request("POST", "/mcp", host, accept, kind, bearer+"x"), 401},
		{"part of the token", request("POST", "/mcp", host, accept, kind, bearer[:len(bearer)-1]), 401},
		{"two tokens", request("POST", "/mcp", host, accept, kind, "Authorization: Bearer x", bearer), 401},
		{"the token as a name", request("POST", "/mcp", host, accept, kind, "Authorization: Basic "+token), 401},
		{"the token as a cookie", request("POST", "/mcp", host, accept, kind, "Cookie: token="+token), 401},
		{"the token in the address", request("POST", "/mcp?token="+token, host, accept, kind), 404},
		{"a question", request("POST", "/mcp?x=y", host, accept, kind, bearer), 404},
		{"a form of a page", request("POST", "/mcp", host, accept, "Content-Type: text/plain", bearer), 415},
		{"a form", request("POST", "/mcp", host, accept, "Content-Type: application/x-www-form-urlencoded", bearer), 415},
		{"no type", request("POST", "/mcp", host, accept, bearer), 415},
		{"a stream without a session", request("GET", "/mcp", host, accept, bearer), 400},
		{"a stream without a token", request("GET", "/mcp", host, accept), 401},
		{"an upgrade", request("GET", "/mcp", host, "Upgrade: websocket", "Sec-WebSocket-Key: x", "Sec-WebSocket-Version: 13"), 401},
		{"what a page asks before", request("OPTIONS", "/mcp", host, "Origin: http://evil.example", "Access-Control-Request-Method: POST"), 403},
		{"what an allowed page asks before", request("OPTIONS", "/mcp", host, "Origin: http://good.example", "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization,content-type"), 204},
		{"an allowed page that asks nothing", request("OPTIONS", "/mcp", host, "Origin: http://good.example"), 405},
		{"an allowed page without the token", request("POST", "/mcp", host, accept, kind, "Origin: http://good.example"), 401},
		{"what any page asks before", request("OPTIONS", "/mcp", host, "Access-Control-Request-Method: POST"), 405},
		{"another path", request("POST", "/", host, accept, kind, bearer), 404},
		{"a path that leads there", request("POST", "/x/../mcp", host, accept, kind, bearer), 404},
		{"another method", request("PUT", "/mcp", host, accept, kind, bearer), 405},
	} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, test.request)
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		text, _ := io.ReadAll(r.Body)
		c.Close()
		if r.StatusCode != test.status {
			t.Errorf("%s: got %d %s, want %d", test.name, r.StatusCode, text, test.status)
		}
		allowed := strings.Contains(test.request, "Origin: http://good.example\r\n") && !strings.Contains(test.request, "evil")
		if got := r.Header.Get("Access-Control-Allow-Origin"); allowed != (got == "http://good.example") {
			t.Errorf("%s: a page of %q may see the answer", test.name, got)
		}
		for key := range r.Header {
			if strings.HasPrefix(key, "Access-Control-") && !allowed {
				t.Errorf("%s: it has %s", test.name, key)
			}
		}
		if r.StatusCode != 400 && (r.Header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(r.Header.Get("Cache-Control"), "no-") || !strings.Contains(r.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'")) {
			t.Errorf("%s: got %v", test.name, r.Header)
		}
	}
}

// TestRequestLimits checks that golem cuts off requests that are too large or too slow, and
// serves others: W08.
func TestRequestLimits(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, map[string]string{"a.txt": "hello\n"})
	address, token := h.serveHTTP(program.HTTPOptions{Address: "127.0.0.1:0", Token: "a-token-of-the-user"})
	post := func(header http.Header, body io.Reader) int {
		r, err := http.NewRequest("POST", "http://"+address+endpoint, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = header
		got, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			return 0 // the server closed the connection during the write
		}
		got.Body.Close()
		return got.StatusCode
	}
	header := func() http.Header {
		return http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	}
	endless := func() io.Reader { return io.LimitReader(zeros{}, 1<<30) }
	if got := post(header(), endless()); got != 413 && got != 0 {
		t.Errorf("1 GiB: got %d", got)
	}
	without := header()
	without.Del("Authorization")
	if got := post(without, endless()); got != 401 && got != 0 {
		t.Errorf("1 GiB of a stranger: got %d", got)
	}
	large := header()
	large.Set("X-Large", strings.Repeat("x", 1<<20))
	if got := post(large, nil); got != 431 && got != 0 {
		t.Errorf("a large header: got %d", got)
	}
	for range maxConnections - 28 { // slow clients that never complete a request
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, "POST /mcp HTTP/1.1\r\nHost: ")
	}
	c := h.connect(&mcp.StreamableClientTransport{Endpoint: "http://" + address + endpoint, HTTPClient: &http.Client{Transport: tokenSender(token)}}, "2025-11-25", nil, nil)
	if text, ok := use(t, c, "read_file", map[string]any{"path": "/a.txt"}); !ok {
		t.Errorf("got %q", text)
	}
	if got := post(header(), bytes.NewReader(bytes.Repeat([]byte("["), 1<<20))); got != 400 {
		t.Errorf("brackets: got %d", got)
	}
	if got := post(header(), strings.NewReader(` [{"jsonrpc":"2.0","id":1,"method":"ping"}]`)); got != 400 {
		t.Errorf("a batch: got %d", got)
	}
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"method":"ping"} more`,
		`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, `{"jsonrpc":"2.0","id":9007199254740999,"method":"ping"}`, `{"jsonrpc":"2.0","id":1e300,"method":"ping"}`, "", "null",
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"},"more":[[]` + strings.Repeat(",[]", 200_000) + "]}",
		// golem keeps the initialize parameters as long as the session
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"me","version":"1"},"capabilities":{"experimental":{"a":[` +
			strings.Repeat("0,", maxHello) + `0]}}}}`,
	} {
		if got := post(header(), strings.NewReader(body)); got != 400 {
			t.Errorf("%.100s: got %d", body, got)
		}
	}
}

// TestRefusedClientIsDisconnected: a refused client cannot keep its connection by announcing a body
// that it never sends.
func TestRefusedClientIsDisconnected(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, map[string]string{"a.txt": "hello\n"})
	address, token := h.serveHTTP(program.HTTPOptions{Address: "127.0.0.1:0"})
	for _, body := range []string{"Content-Length: 1000", "Transfer-Encoding: chunked"} {
		for range maxConnections {
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			io.WriteString(c, "POST /mcp HTTP/1.1\r\nHost: "+address+"\r\n"+body+"\r\n\r\n")
		}
	}
	c := h.connect(&mcp.StreamableClientTransport{Endpoint: "http://" + address + endpoint, HTTPClient: &http.Client{Transport: tokenSender(token)}}, "2025-11-25", nil, nil)
	if text, ok := use(t, c, "read_file", map[string]any{"path": "/a.txt"}); !ok {
		t.Errorf("got %q", text)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestAddresses: golem listens for other machines only with --anywhere and TLS: W09.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		l    program.HTTPOptions
		want string
	}{
		{program.HTTPOptions{Address: "127.0.0.1:0"}, ""},
		{program.HTTPOptions{Address: "localhost:80"}, ""},
		{program.HTTPOptions{Address: "[::1]:0"}, ""},
		{program.HTTPOptions{Address: "127.9.9.9:0"}, ""},
		{program.HTTPOptions{Address: "0.0.0.0:0"}, "--anywhere"},
		{program.HTTPOptions{Address: ":8137"}, "--anywhere"},
		{program.HTTPOptions{Address: "[::]:0"}, "--anywhere"},
		{program.HTTPOptions{Address: "192.168.1.2:0"}, "--anywhere"},
		{program.HTTPOptions{Address: "[::ffff:8.8.8.8]:0"}, "--anywhere"},
		{program.HTTPOptions{Address: "box.example:0"}, "--anywhere"},
		{program.HTTPOptions{Address: "localhost.example:0"}, "--anywhere"},
		{program.HTTPOptions{Address: "0.0.0.0:0", Anywhere: true}, "--cert"},
		{program.HTTPOptions{Address: "0.0.0.0:0", Anywhere: true, Cert: "c", Key: "k"}, ""},
		{program.HTTPOptions{Address: "8137"}, "such as 127.0.0.1:8137"},
	} {
		_, err := listenAddress(test.l)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: got %v, want %q", test.l, err, test.want)
		}
	}
}

// TestSessions checks that the number of sessions is limited, and that the end of one
// makes room.
func TestSessions(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, nil)
	address, token := h.serveHTTP(program.HTTPOptions{Address: "127.0.0.1:0"})
	send := func(method, session string) *http.Response {
		r, err := http.NewRequest(method, "http://"+address+endpoint, strings.NewReader(strings.SplitN(hello, "\n", 2)[0]))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": {session}}
		got, err := tokenSender(token).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, got.Body)
		got.Body.Close()
		return got
	}
	last := ""
	for i := range maxSessions {
		r := send("POST", "")
		if last = r.Header.Get("Mcp-Session-Id"); r.StatusCode != 200 || last == "" {
			t.Fatalf("%d: got %s", i, r.Status)
		}
	}
	if r := send("POST", ""); r.StatusCode != 503 {
		t.Errorf("one too many: got %s", r.Status)
	}
	if r := send("DELETE", last); r.StatusCode != 204 {
		t.Errorf("got %s", r.Status)
	}
	if r := send("POST", ""); r.StatusCode != 200 {
		t.Errorf("got %s", r.Status)
	}
}

// TestClientGoneBeforeQuestion: a client that is gone before golem asks has not declined. Somebody else
// may still approve.
func TestClientGoneBeforeQuestion(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, nil)
	address, token := h.serveHTTP(program.HTTPOptions{Address: "127.0.0.1:0"})
	post := func(session, body string) *http.Response {
		t.Helper()
		r, err := http.NewRequest("POST", "http://"+address+endpoint, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": {session}}
		got, err := tokenSender(token).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	r := post("", strings.Replace(strings.SplitN(hello, "\n", 2)[0], `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1))
	io.Copy(io.Discard, r.Body)
	r.Body.Close()
	session := r.Header.Get("Mcp-Session-Id")
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	body := strings.TrimSpace(newCall(1, "write_file", `{"path":"/b.txt","content":"new"}`))
	fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nMcp-Session-Id: %s\r\nContent-Type: application/json\r\n"+
		"Accept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n%s", address, token, session, len(body), body)
	c.Close()
	if err := h.answer(h.waitForRequest(), true); err != nil {
		t.Fatal(err)
	}
	wait(t, "it is written", func() bool { return h.file("b.txt") == "new" })
}

// TestSessionEnds checks that the end of a session cancels its own calls and no others.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, nil)
	address, token := h.serveHTTP(program.HTTPOptions{Address: "127.0.0.1:0"})
	connect := func() *mcp.ClientSession {
		return h.connect(&mcp.StreamableClientTransport{Endpoint: "http://" + address + endpoint, HTTPClient: &http.Client{Transport: tokenSender(token)}}, "2025-11-25", nil, nil)
	}
	one, other := connect(), connect()
	ended := make(chan error, 1)
	go func() {
		_, err := other.CallTool(t.Context(), &mcp.CallToolParams{Name: "write_file", Arguments: write})
		ended <- err
	}()
	id := h.waitForRequest()
	go one.CallTool(t.Context(), &mcp.CallToolParams{Name: "write_file", Arguments: map[string]any{"path": "/one.txt", "content": "x"}})
	records, err := h.program.Storage.OpenRecords()
	if err != nil {
		t.Fatal(err)
	}
	defer records.Close()
	wait(t, "both wait", func() bool {
		list, err := records.Approvals.Pending()
		return err == nil && len(list) == 2
	})
	r, err := http.NewRequest("DELETE", "http://"+address+endpoint, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Mcp-Session-Id", one.ID())
	got, err := tokenSender(token).RoundTrip(r) // without the cancellation, this would wait as long as the call
	if err != nil {
		t.Fatal(err)
	}
	got.Body.Close()
	if list, err := records.Approvals.Pending(); err != nil || got.StatusCode != 204 || len(list) != 2 {
		t.Errorf("got %s, %d wait, %v", got.Status, len(list), err)
	}
	if err := h.answer(id, true); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil || h.file("b.txt") != "new\n" || h.file("one.txt") != "" {
		t.Errorf("got %v, %q, %q", err, h.file("b.txt"), h.file("one.txt"))
	}
}

// TestQueueLimit checks that the bytes of the calls that run and of those that wait for a
// slot are limited. Calls that wait end when their clients cancel them. A small call passes
// large ones.
func TestQueueLimit(t *testing.T) {
	s := &server{options: program.ServeOptions{HTTP: &program.HTTPOptions{}}, slots: new(slots)}
	large := &mcp.CallToolParamsRaw{Name: "write_file", Arguments: make([]byte, maxMessage)}
	const run, fit = maxRunning / maxMessage, (maxHeld - 1) / (maxMessage + aCall) // each waiting call counts a little more than its message
	var frees []func()
	for i := range run {
		free, err := s.limit(t.Context(), large)
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		frees = append(frees, free)
	}
	small := &mcp.CallToolParamsRaw{Name: "read_file", Arguments: make([]byte, maxSmall)}
	free, err := s.limit(t.Context(), small)
	if err != nil {
		t.Fatal(err)
	}
	free()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	for range fit {
		go func() {
			_, err := s.limit(ctx, large)
			ended <- err
		}()
	}
	wait(t, "they wait", func() bool { return s.held.Load() == fit*(maxMessage+aCall) })
	if _, err := s.limit(ctx, large); err == nil || !strings.Contains(err.Error(), "too many calls wait") {
		t.Errorf("one too many: got %v", err)
	}
	cancel()
	for range fit {
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "nothing was done") {
			t.Errorf("got %v", err)
		}
	}
	if s.held.Load() != 0 {
		t.Errorf("%d bytes are waiting", s.held.Load())
	}
	frees[0]()
	if _, err := s.limit(t.Context(), large); err != nil {
		t.Error(err)
	}
	for range maxCalls - run {
		if _, err := s.limit(t.Context(), small); err != nil {
			t.Fatal(err)
		}
	}
	if s.slots.tryEnter(0) {
		t.Errorf("more than %d calls run", maxCalls)
	}
}

// TestClientDisconnects: if a client disconnects while its call waits, the call does nothing. The
// server still ends on time.
func TestClientDisconnects(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, nil)
	h.service.Wait = 300 * time.Millisecond
	address, token := h.serveHTTP(program.HTTPOptions{Address: "127.0.0.1:0"})
	ctx, cancel := context.WithCancel(t.Context())
	c := h.connect(&mcp.StreamableClientTransport{Endpoint: "http://" + address + endpoint, HTTPClient: &http.Client{Transport: tokenSender(token)}}, "2025-11-25", nil, nil)
	go c.CallTool(ctx, &mcp.CallToolParams{Name: "write_file", Arguments: write})
	h.waitForRequest()
	cancel()
	if _, err := os.Stat(h.dir + "/b.txt"); err == nil {
		t.Error("the file was written")
	}
}
