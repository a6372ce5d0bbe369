package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/golem-forge/golem/internal/work/program"
)

// unprintable are strings that Go quotes differently from JSON, and some that are only
// long or unusual.
var unprintable = []string{
	"x\x00", "\a", "\v", "\x01\x1f", "x\x7f", "\u0080", "\u00ad", "\u200b", "\u202e", "\ufeff", "\U000e0001", "\U0010ffff", "\n\r\t", "\xff", "a\xc3", strings.Repeat("\x00", 3000),
}

// badFields are parameters of requests. Each has a string in a place that an error of the
// library could repeat. %s is the string as JSON.
var badFields = []struct{ method, params string }{
	{"resources/read", `{"uri":%s}`},
	{"resources/subscribe", `{"uri":%s}`},
	{"resources/unsubscribe", `{"uri":%s}`},
	{"subscriptions/listen", `{"notifications":{"resourceSubscriptions":[%s]}}`},
	{"prompts/get", `{"name":%s}`},
	{"prompts/get", `{"name":"x","arguments":{%s:"y"}}`},
	{"completion/complete", `{"ref":{"type":"ref/prompt","name":%s},"argument":{"name":"a","value":"b"}}`},
	{"completion/complete", `{"ref":{"type":"ref/resource","uri":%s},"argument":{"name":"a","value":"b"}}`},
	{"completion/complete", `{"ref":{"type":%s},"argument":{"name":"a","value":"b"}}`},
	{"completion/complete", `{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":%s,"value":"b"}}`},
	{"completion/complete", `{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":%s}}`},
	{"tools/list", `{"cursor":%s}`},
	{"resources/list", `{"cursor":%s}`},
	{"resources/templates/list", `{"cursor":%s}`},
	{"prompts/list", `{"cursor":%s}`},
	{"logging/setLevel", `{"level":%s}`},
	{"tools/call", `{"name":%s,"arguments":{}}`},
	{"tools/call", `{"name":"read_file","arguments":{%s:1}}`},
	{"tools/call", `{"name":"read_file","arguments":{"path":"/a.txt"},"_meta":{"progressToken":%s}}`},
	{"ping", `{"_meta":{"io.modelcontextprotocol/protocolVersion":%s}}`},
	{"tools/list", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":%s}}`},
	{"tools/list", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":%s}}}`},
	{"server/discover", `{"_meta":{"io.modelcontextprotocol/protocolVersion":%s}}`},
	{"initialize", `{"protocolVersion":%s}`},
	{"notifications/cancelled", `{"requestId":%s}`},
}

// badMessages returns every bad field with every unprintable string in several URIs. It
// also returns such strings in place of the method.
func badMessages(yield func(method, params string) bool) {
	for _, text := range unprintable {
		for _, text := range []string{text, "golem://staged/" + text, "golem://journal" + text, "file:///" + text + "/{x}"} {
			quoted := quote(text)
			for _, f := range badFields {
				if !yield(f.method, fmt.Sprintf(f.params, quoted)) {
					return
				}
			}
			if !yield(text, `{}`) {
				return
			}
		}
	}
}

// quote returns text as JSON and keeps bytes that are not UTF-8.
func quote(text string) string {
	if strings.ToValidUTF8(text, "") != text {
		return `"` + text + `"`
	}
	data, _ := json.Marshal(text)
	return string(data)
}

// TestBadFieldsOnStreams sends unprintable strings in every field of every method. The
// server answers each of them and the next call.
func TestBadFieldsOnStreams(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, map[string]string{"a.txt": "hello\n"})
	r := h.newRawClient()
	n := 0
	for method, params := range badMessages {
		n++
		id := fmt.Sprint("m", n)
		r.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":%s,"params":%s}`+"\n", id, quote(method), params))
		for m := r.read(); m.ID != id; m = r.read() {
			if m.ID != nil || m.Error != nil { // otherwise it is a notification
				t.Fatalf("%q %q: got %+v", method, params, m)
			}
		}
	}
	r.send(newCall("last", "read_file", `{"path":"/a.txt"}`))
	if m := r.read(); m.ID != "last" || m.Result.IsError {
		t.Errorf("got %+v", m)
	}
}

// TestBadFieldsOverHTTP does the same over HTTP, in a session and without one. A
// request without an answer would hang.
func TestBadFieldsOverHTTP(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, map[string]string{"a.txt": "hello\n"})
	address, token := h.serveHTTP(program.HTTPOptions{Address: "127.0.0.1:0"})
	client := &http.Client{Timeout: 20 * time.Second}
	post := func(session string, header map[string]string, body string) (string, http.Header) {
		t.Helper()
		r, err := http.NewRequest("POST", "http://"+address+endpoint, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		for key, value := range header {
			r.Header.Set(key, value)
		}
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		got, err := client.Do(r)
		if err != nil {
			t.Fatalf("%.300q: %v", body, err)
		}
		defer got.Body.Close()
		text, err := io.ReadAll(got.Body)
		if err != nil {
			t.Fatalf("%.300q: %v", body, err)
		}
		return string(text), got.Header
	}
	_, head := post("", nil, strings.SplitN(hello, "\n", 2)[0])
	session := head.Get("Mcp-Session-Id")
	if session == "" {
		t.Fatal("no session")
	}
	for method, params := range badMessages {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%s,"params":%s}`, quote(method), params)
		if text, _ := post(session, nil, body); text == "" {
			t.Fatalf("%q %q: got no answer", method, params)
		}
	}
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	for _, f := range badFields {
		text := "golem://x\u00e4"
		if strings.Contains(f.params, "_meta") {
			continue
		}
		// A header cannot carry unprintable characters, so this tests only the fields
		// without a header.
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%s,"params":%s,%s}}`, quote(f.method), strings.TrimSuffix(fmt.Sprintf(f.params, quote("\a"+text)), "}"), meta)
		if text, _ := post("", map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": f.method, "Mcp-Name": "x"}, body); text == "" && !strings.HasPrefix(f.method, "notifications/") {
			t.Errorf("%q: got no answer", f.method)
		}
	}
	if text, _ := post(session, nil, newCall(2, "read_file", `{"path":"/a.txt"}`)); !strings.Contains(text, "hello") {
		t.Errorf("got %q", text)
	}
}

