package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/golem-forge/golem/internal/model"
	"github.com/golem-forge/golem/internal/model/scripted"
	"github.com/golem-forge/golem/internal/worker"
)

// A vendorServer answers in the format of a vendor with the turns of a script. It
// recognises the worker by its prompt.
type vendorServer struct {
	t       *testing.T
	script  *scripted.Model
	prompts map[string]string // by worker

	mu   sync.Mutex
	keys []string // the keys in the requests
}

func newVendorServer(t *testing.T, dir string) (*vendorServer, string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "demo.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s := &vendorServer{t: t, prompts: make(map[string]string)}
	if s.script, err = scripted.New("demo.yaml", data); err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"*.worker", "workers/*.worker"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			w, err := worker.Parse(filepath.Base(file), data)
			if err != nil {
				t.Fatal(err)
			}
			s.prompts[w.Name] = strings.TrimSpace(w.Prompt)
		}
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, server.URL
}

// A wireMessage is a message in the format of either vendor.
type wireMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// texts returns the text of a content, in whatever form it came.
func texts(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []struct {
		Type    string          `json:"type"`
		Text    string          `json:"text"`
		Content json.RawMessage `json:"content"`
	}
	json.Unmarshal(content, &parts)
	var all []string
	for _, p := range parts {
		if p.Content != nil {
			all = append(all, texts(p.Content))
		} else if p.Text != "" {
			all = append(all, p.Text)
		}
	}
	return strings.Join(all, "\n")
}

