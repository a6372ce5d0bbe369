package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/model/wire"
)

func responsesModel(name string) *ResponsesModel {
	return NewResponses(name, wire.Server{Model: "openai:m", Base: &url.URL{Scheme: "https", Host: "host", Path: "/"}})
}

// gatherResponses returns the answer of a stream of bytes.
func gatherResponses(data string) (model.Answer, error) {
	g := responsesModel("m").gather(nil)
	return g.finish(model.Request{}, g.Client.Events(context.Background(), strings.NewReader(data), g.take))
}

func respond(name, more string) string {
	if more != "" {
		more = "," + more
	}
	return fmt.Sprintf("event: %s\ndata: {\"type\":%q%s}\n\n", name, name, more)
}

var (
	addCall  = respond("response.output_item.added", `"output_index":0,"item":{"type":"function_call","id":"fc","call_id":"a","name":"r","arguments":""}`)
	someArgs = respond("response.function_call_arguments.delta", `"output_index":0,"delta":"{\"a\":1}"`)
	endCall  = respond("response.output_item.done", `"output_index":0,"item":{"type":"function_call","id":"fc","call_id":"a","name":"r","arguments":"{\"a\":1}"}`)
	over     = respond("response.completed", `"response":{"status":"completed","model":"m","usage":{"input_tokens":1}}`)
)

func TestResponsesOrder(t *testing.T) {
	incomplete := func(reason string) string {
		return respond("response.incomplete", `"response":{"status":"incomplete","incomplete_details":{"reason":"`+reason+`"}}`)
	}
	message := func(content string) string {
		return respond("response.output_item.done", `"output_index":1,"item":{"type":"message","content":[`+content+`]}`)
	}
	for _, test := range []struct{ name, data, want string }{
		{"a call", addCall + someArgs + endCall + over, `a r {"a":1}; calls`},
		{"only whole items", endCall + message(`{"type":"output_text","text":"Hi."}`) + over, `a r {"a":1}; Hi.; calls`},
		{"items in another order", message(`{"type":"output_text","text":"Hi."}`) + addCall + endCall + over, `a r {"a":1}; Hi.; calls`},
		{"only the whole answer", respond("response.completed", `"response":{"output":[{"type":"message","content":[{"type":"output_text","text":"Hi."}]}]}`), "Hi.; done"},
		{"what comes behind the end is not read", addCall + endCall + over + addCall, `a r {"a":1}; calls`},
		{"an event that is new", respond("response.new.thing", `"output_index":7`) + message(`{"type":"output_text","text":"Hi."}`) + over, "Hi.; done"},
		{"a tool of the server's", respond("response.output_item.done", `"output_index":0,"item":{"type":"web_search_call"}`) + over, "done"},
		{"a refusal", message(`{"type":"refusal","refusal":"No."}`) + over, "No.; refused"},
		{"a refusal with a call", endCall + message(`{"type":"refusal","refusal":"No."}`) + over, `a r {"a":1}; No.; refused`},
		{"cut in a call", addCall + someArgs + incomplete("max_output_tokens"), `a r {"a":1}; length`},
		{"filtered", addCall + endCall + incomplete("content_filter"), `a r {"a":1}; refused`},
		{"a call without an end", addCall + someArgs + over, "bad"},
		{"a piece of nothing", someArgs + over, "bad"},
		{"a piece behind the end", addCall + endCall + someArgs + over, "bad"},
		{"two items in one place", addCall + addCall + endCall + over, "bad"},
		{"two ends of an item", addCall + endCall + endCall + over, "bad"},
		{"no end", addCall + someArgs + endCall, "broken"},
		{"done without an end", addCall + endCall + "data: [DONE]\n\n", "broken"},
		{"failed", respond("response.failed", `"response":{"status":"failed","error":{"code":"server_error","message":"x"}}`), "broken"},
		{"limited", respond("response.failed", `"response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"x"}}`), "overloaded"},
		{"too long", respond("error", `"code":"context_length_exceeded","message":"Your input exceeds the context window"`), "too_long"},
		{"no type", "data: {\"error\":{\"message\":\"x\"}}\n\n", "broken"},
	} {
		a, err := gatherResponses(test.data)
		got := summarize(a)
		if e, ok := err.(*model.Error); ok {
			got = string(e.Class)
		}
		if got != test.want {
			t.Errorf("%s: got %s, %v, want %s", test.name, got, err, test.want)
		}
	}
}

