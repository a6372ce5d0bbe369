package mcp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"
)

const hello = `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`

// A rawClient is a client that writes lines and reads messages.
type rawClient struct {
	t   testing.TB
	in  io.WriteCloser
	out *bufio.Reader
}

func (h *testServer) newRawClient() *rawClient {
	in, out := h.serveStreams()
	r := &rawClient{h.t, in, bufio.NewReaderSize(out, 1<<20)}
	r.send(hello)
	r.read()
	return r
}

func (r *rawClient) send(text string) {
	r.t.Helper()
	if _, err := io.WriteString(r.in, text); err != nil {
		r.t.Fatal(err)
	}
}

// A message is an answer of the server.
type message struct {
	ID    any
	Error *struct {
		Code    int
		Message string
		Data    json.RawMessage
	}
	Result struct {
		IsError bool
		Content []struct{ Text string }
	}
}

func (r *rawClient) read() (m message) {
	r.t.Helper()
	line, err := r.out.ReadBytes('\n')
	if err != nil {
		r.t.Fatal(err)
	}
	if err := json.Unmarshal(line, &m); err != nil {
		r.t.Fatalf("%.300s: %v", line, err)
	}
	return m
}

func newCall(id any, tool, args string) string {
	text, _ := json.Marshal(id)
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s}}`+"\n", text, tool, args)
}

// TestLines checks that the server answers any line if it can, and reads the next one.
func TestLines(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, map[string]string{"a.txt": "hello\n"})
	r := h.newRawClient()
	long, some := strings.Repeat("x", maxMessage), strings.Repeat("y", maxHello)
	for _, test := range []struct {
		line string
		id   any
		code int
	}{
		{"nonsense\n", nil, -32700},
		{"{\n", nil, -32700},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list"` + "\n", nil, -32700},
		{`{"jsonrpc":"2.0","id":1,"method":"ping"} {"jsonrpc":"2.0","id":2,"method":"ping"}` + "\n", nil, -32700},
		{"\xff\xfe\x00\n", nil, -32700},
		{"null\n", nil, -32600},
		{"1\n", nil, -32600},
		{"[]\n", nil, -32600},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"}]` + "\n", nil, -32600},
		{`{"id":1,"method":"ping"}` + "\n", nil, -32600},
		{`{"jsonrpc":"1.0","id":1,"method":"ping"}` + "\n", nil, -32600},
		{`{"jsonrpc":"2.0","id":{},"method":"ping"}` + "\n", nil, -32600},
		{`{"jsonrpc":"2.0","id":1.5,"method":"ping"}` + "\n", nil, -32600},
		{`{"jsonrpc":"2.0","id":9007199254740993000,"method":"ping"}` + "\n", nil, -32600},
		{`{"JSONRPC":"2.0","ID":1,"METHOD":"ping"}` + "\n", nil, -32600},
		{`{"jsonrpc":"2.0","id":6,"method":"ping","Method":"nothing/such","ID":5}` + "\n", 6.0, 0},
		{strings.Repeat("[", 100_000) + "\n", nil, -32600},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","params":` + strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100) + "}\n", nil, -32600},
		{`{"jsonrpc":"2.0","id":21,"method":"ping","params":{"_meta":{"a":[[]` + strings.Repeat(",[]", 200_000) + "]}}}\n", 21.0, -32600},
		{`{"jsonrpc":"2.0","id":7,"method":"nothing/such"}` + "\n", 7.0, -32601},
		{`{"jsonrpc":"2.0","id":8,"method":"tools/call"}` + "\n", 8.0, -32600},
		{`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":[1]}` + "\n", 9.0, -32602},
		{`{"jsonrpc":"2.0","id":15,"method":"tools/call","params":{"name":1}}` + "\n", 15.0, -32602},
		{`{"jsonrpc":"2.0","id":16,"method":"initialize","params":[]}` + "\n", 16.0, -32602},
		{`{"jsonrpc":"2.0","id":17,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"me","version":"1"}}}` + "\n", 17.0, -32600},
		{`{"jsonrpc":"2.0","id":10,"method":"tools/call","params":{"name":"` + long + `"}}` + "\n", 10.0, -32600},
		{`{"method":"tools/call","params":{"name":"` + long + `"},"jsonrpc":"2.0","id":"11"}` + "\n", "11", -32600},
		{`{"method":"x","params":{"name":"` + long + `","id":12}}` + "\n", nil, -32600},
		{long + "\n", nil, -32600},
		{`{"jsonrpc":"2.0","id":007,"method":"` + long + `"}` + "\n", nil, -32600},
		{`{"jsonrpc":"2.0","id":18,"method":"` + some + `"}` + "\n", 18.0, -32600},
		{`{"jsonrpc":"2.0","id":19,"method":"initialize","params":{"protocolVersion":"` + some + `"}}` + "\n", 19.0, -32600},
		{`{"jsonrpc":"2.0","id":20,"method":"resources/read","params":{"uri":"golem://` + some + `"}}` + "\n", 20.0, -32602},
		{`{"jsonrpc":"2.0","id":"` + some + `","method":"ping"}` + "\n", nil, -32600},
		{`{"jsonrpc":"2.0","id":"` + some + `","method":"tools/call","params":{"name":"file_exists","arguments":{"path":"/"}}}` + "\n", nil, -32600},
		{"\n \r\n" + `{"jsonrpc":"2.0","id":13,"result":{}}` + "\n" + `{"jsonrpc":"2.0","method":"nothing"}` + "\n" + `{"jsonrpc":"2.0","id":14,"method":"ping"}` + "\r\n", 14.0, 0},
	} {
		r.send(test.line)
		m := r.read()
		code := 0
		if m.Error != nil {
			code = m.Error.Code
			if strings.Contains(m.Error.Message, " Go ") || strings.Contains(m.Error.Message, "mcp.") {
				t.Errorf("%.100q: names of Go types in %q", test.line, m.Error.Message)
			}
			if n := len(m.Error.Message) + len(m.Error.Data); n > 8<<10 {
				t.Errorf("%.100q: %d bytes of it came back", test.line, n)
			}
		}
		if m.ID != test.id || code != test.code {
			t.Errorf("%.100q: got %v, %+v, want %v, %d", test.line, m.ID, m.Error, test.id, test.code)
		}
	}
	r.send(newCall(20, "read_file", `{"path":"/a.txt"}`))
	if m := r.read(); m.ID != 20.0 || len(m.Result.Content) != 1 || !strings.Contains(m.Result.Content[0].Text, "hello") {
		t.Errorf("got %+v", m)
	}
}

