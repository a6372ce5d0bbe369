package openai

import (
	"context"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/model"
	"github.com/golem-forge/golem/internal/model/wire"
)

// gather returns the answer of a stream of bytes.
func gather(data string) (model.Answer, error) {
	m := New("m", Dialect{}, wire.Server{Model: "openai:m", Base: &url.URL{Scheme: "https", Host: "host", Path: "/"}})
	g := m.gather(nil)
	return g.finish(model.Request{}, m.client.Events(context.Background(), strings.NewReader(data), g.take))
}

func part(delta, finish string) string {
	return fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]}\n\n", delta, finish)
}

// TestOtherServers covers the peculiarities of servers other than OpenAI's.
func TestOtherServers(t *testing.T) {
	const done = "data: [DONE]\n\n"
	for _, test := range []struct{ name, data, want string }{
		{"all calls have one index", part(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"r","arguments":"{}"}}]}`, "null") +
			part(`{"tool_calls":[{"index":0,"id":"b","function":{"name":"s","arguments":"{}"}}]}`, `"stop"`), "a r {}; b s {}; calls"},
		{"no index, no ids, whole calls", part(`{"tool_calls":[{"function":{"name":"r","arguments":"{}"}},{"function":{"name":"r","arguments":"{\"a\":1}"}}]}`, `"tool_calls"`),
			`call_1 r {}; call_2 r {"a":1}; calls`},
		{"the name in every piece", part(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"r","arguments":"{\"a"}}]}`, "null") +
			part(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"r","arguments":"\":1}"}}]}`, `"stop"`), `a r {"a":1}; calls`},
		{"null arguments", part(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"r","arguments":null}}]}`, `"stop"`), "a r ; calls"},
		{"a proof", part(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"r","arguments":"{}"},"extra_content":{"google":{"thought_signature":"xyz"}}}]}`, `"stop"`),
			`a r {} {"google":{"thought_signature":"xyz"}}; calls`},
		{"a refusal", part(`{"refusal":"No."}`, "null") + part(`{}`, `"stop"`), "No.; refused"},
		{"thinking", part(`{"reasoning":"Hm.","content":""}`, "null") + part(`{"content":"a"}`, `"stop"`), "(Hm.); a; done"},
		{"a comment, CRLF", ": OPENROUTER PROCESSING\r\n\r\n" + strings.ReplaceAll(part(`{"content":"a"}`, `"stop"`), "\n", "\r\n"), "a; done"},
		{"a reason nobody knows", part(`{"content":"a"}`, `"eos"`), "a; done"},
		{"a second choice", "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}\n\n" + done, "broken"},
		{"more after the end", part(`{}`, `"stop"`) + part(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"r"}}]}`, "null"), "broken"},
		{"a second end", part(`{}`, `"stop"`) + part(`{}`, `"length"`), "length"},
		{"ended by an error", part(`{"content":"a"}`, `"error"`), "broken"},
		{"no reason", part(`{"content":"a"}`, "null") + done, "broken"},
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
			list = append(list, "("+p.Thinking.Text+")")
		case p.Call != nil:
			list = append(list, strings.TrimSuffix(fmt.Sprintf("%s %s %s %s", p.Call.ID, p.Call.Tool, p.Call.Args, p.Call.Proof), " "))
		default:
			list = append(list, p.Text)
		}
	}
	return strings.Join(append(list, string(a.Stop)), "; ")
}

// FuzzStream: no stream completes a call that was incomplete. If a stream is cut
// anywhere, there are no calls to make, or the same ones.
func FuzzStream(f *testing.F) {
	call := part(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"r","arguments":"{\"a"}}]}`, "null")
	for _, seed := range []string{
		call + part(`{"tool_calls":[{"index":0,"function":{"arguments":"\":1}"}}]}`, "null") + part(`{}`, `"tool_calls"`) + "data: [DONE]\n\n",
		call + part(`{"tool_calls":[{"index":1,"id":"b","function":{"name":"s","arguments":"{}"}}]}`, `"stop"`),
		call + part(`{}`, `"length"`), call, part(`{}`, `"stop"`), "data: {}\n\n", "data: []\n\n", "data: {\"choices\":[{}]}\n\n", "",
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
		if len(whole.Calls()) > 0 && !strings.Contains(data, "finish_reason") && !strings.Contains(data, `\u`) {
			t.Fatalf("%q: got %v without an end", data, whole)
		}
		part, err := gather(data[:min(cut, uint(len(data)))])
		if err == nil && len(part.Calls()) > 0 && !reflect.DeepEqual(part.Calls(), whole.Calls()) {
			t.Fatalf("%q cut at %d: got %v, and whole %v", data, cut, part.Calls(), whole.Calls())
		}
	})
}

// TestC11HalfACharacterInArguments: the library replaces half of a surrogate pair. golem
// must refuse such arguments.
func TestC11HalfACharacterInArguments(t *testing.T) {
	for args, want := range map[string]bool{`"{\"path\":\"/a\udcff\"}"`: false, `"{\"path\":\"/a\ud800"`: false, `"{\"path\":\"/a\ud83d\ude00\"}"`: true, `"{\"path\":\"/a\\ud800\"}"`: true} {
		a, err := gather(part(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"r","arguments":`+args+`}}]}`, `"stop"`) + "data: [DONE]\n\n")
		if err != nil || len(a.Parts) != 1 {
			t.Fatalf("%s: got %+v, %v", args, a, err)
		}
		if got := utf8.ValidString(a.Parts[0].Call.Args); got != want {
			t.Errorf("%s: got %q, valid %v", args, a.Parts[0].Call.Args, got)
		}
		if !utf8.Valid(a.Parts[0].Call.SentArgs()) {
			t.Errorf("%s: sends %q", args, a.Parts[0].Call.SentArgs())
		}
	}
}
