package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// An object is a JSON object.
type object = map[string]any

// A modelServer plays a language model for the tested agents, in the format of each
// provider. In each conversation it first asks the agent to write a file and then to run
// a command. It uses the tools that the agent offers, with arguments that fit their
// schemas. Then it says that it is done.
type modelServer struct {
	t         *testing.T
	url       string
	file      string // the file to write, by its path in the jail
	content   string
	command   string // the command to run
	lastWords string

	routes  http.Handler
	onCalls func() // called before the last answer, unless it is nil

	mu      sync.Mutex
	billed  bill
	results []string // the results of calls in the last request with tools
	strays  []string // unknown requests
}

func newModelServer(t *testing.T) *modelServer {
	m := &modelServer{t: t, file: "/work/made.txt", content: "made by the agent\n",
		command: "cat made.txt old.txt > both.txt && rm old.txt && echo the command ran", lastWords: "Both are done."}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m.url = "http://" + listener.Addr().String()
	routes := http.NewServeMux()
	routes.HandleFunc("POST /v1/messages", m.anthropic)
	routes.HandleFunc("POST /v1/responses", m.responses)
	routes.HandleFunc("POST /v1/chat/completions", m.completions)
	routes.HandleFunc("POST /v1beta/models/{call}", m.gemini)
	routes.HandleFunc("POST /v1/messages/count_tokens", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(object{"input_tokens": 10})
	})
	routes.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		m.strays = append(m.strays, r.Method+" "+r.URL.Path)
		m.mu.Unlock()
		http.NotFound(w, r)
	})
	m.routes = routes
	server := &http.Server{Handler: routes}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() { server.Close(); <-served })
	return m
}

// lastResults returns the results of calls in the last request with tools.
func (m *modelServer) lastResults() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.results
}

// A bill is what a modelServer has reported to the agents.
type bill struct{ requests, in, out int64 }

// charge adds a request to the bill, and returns its tokens. Each request has other numbers.
func (m *modelServer) charge() (in, out int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.billed.requests++
	in, out = 1000+7*m.billed.requests, 10+3*m.billed.requests
	m.billed.in, m.billed.out = m.billed.in+in, m.billed.out+out
	return in, out
}

// An offer is a tool that an agent offers to the model.
type offer struct {
	Name   string
	Free   bool // it takes plain text in place of arguments
	Schema struct {
		Properties map[string]struct {
			Type any
			Enum []any
		}
		Required []string
	}
}

// A turn is the next answer of the model, either a text or a call of a tool.
type turn struct {
	id   string
	text string
	tool string
	args map[string]any
	free string // the text for a tool without arguments
}

// input returns the arguments of a call as JSON.
func (t turn) input() string {
	data, _ := json.Marshal(t.args)
	return string(data)
}

// chooseTurn returns the answer to a request with these tools and these results of calls. A
// request without tools, for example for a title, gets a text.
func (m *modelServer) chooseTurn(offers []offer, results []string) turn {
	if len(offers) == 0 {
		return turn{text: "Work"}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.results = results
	id := fmt.Sprintf("call_%d", len(results)+1)
	patch := "*** Begin Patch\n*** Add File: " + m.file + "\n+" + m.content + "*** End Patch\n"
	switch len(results) {
	case 0:
		for _, o := range offers {
			switch {
			case o.Free && o.Name == "apply_patch":
				return turn{id: id, tool: o.Name, free: patch}
			case slices.Contains([]string{"Write", "write", "write_file"}, o.Name):
				return turn{id: id, tool: o.Name, args: o.arguments(m.file, m.content, "")}
			}
		}
		return m.shell(id, offers, "apply_patch <<'END'\n"+patch+"END\n") // Codex has this command
	case 1:
		return m.shell(id, offers, m.command)
	}
	if m.onCalls != nil {
		m.onCalls()
	}
	return turn{text: m.lastWords}
}

// shell returns a call of the agent's tool that runs commands.
func (m *modelServer) shell(id string, offers []offer, command string) turn {
	for _, o := range offers {
		if slices.Contains([]string{"Bash", "bash", "shell", "shell_command", "exec_command", "run_shell_command"}, o.Name) {
			return turn{id: id, tool: o.Name, args: o.arguments("", "", command)}
		}
	}
	return turn{text: "There is no tool that runs commands."}
}

// arguments returns the arguments for a tool. It recognises file, content and command by
// the names that agents use, and fills in other required arguments by their type.
func (o offer) arguments(file, content, command string) map[string]any {
	args := map[string]any{}
	for name, p := range o.Schema.Properties {
		switch {
		case file != "" && slices.Contains([]string{"file_path", "filePath", "path"}, name):
			args[name] = file
		case content != "" && name == "content":
			args[name] = content
		case command != "" && slices.Contains([]string{"command", "cmd"}, name):
			args[name] = command
			if p.Type == "array" {
				args[name] = []string{"bash", "-c", command}
			}
		case !slices.Contains(o.Schema.Required, name):
		case len(p.Enum) > 0:
			args[name] = p.Enum[0]
		case p.Type == "boolean":
			args[name] = false
		case p.Type == "number", p.Type == "integer":
			args[name] = 1000
		default:
			args[name] = "as asked"
		}
	}
	return args
}

// readRequest reads a request. It reports false if the request is not valid.
func (m *modelServer) readRequest(w http.ResponseWriter, r *http.Request, to any) bool {
	data, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		m.t.Errorf("%s: %v\n%.2000s", r.URL.Path, err, data)
		http.Error(w, `{"error":{"message":"not understood"}}`, http.StatusBadRequest)
	}
	return err == nil
}