// TestGuard checks that the library sees neither a panic below the guard nor an error
// with data that is not JSON.
func TestGuard(t *testing.T) {
	var errs bytes.Buffer
	s := &server{options: program.ServeOptions{Errs: &errs}}
	request := &mcp.ReadResourceRequest{Params: &mcp.ReadResourceParams{URI: "golem://x"}}
	do := func(next func() (mcp.Result, error)) (mcp.Result, error) {
		return s.guard(func(context.Context, string, mcp.Request) (mcp.Result, error) { return next() })(t.Context(), "resources/read", request)
	}
	var known *jsonrpc.Error
	result, err := do(func() (mcp.Result, error) { panic("no\x1b[2Jsuch thing") })
	if result != nil || !errors.As(err, &known) || known.Code != jsonrpc.CodeInternalError || strings.Contains(known.Message, "such thing") {
		t.Errorf("got %v, %v", result, err)
	}
	if said := errs.String(); !strings.Contains(said, "such thing") || strings.Contains(said, "\x1b") {
		t.Errorf("got %q", said)
	}
	for _, data := range []string{`{"uri":"\x00"}`, `{`, "\xff"} {
		_, err = do(func() (mcp.Result, error) {
			return nil, fmt.Errorf("around: %w", &jsonrpc.Error{Code: -5, Message: "m", Data: json.RawMessage(data)})
		})
		if !errors.As(err, &known) || known.Code != -5 || known.Data != nil || known.Message != "around: m" {
			t.Errorf("%q: got %#v", data, err)
		}
	}
	_, err = do(func() (mcp.Result, error) { return nil, &jsonrpc.Error{Code: -5, Data: json.RawMessage(`{"a":1}`)} })
	if !errors.As(err, &known) || string(known.Data) != `{"a":1}` {
		t.Errorf("got %#v", err)
	}
}

// TestWrite checks that an answer without a JSON form does not end a connection.
func TestWrite(t *testing.T) {
	var out bytes.Buffer
	c := newConn(io.NopCloser(strings.NewReader("")), &out, new(slots), nil)
	defer c.Close()
	id, _ := jsonrpc.MakeID("a")
	if err := c.Write(t.Context(), &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: -1, Data: json.RawMessage(`{"uri":"\x00"}`)}}); err != nil {
		t.Fatal(err)
	}
	var m message
	if err := json.Unmarshal(out.Bytes(), &m); err != nil || m.ID != "a" || m.Error == nil {
		t.Errorf("got %q, %v", out.String(), err)
	}
}

// FuzzC8Messages sends any method with any parameters, and then a ping that the server
// must answer.
func FuzzC8Messages(f *testing.F) {
	h := newTestServer(f, map[string]string{"a.txt": "hello\n"})
	h.service.Wait = time.Millisecond
	r := h.newRawClient()
	for _, field := range badFields {
		for _, text := range []string{"golem://staged/x\x00", "\U000e0001"} {
			f.Add(field.method, []byte(fmt.Sprintf(field.params, quote(text))), true)
		}
	}
	f.Add("tools/list", []byte(`null`), true)
	f.Add("initialize", []byte(`{"capabilities":null,"clientInfo":null}`), true)
	n := 0
	f.Fuzz(func(t *testing.T, method string, params []byte, isCall bool) {
		var flat bytes.Buffer
		if json.Compact(&flat, params) != nil {
			return
		}
		n++
		id := ""
		if isCall {
			id = fmt.Sprintf(`"id":"f%d",`, n)
		}
		r.t = t
		ping := fmt.Sprint("p", n)
		r.send(fmt.Sprintf(`{"jsonrpc":"2.0",%s"method":%s,"params":%s}`+"\n"+`{"jsonrpc":"2.0","id":%q,"method":"ping"}`+"\n", id, quote(method), flat.Bytes(), ping))
		for r.read().ID != ping {
		}
	})
}
