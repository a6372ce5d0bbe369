package gemini

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

func named(name string) *Model {
	return New(name, wire.Server{Model: "gemini:m", Base: &url.URL{Scheme: "https", Host: "host", Path: "/"}})
}

// gather returns the answer of a stream of bytes.
func gather(data string) (model.Answer, error) {
	g := named("m").gather(nil)
	return g.finish(model.Request{}, g.Client.Events(context.Background(), strings.NewReader(data), g.take))
}

func chunked(parts, more string) string {
	return fmt.Sprintf("data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[%s]}%s}]}\r\n\r\n", parts, more)
}

func TestStreams(t *testing.T) {
	const stop = `,"finishReason":"STOP"`
	const call = `{"functionCall":{"name":"r","args":{"a":1}},"thoughtSignature":"xyz"}`
	for _, test := range []struct{ name, data, want string }{
		{"text in pieces", chunked(`{"text":"Hel"}`, "") + chunked(`{"text":"lo"}`, stop), "Hello; done"},
		{"a thought, a text and its signature", chunked(`{"text":"Hm.","thought":true}`, "") + chunked(`{"text":"a"}`, "") + chunked(`{"text":"","thoughtSignature":"s"}`, stop),
			`(Hm.); a; ({"gemini_signature":"s"}); done`},
		{"a call with its signature", chunked(call, stop), `call_1 r {"a":1} {"gemini_signature":"xyz"}; calls`},
		{"a call without arguments", chunked(`{"functionCall":{"name":"r"}}`, stop), `call_1 r {}; calls`},
		{"calls between texts", chunked(`{"text":"a"},`+call+`,{"text":"b"}`, stop), `a; call_1 r {"a":1} {"gemini_signature":"xyz"}; b; calls`},
		{"no more room", chunked(call, `,"finishReason":"MAX_TOKENS"`), `call_1 r {"a":1} {"gemini_signature":"xyz"}; length`},
		{"unsafe", chunked(`{"text":"a"}`, `,"finishReason":"SAFETY"`), "a; refused SAFETY"},
		{"recited", chunked("", `,"finishReason":"RECITATION"`), "refused RECITATION"},
		{"a blocked question", "data: {\"promptFeedback\":{\"blockReason\":\"PROHIBITED_CONTENT\"},\"usageMetadata\":{\"promptTokenCount\":3}}\n\n", "refused PROHIBITED_CONTENT"},
		{"a reason that is new", chunked(call, `,"finishReason":"NEW_REASON"`), `call_1 r {"a":1} {"gemini_signature":"xyz"}; refused NEW_REASON`},
		{"a malformed call", chunked("", `,"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"print(r)"`), "broken: the model broke off its answer: MALFORMED_FUNCTION_CALL print(r)"},
		{"no signature", chunked("", `,"finishReason":"MISSING_THOUGHT_SIGNATURE"`), "bad: the model broke off its answer: MISSING_THOUGHT_SIGNATURE"},
		{"an end before the end", chunked(`{"text":"a"}`, stop) + chunked(call, ""), "broken: the answer from host broke off"},
		{"two ends", chunked(`{"text":"a"}`, stop) + chunked(`{"text":"b"}`, stop), "ab; done"},
		{"another candidate", "data: {\"candidates\":[{\"index\":1,\"content\":{\"parts\":[{\"text\":\"b\"}]},\"finishReason\":\"STOP\"}]}\n\n" + chunked(`{"text":"a"}`, stop), "a; done"},
		{"no end", chunked(`{"text":"a"}`, ""), "broken: the answer from host broke off"},
		{"nothing", "", "broken: the answer from host broke off"},
	} {
		a, err := gather(test.data)
		got := summarize(a)
		if e, ok := err.(*model.Error); ok {
			got = string(e.Class) + ": " + e.What
		}
		if got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
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
			list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", p.Call.ID, p.Call.Tool, p.Call.Args, p.Call.Proof)))
		default:
			list = append(list, p.Text)
		}
	}
	return strings.Join(append(list, strings.TrimSpace(string(a.Stop)+" "+a.Why)), "; ")
}