// textOf returns the result of a call as text, in whatever form it came.
func textOf(result any) string {
	if text, ok := result.(string); ok {
		return text
	}
	data, _ := json.Marshal(result)
	return string(data)
}

// A stream sends an answer as server-sent events.
type stream struct{ http.ResponseWriter }

func newStream(w http.ResponseWriter) stream {
	w.Header().Set("Content-Type", "text/event-stream")
	return stream{w}
}

// send sends an event. An event without a name has only data.
func (s stream) send(name string, data any) {
	if name != "" {
		fmt.Fprintf(s, "event: %s\n", name)
	}
	text, raw := data.(string)
	if !raw {
		written, _ := json.Marshal(data)
		text = string(written)
	}
	fmt.Fprintf(s, "data: %s\n\n", text)
	s.ResponseWriter.(http.Flusher).Flush()
}

// anthropic answers as POST /v1/messages does.
func (m *modelServer) anthropic(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Model string
		Tools []struct {
			Name   string
			Schema json.RawMessage `json:"input_schema"`
		}
		Messages []struct{ Content any }
	}
	if !m.readRequest(w, r, &q) {
		return
	}
	var offers []offer
	for _, t := range q.Tools {
		o := offer{Name: t.Name}
		json.Unmarshal(t.Schema, &o.Schema)
		offers = append(offers, o)
	}
	var results []string
	for _, message := range q.Messages {
		parts, _ := message.Content.([]any)
		for _, part := range parts {
			if p, _ := part.(object); p["type"] == "tool_result" {
				results = append(results, textOf(p["content"]))
			}
		}
	}
	say := m.chooseTurn(offers, results)
	in, out := m.charge()
	s, stop := newStream(w), "end_turn"
	s.send("message_start", object{"type": "message_start", "message": object{"id": "msg_1", "type": "message", "role": "assistant", "model": q.Model,
		"content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": object{"input_tokens": in, "output_tokens": 1}}})
	block, delta := object{"type": "text", "text": ""}, object{"type": "text_delta", "text": say.text}
	if say.tool != "" {
		stop = "tool_use"
		block = object{"type": "tool_use", "id": "toolu_" + say.id, "name": say.tool, "input": object{}}
		delta = object{"type": "input_json_delta", "partial_json": say.input()}
	}
	s.send("content_block_start", object{"type": "content_block_start", "index": 0, "content_block": block})
	s.send("content_block_delta", object{"type": "content_block_delta", "index": 0, "delta": delta})
	s.send("content_block_stop", object{"type": "content_block_stop", "index": 0})
	s.send("message_delta", object{"type": "message_delta", "delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": object{"output_tokens": out}})
	s.send("message_stop", object{"type": "message_stop"})
}

// responses answers as OpenAI's POST /v1/responses does.
func (m *modelServer) responses(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Model string
		Tools []struct {
			Type, Name string
			Parameters json.RawMessage
		}
		Input []object
	}
	if !m.readRequest(w, r, &q) {
		return
	}
	var offers []offer
	for _, t := range q.Tools {
		o := offer{Name: t.Name, Free: t.Type == "custom"}
		json.Unmarshal(t.Parameters, &o.Schema)
		offers = append(offers, o)
	}
	var results []string
	for _, item := range q.Input {
		if kind, _ := item["type"].(string); strings.HasSuffix(kind, "call_output") {
			results = append(results, textOf(item["output"]))
		}
	}
	say := m.chooseTurn(offers, results)
	item := object{"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
		"content": []any{object{"type": "output_text", "text": say.text, "annotations": []any{}}}}
	switch {
	case say.free != "":
		item = object{"id": "ctc_" + say.id, "type": "custom_tool_call", "status": "completed", "call_id": say.id, "name": say.tool, "input": say.free}
	case say.tool != "":
		item = object{"id": "fc_" + say.id, "type": "function_call", "status": "completed", "call_id": say.id, "name": say.tool, "arguments": say.input()}
	}
	in, out := m.charge()
	response := object{"id": "resp_1", "object": "response", "model": q.Model, "status": "in_progress", "output": []any{}}
	s := newStream(w)
	s.send("response.created", object{"type": "response.created", "response": response})
	s.send("response.output_item.added", object{"type": "response.output_item.added", "output_index": 0, "item": item})
	if say.tool == "" {
		s.send("response.output_text.delta", object{"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": say.text})
	}
	s.send("response.output_item.done", object{"type": "response.output_item.done", "output_index": 0, "item": item})
	s.send("response.completed", object{"type": "response.completed", "response": object{"id": "resp_1", "object": "response", "model": q.Model, "status": "completed",
		"output": []any{item}, "usage": object{"input_tokens": in, "input_tokens_details": object{"cached_tokens": 0}, "output_tokens": out,
			"output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": in + out}}})
}

