package models_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/work/model"
	"github.com/golem-forge/golem/internal/work/model/models"
)

// secret is the key in every test. No error may contain it.
const secret = "sk-very-secret-0123456789"

// A sampleAnswer is an answer as a test writes it; a dialect encodes it.
type sampleAnswer struct {
	thinking, text []string
	calls          []called
	stop           string // by the dialect's name
}

type called struct {
	id, tool string
	args     []string
}

// A dialect is a vendor's format.
type dialect struct {
	name                 string // of the test; "" for the vendor
	vendor, path, header string
	api                  models.API
	whole                bool // arguments of calls come as a whole
	stops                map[model.Stop]string
	events               func(sampleAnswer) []string // each with the empty line after it
	failure              string                      // an event in the middle of a stream, overloaded
	full                 string                      // the body of the error for a conversation that is too long
}

var dialects = []dialect{
	{
		vendor: "anthropic", path: "/v1/messages", header: "X-Api-Key",
		stops:   map[model.Stop]string{model.Done: "end_turn", model.Calls: "tool_use", model.Length: "max_tokens", model.Refused: "refusal"},
		events:  anthropicEvents,
		failure: "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
		full:    `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 201000 tokens > 200000 maximum"}}`,
	},
	{
		name: "responses", vendor: "openai", api: models.Responses, path: "/responses", header: "Authorization",
		stops:   map[model.Stop]string{model.Done: "completed", model.Calls: "completed", model.Length: "max_output_tokens", model.Refused: "content_filter"},
		events:  responsesEvents,
		failure: "event: error\ndata: {\"type\":\"error\",\"code\":\"overloaded\",\"message\":\"Overloaded\",\"param\":null}\n\n",
		full:    `{"error":{"message":"Your input exceeds the context window of this model.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`,
	},
	{
		vendor: "gemini", path: "/models/the-model:streamGenerateContent", header: "X-Goog-Api-Key", whole: true,
		stops:   map[model.Stop]string{model.Done: "STOP", model.Calls: "STOP", model.Length: "MAX_TOKENS", model.Refused: "SAFETY"},
		events:  geminiEvents,
		failure: "data: {\"error\":{\"code\":503,\"message\":\"Overloaded\",\"status\":\"UNAVAILABLE\"}}\n\n",
		full:    `{"error":{"code":400,"message":"The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}`,
	},
	{
		vendor: "openai", path: "/chat/completions", header: "Authorization",
		stops:   map[model.Stop]string{model.Done: "stop", model.Calls: "tool_calls", model.Length: "length", model.Refused: "content_filter"},
		events:  openaiEvents,
		failure: "data: {\"error\":{\"message\":\"Overloaded\",\"type\":\"server_error\",\"code\":503}}\n\n",
		full:    `{"error":{"message":"This model's maximum context length is 128000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`,
	},
}

func anthropicEvents(s sampleAnswer) (events []string) {
	event := func(name string, data map[string]any) {
		data["type"] = name
		text, _ := json.Marshal(data)
		events = append(events, "event: "+name+"\ndata: "+string(text)+"\n\n")
	}
	index := -1
	block := func(start map[string]any, deltas ...map[string]any) {
		index++
		event("content_block_start", map[string]any{"index": index, "content_block": start})
		for _, d := range deltas {
			event("content_block_delta", map[string]any{"index": index, "delta": d})
		}
		event("content_block_stop", map[string]any{"index": index})
	}
	event("message_start", map[string]any{"message": map[string]any{"id": "msg_1", "type": "message", "role": "assistant", "model": "the-model-1", "content": []any{},
		"usage": map[string]any{"input_tokens": 10, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 2, "output_tokens": 1}}})
	events = append(events, "event: ping\ndata: {\"type\": \"ping\"}\n\n")
	if s.thinking != nil {
		var deltas []map[string]any
		for _, t := range s.thinking {
			deltas = append(deltas, map[string]any{"type": "thinking_delta", "thinking": t})
		}
		deltas = append(deltas, map[string]any{"type": "signature_delta", "signature": "EqQBCg"})
		block(map[string]any{"type": "thinking", "thinking": "", "signature": ""}, deltas...)
	}
	if s.text != nil {
		var deltas []map[string]any
		for _, t := range s.text {
			deltas = append(deltas, map[string]any{"type": "text_delta", "text": t})
		}
		block(map[string]any{"type": "text", "text": ""}, deltas...)
	}
	for _, c := range s.calls {
		var deltas []map[string]any
		for _, a := range c.args {
			deltas = append(deltas, map[string]any{"type": "input_json_delta", "partial_json": a})
		}
		block(map[string]any{"type": "tool_use", "id": c.id, "name": c.tool, "input": map[string]any{}}, deltas...)
	}
	event("message_delta", map[string]any{"delta": map[string]any{"stop_reason": s.stop, "stop_sequence": nil}, "usage": map[string]any{"output_tokens": 7}})
	event("message_stop", map[string]any{})
	return events
}

