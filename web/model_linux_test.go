package web_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// testKey is the key that a loopbackModel wants.
const testKey = "sk-0123456789abcdefTESTKEY"

// A toolCall is a call that a loopbackModel makes. Args is JSON, or whatever the model sends.
type toolCall struct{ id, name, args string }

// A turn is one answer of a loopbackModel.
type turn struct {
	text  string
	calls []toolCall
	cut   bool // the answer stops at the limit of its length
}

// A loopbackModel answers as an endpoint for chat completions does, with a script.
type loopbackModel struct {
	*httptest.Server

	mu     sync.Mutex
	turns  []turn // the last one is repeated
	bodies []string
}

func newLoopbackModel(t *testing.T, turns ...turn) *loopbackModel {
	t.Helper()
	m := &loopbackModel{turns: turns}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

// seen returns the bodies of the requests.
func (m *loopbackModel) seen() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string{}, m.bodies...)
}

func (m *loopbackModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.Header().Set("Access-Control-Allow-Headers", "authorization, content-type, user-agent")
	body, err := io.ReadAll(r.Body)
	switch {
	case r.Method == http.MethodOptions:
		return
	case err != nil || r.Method+" "+r.URL.String() != "POST /v1/chat/completions":
		http.NotFound(w, r)
		return
	case r.Header.Get("Authorization") != "Bearer "+testKey:
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, `{"error": {"message": "wrong key"}}`)
		return
	}
	m.mu.Lock()
	m.bodies = append(m.bodies, string(body))
	answer := m.turns[min(len(m.bodies), len(m.turns))-1]
	m.mu.Unlock()

	calls := []map[string]any{}
	for i, c := range answer.calls {
		if c.id == "" {
			c.id = fmt.Sprintf("call-%d-%d", len(m.seen()), i)
		}
		calls = append(calls, map[string]any{"index": i, "id": c.id, "type": "function", "function": map[string]string{"name": c.name, "arguments": c.args}})
	}
	message := map[string]any{"role": "assistant", "content": answer.text}
	if len(calls) > 0 {
		message["tool_calls"] = calls
	}
	reason := "stop"
	if len(calls) > 0 {
		reason = "tool_calls"
	}
	if answer.cut {
		reason = "length"
	}
	if !strings.Contains(string(body), `"stream":true`) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{"id": "1", "object": "chat.completion", "created": 1, "model": "scripted",
			"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": reason}}})
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, choice := range []map[string]any{{"index": 0, "delta": message}, {"index": 0, "delta": struct{}{}, "finish_reason": reason}} {
		event, _ := json.Marshal(map[string]any{"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "scripted", "choices": []any{choice}}) // strings and numbers can be encoded
		fmt.Fprintf(w, "data: %s\n\n", event)
	}
	io.WriteString(w, "data: [DONE]\n\n")
}

// call returns a call with arguments that are encoded.
func call(name string, args any) toolCall {
	text, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return toolCall{name: name, args: string(text)}
}