// TestLongMessage checks that a message of 10 MB works like others.
func TestLongMessage(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, nil)
	r := h.newRawClient()
	content, _ := json.Marshal(strings.Repeat("line of text\n", 800_000))
	r.send(newCall(1, "file_info", `{"path":`+string(content)+`}`))
	if m := r.read(); m.ID != 1.0 || !m.Result.IsError {
		t.Errorf("got %v", m.ID)
	}
	r.send(newCall(2, "list_files", `{}`))
	if m := r.read(); m.ID != 2.0 || m.Result.IsError {
		t.Errorf("got %+v", m)
	}
}

// TestClientThatDoesNotRead: a client that makes many calls and does not read takes little memory. It
// gets every answer in the end.
func TestClientThatDoesNotRead(t *testing.T) {
	const calls = 10_000
	h := newTestServer(t, map[string]string{"a.txt": strings.Repeat("a line of some length, to be read\n", 100)})
	r := h.newRawClient()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range calls {
		if i%3 == 0 {
			r.send(newCall(i, "read_file", `{"path":"/a.txt"}`))
		} else {
			r.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", i))
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if more := int(after.HeapAlloc) - int(before.HeapAlloc); more > 12<<20 {
		t.Errorf("the heap grew by %d bytes", more)
	}
	seen := make(map[any]bool)
	for range calls {
		m := r.read()
		if seen[m.ID] || m.Error != nil || m.Result.IsError {
			t.Fatalf("got %+v", m)
		}
		seen[m.ID] = true
	}
}

// TestSameID checks that golem refuses an id that a running call has.
func TestSameID(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, nil)
	r := h.newRawClient()
	r.send(newCall(1, "write_file", `{"path":"/b.txt","content":"x"}`))
	id := h.waitForRequest()
	r.send(newCall(1, "list_files", `{}`))
	if m := r.read(); m.ID != 1.0 || m.Error == nil || m.Error.Code != -32600 {
		t.Errorf("got %+v", m)
	}
	if err := h.answer(id, true); err != nil {
		t.Fatal(err)
	}
	if m := r.read(); m.ID != 1.0 || m.Result.IsError {
		t.Errorf("got %+v", m)
	}
}

// TestManyQuestions checks that calls that wait for a person do not block others, and
// that their number is limited.
func TestManyQuestions(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, map[string]string{"a.txt": "hello\n"})
	h.service.Wait = time.Minute
	r := h.newRawClient()
	records, err := h.program.Storage.OpenRecords()
	if err != nil {
		t.Fatal(err)
	}
	defer records.Close()
	for i := range maxCalls {
		r.send(newCall(i, "write_file", fmt.Sprintf(`{"path":"/b%d.txt","content":"x"}`, i)))
		wait(t, "it is kept", func() bool {
			list, err := records.Approvals.Pending()
			return err == nil && len(list) == i+1
		})
	}
	r.send(newCall("more", "write_file", `{"path":"/more.txt","content":"x"}`))
	if m := r.read(); m.ID != "more" || !m.Result.IsError || !strings.Contains(m.Result.Content[0].Text, "64 requests wait already") {
		t.Errorf("got %+v", m)
	}
	r.send(newCall("read", "read_file", `{"path":"/a.txt"}`))
	if m := r.read(); m.ID != "read" || m.Result.IsError {
		t.Errorf("got %+v", m)
	}
}