func openaiEvents(s sampleAnswer) (events []string) {
	chunk := func(delta map[string]any, finish any) {
		text, _ := json.Marshal(map[string]any{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "the-model-1", "usage": nil,
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": nil}}})
		events = append(events, "data: "+string(text)+"\n\n")
	}
	chunk(map[string]any{"role": "assistant", "content": ""}, nil)
	for _, t := range s.thinking {
		chunk(map[string]any{"reasoning_content": t}, nil)
	}
	for _, t := range s.text {
		chunk(map[string]any{"content": t}, nil)
	}
	for i, c := range s.calls {
		chunk(map[string]any{"tool_calls": []any{map[string]any{"index": i, "id": c.id, "type": "function", "function": map[string]any{"name": c.tool, "arguments": ""}}}}, nil)
		for _, a := range c.args {
			chunk(map[string]any{"tool_calls": []any{map[string]any{"index": i, "function": map[string]any{"arguments": a}}}}, nil)
		}
	}
	chunk(map[string]any{}, s.stop)
	return append(events,
		"data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"model\":\"the-model-1\",\"choices\":[],\"usage\":{\"prompt_tokens\":40,\"completion_tokens\":7,\"total_tokens\":47,\"prompt_tokens_details\":{\"cached_tokens\":30}}}\n\n",
		"data: [DONE]\n\n")
}

func responsesEvents(s sampleAnswer) (events []string) {
	number := 0
	event := func(name string, data map[string]any) {
		data["type"], data["sequence_number"] = name, number
		number++
		text, _ := json.Marshal(data)
		events = append(events, "event: "+name+"\ndata: "+string(text)+"\n\n")
	}
	index := -1
	item := func(start, end map[string]any, kind string, deltas []string) {
		index++
		event("response.output_item.added", map[string]any{"output_index": index, "item": start})
		for _, d := range deltas {
			event("response."+kind+".delta", map[string]any{"output_index": index, "delta": d})
		}
		event("response.output_item.done", map[string]any{"output_index": index, "item": end})
	}
	event("response.created", map[string]any{"response": map[string]any{"id": "resp_1", "model": "the-model-1", "status": "in_progress", "output": []any{}, "usage": nil, "error": nil, "incomplete_details": nil}})
	event("response.in_progress", map[string]any{"response": map[string]any{"id": "resp_1", "model": "the-model-1", "status": "in_progress"}})
	if s.thinking != nil {
		item(map[string]any{"type": "reasoning", "id": "rs_1", "summary": []any{}, "encrypted_content": "half"},
			map[string]any{"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAAA", "summary": []any{map[string]any{"type": "summary_text", "text": strings.Join(s.thinking, "")}}},
			"reasoning_summary_text", s.thinking)
	}
	if s.text != nil {
		item(map[string]any{"type": "message", "id": "msg_1", "role": "assistant", "status": "in_progress", "content": []any{}},
			map[string]any{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": []any{map[string]any{"type": "output_text", "text": strings.Join(s.text, ""), "annotations": []any{}}}},
			"output_text", s.text)
	}
	for _, c := range s.calls {
		call := func(args string) map[string]any {
			return map[string]any{"type": "function_call", "id": "fc_1", "call_id": c.id, "name": c.tool, "arguments": args, "status": "completed"}
		}
		item(call(""), call(strings.Join(c.args, "")), "function_call_arguments", c.args)
	}
	end := map[string]any{"id": "resp_1", "model": "the-model-1", "status": "completed", "output": []any{},
		"usage": map[string]any{"input_tokens": 40, "input_tokens_details": map[string]any{"cached_tokens": 30}, "output_tokens": 7, "output_tokens_details": map[string]any{"reasoning_tokens": 3}, "total_tokens": 47}}
	if s.stop != "completed" {
		end["status"], end["incomplete_details"] = "incomplete", map[string]any{"reason": s.stop}
		event("response.incomplete", map[string]any{"response": end})
		return events
	}
	event("response.completed", map[string]any{"response": end})
	return events
}

func geminiEvents(s sampleAnswer) (events []string) {
	chunk := func(part map[string]any, finish string, usage map[string]any) {
		parts := []any{}
		if part != nil {
			parts = append(parts, part)
		}
		candidate := map[string]any{"index": 0, "content": map[string]any{"role": "model", "parts": parts}}
		if finish != "" {
			candidate["finishReason"] = finish
		}
		text, _ := json.Marshal(map[string]any{"candidates": []any{candidate}, "modelVersion": "the-model-1", "responseId": "r", "usageMetadata": usage})
		events = append(events, "data: "+string(text)+"\r\n\r\n")
	}
	some := map[string]any{"promptTokenCount": 40, "cachedContentTokenCount": 30, "totalTokenCount": 40}
	chunk(map[string]any{"text": ""}, "", some)
	chunk(nil, "", some)
	for _, t := range s.thinking {
		chunk(map[string]any{"text": t, "thought": true}, "", some)
	}
	for _, t := range s.text {
		chunk(map[string]any{"text": t}, "", some)
	}
	for i, c := range s.calls {
		call := map[string]any{"id": c.id, "name": c.tool}
		if args := strings.Join(c.args, ""); args != "" {
			call["args"] = json.RawMessage(args)
		}
		part := map[string]any{"functionCall": call}
		if i == 0 {
			part["thoughtSignature"] = "EqQBCg=="
		}
		chunk(part, "", some)
	}
	chunk(map[string]any{"text": ""}, s.stop, map[string]any{"promptTokenCount": 40, "cachedContentTokenCount": 30, "candidatesTokenCount": 4, "thoughtsTokenCount": 3, "totalTokenCount": 47})
	return events
}

// A server plays a vendor on the loopback interface, and keeps what it received.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	headers []http.Header
	bodies  []string
}

// startServer returns a server that answers by handle.
func startServer(t *testing.T, handle http.HandlerFunc) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.headers, s.bodies = append(s.headers, r.Header.Clone()), append(s.bodies, r.URL.Path+"\n"+string(body))
		s.mu.Unlock()
		handle(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// stream answers with events, each sent at once.
func stream(events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, e := range events {
			fmt.Fprint(w, e)
			w.(http.Flusher).Flush()
		}
	}
}

// answer answers with one body.
func answer(status int, media, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

// open returns a vendor's model at an address from the user.
func open(t *testing.T, d dialect, base string, change ...func(*models.Options)) model.Model {
	t.Helper()
	o := models.Options{Spec: d.vendor + ":the-model", Base: base, API: d.api, First: 5 * time.Second, Idle: 5 * time.Second,
		Env: env("ANTHROPIC_API_KEY", secret, "OPENAI_API_KEY", secret, "GEMINI_API_KEY", secret)}
	for _, c := range change {
		c(&o)
	}
	m, err := models.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// env returns an environment of names and values.
func env(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

// mustFail checks the class of an error and its words, and that it contains no key.
func mustFail(t *testing.T, err error, class model.Class, words ...string) {
	t.Helper()
	e, ok := err.(*model.Error)
	if !ok || e.Class != class {
		t.Errorf("got %v, want the class %s", err, class)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("got %v\nwhich lacks %q", err, w)
		}
	}
	for _, text := range []string{err.Error(), fmt.Sprintf("%+v %#v", e, e), e.What, e.Hint} {
		if strings.Contains(text, secret) || strings.Contains(text, secret[:8]) || strings.ContainsAny(text, "\n\x1b") {
			t.Errorf("an error with a key, or of more than a line: %q", text)
		}
	}
	if _, more := err.(interface{ Unwrap() error }); more {
		t.Error("a wrapped error could contain a key")
	}
}

// newQuietLog returns a log for a server whose clients do not trust it.
func newQuietLog() *log.Logger { return log.New(io.Discard, "", 0) }
