package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	foreign "github.com/golem-forge/golem/internal/work/toolset/foreign"
)

// TestDirectIn checks that a direct call is a message that needs no interpretation.
func TestDirectIn(t *testing.T) {
	for _, test := range []struct {
		line string
		want string // id, name, arguments; "" if it is not a direct call
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"/a"}}}`, `1 read_file {"path":"/a"}`},
		{" { \"params\" : { \"arguments\" : { } , \"name\" : \"a\" } ,\r \"method\" : \"tools/call\" , \"id\" : \"x-1\" , \"jsonrpc\" : \"2.0\" } \n", `"x-1" a { }`},
		{`{"jsonrpc":"2.0","id":0,"method":"tools/call","params":{"name":"a","arguments":{"x":["}\"{\\",{"y":[]}],"z":-1.5e3}}}`, `0 a {"x":["}\"{\\",{"y":[]}],"z":-1.5e3}`},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{},"_meta":{"progressToken":1}}}`, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{},"arguments":{}}}`, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","Arguments":{}}}`, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\u0061","arguments":{}}}`, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"n\u0061me":"a","arguments":{}}}`, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":[]}}`, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":null}}`, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}`, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"name":"a","arguments":{}}}`, ""},
		{`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"a","arguments":{}}}`, ""},
		{`{"jsonrpc":"1.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{}}}`, ""},
		{`{"jsonrpc":"2.0","id":1.0,"method":"tools/call","params":{"name":"a","arguments":{}}}`, ""},
		{`{"jsonrpc":"2.0","id":-1,"method":"tools/call","params":{"name":"a","arguments":{}}}`, ""},
		{`{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"a","arguments":{}}}`, ""},
		{`{"jsonrpc":"2.0","id":"<","method":"tools/call","params":{"name":"a","arguments":{}}}`, ""},
		{`{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/call","params":{"name":"a","arguments":{}}}`, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{}}}}`, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{]}}}`, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":[0` + strings.Repeat(",0", foreign.MaxValues) + `]}}}`, ""},
		{`{}`, ""},
		{`[]`, ""},
		{"", ""},
	} {
		got := ""
		if d, ok := parseDirect([]byte(test.line)); ok {
			got = fmt.Sprintf("%s %s %s", d.id, d.name, d.args)
		}
		if got != test.want {
			t.Errorf("%.200s: got %.200s, want %s", test.line, got, test.want)
		}
	}
}

// FuzzDirectIn checks that directIn finds the same call as decode.
func FuzzDirectIn(f *testing.F) {
	f.Add([]byte(newCall(1, "read_file", `{"path":"/a"}`)))
	f.Add([]byte(` { "params" : { "arguments" : { "x" : "\\\"}" } , "name" : "a" } , "method" : "tools/call" , "id" : "x" , "jsonrpc" : "2.0" } `))
	f.Add([]byte(newCall(1, "a", "{}") + "\v"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, ok := parseDirect(data)
		if !ok {
			return
		}
		message, err := decode(data)
		if err != nil {
			t.Fatal(err)
		}
		r := message.(*jsonrpc.Request)
		id, _ := json.Marshal(r.ID.Raw())
		var params struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		}
		if err := json.Unmarshal(r.Params, &params); err != nil {
			t.Fatal(err)
		}
		if string(id) != string(d.id) || r.Method != "tools/call" || params.Name != d.name || string(params.Arguments) != string(d.args) {
			t.Errorf("%s: got %s %s %s", data, d.id, d.name, d.args)
		}
	})
}

// TestDirectCancelled checks that a client can cancel a direct call that waits for a
// person.
func TestDirectCancelled(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, nil)
	r := h.newRawClient()
	r.send(newCall("w", "write_file", `{"path":"/b.txt","content":"x"}`))
	h.waitForRequest()
	r.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"w"}}` + "\n")
	if m := r.read(); m.ID != "w" || !m.Result.IsError {
		t.Errorf("got %+v", m)
	}
	r.send(newCall("w", "file_exists", `{"path":"/b.txt"}`))
	if m := r.read(); m.ID != "w" || m.Result.IsError {
		t.Errorf("got %+v", m)
	}
}