// TestSameQuestion: if a client repeats one call over and over, not every repeat waits
// for a person.
func TestSameQuestion(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, nil)
	h.service.Wait = time.Minute
	r := h.newRawClient()
	for i := range maxAsked + 10 {
		r.send(newCall(i, "write_file", `{"path":"/b.txt","content":"x"}`))
	}
	for range 10 {
		m := r.read()
		if !m.Result.IsError || !strings.Contains(m.Result.Content[0].Text, "golem approve") {
			t.Fatalf("got %+v", m)
		}
	}
}

// TestCancelQueuedCall checks that a client can cancel a queued call by its id in any spelling.
// golem accepts the same ids as the library.
func TestCancelQueuedCall(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		id, params string
		taken      bool
	}{
		{`1`, `{"requestId":1}`, true},
		{`1`, `{"requestId": 1.0 }`, true},
		{`1`, `{"requestId":1e0,"reason":"x"}`, true},
		{`"<a&b>"`, `{"requestId":"<a&b>"}`, true},
		{`"a"`, `{"requestId":"\u0061"}`, true},
		{`"é"`, `{"requestId":"\u00e9"}`, true},
		{`1`, `{"requestId":"1"}`, false},
		{`1`, `{"requestid":1}`, false},
		{`1`, `{"requestId":2,"REQUESTID":1}`, false},
		{`1`, `{"requestId":1,"REQUESTID":2}`, true},
		{`1`, `{"requestId":null}`, false},
		{`1`, `[1]`, false},
		{`1`, `{}`, false},
	} {
		c := newConn(io.NopCloser(strings.NewReader("")), io.Discard, new(slots), nil)
		for _, text := range []string{`"id":` + test.id + `,"method":"tools/list"`, `"method":"notifications/cancelled","params":` + test.params} {
			if _, err := c.take(line{data: []byte(`{"jsonrpc":"2.0",` + text + `}`)}); err != nil {
				t.Fatal(err)
			}
		}
		if taken := len(c.queue) == 0; taken != test.taken || taken != (len(c.calls) == 0) {
			t.Errorf("%s, %s: got %v, want %v", test.id, test.params, taken, test.taken)
		}
		c.Close()
	}
}

// TestEnd checks that the calls of a client are answered after the end of its input.
func TestEnd(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, map[string]string{"a.txt": "hello\n"})
	r := h.newRawClient()
	for i := range 200 {
		r.send(newCall(i, "read_file", `{"path":"/a.txt"}`))
	}
	r.in.Close()
	for range 200 {
		if m := r.read(); m.Error != nil || m.Result.IsError {
			t.Fatalf("got %+v", m)
		}
	}
	if rest, err := io.ReadAll(r.out); err != nil || len(rest) > 0 {
		t.Errorf("got %q, %v", rest, err)
	}
}