func (s *vendorServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = append(s.keys, r.Header.Get("X-Api-Key")+r.Header.Get("Authorization"))
	var q struct {
		System   json.RawMessage `json:"system"`
		Messages []wireMessage   `json:"messages"`
		Stream   bool            `json:"stream"`
	}
	if err := json.Unmarshal(body, &q); err != nil || !q.Stream {
		s.t.Errorf("%v: %s", err, body)
	}
	system := texts(q.System)
	var request model.Request
	for _, m := range q.Messages {
		said := model.Message{Role: model.User, Parts: []model.Part{{Text: texts(m.Content)}}}
		switch last := len(request.Messages) - 1; {
		case m.Role == "system" || m.Role == "developer":
			system += texts(m.Content)
			continue
		case m.Role == "assistant":
			said.Role = model.Assistant
		case last >= 0 && request.Messages[last].Role == model.User: // this vendor sends each result as a message
			request.Messages[last].Parts = append(request.Messages[last].Parts, said.Parts...)
			continue
		}
		request.Messages = append(request.Messages, said)
	}
	for name, prompt := range s.prompts {
		if strings.HasPrefix(system, prompt) {
			request.Worker = name
		}
	}
	answer, err := s.script.Answer(r.Context(), request, nil)
	if err != nil {
		http.Error(w, `{"error":{"type":"invalid_request_error","message":`+fmt.Sprintf("%q", err.Error())+`}}`, http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if strings.HasSuffix(r.URL.Path, "/messages") {
		streamAnthropic(w, answer)
	} else {
		streamOpenAI(w, answer)
	}
}

func event(w io.Writer, name string, data any) {
	text, _ := json.Marshal(data)
	if name != "" {
		fmt.Fprintf(w, "event: %s\n", name)
	}
	fmt.Fprintf(w, "data: %s\n\n", text)
}

// An object is a JSON object.
type object = map[string]any

func streamAnthropic(w io.Writer, a model.Answer) {
	stop := "end_turn"
	event(w, "message_start", object{"type": "message_start", "message": object{"id": "m", "type": "message", "role": "assistant", "model": "loop", "content": []any{}, "usage": object{"input_tokens": 7, "output_tokens": 1}}})
	for i, p := range a.Parts {
		block, delta := object{"type": "text", "text": ""}, object{"type": "text_delta", "text": p.Text}
		if p.Call != nil {
			stop = "tool_use"
			block = object{"type": "tool_use", "id": p.Call.ID, "name": p.Call.Tool, "input": object{}}
			delta = object{"type": "input_json_delta", "partial_json": p.Call.Args}
		}
		event(w, "content_block_start", object{"type": "content_block_start", "index": i, "content_block": block})
		event(w, "content_block_delta", object{"type": "content_block_delta", "index": i, "delta": delta})
		event(w, "content_block_stop", object{"type": "content_block_stop", "index": i})
	}
	event(w, "message_delta", object{"type": "message_delta", "delta": object{"stop_reason": stop}, "usage": object{"output_tokens": 5}})
	event(w, "message_stop", object{"type": "message_stop"})
}

func streamOpenAI(w io.Writer, a model.Answer) {
	chunk := func(delta object, stop any) {
		event(w, "", object{"id": "c", "object": "chat.completion.chunk", "model": "loop", "choices": []any{object{"index": 0, "delta": delta, "finish_reason": stop}}})
	}
	stop, calls := "stop", 0
	chunk(object{"role": "assistant", "content": ""}, nil)
	for _, p := range a.Parts {
		if p.Call == nil {
			chunk(object{"content": p.Text}, nil)
			continue
		}
		stop = "tool_calls"
		chunk(object{"tool_calls": []any{object{"index": calls, "id": p.Call.ID, "type": "function", "function": object{"name": p.Call.Tool, "arguments": p.Call.Args}}}}, nil)
		calls++
	}
	chunk(object{}, stop)
	event(w, "", object{"id": "c", "object": "chat.completion.chunk", "model": "loop", "choices": []any{}, "usage": object{"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}})
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// TestProviders runs every example against a server in the format of each vendor. The
// results are the same, golem sends only the key of that vendor, and the journal has the
// requests.
func TestProviders(t *testing.T) {
	for _, vendor := range []struct {
		model, base, want string
		pdf               bool
	}{
		{"anthropic:claude-sonnet-4-5", "ANTHROPIC_BASE_URL", "k-anthropic", true},
		{"openai:gpt-4.1", "OPENAI_BASE_URL", "Bearer k-openai", true},
		{"openrouter:x/y", "OPENROUTER_BASE_URL", "Bearer k-openrouter", true},
		{"ollama:qwen3", "OLLAMA_HOST", "", false},
	} {
		for name, files := range exampleFiles {
			t.Run(vendor.model+"/"+name, func(t *testing.T) {
				t.Parallel()
				dir, golem := example(t, name)
				server, url := newVendorServer(t, dir)
				run := golem("run", ".", "Do it", "--model", vendor.model, "--approval", "approve_all")
				run.Env = append(run.Env, vendor.base+"="+url, "ANTHROPIC_API_KEY=k-anthropic", "OPENAI_API_KEY=k-openai", "OPENROUTER_API_KEY=k-openrouter", "GEMINI_API_KEY=k-gemini")
				if out, err := golem("trust", "--yes").CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				out, err := run.CombinedOutput()
				if err != nil {
					if name == "pdf-analyser" && !vendor.pdf && strings.Contains(string(out), "does not accept the file pump.pdf") {
						return
					}
					t.Fatalf("%v\n%s", err, out)
				}
				for file, part := range files {
					text, err := os.ReadFile(filepath.Join(dir, file))
					if err != nil || !strings.Contains(string(text), part) {
						t.Errorf("%s: %v, %q\n%s", file, err, text, out)
					}
				}
				requests, err := golem("audit", "show", "--net").CombinedOutput()
				host := regexp.QuoteMeta(strings.TrimPrefix(url, "http://"))
				if lines := regexp.MustCompile(host+` +allowed .*golem \(model\)`).FindAll(requests, -1); err != nil || len(lines) != len(server.keys) {
					t.Errorf("the journal does not have the %d requests to %s: %v\n%s", len(server.keys), host, err, requests)
				}
				for _, key := range server.keys {
					if key != vendor.want {
						t.Errorf("the server got the key %q", key)
					}
				}
			})
		}
	}
}
