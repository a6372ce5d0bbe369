package openai

import (
	"context"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/model/wire"
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
		{"the same thoughts under two names", part(`{"reasoning":"Hm.","reasoning_content":"Hm."}`, "null") + part(`{"content":"a"}`, `"stop"`), "(Hm.); a; done"},
		{"a content in parts", part(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm."}]},{"type":"text","text":"a"}]}`, "null") + part(`{"content":"b"}`, `"stop"`), "(Hm.); ab; done"},
		{"arguments that are no string", part(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"r","arguments":{"a":1}}}]}`, `"tool_calls"`), `a r {"a":1}; calls`},
		{"no index, with ids, in pieces", part(`{"tool_calls":[{"id":"a","function":{"name":"r","arguments":"{\"a"}}]}`, "null") + part(`{"tool_calls":[{"function":{"arguments":"\":1}"}}]}`, "null") +
			part(`{"tool_calls":[{"id":"b","function":{"name":"s","arguments":"{}"}}]}`, `"tool_calls"`), `a r {"a":1}; b s {}; calls`},
		{"the name in every piece, without ids", part(`{"tool_calls":[{"index":0,"function":{"name":"r","arguments":"{\"a"}}]}`, "null") +
			part(`{"tool_calls":[{"index":0,"function":{"name":"r","arguments":"\":1}"}}]}`, `"stop"`), `call_1 r {"a":1}; calls`},
		{"an end in every chunk", part(`{"content":"a"}`, `"stop"`) + part(`{"content":"b"}`, `"stop"`) + part(`{}`, `"stop"`), "ab; done"},
		{"usage before the end, choices that are empty or null", "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\ndata: {\"choices\":null}\n\n" + part(`{"content":"a"}`, `"stop"`) + "data: {\"choices\":[],\"usage\":null}\n\n", "a; done"},
		{"an error that is null", "data: {\"error\":null,\"choices\":[]}\n\n" + part(`{"content":"a"}`, `"stop"`), "a; done"},
		{"calls, then length", part(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"r","arguments":"{}"}}]}`, `"tool_calls"`) + part(`{}`, `"length"`), "a r {}; length"},
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

// TestUsage covers the ways in which servers count tokens.
func TestUsage(t *testing.T) {
	for usage, want := range map[string]model.Usage{
		`"usage":{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4}}`:                          {Input: 6, Output: 5, CacheRead: 4},
		`"usage":{"prompt_tokens":10,"completion_tokens":5,"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":6}`:             {Input: 6, Output: 5, CacheRead: 4},
		`"usage":{"prompt_tokens":10,"completion_tokens":5,"cached_tokens":4}`:                                                    {Input: 6, Output: 5, CacheRead: 4},
		`"x_groq":{"usage":{"prompt_tokens":10,"completion_tokens":5}}`:                                                           {Input: 10, Output: 5},
		`"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"completion_tokens_details":{"reasoning_tokens":3}}`: {Input: 10, Output: 5},
		`"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":18,"completion_tokens_details":{"reasoning_tokens":3}}`: {Input: 10, Output: 8},
		`"usage":{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":400}}`:                        {Output: 5, CacheRead: 10},
		`"usage":{"prompt_tokens":-10,"completion_tokens":5}`:                                                                     {Output: 5},
	} {
		a, err := gather(part(`{"content":"a"}`, `"stop"`) + "data: {\"choices\":[]," + usage + "}\n\ndata: [DONE]\n\n")
		if err != nil || a.Usage != want {
			t.Errorf("%s: got %+v, %v", usage, a.Usage, err)
		}
	}
}

// FuzzStream: no stream completes a call that was incomplete. If a stream is cut
// anywhere, there are no calls to make, or the first of the same ones: some servers send an
// end with each of them.
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
		if len(whole.Calls()) > 0 && !strings.Contains(strings.ToLower(strings.ReplaceAll(data, "ſ", "s")), "finish_reason") && !strings.Contains(data, `\u`) {
			t.Fatalf("%q: got %v without an end", data, whole)
		}
		part, err := gather(data[:min(cut, uint(len(data)))])
		if n := len(part.Calls()); err == nil && n > 0 && len(whole.Calls()) >= n && !reflect.DeepEqual(part.Calls(), whole.Calls()[:n]) {
			t.Fatalf("%q cut at %d: got %v, and whole %v", data, cut, part.Calls(), whole.Calls())
		}
	})
}

// TestHalfACharacterInArguments: the library replaces half of a surrogate pair. golem
// must refuse such arguments.
func TestHalfACharacterInArguments(t *testing.T) {
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