// completions answers as POST /v1/chat/completions does.
func (m *modelServer) completions(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Model string
		Tools []struct {
			Function struct {
				Name       string
				Parameters json.RawMessage
			}
		}
		Messages []struct {
			Role    string
			Content any
		}
	}
	if !m.readRequest(w, r, &q) {
		return
	}
	var offers []offer
	for _, t := range q.Tools {
		o := offer{Name: t.Function.Name}
		json.Unmarshal(t.Function.Parameters, &o.Schema)
		offers = append(offers, o)
	}
	var results []string
	for _, message := range q.Messages {
		if message.Role == "tool" {
			results = append(results, textOf(message.Content))
		}
	}
	say := m.chooseTurn(offers, results)
	delta, stop := object{"role": "assistant", "content": say.text}, "stop"
	if say.tool != "" {
		stop = "tool_calls"
		delta = object{"role": "assistant", "tool_calls": []any{object{"index": 0, "id": say.id, "type": "function",
			"function": object{"name": say.tool, "arguments": say.input()}}}}
	}
	s := newStream(w)
	chunk := func(delta object, stop any) object {
		return object{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": q.Model,
			"choices": []any{object{"index": 0, "delta": delta, "finish_reason": stop}}}
	}
	s.send("", chunk(delta, nil))
	last := chunk(object{}, stop)
	in, out := m.charge()
	last["usage"] = object{"prompt_tokens": in, "completion_tokens": out, "total_tokens": in + out}
	s.send("", last)
	s.send("", "[DONE]")
}

// gemini answers as POST /v1beta/models/MODEL:streamGenerateContent?alt=sse does. It also
// answers countTokens and generateContent.
func (m *modelServer) gemini(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Tools []struct {
			Declarations []struct {
				Name       string
				Schema     json.RawMessage `json:"parametersJsonSchema"`
				Parameters json.RawMessage
			} `json:"functionDeclarations"`
		}
		Contents []struct {
			Parts []struct {
				Response *struct{ Response any } `json:"functionResponse"`
			}
		}
		Config struct {
			MIME string `json:"responseMimeType"`
		} `json:"generationConfig"`
	}
	if !m.readRequest(w, r, &q) {
		return
	}
	var offers []offer
	for _, t := range q.Tools {
		for _, d := range t.Declarations {
			o := offer{Name: d.Name}
			json.Unmarshal(slices.Concat(d.Schema, d.Parameters), &o.Schema)
			offers = append(offers, o)
		}
	}
	var results []string
	for _, c := range q.Contents {
		for _, p := range c.Parts {
			if p.Response != nil {
				results = append(results, textOf(p.Response.Response))
			}
		}
	}
	say := m.chooseTurn(offers, results)
	part := object{"text": say.text}
	switch {
	case q.Config.MIME == "application/json": // the agent asks how hard the task is
		part = object{"text": `{"complexity_reasoning": "small", "complexity_score": 1}`}
	case say.tool != "":
		part = object{"functionCall": object{"id": say.id, "name": say.tool, "args": say.args}}
	}
	call := r.PathValue("call")
	if strings.HasSuffix(call, ":countTokens") {
		json.NewEncoder(w).Encode(object{"totalTokens": 10})
		return
	}
	in, out := m.charge()
	answer := object{"candidates": []any{object{"index": 0, "finishReason": "STOP", "content": object{"role": "model", "parts": []any{part}}}},
		"usageMetadata": object{"promptTokenCount": in, "candidatesTokenCount": out, "totalTokenCount": in + out}}
	switch {
	case strings.HasSuffix(call, ":streamGenerateContent"):
		newStream(w).send("", answer)
	default:
		json.NewEncoder(w).Encode(answer)
	}
}