// TestResponsesThoughts: a thought goes back as it came, if something follows it and if it is
// of this vendor.
func TestResponsesThoughts(t *testing.T) {
	a, err := gatherResponses(respond("response.output_item.done", `"output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Hm."}],"encrypted_content":"gA"}`) + over)
	if err != nil {
		t.Fatal(err)
	}
	thought, foreign := a.Parts[0], model.Part{Thinking: &model.Thinking{Text: "x", Proof: json.RawMessage(`{"anthropic_signature":"s"}`)}}
	call := model.Part{Call: &model.Call{ID: strings.Repeat("x", 70), Tool: "r", Args: "{}"}}
	for _, test := range []struct {
		parts []model.Part
		want  string
	}{
		{[]model.Part{thought, call}, "reasoning function_call"},
		{[]model.Part{thought, {Text: "a"}, thought, call}, "reasoning message reasoning function_call"},
		{[]model.Part{{Text: "a"}, thought}, "message"},
		{[]model.Part{foreign, call}, "function_call"},
		{[]model.Part{thought}, ""},
	} {
		var got []string
		for _, item := range fromResponses(model.Message{Role: model.Assistant, Parts: test.parts}) {
			got = append(got, item["type"].(string))
			if id, ok := item["call_id"].(string); ok && len(id) > 64 {
				t.Errorf("sends the id %s", id)
			}
			if item["type"] == "reasoning" {
				text, _ := json.Marshal(item)
				if string(text) != `{"encrypted_content":"gA","id":"rs_1","summary":[{"type":"summary_text","text":"Hm."}],"type":"reasoning"}` {
					t.Errorf("sends %s", text)
				}
			}
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

// TestEffort checks that each dialect gets the effort in the form that it accepts.
func TestEffort(t *testing.T) {
	for _, test := range []struct {
		way          Effort
		effort, want string
	}{
		{EffortField, "", `{}`}, {EffortField, "low", `{"reasoning_effort":"low"}`}, {EffortField, "none", `{"reasoning_effort":"none"}`},
		{EffortObject, "high", `{"reasoning":{"effort":"high"}}`},
		{EffortSwitch, "none", `{"thinking":{"type":"disabled"}}`}, {EffortSwitch, "high", `{"reasoning_effort":"high","thinking":{"type":"enabled"}}`},
		{EffortNoneHigh, "low", `{"reasoning_effort":"high"}`}, {EffortNoneHigh, "none", `{"reasoning_effort":"none"}`},
	} {
		m := New("m", Dialect{Effort: test.way}, wire.Server{Base: &url.URL{}})
		var b body
		m.think(&b, model.Request{Effort: model.Effort(test.effort)})
		text, _ := json.Marshal(b)
		var fields map[string]json.RawMessage
		json.Unmarshal(text, &fields)
		for _, name := range []string{"model", "stream", "messages"} {
			delete(fields, name)
		}
		if got, _ := json.Marshal(fields); string(got) != test.want {
			t.Errorf("%d, %q: got %s, want %s", test.way, test.effort, got, test.want)
		}
	}
	for name, want := range map[string]bool{"gpt-5": true, "gpt-5.2-codex": true, "gpt-10": true, "o3": true, "o4-mini": true, "openai/gpt-5": true, "codex-mini-latest": true,
		"gpt-4.1": false, "gpt-4o": false, "gpt-oss-120b": false, "openai/gpt-oss-120b": false, "omni": false, "qwen3": false} {
		if got := Reasons(name); got != want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// FuzzResponses: no stream completes a call that was incomplete. If a stream is cut anywhere,
// there are no calls to make, or the same ones.
func FuzzResponses(f *testing.F) {
	for _, seed := range []string{addCall + someArgs + endCall + over, addCall + over, endCall + over, addCall + someArgs, over, "data: null\n\n", "data: []\n\n", ""} {
		f.Add(seed, uint(len(seed)/2))
	}
	f.Fuzz(func(t *testing.T, data string, cut uint) {
		whole, err := gatherResponses(data)
		if err != nil {
			if _, ok := err.(*model.Error); !ok {
				t.Fatalf("got %T: %v", err, err)
			}
			return
		}
		part, err := gatherResponses(data[:min(cut, uint(len(data)))])
		if err == nil && len(part.Calls()) > 0 && !reflect.DeepEqual(part.Calls(), whole.Calls()) {
			t.Fatalf("%q cut at %d: got %v, and whole %v", data, cut, part.Calls(), whole.Calls())
		}
	})
}