// TestThinking checks that each generation of models gets the effort in the form that it accepts.
func TestThinking(t *testing.T) {
	for _, test := range []struct {
		name, effort, want string
		thoughts           bool
	}{
		{"gemini-2.5-flash", "", "{}", false},
		{"gemini-2.5-flash", "none", `{"thinkingBudget":0}`, false},
		{"gemini-2.5-pro", "none", `{"thinkingBudget":128}`, false},
		{"gemini-2.5-pro", "high", `{"includeThoughts":true,"thinkingBudget":24576}`, true},
		{"gemini-2.5-pro", "", `{"includeThoughts":true}`, true},
		{"gemini-3-pro-preview", "low", `{"thinkingLevel":"low"}`, false},
		{"models/gemini-3-flash", "none", `{"thinkingLevel":"minimal"}`, false},
		{"gemini-2.0-flash", "high", `null`, true},
	} {
		got, _ := json.Marshal(named(test.name).think(model.Request{Effort: model.Effort(test.effort), Thoughts: test.thoughts}))
		if string(got) != test.want {
			t.Errorf("%s, %q: got %s, want %s", test.name, test.effort, got, test.want)
		}
	}
}

// TestSignatures: signatures go back with the parts that they came with. Calls of another
// model get the one that the API accepts for them, if the model demands one.
func TestSignatures(t *testing.T) {
	said := model.Message{Role: model.Assistant, Parts: []model.Part{
		{Thinking: &model.Thinking{Text: "Hm.", Proof: json.RawMessage(`{"anthropic_signature":"a"}`)}}, {Text: "x"}, {Thinking: &model.Thinking{Proof: json.RawMessage(`{"gemini_signature":"t"}`)}},
		{Call: &model.Call{ID: "1", Tool: "r", Args: "{}"}}, {Call: &model.Call{ID: "2", Tool: "r", Args: "{}"}}}}
	for _, test := range []struct{ name, proof, want string }{
		{"gemini-3-pro", `{"gemini_signature":"s"}`, "t,s,"},
		{"gemini-3-pro", `{"google":{"thought_signature":"old"}}`, "t,old,"},
		{"gemini-3-pro", ``, "t,skip_thought_signature_validator,"},
		{"gemini-3-pro", `{"openai_item":{}}`, "t,skip_thought_signature_validator,"},
		{"gemini-2.5-pro", ``, "t,,"},
	} {
		said.Parts[3].Call.Proof = json.RawMessage(test.proof)
		parts, err := named(test.name).parts(said, map[string]string{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range parts {
			s, _ := p["thoughtSignature"].(string)
			got = append(got, s)
		}
		if strings.Join(got, ",") != test.want {
			t.Errorf("%s, %s: got %q, want %q", test.name, test.proof, got, test.want)
		}
	}
}

// FuzzStream: no stream completes a call that was incomplete. If a stream is cut anywhere,
// there are no calls to make, or some of the same.
func FuzzStream(f *testing.F) {
	for _, seed := range []string{
		chunked(`{"functionCall":{"name":"r","args":{"a":1}}}`, "") + chunked(`{"text":""}`, `,"finishReason":"STOP"`), chunked(`{"text":"a"}`, `,"finishReason":"STOP"`), "data: {}\n\n", "data: null\n\n", "",
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
		part, err := gather(data[:min(cut, uint(len(data)))])
		if n := len(part.Calls()); err == nil && n > 0 && len(whole.Calls()) >= n && !reflect.DeepEqual(part.Calls(), whole.Calls()[:n]) {
			t.Fatalf("%q cut at %d: got %v, and whole %v", data, cut, part.Calls(), whole.Calls())
		}
	})
}
