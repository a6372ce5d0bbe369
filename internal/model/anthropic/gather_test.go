package anthropic

import (
	"context"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/model"
	"github.com/golem-forge/golem/internal/model/wire"
)

var test = New("m", wire.Server{Model: "anthropic:m", Base: &url.URL{Scheme: "https", Host: "host", Path: "/"}})

// gather returns the answer of a stream of bytes.
func gather(data string) (model.Answer, error) {
	g := test.gather(nil)
	return g.finish(model.Request{}, test.client.Events(context.Background(), strings.NewReader(data), g.take))
}

// event returns an event with its name and more fields.
func sent(name, more string) string {
	if more != "" {
		more = "," + more
	}
	return fmt.Sprintf("event: %s\ndata: {\"type\":%q%s}\n\n", name, name, more)
}

var (
	begin = sent("message_start", `"message":{"model":"m","usage":{"input_tokens":1}}`)
	call  = sent("content_block_start", `"index":0,"content_block":{"type":"tool_use","id":"a","name":"r","input":{}}`)
	some  = sent("content_block_delta", `"index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"}`)
	end   = sent("content_block_stop", `"index":0`)
	stop  = sent("message_delta", `"delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}`)
	over  = sent("message_stop", "")
)

func TestOrder(t *testing.T) {
	for _, test := range []struct{ name, data, want string }{
		{"a call", begin + call + some + end + stop + over, `a r {"a":1}; calls`},
		{"a call without arguments", begin + call + end + stop + over, `a r {}; calls`},
		{"a call that does not say that it has none", begin + strings.Replace(call, `,"input":{}`, "", 1) + end + stop + over, `a r ; calls`},
		{"what comes behind the end is not read", begin + call + end + stop + over + call, `a r {}; calls`},
		{"a pause", begin + strings.Replace(stop, "tool_use", "pause_turn", 1) + over, `done`},
		{"no more room in the window", begin + call + end + strings.Replace(stop, "tool_use", "model_context_window_exceeded", 1) + over, `a r {}; length`},
		{"hidden thinking", begin + sent("content_block_start", `"index":0,"content_block":{"type":"redacted_thinking","data":"xyz"}`) + end + stop + over, `({"anthropic_redacted":"xyz"}); done`},
		{"a tool of the server's", begin + strings.Replace(call, "tool_use", "server_tool_use", 1) + some + end + stop + over, `done`},
		{"no beginning", call + end + stop + over, "bad"},
		{"two beginnings", begin + begin + stop + over, "bad"},
		{"a piece of nothing", begin + some + end + stop + over, "bad"},
		{"a piece behind the end of its block", begin + call + end + some + stop + over, "bad"},
		{"a piece of another block", begin + call + strings.Replace(some, `"index":0`, `"index":1`, 1) + end + stop + over, "bad"},
		{"a piece of another kind", begin + call + strings.ReplaceAll(strings.ReplaceAll(some, "input_json_delta", "text_delta"), "partial_json", "text") + end + stop + over, "bad"},
		{"a block within a block", begin + call + call + end + stop + over, "bad"},
		{"an end within a block", begin + call + some + stop + over, "bad"},
		{"an end without a reason", begin + call + some + end + over, "bad"},
		{"no end", begin + call + some + end + stop, "broken"},
		{"an error", begin + call + some + "event: error\ndata: {\"error\":{\"type\":\"api_error\",\"message\":\"x\"}}\n\n" + end + stop + over, "broken"},
	} {
		a, err := gather(test.data)
		got := summarize(a)
		if e, ok := err.(*model.Error); ok {
			got = string(e.Class)
		}
		if got != test.want {
			t.Errorf("%s: got %s, %v, want %s", test.name, got, err, test.want)
		}
	}
}

func summarize(a model.Answer) string {
	var list []string
	for _, p := range a.Parts {
		switch {
		case p.Thinking != nil:
			list = append(list, "("+p.Thinking.Text+string(p.Thinking.Proof)+")")
		case p.Call != nil:
			list = append(list, fmt.Sprintf("%s %s %s", p.Call.ID, p.Call.Tool, p.Call.Args))
		default:
			list = append(list, p.Text)
		}
	}
	return strings.Join(append(list, string(a.Stop)), "; ")
}

// TestThoughtsAreSentBack: a thought is sent back with its proof, or not at all.
func TestThoughtsAreSentBack(t *testing.T) {
	for proof, want := range map[string]int{
		`{"anthropic_signature":"s"}`: 1, `{"anthropic_redacted":"r"}`: 1, `{}`: 0, ``: 0, `{"other":1}`: 0, `"x"`: 0,
	} {
		if got := len(thought(model.Thinking{Text: "t", Proof: []byte(proof)})); got != want {
			t.Errorf("%s: got %d blocks, want %d", proof, got, want)
		}
	}
}

// FuzzStream: no stream completes a call that was incomplete. If a stream is cut
// anywhere, there are no calls to make, or the same ones.
func FuzzStream(f *testing.F) {
	for _, seed := range []string{
		begin + call + some + end + stop + over, begin + call + end + stop + over, begin + call + some + stop + over, begin + stop + over,
		begin + call + some + end + strings.Replace(stop, "tool_use", "max_tokens", 1) + over, "event: message_stop\ndata: null\n\n", "",
	} {
		f.Add(seed, uint(len(seed)/2))
	}
	f.Fuzz(func(t *testing.T, data string, cut uint) {
		whole, err := gather(data)
		if err != nil {
			if _, ok := err.(*model.Error); !ok {
				t.Fatalf("got %T: %v", err, err)
			}
			return
		}
		if len(whole.Calls()) > 0 && (strings.Count(data, "message_") < 3 || strings.Count(data, "content_block_st") < 2) {
			t.Fatalf("%q: got %v without an end", data, whole)
		}
		part, err := gather(data[:min(cut, uint(len(data)))])
		if err == nil && len(part.Calls()) > 0 && !reflect.DeepEqual(part.Calls(), whole.Calls()) {
			t.Fatalf("%q cut at %d: got %v, and whole %v", data, cut, part.Calls(), whole.Calls())
		}
	})
}
